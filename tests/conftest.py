"""Models for the tests of all rooms: nano ones made on the spot, and a small real one for the slow tests."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from nano import Nano

# A busy machine is no failure.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Started in the background, a shell's child ignores Ctrl-C, and so would every command that is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the check server from run to run: a second to build it in every test would be the most of all."""
    cache = getattr(config, "cache", None)
    kept = cache.mkdir("ocamler") if cache is not None else Path(tempfile.gettempdir(), "ocamler-tests")
    os.environ["OCAMLER_CACHE"] = str(kept)


@pytest.fixture(scope="session")
def make_nano(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that takes the fields of ``Nano`` and returns the GGUF file; made once each."""

    def write(nano: Nano, path: Path) -> None:
        from nano_gguf import write_gguf  # numpy and gguf: not for the rooms that need no model

        write_gguf(nano, path)

    return _maker(tmp_path_factory.mktemp("nano"), ".gguf", write)


@pytest.fixture(scope="session")
def make_nano_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that takes the fields of ``Nano`` and returns a Hugging Face folder; made once each."""

    def write(nano: Nano, path: Path) -> None:
        from nano_folder import write_folder

        write_folder(nano, path)

    return _maker(tmp_path_factory.mktemp("nano-folders"), "", write)


def _maker(folder: Path, suffix: str, write: Callable[[Nano, Path], None]) -> Callable[..., Path]:
    numbers = count()
    made: dict[Nano, Path] = {}

    def make(**fields: Any) -> Path:
        if isinstance(says := fields.get("says"), list):
            fields["says"] = tuple(says)
        nano = Nano(**fields)
        if nano not in made:
            made[nano] = folder / f"nano-{next(numbers)}{suffix}"
            write(nano, made[nano])
        return made[nano]

    return make


@pytest.fixture(scope="session")
def nano_folder(make_nano_folder: Callable[..., Path]) -> Path:
    """Return a Hugging Face folder with a nano model that babbles: the same as ``nano``."""
    return make_nano_folder()


@pytest.fixture(scope="session")
def nano(make_nano: Callable[..., Path]) -> Path:
    """Return a nano model that babbles."""
    return make_nano()


@pytest.fixture(scope="session")
def endless_nano(make_nano: Callable[..., Path]) -> Path:
    """Return a nano model that never stops."""
    return make_nano(says=[b"ha ha", b" ho ho "], ends="ha ha")


@pytest.fixture(scope="module")
def engine(nano: Path) -> Iterator[Any]:
    """Yield an engine whose model babbles, shared: a loaded model outlives the loops of the tests."""
    from models.engines import EngineOptions, open_engine

    engine = open_engine(nano, EngineOptions(context_tokens=32768))
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
async def engine_for() -> AsyncIterator[Callable[..., Any]]:
    """Yield a function that opens an engine with a model file and options; all are closed at the end."""
    from models.engines import Engine, EngineOptions, open_engine

    opened: list[Engine] = []

    def open_one(path: Path, **options: Any) -> Engine:
        opened.append(open_engine(path, EngineOptions(**options)))
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """Yield a folder for sockets, whose paths must be shorter than pytest's are on a Mac."""
    with tempfile.TemporaryDirectory(prefix="ocamler-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def real_model() -> Path:
    """Return a small real model, pulled on first use."""
    from models import store

    return store.pull("smollm2-135m").path

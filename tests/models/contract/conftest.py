"""Every engine under one contract: nano models of the same numbers, in the file or folder that each loads.

A child of MLX or PyTorch takes seconds to start, so one of each serves all tests, as a warm child does.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from models.engines import Engine, EngineOptions
from models.engines.connection import StartChild
from models.engines.remote import EngineProcess
from models.engines.warm import connect

MakeNano = Callable[..., Path]
LIBRARIES = ("llama", "mlx", "transformers")
ALL = (*LIBRARIES, "openai")
SERVER = Path(__file__).parents[1] / "llama_server.py"


@dataclass
class Kit:
    """One engine and what it takes to open nano models with it."""

    name: str
    make_nano: MakeNano
    make_nano_folder: MakeNano
    start_child: StartChild
    servers: dict[Any, "ServerProcess"]
    opened: list[Engine] = field(default_factory=list)

    def model(self, **nano: Any) -> Path:
        """Return a nano model that this engine loads."""
        takes_file = self.name in ("llama", "openai")
        return self.make_nano(**nano) if takes_file else self.make_nano_folder(**nano)

    def open(self, model: Path | None = None, **options: Any) -> Engine:
        """Return an engine; it is closed at the end of the test."""
        model = model or self.model()
        if self.name == "openai":
            from models.engines.openai import OpenAIEngine

            engine: Engine = OpenAIEngine(self.server(model, **options).url, EngineOptions())
        else:
            engine = EngineProcess(model, EngineOptions(**options), self.name, start_child=self.start_child)
        self.opened.append(engine)
        return engine

    async def close(self) -> None:
        """Close what was opened."""
        while self.opened:
            await self.opened.pop().close()

    def server(self, model: Path, **options: Any) -> "ServerProcess":
        """Return the running server of a model."""
        key = model, *sorted(options.items())
        if key not in self.servers:
            self.servers[key] = ServerProcess(model, options)
        return self.servers[key]


class ServerProcess:
    """A server that speaks as llama-server does, in a process of its own."""

    def __init__(self, model: Path, options: dict[str, Any], port: int = 0) -> None:
        context = str(options.get("context_tokens") or 32768)
        self._command = [sys.executable, "-P", str(SERVER), str(model), "--context", context, "--port"]
        self.port = port
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, at the port it had before."""
        root = Path(__file__).parents[3]
        self.process = subprocess.Popen(
            [*self._command, str(self.port)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="session")
def shared_children(short_folder: Path) -> Iterator[Callable[[str], StartChild]]:
    """Yield a function that returns how to reach the one child of an engine, which loads what it is told."""
    folder = short_folder

    def reach(engine: str) -> StartChild:
        def start(on_response: Any, on_death: Any) -> Any:
            child = connect(folder / f"{engine}.sock", engine, 600, on_response, on_death)
            assert child is not None
            return child

        return start

    yield reach
    for socket in folder.glob("*.sock"):
        if child := connect(socket, "none", None, lambda _: None, lambda _: None):
            child.kill()
            child.close()


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[Any, ServerProcess]]:
    """Yield the running servers by model."""
    running: dict[Any, ServerProcess] = {}
    yield running
    for server in running.values():
        server.kill()


@pytest.fixture(scope="session")
def kits(
    make_nano: MakeNano,
    make_nano_folder: MakeNano,
    shared_children: Callable[[str], StartChild],
    servers: dict[Any, ServerProcess],
) -> dict[str, Kit]:
    """Return the kit of each engine."""
    return {name: Kit(name, make_nano, make_nano_folder, shared_children(name), servers) for name in ALL}


@pytest.fixture(scope="session", params=ALL)
def session_kit(request: pytest.FixtureRequest, kits: dict[str, Kit]) -> Kit:
    """Return each engine's kit, one after the other, so that one library at a time is busy."""
    return kits[request.param]


@pytest.fixture
async def kit(session_kit: Kit) -> AsyncIterator[Kit]:
    """Yield an engine's kit; what a test opens with it is closed at its end."""
    yield session_kit
    await session_kit.close()


@pytest.fixture(params=LIBRARIES)
async def library_kit(request: pytest.FixtureRequest, kits: dict[str, Kit]) -> AsyncIterator[Kit]:
    """Yield the kit of an engine that renders conversations itself; a server does that as it likes."""
    yield kits[request.param]
    await kits[request.param].close()


@pytest.fixture
def babbler(session_kit: Kit) -> Iterator[Engine]:
    """Yield an engine with a model that babbles."""
    engine = session_kit.open(context_tokens=32768)
    session_kit.opened.remove(engine)
    yield engine
    asyncio.run(engine.close())

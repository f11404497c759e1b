"""An attacker and the ways of shutting it in that are tried, for the tests of containment."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocaml.containment import Container, Means
from ocaml.containment.container import COMBINATIONS, why_not
from ocaml.sandbox import Execution, Limits, execute

# The attacker: whatever of Python's lies outside of the system's libraries.
PYTHON = Path(sys.executable).resolve()
SEEN = (PYTHON, Path(sys.base_prefix).resolve() / "lib")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

HIDING = {Means.BUBBLEWRAP, Means.NAMESPACES, Means.LANDLOCK}  # the user's files
APART = {Means.BUBBLEWRAP, Means.NAMESPACES}  # other processes, networks


def works(means: frozenset[Means], folder: Path) -> bool:
    return why_not(Container(means, SEEN), [str(PYTHON), "-I", "-S", "-c", ""], folder) is None


# Each means alone where it can be, and the strongest together.
TRIED = [
    frozenset(one)
    for one in (
        {Means.BUBBLEWRAP, Means.SECCOMP},
        {Means.HOLDER, Means.NAMESPACES, Means.LANDLOCK, Means.SECCOMP},
        {Means.HOLDER, Means.NAMESPACES},
        {Means.HOLDER, Means.LANDLOCK, Means.SECCOMP},
        {Means.HOLDER, Means.SECCOMP},
        {Means.HOLDER, Means.SEATBELT},
        {Means.HOLDER},
    )
    if one in COMBINATIONS.get(sys.platform, ())
]


@pytest.fixture(scope="session")
def working(tmp_path_factory: pytest.TempPathFactory) -> set[frozenset[Means]]:
    folder = tmp_path_factory.mktemp("trial")
    return {means for means in TRIED if works(means, folder)}


@pytest.fixture(params=TRIED, ids=lambda means: "+".join(sorted(one.value for one in means)))
def means(request: pytest.FixtureRequest, working: set[frozenset[Means]]) -> frozenset[Means]:
    if request.param not in working:
        pytest.skip("not to be had on this machine")
    found: frozenset[Means] = request.param
    return found


@pytest.fixture
def token() -> Iterator[str]:
    """A word in the arguments of an attacker and of all that it forks, by which they are found."""
    word = f"ocamler-attack-{secrets.token_hex(8)}"
    yield word
    for pid in alive(word):  # a test that fails leaves nothing either
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


async def attack(
    code: str, means: frozenset[Means], folder: Path, token: str = "x", **limits: float
) -> Execution:
    held = Limits(**{"seconds": 10.0, **limits})  # type: ignore[arg-type]
    return await execute(
        [PYTHON, "-I", "-S", "-c", code, token],
        cwd=folder,
        environment=ENVIRONMENT,
        limits=held,
        container=Container(means, SEEN),
    )


def alive(token: str) -> list[int]:
    """The processes that have ``token`` among their arguments, zombies apart."""
    found = []
    if sys.platform != "linux":
        told = subprocess.run(
            ["ps", "-A", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 2) for line in told.stdout.splitlines() if token in line]
        return [int(pid) for pid, state, _ in rows if "Z" not in state]
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and token.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


async def all_gone(token: str, seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while alive(token):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.01)
    return True

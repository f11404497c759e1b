"""Hostile programs earn their honest part, harm nothing, and leave the judge and the machine as they were."""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import psutil
import pytest

from ocaml.judge import Judge, PlainJudge, Source
from ocaml.sandbox import MIB, Limits
from ocaml.served import ServedJudge
from ocaml.server.launch import launcher
from ocaml.server.pool import Pool
from ocaml.verdict import Outcome, Stage, Verdict

LIMITS = Limits(seconds=1.0, memory_bytes=128 * MIB, output_bytes=64 * 1024, file_bytes=8 * MIB)
WITHIN_SECONDS = (
    25.0  # the compiler's own limit is 10 s, the assertions of one answer have 3 times LIMITS.seconds
)
SETTLE_SECONDS = 3.0  # how long what was killed may take to be gone


def _beside(name: str) -> ModuleType:
    place = Path(__file__).with_name("hostile") / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"hostile_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


corpus = _beside("programs")
PROGRAMS = corpus.programs()
HONEST = corpus.PROBLEMS["double"]


@dataclass
class World:
    """What an attack could reach: the user's files and processes, a server, us; and the judge."""

    root: Path
    judge: Judge
    server: socket.socket
    decoy: subprocess.Popen[bytes]
    token: str
    signals: list[int] = field(default_factory=list)
    least: tuple[int, ...] = ()

    @property
    def known(self) -> dict[str, str]:
        """What stands for ``@NAME@`` in the programs."""
        return {
            "HOME": str(self.root / "home"),
            "CWD": str(self.root / "cwd"),
            "PID": str(os.getpid()),
            "DECOY": str(self.decoy.pid),
            "PORT": str(self.server.getsockname()[1]),
            "SLEEP": f"21.{self.token}",
            "MARK": f"ocamler_hostile_{self.token}",
        }

    def files(self) -> dict[str, tuple[int, bytes]]:
        """The user's files, with their permissions and contents."""
        found: dict[str, tuple[int, bytes]] = {}
        for folder in (self.root / "home", self.root / "cwd"):
            for path in (folder, *sorted(folder.rglob("*"))):
                data = path.read_bytes() if path.is_file() else b""
                found[str(path.relative_to(self.root))] = (path.stat().st_mode, data)
        return found

    def restore(self) -> None:
        """Give the next program the world that this one should have found."""
        for name in ("home", "cwd"):
            folder = self.root / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            for path in folder.iterdir():
                path.unlink()
            (folder / "precious.txt").write_text(f"secret {self.token}\n")
            (folder / "precious.txt").chmod(0o640)
        for place in self.marks():
            place.unlink()
        self.signals.clear()
        while self.was_visited():
            pass
        if self.decoy.poll() is not None:
            self.decoy = _decoy()

    def marks(self) -> list[Path]:
        """Files that were written in folders that all programs share."""
        names = [Path(folder) / self.known["MARK"] for folder in ("/tmp", "/var/tmp", "/dev/shm")]
        return [name for name in names if name.exists()]

    def leftovers(self) -> list[psutil.Process]:
        """Processes that a program started to outlive it."""
        return [process for process in psutil.process_iter() if self.known["SLEEP"] in _described(process)]

    def counts(self) -> tuple[int, ...]:
        """How many processes descend from us or live in our folders, and how many temporary files there are."""
        with contextlib.suppress(psutil.Error):
            marked = sum(self.token in _described(process) for process in psutil.process_iter())
            return (
                len(psutil.Process().children(recursive=True)),
                marked,
                sum(1 for _ in (self.root / "tmp").rglob("*")),
            )
        return (10**6,) * 3  # one of them has just ended: count again

    async def settled(self) -> bool:
        """Whether, after a moment, nothing is left that was not there at first."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.leftovers() or any(
            now > then for now, then in zip(self.counts(), self.least, strict=True)
        ):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    def was_visited(self) -> bool:
        """Whether somebody connected to the server."""
        with contextlib.suppress(BlockingIOError):
            self.server.accept()[0].close()
            return True
        return False


@pytest.fixture(scope="module", params=[pytest.param("plain", marks=pytest.mark.slow), "served"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Both judges, the one that starts compilers in the slow tests."""
    found: Judge = request.getfixturevalue(f"{request.param}_judge")
    return found


@pytest.fixture(scope="module")
def world(
    judge: Judge, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    root = tmp_path_factory.mktemp("hostile")
    for name in ("home", "cwd", "tmp"):
        (root / name).mkdir()
    # `token` is in the paths of all folders of the judge, and in the arguments of all that sleeps.
    token = str(secrets.randbelow(10**9))
    with socket.socket() as server, pytest.MonkeyPatch.context() as patch:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        (root / "tmp" / token).mkdir()
        patch.setenv("TMPDIR", str(root / "tmp" / token))
        patch.setenv("HOME", str(root / "home"))
        patch.chdir(root / "cwd")
        tempfile.tempdir = None  # read the variable again
        with _held(judge, request) as held:
            made = World(root, held, server, _decoy(), token)
            before = signal.signal(signal.SIGUSR1, lambda number, _: made.signals.append(number))
            try:
                yield made
            finally:
                signal.signal(signal.SIGUSR1, before)
                made.decoy.kill()
                made.decoy.wait()
                tempfile.tempdir = None


@contextlib.contextmanager
def _held(judge: Judge, request: pytest.FixtureRequest) -> Iterator[Judge]:
    """A judge of the same kind, whose limits are met soon."""
    toolchain = request.getfixturevalue("toolchain")
    plain = PlainJudge(toolchain, LIMITS)
    if not isinstance(judge, ServedJudge):
        yield plain
        return
    pool = Pool(launcher(request.getfixturevalue("server"), toolchain), size=2)
    yield ServedJudge(plain, pool, LIMITS)
    pool.close()


def _described(process: psutil.Process) -> str:
    """The arguments and, where we may see it, the environment of a process that runs."""
    with contextlib.suppress(psutil.Error, OSError):
        if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            arguments = " ".join(process.cmdline())
            with contextlib.suppress(psutil.Error, OSError):
                return f"{arguments} {process.environ()}"
            return arguments
    return ""


def _decoy() -> subprocess.Popen[bytes]:
    """A process of the user that no program of the judge's has any business with."""
    return subprocess.Popen(["sleep", "1000"])


async def honest(judge: Judge) -> tuple[Stage, int]:
    verdict = await judge.grade(HONEST.honest, HONEST.tests, asked=HONEST.asked)
    return verdict.stage, verdict.passed


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
async def test_a_hostile_program_gains_nothing_and_harms_nothing(world: World, program: Any) -> None:
    world.restore()
    if not world.least:
        await asyncio.gather(*(honest(world.judge) for _ in range(3)))
        world.least = world.counts()
    files = world.files()

    async with asyncio.timeout(WITHIN_SECONDS):
        verdict, neighbour = await asyncio.gather(
            world.judge.grade(program.fill(world.known), program.task.tests, asked=program.task.asked),
            honest(world.judge),
        )
    clean = await world.settled()
    left = [(process.pid, process.cmdline()) for process in world.leftovers()]
    for process in world.leftovers():
        process.kill()

    told = _told(verdict)
    assert told.stage in {stage.label for stage in program.stages}, told
    assert program.least <= told.passed <= program.most, told
    assert told.total == program.task.total
    assert len(verdict.stdout) + len(verdict.stderr) <= 2 * told.total * LIMITS.output_bytes
    shown = f"secret {world.token}" in json.dumps(verdict.to_json())
    assert not shown
    assert neighbour == (Stage.PASS, HONEST.total)
    assert clean, (left, world.counts(), world.least)
    changed = {name for name, file in (world.files().items() ^ files.items())}
    assert not changed
    assert world.marks() == []
    visited = world.was_visited()
    assert not visited
    assert world.signals == []
    decoy = world.decoy.poll()
    assert decoy is None
    assert os.getppid() > 0
    right, wrong = await world.judge.check(
        [Source("a.ml", b"let x = 1"), Source("b.ml", b"let y = 1 + true")]
    )
    assert (right.stage, wrong.stage) == (Stage.PASS, Stage.TYPE)


class Told(NamedTuple):
    """A verdict in short."""

    stage: str
    passed: int
    total: int
    claims: list[str]
    errors: list[str]


def _told(verdict: Verdict) -> Told:
    claims = [f"{claim.text}: {claim.outcome.value}" for claim in verdict.assertions]
    return Told(
        verdict.stage.label,
        verdict.passed,
        verdict.total,
        claims,
        [found.message for found in verdict.errors],
    )


async def test_a_constant_is_worth_what_it_is_said_to_be(world: World) -> None:
    task = corpus.PROBLEMS["mostly_zero"]
    verdict = await world.judge.grade("let zero _ = 0", task.tests, asked=task.asked)
    assert verdict.passed == verdict.constant_passed == 6


@pytest.mark.parametrize("task", corpus.PROBLEMS.values(), ids=list(corpus.PROBLEMS))
async def test_the_problems_can_be_solved(world: World, task: Any) -> None:
    verdict = await world.judge.grade(task.honest, task.tests, asked=task.asked)
    assert (verdict.stage, verdict.passed, verdict.total) == (Stage.PASS, task.total, task.total)


async def test_only_what_a_trusted_process_compared_counts_as_compared(world: World) -> None:
    verdict = await world.judge.grade(HONEST.honest, HONEST.tests, asked=HONEST.asked)
    assert [assertion.compared for assertion in verdict.assertions] == [True, True, True, False, False]
    assert all(assertion.outcome is Outcome.PASSED for assertion in verdict.assertions)


def test_there_are_enough_programs_of_each_kind() -> None:
    kinds = {program.name.partition("_")[0] for program in PROGRAMS}
    assert len(PROGRAMS) >= 140
    assert kinds >= {
        "shadow",
        "exit",
        "magic",
        "forge",
        "flood",
        "memory",
        "loop",
        "kill",
        "fork",
        "daemon",
        "delete",
        "write",
        "read",
    }

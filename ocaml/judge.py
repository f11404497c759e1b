"""The judge over plain compiler processes: check a file, run a program, grade an answer.

Stages come from which process failed, not from what it printed.
"""

import graphlib
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ocaml.compiler import PROGRAM, Source, Workbench, ended_badly, explained, file_arguments
from ocaml.diagnostics import Diagnostic, Kind, Severity, messages
from ocaml.grading.grade import Grading
from ocaml.grading.memory import Memory
from ocaml.grading.session import PlainSession
from ocaml.problem import Signature
from ocaml.sandbox import Execution, Limits, scratch_folder
from ocaml.toolchain import Toolchain
from ocaml.verdict import Limit, Stage, Verdict

__all__ = ["Checked", "Judge", "PlainJudge", "Source"]


@dataclass(frozen=True, slots=True)
class Checked:
    """What checking one file gave. ``stage`` is SYNTAX or TYPE when refused, PASS when not.

    ``signature`` is the inferred interface when the file type-checks.
    """

    name: str
    stage: Stage
    diagnostics: tuple[Diagnostic, ...] = ()
    signature: str | None = None
    limit: Limit | None = None

    @property
    def ok(self) -> bool:
        """Whether the compiler accepts the file."""
        return self.stage is Stage.PASS


class Judge(Protocol):
    """What the rest of the program asks of a judge, however it does it."""

    async def check(self, sources: Sequence[Source], *, warnings: Sequence[str] = ()) -> tuple[Checked, ...]:
        """Type-check files that may depend on each other; ``warnings`` are the compiler's own flags."""

    async def run(self, source: Source, *, stdin: int = subprocess.DEVNULL) -> Verdict:
        """Compile and run one program; its stage is PASS when it ends with exit code 0."""

    async def grade(self, answer: str, tests: str, *, asked: Signature | None = None) -> Verdict:
        """Judge an answer by assertions. Raises ``UnsoundTests`` when the tests themselves are wrong."""

    async def aclose(self) -> None:
        """End what the judge keeps running."""


class PlainJudge:
    """The judge that needs nothing but ``ocamlc``."""

    def __init__(self, toolchain: Toolchain, limits: Limits | None = None) -> None:
        self._bench = Workbench(toolchain, limits or Limits())
        self._memory = Memory()

    async def check(self, sources: Sequence[Source], *, warnings: Sequence[str] = ()) -> tuple[Checked, ...]:
        """Type-check ``sources`` in the order of their dependencies; results keep the order given."""
        async with scratch_folder() as folder:
            for source in sources:
                (folder / source.name).write_bytes(source.data)
            done: dict[str, Checked] = {}
            for source, needs in await self._in_order(folder, sources):
                refused = next((need for need in needs if need in done and not done[need].ok), None)
                if refused is not None:
                    done[source.name] = _waits(source.name, refused)
                else:
                    done[source.name] = await self._check_one(folder, source, sources, warnings)
        return tuple(done[source.name] for source in sources)

    async def run(self, source: Source, *, stdin: int = subprocess.DEVNULL) -> Verdict:
        """Compile, link and run ``source`` in an empty folder."""
        started = time.monotonic()
        async with scratch_folder() as folder:
            (folder / source.name).write_bytes(source.data)
            compiled = await self._bench.compile(folder, source)
            if compiled.stage is not Stage.PASS:
                return _timed(compiled, started)
            program = folder / PROGRAM
            ran = await self._bench.run_bytecode(
                program, limits=self._bench.limits, stdin=stdin, backtrace=True
            )
        return _timed(ran_to_its_end(ran, source, compiled.diagnostics), started)

    async def grade(self, answer: str, tests: str, *, asked: Signature | None = None) -> Verdict:
        """Grade by running each assertion of ``tests``; without any, run the answer."""
        async with scratch_folder() as folder:
            session = PlainSession(self._bench, folder)
            return await Grading(session, answer, tests, asked, self._memory).verdict()

    async def aclose(self) -> None:
        """Nothing is kept running."""

    async def _in_order(
        self, folder: Path, sources: Sequence[Source]
    ) -> list[tuple[Source, tuple[str, ...]]]:
        """Order interfaces before implementations and what is used before what uses it."""
        names = {source.name: source for source in sources}
        mentions = await self._bench.dependencies(folder, list(names)) if len(names) > 1 else {}
        needs: dict[str, tuple[str, ...]] = {}
        for name in names:
            wanted = [
                other
                for other in names
                if _module(other) in mentions.get(name, set()) and _module(other) != _module(name)
            ]
            interface = f"{Path(name).stem}.mli"
            if name.endswith(".ml") and interface in names:
                wanted.append(interface)
            needs[name] = tuple(wanted)
        try:
            order = list(graphlib.TopologicalSorter(needs).static_order())
        except graphlib.CycleError:  # the compiler will say it better
            order = sorted(names, key=lambda name: not name.endswith(".mli"))
        return [(names[name], needs[name]) for name in order]

    async def _check_one(
        self, folder: Path, source: Source, sources: Sequence[Source], warnings: Sequence[str]
    ) -> Checked:
        file = file_arguments(source.name)
        told = await self._bench.ocamlc(folder, *warnings, "-c", *file)
        texts = {other.name: other.data for other in sources}
        found = messages.parse(told.stderr.decode(errors="replace"), texts)
        if not told.ok:
            stage = await self._bench.refused_at(folder, source.name, told)
            return Checked(source.name, stage, explained(found, told, stage), limit=told.limit)
        signature = await self._bench.ocamlc(folder, "-w", "-a", "-i", *file)
        return Checked(source.name, Stage.PASS, found, signature.stdout.decode(errors="replace"))


def ran_to_its_end(ran: Execution, source: Source, warnings: tuple[Diagnostic, ...]) -> Verdict:
    """Turn how a program ended into a verdict."""
    stderr = ran.stderr.decode(errors="replace")
    found: tuple[Diagnostic, ...] = ()
    limit = ran.limit
    if not ran.ok:
        found = ended_badly(ran, {source.name: source.data})
        if limit is None and any(diagnostic.kind is Kind.OUT_OF_MEMORY for diagnostic in found):
            limit = Limit.MEMORY
    return Verdict(
        Stage.PASS if ran.ok else Stage.RUN,
        diagnostics=warnings + found,
        limit=limit,
        stdout=ran.stdout.decode(errors="replace"),
        stderr=stderr,
        output_truncated=ran.truncated,
    )


def _waits(name: str, needed: str) -> Checked:
    message = f"Not checked: it depends on {needed}, which has errors."
    return Checked(name, Stage.TYPE, (Diagnostic(Severity.ERROR, Kind.OTHER, message, path=name),))


def _timed(verdict: Verdict, started: float) -> Verdict:
    return replace(verdict, seconds=time.monotonic() - started)


def _module(name: str) -> str:
    stem = Path(name).stem
    return stem[:1].upper() + stem[1:]

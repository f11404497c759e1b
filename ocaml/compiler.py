"""OCaml's own programs at work in a folder: compile, find out where a compiler refuses, run what it made.

What both checking and grading stand on; every process is held by ``ocaml.sandbox``.
"""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ocaml.containment import Container, Means, strongest
from ocaml.diagnostics import Diagnostic, Kind, Position, Severity, Span, messages
from ocaml.errors import BrokenToolchain
from ocaml.interface import STANDARD_SOURCE, Standard, read_signature, standard_names
from ocaml.sandbox import MIB, Execution, Limits, Taker, Watcher, execute
from ocaml.scratch import scratch_folder
from ocaml.toolchain import Toolchain, environment
from ocaml.verdict import Limit, Stage, Verdict

# The compiler is no program of the user's: only a type that explodes comes near these.
COMPILER_LIMITS = Limits(seconds=10.0, memory_bytes=2048 * MIB, output_bytes=MIB, file_bytes=256 * MIB)

PROGRAM = "ocamler.byte"  # what a source is linked to; like the run's folder, no source is called so
TREE_LIMITS = replace(COMPILER_LIMITS, output_bytes=64 * MIB)  # a parse tree is a hundred times its source
LEAST_FREE = MIB  # bytes on the disk of temporary files below which the compiler can't be believed
SILENT = ("-w", "-a")  # the compiler's flags for no warnings


@dataclass(frozen=True, slots=True)
class Source:
    """A file to judge: its name (``a.ml``, ``a.mli``) and its bytes."""

    name: str
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text, for showing."""
        return self.data.decode(errors="replace")


@dataclass
class Workbench:
    """A toolchain and the limits of the programs that are run with it; learns the standard library once."""

    toolchain: Toolchain
    limits: Limits = field(default_factory=Limits)
    means: frozenset[Means] | None = None
    _standard: Standard | None = None

    async def ocamlc(self, folder: Path, *arguments: str) -> Execution:
        """Run ``ocamlc`` under limits of its own."""
        return await self._run([self.toolchain.ocamlc, *arguments], folder, COMPILER_LIMITS)

    async def parse_tree(self, folder: Path, name: str) -> Execution:
        """Have the compiler parse a file; the tree is on stderr."""
        flags = (*SILENT, "-stop-after", "parsing", "-dparsetree")
        return await self._run([self.toolchain.ocamlc, *flags, *file_arguments(name)], folder, TREE_LIMITS)

    async def dependencies(self, folder: Path, names: Sequence[str]) -> dict[str, set[str]]:
        """Return for each file the capitalised module names it mentions; empty without ``ocamldep``."""
        if self.toolchain.ocamldep is None:
            return {}
        command: list[str | Path] = [self.toolchain.ocamldep, "-modules", *map(_argument, names)]
        told = await self._run(command, folder, COMPILER_LIMITS)
        lines = (line.rpartition(":") for line in told.stdout.decode(errors="replace").splitlines())
        return {Path(name).name: set(modules.split()) for name, _, modules in lines}

    async def standard(self) -> Standard:
        """The names that the installed standard library gives to every program; asked for once."""
        if self._standard is None:
            async with scratch_folder() as folder:
                (folder / "standard.ml").write_text(STANDARD_SOURCE)
                told = await self.ocamlc(folder, *SILENT, "-i", "standard.ml")
            if not told.ok:
                raise BrokenToolchain(
                    f"{self.toolchain.ocamlc} does not compile `include Stdlib`: mend OCaml."
                )
            self._standard = standard_names(read_signature(told.stdout.decode(errors="replace")))
        return self._standard

    async def compile(self, folder: Path, source: Source) -> Verdict:
        """Compile and link to ``program.byte``; PASS means that it is there."""
        file = file_arguments(source.name)
        told = await self.ocamlc(folder, "-g", "-o", PROGRAM, *file)
        found = messages.parse(told.stderr.decode(errors="replace"), {source.name: source.data})
        if told.ok:
            empty = await self.parses_to_nothing(folder, source.name)
            return Verdict(
                Stage.EMPTY if empty else Stage.PASS, diagnostics=nothing_here(found) if empty else found
            )
        stage = await self.refused_at(folder, source.name, told, linking=True)
        return Verdict(stage, diagnostics=explained(found, told, stage), limit=told.limit)

    async def parses_to_nothing(self, folder: Path, name: str) -> bool:
        """Whether a file that the compiler accepts holds no item at all."""
        tree = await self.parse_tree(folder, name)
        return tree.ok and tree.stderr.strip() in {b"[]", b""}

    async def run_bytecode(
        self,
        program: Path,
        *arguments: str,
        limits: Limits,
        stdin: int | bytes = subprocess.DEVNULL,
        backtrace: bool = False,
        watch: Watcher | None = None,
        take: Taker | None = None,
    ) -> Execution:
        """Run a bytecode program, contained, in ``run_folder``, which is empty at first.

        It goes through ``ocamlrun``, so that a folder mounted noexec does not matter.
        """
        surroundings = environment(self.toolchain)
        if backtrace:
            given = surroundings.get("OCAMLRUNPARAM", "")
            surroundings["OCAMLRUNPARAM"] = f"{given},b" if given else "b"
        runner = _runner(self.toolchain, program)
        folder = run_folder(program)
        folder.mkdir(exist_ok=True)
        surroundings["TMPDIR"] = str(folder)
        container = await self._container(runner)
        return await execute(
            [runner, program, *arguments],
            cwd=folder,
            environment=surroundings,
            limits=limits,
            stdin=stdin,
            watch=watch,
            take=take,
            container=replace(container, readable=(*container.readable, program)),
        )

    async def _container(self, runner: Path) -> Container:
        """What programs are shut in: the means that are asked for, else the strongest that work here."""
        seen = (runner, self.toolchain.standard_library)
        if self.means is not None:
            return Container(self.means, seen)
        return await asyncio.to_thread(strongest, runner, seen, trial=("-version",))

    async def refused_at(self, folder: Path, name: str, told: Execution, *, linking: bool = False) -> Stage:
        """Ask the compiler again, for less, to learn at which stage it refuses."""
        if told.limit is not None:
            return Stage.TYPE  # parsing is quick: only types keep the compiler busy
        parsed = await self.ocamlc(folder, "-stop-after", "parsing", *file_arguments(name))
        if not parsed.ok:
            return Stage.SYNTAX
        if not linking:
            return Stage.TYPE
        typed = await self.ocamlc(folder, "-w", "-a", "-c", *file_arguments(name))
        return Stage.LINK if typed.ok else Stage.TYPE

    async def _run(self, command: Sequence[str | Path], folder: Path, limits: Limits) -> Execution:
        surroundings = environment(self.toolchain)
        told = await execute(command, cwd=folder, environment=surroundings, limits=limits)
        if not told.ok and shutil.disk_usage(folder).free < LEAST_FREE:
            # Never a verdict on the code: the compiler could not write what it made of it.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.parent))
        return told


def _runner(toolchain: Toolchain, program: Path) -> Path:
    """The ``ocamlrun`` beside the compiler, or the one that the program itself names in its first line."""
    runner = toolchain.ocamlc.parent / "ocamlrun"
    if not runner.exists():
        with program.open("rb") as file:
            first = file.readline(4096)
        if first.startswith(b"#!"):
            return Path(os.fsdecode(first[2:].strip()))
    return runner


def run_folder(program: Path) -> Path:
    """Where a program of the judge's runs: an empty folder beside it."""
    return program.with_name("ocamler.run")


def ended_badly(ran: Execution, sources: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    """Say how a program that did not end well ended."""
    if ran.limit is not None:
        return (limit_diagnostic(ran.limit, ran.seconds),)
    # The runtime itself ends a program with 2, or where it can't even raise Out_of_memory by SIGABRT.
    by_runtime = ran.exit_code in {2, -signal.SIGABRT}
    found = messages.parse_runtime(ran.stderr.decode(errors="replace"), sources) if by_runtime else ()
    if found:
        return found
    how = (
        f"was killed by signal {-ran.exit_code}"
        if ran.exit_code < 0
        else f"ended with exit code {ran.exit_code}"
    )
    return (Diagnostic(Severity.ERROR, Kind.OTHER, f"The program {how}."),)


def limit_diagnostic(limit: Limit, seconds: float, what: str = "The program") -> Diagnostic:
    """Say in a sentence which limit was met."""
    kind, words = {
        Limit.TIME: (Kind.TIMEOUT, f"did not end within {seconds:.2g} s"),
        Limit.MEMORY: (Kind.OUT_OF_MEMORY, "used more memory than it may"),
        Limit.OUTPUT: (Kind.OUTPUT_LIMIT, "printed more than it may"),
    }[limit]
    return Diagnostic(Severity.ERROR, kind, f"{what} {words} and was stopped.")


def explained(found: tuple[Diagnostic, ...], told: Execution, stage: Stage) -> tuple[Diagnostic, ...]:
    """Make sure that a refusal has an error that says why."""
    if told.limit is not None:
        return (*found, limit_diagnostic(told.limit, told.seconds, "The compiler"))
    if any(diagnostic.is_error for diagnostic in found):
        return found
    text = told.stderr.decode(errors="replace").strip()
    last = text.splitlines()[-1] if text else f"exit code {told.exit_code}"
    return (*found, Diagnostic(Severity.ERROR, Kind.OTHER, f"The compiler stopped at {stage.label}: {last}"))


def nothing_here(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Say that a file holds no item."""
    start = Position(1, 0)
    return (*found, Diagnostic(Severity.ERROR, Kind.OTHER, "There is no code here.", Span(start, start)))


def file_arguments(name: str) -> tuple[str, ...]:
    """A name that the compiler takes for a file of its own, whatever it is called."""
    if name.endswith(".mli"):
        return (_argument(name),)
    return (_argument(name),) if name.endswith(".ml") else ("-impl", _argument(name))


def _argument(name: str) -> str:
    return f"./{name}" if name.startswith("-") else name

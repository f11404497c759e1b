"""The judge over plain compiler processes: check a file, run a program, grade an answer.

Every process is held by ``ocaml.sandbox``. Stages come from which process failed, not from what it printed.
"""

import graphlib
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ocaml.diagnostics import Diagnostic, Kind, Position, Severity, Span, messages
from ocaml.grading.interface import STANDARD_SOURCE, Standard, read_signature, standard_names
from ocaml.problem import Signature
from ocaml.sandbox import Execution, Limits, Watcher, execute, scratch_folder
from ocaml.toolchain import Toolchain, environment
from ocaml.verdict import Limit, Stage, Verdict

COMPILER_OUTPUT_BYTES = 1024 * 1024  # an error about a large type is long


@dataclass(frozen=True, slots=True)
class Source:
    """A file to judge: its name (``a.ml``, ``a.mli``) and its bytes."""

    name: str
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text, for showing."""
        return self.data.decode(errors="replace")


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


@dataclass(frozen=True)
class Compiler:
    """Runs the toolchain's programs in a folder, under limits."""

    toolchain: Toolchain
    limits: Limits = field(default_factory=Limits)

    async def ocamlc(self, folder: Path, *arguments: str) -> Execution:
        """Run ``ocamlc``; the type checker is held by the same limits as a program."""
        return await self._run([self.toolchain.ocamlc, *arguments], folder)

    async def dependencies(self, folder: Path, names: Sequence[str]) -> dict[str, set[str]]:
        """Return for each file the capitalised module names it mentions; empty without ``ocamldep``."""
        if self.toolchain.ocamldep is None:
            return {}
        told = await self._run([self.toolchain.ocamldep, "-modules", *map(_argument, names)], folder)
        lines = (line.rpartition(":") for line in told.stdout.decode(errors="replace").splitlines())
        return {Path(name).name: set(modules.split()) for name, _, modules in lines}

    async def _run(self, command: Sequence[str | Path], folder: Path) -> Execution:
        limits = Limits(
            seconds=self.limits.seconds,
            memory_bytes=self.limits.memory_bytes,
            output_bytes=COMPILER_OUTPUT_BYTES,
            file_bytes=self.limits.file_bytes,
        )
        return await execute(command, cwd=folder, environment=environment(self.toolchain), limits=limits)


class PlainJudge:
    """The judge that needs nothing but ``ocamlc``."""

    def __init__(self, toolchain: Toolchain, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.compiler = Compiler(toolchain, self.limits)
        self._standard: Standard | None = None

    async def standard(self) -> Standard:
        """The names that the installed standard library gives to every program; asked for once."""
        if self._standard is None:
            async with scratch_folder() as folder:
                (folder / "standard.ml").write_text(STANDARD_SOURCE)
                told = await self.compiler.ocamlc(folder, "-w", "-a", "-i", "standard.ml")
            self._standard = standard_names(read_signature(told.stdout.decode(errors="replace")))
        return self._standard

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
            compiled = await self.compile(folder, source)
            if compiled.stage is not Stage.PASS:
                return _timed(compiled, started)
            program = folder / "program.byte"
            ran = await self.execute_bytecode(program, limits=self.limits, stdin=stdin, backtrace=True)
        return _timed(_ran(ran, source, compiled.diagnostics), started)

    async def grade(self, answer: str, tests: str, *, asked: Signature | None = None) -> Verdict:
        """Grade by running each assertion of ``tests``; without any, run the answer."""
        from ocaml.grading.grade import Grading  # it stands on this module

        return await Grading(self, answer, tests, asked).verdict()

    async def execute_bytecode(
        self,
        program: Path,
        *arguments: str,
        limits: Limits,
        stdin: int = subprocess.DEVNULL,
        backtrace: bool = False,
        watch: Watcher | None = None,
    ) -> Execution:
        """Run a bytecode program in ``run_folder``, which is empty at first.

        It goes through ``ocamlrun``, so that a folder mounted noexec does not matter.
        """
        surroundings = environment(self.compiler.toolchain)
        if backtrace:
            given = surroundings.get("OCAMLRUNPARAM", "")
            surroundings["OCAMLRUNPARAM"] = f"{given},b" if given else "b"
        runner = self.compiler.toolchain.ocamlc.parent / "ocamlrun"
        command = [runner, program] if runner.exists() else [program]
        folder = run_folder(program)
        folder.mkdir(exist_ok=True)
        return await execute(
            [*command, *arguments],
            cwd=folder,
            environment=surroundings,
            limits=limits,
            stdin=stdin,
            watch=watch,
        )

    async def _in_order(
        self, folder: Path, sources: Sequence[Source]
    ) -> list[tuple[Source, tuple[str, ...]]]:
        """Order interfaces before implementations and what is used before what uses it."""
        names = {source.name: source for source in sources}
        mentions = await self.compiler.dependencies(folder, list(names)) if len(names) > 1 else {}
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
        file = _file_arguments(source.name)
        told = await self.compiler.ocamlc(folder, *warnings, "-c", *file)
        texts = {other.name: other.data for other in sources}
        found = messages.parse(told.stderr.decode(errors="replace"), texts)
        if not told.ok:
            stage = await self._refused_at(folder, source.name, told)
            return Checked(source.name, stage, _explained(found, told, stage, self.limits), limit=told.limit)
        signature = await self.compiler.ocamlc(folder, "-w", "-a", "-i", *file)
        return Checked(source.name, Stage.PASS, found, signature.stdout.decode(errors="replace"))

    async def compile(self, folder: Path, source: Source) -> Verdict:
        """Compile and link to ``program.byte``; PASS means that it is there."""
        file = _file_arguments(source.name)
        told = await self.compiler.ocamlc(folder, "-g", "-o", "program.byte", *file)
        found = messages.parse(told.stderr.decode(errors="replace"), {source.name: source.data})
        if told.ok:
            empty = await self.parses_to_nothing(folder, source.name)
            return Verdict(
                Stage.EMPTY if empty else Stage.PASS, diagnostics=_empty(found) if empty else found
            )
        stage = await self._refused_at(folder, source.name, told, linking=True)
        return Verdict(stage, diagnostics=_explained(found, told, stage, self.limits), limit=told.limit)

    async def parses_to_nothing(self, folder: Path, name: str) -> bool:
        """Whether a file that the compiler accepts holds no item at all."""
        tree = await self.compiler.ocamlc(
            folder, "-w", "-a", "-stop-after", "parsing", "-dparsetree", *_file_arguments(name)
        )
        return tree.ok and tree.stderr.strip() in {b"[]", b"[\n]", b""}

    async def _refused_at(self, folder: Path, name: str, told: Execution, *, linking: bool = False) -> Stage:
        """Ask the compiler again, for less, to learn at which stage it refuses."""
        if told.limit is not None:
            return Stage.TYPE  # parsing is quick: only types keep the compiler busy
        parsed = await self.compiler.ocamlc(folder, "-stop-after", "parsing", *_file_arguments(name))
        if not parsed.ok:
            return Stage.SYNTAX
        if not linking:
            return Stage.TYPE
        typed = await self.compiler.ocamlc(folder, "-w", "-a", "-c", *_file_arguments(name))
        return Stage.LINK if typed.ok else Stage.TYPE


def run_folder(program: Path) -> Path:
    """Where a program of the judge's runs: an empty folder beside it."""
    return program.with_name("run")


def _ran(ran: Execution, source: Source, warnings: tuple[Diagnostic, ...]) -> Verdict:
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


def ended_badly(ran: Execution, sources: dict[str, bytes]) -> tuple[Diagnostic, ...]:
    """Say how a program that did not end well ended."""
    if ran.limit is not None:
        return (limit_diagnostic(ran.limit, ran.seconds),)
    found = messages.parse_runtime(ran.stderr.decode(errors="replace"), sources) if ran.exit_code == 2 else ()
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
        Limit.TIME: (Kind.TIMEOUT, f"did not end within {seconds:.0f} s"),
        Limit.MEMORY: (Kind.OUT_OF_MEMORY, "used more memory than it may"),
        Limit.OUTPUT: (Kind.OUTPUT_LIMIT, "printed more than it may"),
    }[limit]
    return Diagnostic(Severity.ERROR, kind, f"{what} {words} and was stopped.")


def _explained(
    found: tuple[Diagnostic, ...], told: Execution, stage: Stage, limits: Limits
) -> tuple[Diagnostic, ...]:
    """Make sure that a refusal has an error that says why."""
    if told.limit is not None:
        return (*found, limit_diagnostic(told.limit, limits.seconds, "The compiler"))
    if any(diagnostic.is_error for diagnostic in found):
        return found
    text = told.stderr.decode(errors="replace").strip()
    last = text.splitlines()[-1] if text else f"exit code {told.exit_code}"
    return (*found, Diagnostic(Severity.ERROR, Kind.OTHER, f"The compiler stopped at {stage.label}: {last}"))


def _empty(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    start = Position(1, 0)
    return (*found, Diagnostic(Severity.ERROR, Kind.OTHER, "There is no code here.", Span(start, start)))


def _waits(name: str, needed: str) -> Checked:
    message = f"Not checked: it depends on {needed}, which has errors."
    return Checked(name, Stage.TYPE, (Diagnostic(Severity.ERROR, Kind.OTHER, message, path=name),))


def _timed(verdict: Verdict, started: float) -> Verdict:
    return replace(verdict, seconds=time.monotonic() - started)


def _module(name: str) -> str:
    stem = Path(name).stem
    return stem[:1].upper() + stem[1:]


def _file_arguments(name: str) -> tuple[str, ...]:
    """A name that the compiler takes for a file of its own, whatever it is called."""
    if name.endswith(".mli"):
        return (_argument(name),)
    return (_argument(name),) if name.endswith(".ml") else ("-impl", _argument(name))


def _argument(name: str) -> str:
    return f"./{name}" if name.startswith("-") else name

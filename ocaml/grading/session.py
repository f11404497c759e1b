"""What grading asks of a compiler while it judges one answer, and the answer over plain processes.

The check server has the other form (``ocaml.served``). Both are asked the same, in the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from ocaml.compiler import SILENT, Source, Workbench
from ocaml.diagnostics import Diagnostic, Span, messages
from ocaml.errors import BrokenToolchain
from ocaml.grading.assertions import Suite, bound_at, read_suite
from ocaml.grading.outcomes import Attempted, attempt_program
from ocaml.grading.parsetree import Node
from ocaml.grading.parsetree import parse as parse_tree
from ocaml.grading.scope import ANSWER_FILE, HARNESS, TESTS_FILE
from ocaml.grading.source import span_of, to_bytes
from ocaml.interface import Item, Standard, read_signature
from ocaml.sandbox import Execution, Limits
from ocaml.verdict import Verdict

HARNESS_FOLDER = Path(__file__).parent / "harness"


class CompilerLimit(Exception):
    """The compiler met a limit; ``told`` is how it ended."""

    def __init__(self, told: Execution) -> None:
        super().__init__()
        self.told = told


@dataclass(frozen=True, slots=True)
class Refused:
    """What the compiler has against a source."""

    diagnostics: tuple[Diagnostic, ...]


class Compiled(Enum):
    """What became of a program that the judge wrote."""

    TO_RUN = auto()
    REFUSED = auto()


class Session(Protocol):
    """A compiler at the disposal of one grading. Every method may raise CompilerLimit."""

    @property
    def limits(self) -> Limits:
        """The limits of the programs that are run."""

    async def standard(self) -> Standard:
        """The names that the installed standard library gives to every program."""

    async def suite(self, tests: bytes, *, whole: bool) -> Suite | Refused:
        """Read the claims of the tests."""

    async def compile_answer(self, source: Source) -> Verdict:
        """Type-check and link the answer as a unit of its own; PASS when nothing stops it."""

    async def signature(self) -> tuple[Item, ...]:
        """What the compiled answer offers."""

    async def definition(self, name: str) -> Span | None:
        """Where the answer defines a value, as far as its top level shows it."""

    async def refusal(self, program: str, sources: Mapping[str, bytes]) -> Refused | None:
        """Type-check a program that sees the answer; ``sources`` are the files that its places are in."""

    async def build_whole(self, program: str) -> Mapping[int, tuple[str, ...]] | None:
        """Compile a driver with the right sides in it, take them out and return them by claim.

        None where that can't be done, or not at once.
        """

    async def expect(self, program: str) -> Mapping[int, tuple[str, ...]] | Compiled:
        """Compile the program of expected values, which may name the answer's types and nothing else of it.

        Returns the values by claim where the compiler knows them already.
        """

    async def build(self, program: str) -> bool:
        """Compile the driver, which runs claims over the answer."""

    async def attempt_expected(self, first: int) -> Attempted:
        """Run what ``expect`` compiled, from claim ``first`` on."""

    async def attempt(self, first: int) -> Attempted:
        """Run what ``build`` compiled, from claim ``first`` on."""

    async def values(self, program: str) -> Sequence[tuple[str, str]]:
        """The values that a program which sees the answer defines, each with its type as text."""


@dataclass
class PlainSession:
    """The compiler's own programs, at work in ``folder``."""

    bench: Workbench
    folder: Path
    _answer: Source | None = None
    _trees: dict[bytes, list[Node] | Refused] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """The limits of the programs that are run."""
        return self.bench.limits

    async def standard(self) -> Standard:
        """The names that the installed standard library gives to every program."""
        return await self.bench.standard()

    async def suite(self, tests: bytes, *, whole: bool) -> Suite | Refused:
        """Read the claims on the parse tree that the compiler prints."""
        tree = self._trees.get(tests)
        if tree is None:
            tree = self._trees[tests] = await self._tree(tests)
        if isinstance(tree, Refused):
            return tree
        return read_suite(tests, tree, (await self.standard()).modules, whole=whole)

    async def compile_answer(self, source: Source) -> Verdict:
        """Compile and link the answer by itself."""
        self._answer = source
        (self.folder / source.name).write_bytes(source.data)
        return await self.bench.compile(self.folder, source)

    async def signature(self) -> tuple[Item, ...]:
        """Ask for the inferred interface."""
        told = await self._ocamlc(*SILENT, "-i", ANSWER_FILE)
        return read_signature(told.stdout.decode(errors="replace"))

    async def definition(self, name: str) -> Span | None:
        """Find the name on the parse tree of the answer."""
        told = await self.bench.parse_tree(self.folder, ANSWER_FILE)
        for item in reversed(parse_tree(told.stderr.decode(errors="replace"))):
            for place, bound in bound_at(item):
                if bound == name and self._answer is not None:
                    return span_of(self._answer.data, *place)
        return None

    async def refusal(self, program: str, sources: Mapping[str, bytes]) -> Refused | None:
        """Type-check it in a file of its own."""
        await self._build_harness()
        (self.folder / "checked.ml").write_bytes(to_bytes(program))
        told = await self._ocamlc(*SILENT, "-stop-after", "typing", "checked.ml")
        if told.ok:
            return None
        return Refused(messages.parse(told.stderr.decode(errors="replace"), sources))

    async def build_whole(self, program: str) -> None:
        """It takes the compiler's inside."""

    async def expect(self, program: str) -> Compiled:
        """Link it with the harness alone: what names a value of the answer is refused there."""
        await self._build_harness()
        return Compiled.TO_RUN if await self._link("expected", program) else Compiled.REFUSED

    async def build(self, program: str) -> bool:
        """Link it with the harness and the answer."""
        await self._build_harness()
        return await self._link("driver", program, ANSWER_FILE.replace(".ml", ".cmo"))

    async def attempt_expected(self, first: int) -> Attempted:
        """Run the program of expected values."""
        return await attempt_program(self.bench, self.folder / "expected.byte", first)

    async def attempt(self, first: int) -> Attempted:
        """Run the driver."""
        return await attempt_program(self.bench, self.folder / "driver.byte", first)

    async def values(self, program: str) -> Sequence[tuple[str, str]]:
        """Ask for the program's inferred interface."""
        (self.folder / "values.ml").write_bytes(to_bytes(program))
        told = await self._ocamlc(*SILENT, "-i", "values.ml")
        items = read_signature(told.stdout.decode(errors="replace"))
        return [(item.names[0], item.value_type) for item in items if item.value_type is not None]

    async def _tree(self, tests: bytes) -> list[Node] | Refused:
        (self.folder / TESTS_FILE).write_bytes(tests)
        told = await self.bench.parse_tree(self.folder, TESTS_FILE)
        if told.limit is not None:
            raise CompilerLimit(told)
        text = told.stderr.decode(errors="surrogateescape")
        return parse_tree(text) if told.ok else Refused(messages.parse(text, {TESTS_FILE: tests}))

    async def _build_harness(self) -> None:
        units = sorted(HARNESS_FOLDER.glob("*.ml*"), reverse=True)
        if (self.folder / f"{HARNESS}.cmo").exists():
            return
        for unit in units:
            (self.folder / unit.name).write_bytes(unit.read_bytes())
        made = await self._ocamlc("-c", f"{HARNESS}.mli", f"{HARNESS}.ml")
        if not made.ok:
            raise BrokenToolchain(
                f"{self.bench.toolchain.ocamlc} does not compile the judge's harness: mend OCaml."
            )

    async def _link(self, name: str, program: str, *units: str) -> bool:
        (self.folder / f"{name}.ml").write_bytes(to_bytes(program))
        files = (f"{HARNESS}.cmo", *units, f"{name}.ml")
        return (await self._ocamlc(*SILENT, "-o", f"{name}.byte", *files)).ok

    async def _ocamlc(self, *arguments: str) -> Execution:
        """Run the compiler; meeting a limit ends the grading, whatever it was compiling."""
        told = await self.bench.ocamlc(self.folder, *arguments)
        if told.limit is not None:
            raise CompilerLimit(told)
        return told

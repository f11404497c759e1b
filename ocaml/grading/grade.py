"""Grade an answer by the assertions of its tests, each on its own.

The answer is compiled as a unit of its own, and the tests see it through an interface that holds only
what they ask for. For ``f x = v`` the child prints the value of ``f x`` and ``v`` is computed in another
process, which the answer is not part of: the values are compared here. Other assertions are decided in
the child, the weaker kind.
"""

import difflib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ocaml.compiler import SILENT, Source, Workbench, ended_badly, explained
from ocaml.diagnostics import Diagnostic, Kind, Position, Severity, Span, messages
from ocaml.errors import BrokenToolchain, UnsoundTests
from ocaml.grading import driver
from ocaml.grading.assertions import Suite, bound_at, read_suite
from ocaml.grading.driver import Plan
from ocaml.grading.outcomes import Ran, Result, run_claims
from ocaml.grading.parsetree import Node
from ocaml.grading.parsetree import parse as parse_tree
from ocaml.grading.report import Expected, Reporter, best_constant
from ocaml.grading.scope import ANSWER_FILE, HARNESS, TESTS_FILE, Scope, asked_source, reserved, scope
from ocaml.grading.values import comparable, equal
from ocaml.interface import VALUES, Item, Standard, read_signature
from ocaml.problem import Signature
from ocaml.sandbox import Execution, scratch_folder
from ocaml.typexpr import Type, parse_declarations, parse_type
from ocaml.verdict import Assertion, Limit, Outcome, Stage, Verdict


class _CompilerLimitError(Exception):
    """The compiler met a limit; ``told`` is how it ended."""

    def __init__(self, told: Execution) -> None:
        super().__init__()
        self.told = told


@dataclass(slots=True)
class Grading:
    """One answer against one set of tests; what is learned on the way is kept here."""

    bench: Workbench
    answer: str
    tests: str
    asked: Signature | None = None
    _warnings: tuple[Diagnostic, ...] = ()
    _suite: Suite = field(default_factory=Suite)
    _tree: list[Node] = field(default_factory=list)

    async def verdict(self) -> Verdict:
        """Judge. Raises UnsoundTests when the tests are at fault."""
        started = time.monotonic()
        async with scratch_folder() as folder:
            try:
                self._suite = await self._read_tests(folder)
                verdict = await self._judge(folder)
            except _CompilerLimitError as met:
                verdict = self._stop(Stage.TYPE, *explained((), met.told, Stage.TYPE), limit=met.told.limit)
        if not verdict.assertions and self._suite.claims:
            verdict = replace(
                verdict, assertions=tuple(Assertion(c.text, Outcome.FAILED) for c in self._suite.claims)
            )
        return replace(verdict, seconds=time.monotonic() - started)

    async def _read_tests(self, folder: Path) -> Suite:
        if not self.tests.strip():
            return Suite()
        (folder / TESTS_FILE).write_bytes(to_bytes(self.tests))
        told = await self.bench.parse_tree(folder, TESTS_FILE)
        if told.limit is not None:
            raise UnsoundTests("The tests are too long to be taken apart: split them.")
        text = told.stderr.decode(errors="replace")
        if not told.ok:
            raise UnsoundTests(
                _at_fault("do not parse", messages.parse(text, {TESTS_FILE: to_bytes(self.tests)}))
            )
        self._tree = parse_tree(text)
        suite = await self._suite_of(whole=False)
        if not suite.claims:
            raise UnsoundTests(
                "The tests assert nothing: write what must hold as `let () = assert (f 1 = 2)`."
            )
        return suite

    async def _suite_of(self, *, whole: bool) -> Suite:
        standard = await self.bench.standard()
        return read_suite(to_bytes(self.tests), self._tree, standard.modules, whole=whole)

    async def _judge(self, folder: Path) -> Verdict:
        refused = await self._compile_answer(folder)
        if refused is not None:
            return refused
        items = await self._signature(folder)
        standard = await self.bench.standard()
        unfit = self._absent(items) or _pretends(items) or await self._of_another_type(folder, items)
        if unfit is not None:
            return self._stop(Stage.TYPE, unfit)
        return await self._grade(folder, items, standard)

    async def _compile_answer(self, folder: Path) -> Verdict | None:
        """Type-check and link the answer by itself; None when nothing stops it."""
        source = Source(ANSWER_FILE, to_bytes(self.answer))
        (folder / source.name).write_bytes(source.data)
        compiled = await self.bench.compile(folder, source)
        if compiled.stage is not Stage.PASS:
            return compiled
        self._warnings = compiled.diagnostics
        return None

    async def _signature(self, folder: Path) -> tuple[Item, ...]:
        told = await self._ocamlc(folder, *SILENT, "-i", ANSWER_FILE)
        return read_signature(told.stdout.decode(errors="replace"))

    def _absent(self, items: Sequence[Item]) -> Diagnostic | None:
        if self.asked is None:
            return None
        offered = [item.names[0] for item in items if item.keyword in {"val", "external"}]
        if self.asked.name in offered:
            return None
        near = difflib.get_close_matches(self.asked.name, offered, n=1)
        hints = (f"Did you mean {near[0]}?",) if near else ()
        message = f"The function {self.asked.name} that was asked for is not defined."
        return Diagnostic(Severity.ERROR, Kind.UNBOUND, message, hints=hints)

    async def _of_another_type(self, folder: Path, items: Sequence[Item]) -> Diagnostic | None:
        """Compare the type of the function with the one asked for."""
        if self.asked is None or self.asked.type is None:
            return None
        (folder / "asked.ml").write_text(asked_source(self.asked))
        if (await self._ocamlc(folder, *SILENT, "-stop-after", "typing", "asked.ml")).ok:
            return None
        has = next(i.value_type for i in items if i.keyword in VALUES and i.names[0] == self.asked.name)
        message = f"{self.asked.name} has type {has} but the type asked for is {self.asked.type}."
        place = await self._definition(folder, self.asked.name)
        return Diagnostic(Severity.ERROR, Kind.TYPE, message, place, path=ANSWER_FILE)

    async def _definition(self, folder: Path, name: str) -> Span | None:
        """Where the answer defines a value, as far as its top level shows it."""
        told = await self.bench.parse_tree(folder, ANSWER_FILE)
        for item in reversed(parse_tree(told.stderr.decode(errors="replace"))):
            for place, bound in bound_at(item):
                if bound == name:
                    return _span(to_bytes(self.answer), *place)
        return None

    async def _grade(self, folder: Path, items: Sequence[Item], standard: Standard) -> Verdict:
        await self._build_harness(folder)
        seen = scope(items, standard, self._suite, self.asked, generous=False)
        unfit = await self._check_tests(folder, seen)
        if unfit:
            seen = scope(items, standard, self._suite, self.asked, generous=True)
            if await self._check_tests(folder, seen):
                if self.asked is not None and self.asked.type is not None:
                    raise UnsoundTests(_at_fault("do not type-check against the signature", unfit))
                return self._stop(Stage.TYPE, *unfit)
        plan = driver.plan(self._suite, seen)
        expected = await self._expected_values(folder, plan)
        weak = frozenset(index for index in plan.equations if not comparable(expected.get(index, ())))
        if not await self._build_driver(folder, plan, weak):
            self._suite = await self._suite_of(whole=True)
            plan, expected, weak = driver.plan(self._suite, seen), {}, frozenset()
            if not await self._build_driver(folder, plan, weak):
                raise UnsoundTests(
                    "The tests could not be taken apart: write one `assert` for each thing that must hold."
                )
        return await self._run(folder, items, plan, expected, weak)

    async def _run(
        self,
        folder: Path,
        items: Sequence[Item],
        plan: Plan,
        expected: dict[int, tuple[str, ...]],
        weak: frozenset[int],
    ) -> Verdict:
        ran = await run_claims(self.bench, folder / "driver.byte", len(self._suite.claims))
        if not ran.started:
            return replace(
                self._stop(Stage.RUN, *self._never_started(ran), limit=ran.limit),
                stdout=ran.stdout,
                stderr=ran.stderr,
                output_truncated=ran.truncated,
            )
        kinds = await self._left_types(folder) if _any_fails(ran.results, expected, weak) else {}
        types = [item.text for item in items if item.keyword == "type"]
        reporter = Reporter(kinds, {n: d for text in types for n, d in parse_declarations(text).items()})
        trusted = {
            index: Expected(plan.equations[index].expected.text, expected[index])
            for index in expected.keys() - weak
        }
        assertions = tuple(
            reporter.assertion(index, claim, ran.results.get(index), trusted.get(index))
            for index, claim in enumerate(self._suite.claims)
        )
        passed = all(assertion.outcome is Outcome.PASSED for assertion in assertions)
        return Verdict(
            stage=Stage.PASS if passed else Stage.TESTS,
            assertions=assertions,
            constant_passed=best_constant(self._suite.claims, expected),
            diagnostics=self._warnings,
            limit=ran.limit,
            stdout=ran.stdout,
            stderr=ran.stderr,
            output_truncated=ran.truncated,
        )

    async def _build_harness(self, folder: Path) -> None:
        for name in (f"{HARNESS}.mli", f"{HARNESS}.ml"):
            (folder / name).write_bytes((Path(__file__).parent / "harness" / name).read_bytes())
        made = await self._ocamlc(folder, "-c", f"{HARNESS}.mli", f"{HARNESS}.ml")
        if not made.ok:
            raise BrokenToolchain(
                f"{self.bench.toolchain.ocamlc} does not compile the judge's harness: mend OCaml."
            )

    async def _expected_values(self, folder: Path, plan: Plan) -> dict[int, tuple[str, ...]]:
        """Compute the right sides of the equations in a process of their own; none where that fails."""
        if not plan.equations:
            return {}
        (folder / "expected.ml").write_bytes(to_bytes(driver.expected_source(plan)))
        linked = await self._ocamlc(folder, *SILENT, "-o", "expected.byte", f"{HARNESS}.cmo", "expected.ml")
        if not linked.ok:
            return {}
        ran = await run_claims(self.bench, folder / "expected.byte", len(self._suite.claims))
        return {index: result.tokens for index, result in ran.results.items() if result.tokens is not None}

    def _never_started(self, ran: Ran) -> tuple[Diagnostic, ...]:
        if ran.last.ok:
            return (_plain("The program ended by itself before anything could be tested."),)
        return ended_badly(ran.last, {ANSWER_FILE: to_bytes(self.answer)})

    async def _check_tests(self, folder: Path, seen: Scope) -> tuple[Diagnostic, ...]:
        """Type-check the tests as they were written; return what is wrong with them."""
        if not self._suite.steps:
            return ()
        source = f'{seen.prelude}\n# 1 "{TESTS_FILE}"\n{self.tests}'
        (folder / "checked.ml").write_bytes(to_bytes(source))
        told = await self._ocamlc(folder, *SILENT, "-stop-after", "typing", "checked.ml")
        if told.ok:
            return ()
        return messages.parse(told.stderr.decode(errors="replace"), {TESTS_FILE: to_bytes(self.tests)})

    async def _build_driver(self, folder: Path, plan: Plan, weak: frozenset[int]) -> bool:
        (folder / "driver.ml").write_bytes(to_bytes(driver.driver_source(plan, weak)))
        units = (f"{HARNESS}.cmo", ANSWER_FILE.replace(".ml", ".cmo"), "driver.ml")
        return (await self._ocamlc(folder, *SILENT, "-o", "driver.byte", *units)).ok

    async def _left_types(self, folder: Path) -> dict[int, Type]:
        told = await self._ocamlc(folder, *SILENT, "-i", "driver.ml")
        kinds: dict[int, Type] = {}
        for item in read_signature(told.stdout.decode(errors="replace")):
            index = driver.left_index(item.names[0]) if item.names else None
            text = (
                (item.value_type or "")
                .replace(f"{ANSWER_FILE[:-3].capitalize()}.", "")
                .removeprefix("unit -> ")
            )
            if index is not None:
                try:
                    kinds[index] = parse_type(text)
                except ValueError:
                    continue
        return kinds

    async def _ocamlc(self, folder: Path, *arguments: str) -> Execution:
        """Run the compiler; meeting a limit ends the grading, whatever it was compiling."""
        told = await self.bench.ocamlc(folder, *arguments)
        if told.limit is not None:
            raise _CompilerLimitError(told)
        return told

    def _stop(self, stage: Stage, *found: Diagnostic, limit: Limit | None = None) -> Verdict:
        return Verdict(stage, diagnostics=(*self._warnings, *found), limit=limit)


def to_bytes(text: str) -> bytes:
    """Encode a text that came from bytes of any kind, and any other as well as can be."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _pretends(items: Sequence[Item]) -> Diagnostic | None:
    name = reserved(items)
    return (
        None
        if name is None
        else _plain(f"The module {name} has a name that is the judge's: call it otherwise.")
    )


def _span(source: bytes, start: int, end: int) -> Span:
    return Span(_position(source, start), _position(source, end))


def _position(source: bytes, offset: int) -> Position:
    line_start = source.rfind(b"\n", 0, offset) + 1
    column = len(source[line_start:offset].decode(errors="replace"))
    return Position(source.count(b"\n", 0, offset) + 1, column)


def _plain(message: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Kind.OTHER, message)


def _at_fault(how: str, found: Sequence[Diagnostic]) -> str:
    first = next((diagnostic for diagnostic in found if diagnostic.is_error), None)
    if first is None:
        return f"The tests {how}: mend them."
    place = f" at line {first.span.start.line}" if first.span else ""
    return f"The tests {how}{place}: {' '.join(first.message.split())}"


def _any_fails(
    results: dict[int, Result], expected: dict[int, tuple[str, ...]], weak: frozenset[int]
) -> bool:
    return any(
        result.tokens is not None
        and index in expected
        and index not in weak
        and not equal(result.tokens, expected[index])
        for index, result in results.items()
    )

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
from ocaml.diagnostics import Diagnostic, Kind, Severity, messages
from ocaml.errors import BrokenToolchain, UnsoundTests
from ocaml.grading import driver
from ocaml.grading.assertions import Suite, read_suite
from ocaml.grading.driver import ANSWER, ANSWER_FILE, HARNESS, TESTS_FILE, Plan
from ocaml.grading.outcomes import Ran, Result, run_claims
from ocaml.grading.parsetree import parse as parse_tree
from ocaml.grading.report import Expected, Reporter, best_constant
from ocaml.grading.values import comparable, equal
from ocaml.interface import Item, Standard, read_signature, restrict
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
    _suite: Suite = field(default_factory=lambda: Suite((), frozenset()))

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
            return Suite((), frozenset())
        name = TESTS_FILE
        (folder / name).write_bytes(self.tests.encode())
        told = await self._ocamlc(folder, *SILENT, "-stop-after", "parsing", "-dparsetree", name)
        text = told.stderr.decode(errors="replace")
        if not told.ok:
            raise UnsoundTests(_at_fault("do not parse", messages.parse(text, {name: self.tests})))
        return read_suite(self.tests.encode(), parse_tree(text))

    async def _judge(self, folder: Path) -> Verdict:
        refused = await self._compile_answer(folder)
        if refused is not None:
            return refused
        items = await self._signature(folder)
        standard = await self.bench.standard()
        visible = self._visible(items, standard)
        absent = self._absent(items)
        if absent is not None:
            return self._stop(Stage.TYPE, absent)
        mismatch = await self._narrow(folder, restrict(items, visible, standard))
        if mismatch is not None:
            return mismatch
        return await self._grade(folder, items, frozenset(visible))

    async def _compile_answer(self, folder: Path) -> Verdict | None:
        """Type-check and link the answer by itself; None when nothing stops it."""
        source = Source(ANSWER_FILE, self.answer.encode(errors="surrogateescape"))
        (folder / source.name).write_bytes(source.data)
        compiled = await self.bench.compile(folder, source)
        if compiled.stage is not Stage.PASS:
            return compiled
        self._warnings = compiled.diagnostics
        return None

    async def _signature(self, folder: Path) -> tuple[Item, ...]:
        told = await self._ocamlc(folder, *SILENT, "-i", ANSWER_FILE)
        return read_signature(told.stdout.decode(errors="replace"))

    def _visible(self, items: Sequence[Item], standard: Standard) -> dict[str, str | None]:
        """Which values of the answer the tests may see, with the type asked for.

        A name of the standard library means the standard library's, unless it is the function asked for
        or nothing else of the answer is named by the tests.
        """
        offered = {item.names[0] for item in items if item.keyword in {"val", "external"}}
        named = offered & self._suite.mentions
        own = {name for name in named if name not in standard.values and name[0].isidentifier()}
        visible: dict[str, str | None] = dict.fromkeys(sorted(own or named))
        if self.asked is not None and self.asked.name in offered:
            visible[self.asked.name] = self.asked.type
        return visible

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

    async def _narrow(self, folder: Path, interface: str) -> Verdict | None:
        """Compile the answer behind ``interface``; a verdict when it has another type than asked for."""
        (folder / f"{ANSWER}.mli").write_text(interface)
        told = await self._ocamlc(folder, *SILENT, "-c", f"{ANSWER}.mli", ANSWER_FILE)
        if told.ok:
            return None
        found = messages.parse(told.stderr.decode(errors="replace"), {ANSWER_FILE: self.answer})
        place = next((r.span for d in found for r in d.related if r.path == ANSWER_FILE), None)
        has = next(
            (i.value_type for i in read_signature(await self._printed(folder)) if self._is_asked(i)), None
        )
        if self.asked is None or self.asked.type is None or has is None:
            return self._stop(Stage.TYPE, *found)
        message = f"{self.asked.name} has type {has} but the type asked for is {self.asked.type}."
        return self._stop(Stage.TYPE, Diagnostic(Severity.ERROR, Kind.TYPE, message, place, path=ANSWER_FILE))

    async def _printed(self, folder: Path) -> str:
        (folder / f"{ANSWER}.mli").unlink()
        told = await self._ocamlc(folder, *SILENT, "-i", ANSWER_FILE)
        return told.stdout.decode(errors="replace")

    def _is_asked(self, item: Item) -> bool:
        return (
            self.asked is not None
            and item.keyword in {"val", "external"}
            and item.names[0] == self.asked.name
        )

    async def _grade(self, folder: Path, items: Sequence[Item], answer_names: frozenset[str]) -> Verdict:
        refused = await self._check_tests(folder)
        if refused is not None:
            return refused
        await self._build_harness(folder)
        plan = driver.plan(self._suite, answer_names)
        expected = await self._expected_values(folder, plan)
        weak = frozenset(index for index in plan.equations if not comparable(expected.get(index, ())))
        await self._build_driver(folder, plan, weak)
        ran = await run_claims(self.bench, folder / "driver.byte", len(self._suite.claims))
        if not ran.started:
            found = self._never_started(ran)
            return replace(
                self._stop(Stage.RUN, *found, limit=ran.limit),
                stdout=ran.stdout,
                stderr=ran.stderr,
                output_truncated=ran.truncated,
            )
        kinds = await self._left_types(folder) if _any_fails(ran.results, expected, weak) else {}
        declarations = {
            n: d for item in items if item.keyword == "type" for n, d in parse_declarations(item.text).items()
        }
        shower = Reporter(kinds, declarations)
        trusted = {
            index: Expected(plan.equations[index].expected.text, expected[index])
            for index in expected.keys() - weak
        }
        assertions = tuple(
            shower.assertion(index, claim, ran.results.get(index), trusted.get(index))
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
        (folder / "expected.ml").write_text(driver.expected_source(plan))
        linked = await self._ocamlc(folder, *SILENT, "-o", "expected.byte", f"{HARNESS}.cmo", "expected.ml")
        if not linked.ok:
            return {}
        ran = await run_claims(self.bench, folder / "expected.byte", len(plan.equations))
        return {
            plan.order[index]: result.tokens
            for index, result in ran.results.items()
            if result.tokens is not None
        }

    def _never_started(self, ran: Ran) -> tuple[Diagnostic, ...]:
        if ran.last.ok:
            return (_plain("The program ended by itself before anything could be tested."),)
        return ended_badly(ran.last, {ANSWER_FILE: self.answer.encode(errors="replace")})

    async def _check_tests(self, folder: Path) -> Verdict | None:
        """Type-check the tests as they were written, against what they may see of the answer."""
        opened = (*SILENT, "-stop-after", "typing", "-open", ANSWER.capitalize())
        told = await self._ocamlc(folder, *opened, TESTS_FILE) if self._suite.steps else None
        if told is None or told.ok:
            return None
        found = messages.parse(told.stderr.decode(errors="replace"), {TESTS_FILE: self.tests})
        if self.asked is not None and self.asked.type is not None:
            raise UnsoundTests(_at_fault("do not type-check against the signature", found))
        return self._stop(Stage.TYPE, *found)

    async def _build_driver(self, folder: Path, plan: Plan, weak: frozenset[int]) -> None:
        (folder / "driver.ml").write_text(driver.driver_source(plan, weak))
        linked = await self._ocamlc(
            folder, *SILENT, "-o", "driver.byte", f"{HARNESS}.cmo", f"{ANSWER}.cmo", "driver.ml"
        )
        if not linked.ok:
            found = messages.parse(linked.stderr.decode(errors="replace"))
            raise UnsoundTests(_at_fault("could not be taken apart into assertions", found))

    async def _left_types(self, folder: Path) -> dict[int, Type]:
        told = await self._ocamlc(folder, *SILENT, "-i", "driver.ml")
        kinds: dict[int, Type] = {}
        for item in read_signature(told.stdout.decode(errors="replace")):
            index = driver.left_index(item.names[0]) if item.names else None
            text = (item.value_type or "").replace(f"{ANSWER.capitalize()}.", "").removeprefix("unit -> ")
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

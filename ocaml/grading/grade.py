"""Grade an answer by the assertions of its tests, each on its own.

The answer is compiled as a unit of its own, and the tests see it through an interface that holds only
what they ask for. For ``f x = v`` the child prints the value of ``f x`` and ``v`` is computed in another
process, which the answer is not part of: the values are compared here. Other assertions are decided in
the child, the weaker kind.
"""

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ocaml.compiler import Source, ended_badly, explained
from ocaml.diagnostics import Diagnostic, Kind, Severity
from ocaml.errors import UnsoundTests
from ocaml.grading import driver
from ocaml.grading.assertions import Suite
from ocaml.grading.driver import Plan
from ocaml.grading.kinds import kinds_by_signature
from ocaml.grading.memory import Memory
from ocaml.grading.outcomes import Ran, Result, run_claims
from ocaml.grading.report import Expected, Reporter, best_constant
from ocaml.grading.scope import ANSWER, ANSWER_FILE, TESTS_FILE, Scope, asked_source, scope, stub_source
from ocaml.grading.session import Compiled, CompilerLimit, Refused, Session
from ocaml.grading.source import to_bytes
from ocaml.grading.trust import disbelieved, judges_own, redefining, steps_around_types
from ocaml.grading.values import comparable, equal
from ocaml.interface import VALUES, Item, Standard
from ocaml.problem import Signature
from ocaml.typexpr import Type, parse_declarations, parse_type
from ocaml.verdict import Assertion, Limit, Outcome, Stage, Verdict


@dataclass(slots=True)
class Grading:
    """One answer against one set of tests; what is learned on the way is kept here."""

    session: Session
    answer: str
    tests: str
    asked: Signature | None = None
    memory: Memory = field(default_factory=Memory)
    _warnings: tuple[Diagnostic, ...] = ()
    _suite: Suite = field(default_factory=Suite)

    async def verdict(self) -> Verdict:
        """Judge. Raises UnsoundTests when the tests are at fault."""
        started = time.monotonic()
        try:
            self._suite = await self._read_tests()
            verdict = await self._judge()
        except CompilerLimit as met:
            verdict = self._stop(Stage.TYPE, *explained((), met.told, Stage.TYPE), limit=met.told.limit)
        if not verdict.assertions and self._suite.claims:
            verdict = replace(
                verdict, assertions=tuple(Assertion(c.text, Outcome.FAILED) for c in self._suite.claims)
            )
        return replace(verdict, seconds=time.monotonic() - started)

    async def _read_tests(self) -> Suite:
        if not self.tests.strip():
            return Suite()
        known = self.memory.suites.get(self.tests)
        if known is not None:
            return known
        try:
            suite = await self.session.suite(to_bytes(self.tests), whole=False)
        except CompilerLimit:
            raise UnsoundTests("The tests are too long to be taken apart: split them.") from None
        if isinstance(suite, Refused):
            raise UnsoundTests(_at_fault("do not parse", suite.diagnostics))
        if not suite.claims:
            raise UnsoundTests(
                "The tests assert nothing: write what must hold as `let () = assert (f 1 = 2)`."
            )
        self.memory.suites.put(self.tests, suite)
        return suite

    async def _judge(self) -> Verdict:
        own = judges_own(self.answer)
        if own is not None:
            return self._stop(Stage.TYPE, _plain(f"The name {own} is the judge's: use another."))
        compiled = await self.session.compile_answer(Source(ANSWER_FILE, to_bytes(self.answer)))
        if compiled.stage is not Stage.PASS:
            return compiled
        self._warnings = compiled.diagnostics
        items = await self.session.signature()
        standard = await self.session.standard()
        unfit = self._absent(items) or await self._of_another_type(items)
        if unfit is not None:
            return self._stop(Stage.TYPE, unfit)
        return await self._grade(items, standard)

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

    async def _of_another_type(self, items: Sequence[Item]) -> Diagnostic | None:
        """Compare the type of the function with the one asked for."""
        if self.asked is None or self.asked.type is None:
            return None
        if await self.session.refusal(asked_source(self.asked, items), {}) is None:
            return None
        has = next(i.value_type for i in items if i.keyword in VALUES and i.names[0] == self.asked.name)
        message = f"{self.asked.name} has type {has} but the type asked for is {self.asked.type}."
        place = await self.session.definition(self.asked.name)
        return Diagnostic(Severity.ERROR, Kind.TYPE, message, place, path=ANSWER_FILE)

    async def _grade(self, items: Sequence[Item], standard: Standard) -> Verdict:
        seen = scope(items, standard, self._suite, self.asked, generous=False)
        plan = driver.plan(self._suite, seen)
        # Where a name means several things, a side means by itself what it may not mean beside the other.
        if not driver.undecided(plan, items):
            known = await self.session.build_whole(driver.whole_source(plan))
            if (
                known is not None
                and plan.equations.keys() == known.keys()
                and not await self._check_tests(seen, items)
            ):
                return await self._run(items, plan, known, frozenset())
        return await self._grade_by_steps(items, standard, seen)

    async def _grade_by_steps(self, items: Sequence[Item], standard: Standard, seen: Scope) -> Verdict:
        """Type-check the tests, compute what they expect, then compile: where it can't be done at once."""
        unfit = await self._check_tests(seen, items)
        if unfit:
            seen = scope(items, standard, self._suite, self.asked, generous=True)
            if await self._check_tests(seen, items):
                if self.asked is not None and self.asked.type is not None and not await self._fit_a_stub():
                    raise UnsoundTests(_at_fault("do not type-check against the signature", unfit))
                return self._stop(Stage.TYPE, *unfit)
        plan = driver.plan(self._suite, seen)
        expected = await self._expected_values(plan, items)
        undecided = driver.undecided(plan, items)
        weak = frozenset(
            index for index in plan.equations if index in undecided or not comparable(expected.get(index, ()))
        )
        if not await self._build_driver(plan, weak):
            self._suite = await self._whole_suite()
            plan, expected, weak = driver.plan(self._suite, seen), {}, frozenset()
            if not await self._build_driver(plan, weak):
                if any(item.keyword == "external" for item in items):
                    return self._stop(
                        Stage.LINK, _plain("The answer declares a primitive that no program has.")
                    )
                raise UnsoundTests(
                    "The tests could not be taken apart: write one `assert` for each thing that must hold."
                )
        return await self._run(items, plan, expected, weak)

    async def _run(
        self,
        items: Sequence[Item],
        plan: Plan,
        expected: Mapping[int, tuple[str, ...]],
        weak: frozenset[int],
    ) -> Verdict:
        ran = await run_claims(self.session.attempt, len(self._suite.claims), self.session.limits)
        if not ran.started:
            return replace(
                self._stop(Stage.RUN, *self._never_started(ran), limit=ran.limit),
                stdout=ran.stdout,
                stderr=ran.stderr,
                output_truncated=ran.truncated,
            )
        assertions = await self._assertions(items, plan, expected, weak, ran)
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

    async def _assertions(
        self,
        items: Sequence[Item],
        plan: Plan,
        expected: Mapping[int, tuple[str, ...]],
        weak: frozenset[int],
        ran: Ran,
    ) -> tuple[Assertion, ...]:
        """Compare what came with what was expected, and take the child's word where there is no more."""
        failing = _failing(ran.results, expected, weak)
        kinds = kinds_by_signature(self._suite.claims, items) if failing else {}
        if not failing <= kinds.keys():
            kinds = await self._left_types(plan, weak)
        types = [item.text for item in items if item.keyword == "type"]
        declarations = {n: d for text in types for n, d in parse_declarations(text).items()}
        trusted = {
            index: Expected(plan.equations[index].expected.text, expected[index])
            for index in expected.keys() - weak
        }
        word = None
        if len(trusted) < len(self._suite.claims):
            standard = await self.session.standard()
            word = steps_around_types(self.answer) or redefining(items, self._suite, standard)
        if word is not None:
            self._warnings = (*self._warnings, disbelieved(word))
        reporter = Reporter(kinds, declarations, believed=word is None)
        return tuple(
            reporter.assertion(index, claim, ran.results.get(index), trusted.get(index))
            for index, claim in enumerate(self._suite.claims)
        )

    async def _expected_values(self, plan: Plan, items: Sequence[Item]) -> Mapping[int, tuple[str, ...]]:
        """Compute the right sides of the equations in a process of their own; none where that fails."""
        if not plan.equations:
            return {}
        program = driver.expected_source(plan)
        seen = "\n".join(item.text for item in items if item.keyword not in VALUES)
        expected = self.memory.expected.get((program, seen))
        if expected is None:
            expected = await self._compute(program)
            if plan.equations.keys() <= expected.keys():  # else a limit may have been met, this once
                self.memory.expected.put((program, seen), expected)
        return expected

    async def _compute(self, program: str) -> Mapping[int, tuple[str, ...]]:
        expected = await self.session.expect(program)
        if expected is not Compiled.TO_RUN:
            return {} if expected is Compiled.REFUSED else expected
        count = len(self._suite.claims)
        ran = await run_claims(self.session.attempt_expected, count, self.session.limits)
        return {index: result.tokens for index, result in ran.results.items() if result.tokens is not None}

    async def _whole_suite(self) -> Suite:
        suite = await self.session.suite(to_bytes(self.tests), whole=True)
        assert not isinstance(suite, Refused)  # they parsed before
        return suite

    def _never_started(self, ran: Ran) -> tuple[Diagnostic, ...]:
        if ran.last.ok:
            return (_plain("The program ended by itself before anything could be tested."),)
        return ended_badly(ran.last, {ANSWER_FILE: to_bytes(self.answer)})

    async def _check_tests(self, seen: Scope, items: Sequence[Item]) -> tuple[Diagnostic, ...]:
        """Type-check the tests as they were written; return what is wrong with them."""
        if not self._suite.steps:
            return ()
        program = f'{seen.prelude}\n# 1 "{TESTS_FILE}"\n{self.tests}'
        known = (program, "\n".join(item.text for item in items))
        if self.memory.fitting.get(known):
            return ()
        refused = await self.session.refusal(program, {TESTS_FILE: to_bytes(self.tests)})
        if refused is None:
            self.memory.fitting.put(known, True)
        return refused.diagnostics if refused is not None else ()

    async def _fit_a_stub(self) -> bool:
        """Whether any function of the type asked for suits the tests, so that the answer is to blame."""
        assert self.asked is not None
        program = f'{stub_source(self.asked)};;\n# 1 "{TESTS_FILE}"\n{self.tests}'
        return await self.session.refusal(program, {}) is None

    async def _build_driver(self, plan: Plan, weak: frozenset[int]) -> bool:
        return await self.session.build(driver.driver_source(plan, weak))

    async def _left_types(self, plan: Plan, weak: frozenset[int]) -> dict[int, Type]:
        kinds: dict[int, Type] = {}
        for name, kind in await self.session.values(driver.values_source(plan, weak)):
            index = driver.left_index(name)
            text = " ".join(kind.split()).replace(f"{ANSWER.capitalize()}.", "").removeprefix("unit -> ")
            if index is not None:
                try:
                    kinds[index] = parse_type(text)
                except ValueError:
                    continue
        return kinds

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


def _failing(
    results: Mapping[int, Result], expected: Mapping[int, tuple[str, ...]], weak: frozenset[int]
) -> set[int]:
    """The equations whose values are to be shown."""
    return {
        index
        for index, result in results.items()
        if result.tokens is not None
        and index in expected
        and index not in weak
        and not equal(result.tokens, expected[index])
    }

"""What the claims did, as assertions that people read, and what a constant would have passed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocaml.grading.assertions import Claim
from ocaml.grading.outcomes import Result
from ocaml.grading.scope import ANSWER, HARNESS
from ocaml.grading.values import comparable, equal, show
from ocaml.typexpr import Declaration, Type
from ocaml.verdict import Assertion, Outcome


@dataclass(frozen=True, slots=True)
class Expected:
    """The right side of an equation: as the tests have it, and what it computes to."""

    text: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reporter:
    """Turns what the child printed into assertions that people read.

    Unless it is ``believed``, nothing holds that the child alone has decided.
    """

    kinds: Mapping[int, Type]
    declarations: dict[str, Declaration]
    believed: bool = True

    def assertion(
        self, index: int, claim: Claim, result: Result | None, expected: Expected | None
    ) -> Assertion:
        """Return what became of one claim; ``expected`` is None for the weaker kind."""
        right = expected.text if expected is not None else None
        if result is None:
            return Assertion(claim.text, Outcome.FAILED, right)
        if result.limit is not None:
            return Assertion(claim.text, Outcome.LIMIT, right, seconds=result.seconds)
        if result.tokens is None:
            return Assertion(claim.text, Outcome.RAISED, right, _exception(result.raised), result.seconds)
        if expected is None:
            holds = self.believed and result.tokens == ("i1",)
            return Assertion(claim.text, Outcome.PASSED if holds else Outcome.FAILED, seconds=result.seconds)
        if equal(result.tokens, expected.tokens):
            return Assertion(claim.text, Outcome.PASSED, right, right, result.seconds, compared=True)
        wanted = show(expected.tokens, self.kinds.get(index), self.declarations)
        got = show(result.tokens, self.kinds.get(index), self.declarations)
        return Assertion(claim.text, Outcome.FAILED, wanted, got, result.seconds, compared=True)


def best_constant(claims: Sequence[Claim], expected: Mapping[int, tuple[str, ...]]) -> int:
    """Return how many assertions the best constant function passes, summed over the functions tested."""
    by_function: dict[str, Counter[tuple[str, ...]]] = {}
    for index, tokens in expected.items():
        sides = claims[index].sides
        if sides is not None and comparable(tokens):
            head = sides[0].head or sides[1].head or ""
            by_function.setdefault(head, Counter())[tokens] += 1
    return sum(counts.most_common(1)[0][1] for counts in by_function.values())


def _exception(text: str) -> str:
    return (
        text.replace(f"{ANSWER.capitalize()}.", "")
        .replace(f"{HARNESS.capitalize()}.", "")
        .removeprefix("Driver.")
    )

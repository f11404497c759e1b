"""The OCaml programs that the judge writes: one runs claims over an answer, one computes what is expected."""

from collections.abc import Iterable
from dataclasses import dataclass

from ocaml.grading.assertions import Claim, Piece, Side, Suite

ANSWER = "ocamler_answer"
ANSWER_FILE = f"{ANSWER}.ml"
TESTS_FILE = "tests.ml"
HARNESS = "ocamler_dump"
_LEFT = "ocamler_left_"


@dataclass(frozen=True, slots=True)
class Equation:
    """A claim ``answer = expected`` whose expected side does not depend on the answer."""

    answer: Side
    expected: Side
    context: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The suite, knowing the answer's names: which claims are equations, which items are free of it.

    ``equations`` is by the claim's index; ``order`` lists those indices as the expected program has them.
    """

    suite: Suite
    equations: dict[int, Equation]
    order: tuple[int, ...]
    free_items: tuple[Piece, ...]


def plan(suite: Suite, answer_names: frozenset[str]) -> Plan:
    """Find the claims whose expected side can be computed without the answer."""
    tainted = set(answer_names)
    free_items: list[Piece] = []
    equations: dict[int, Equation] = {}
    index = 0
    for step in suite.steps:
        if isinstance(step, Piece):
            if step.effect or not tainted.isdisjoint(step.mentions):
                tainted |= step.binds
            else:
                free_items.append(step)
            continue
        equation = _equation(step, tainted)
        if equation is not None:
            equations[index] = equation
        index += 1
    return Plan(suite, equations, tuple(equations), tuple(free_items))


def driver_source(plan: Plan, weak: frozenset[int]) -> str:
    """The program that runs every claim; those in ``weak`` are decided in it, the others print a value."""
    lines = [f"open {ANSWER.capitalize()}", f"let exit = {HARNESS.capitalize()}.exit"]
    index = 0
    for step in plan.suite.steps:
        if isinstance(step, Piece):
            lines.append(f"{step.text}\n;;")
            continue
        equation = plan.equations.get(index) if index not in weak else None
        lines.append(f"let {_LEFT}{index} () =\n{_claim_body(step, equation)}\n;;")
        index += 1
    thunks = "; ".join(
        f"(fun () -> {HARNESS.capitalize()}.repr ({_LEFT}{number} ()))" for number in range(index)
    )
    return "\n".join([*lines, f"let () = {HARNESS.capitalize()}.run [| {thunks} |]", ""])


def expected_source(plan: Plan) -> str:
    """The program that computes the expected sides, in the order of ``plan.order``."""
    opened = f"open {ANSWER.capitalize()}"  # for its types alone: the unit is not linked
    lines = [opened, *(f"{item.text}\n;;" for item in plan.free_items)]
    thunks = "; ".join(
        f"(fun () -> {HARNESS.capitalize()}.repr ({_joined(equation.context)} ({equation.expected.text})))"
        for equation in plan.equations.values()
    )
    return "\n".join([*lines, f"let () = {HARNESS.capitalize()}.run [| {thunks} |]", ""])


def left_index(name: str) -> int | None:
    """The claim that a value of the driver belongs to."""
    return int(name.removeprefix(_LEFT)) if name.startswith(_LEFT) else None


def _claim_body(claim: Claim, equation: Equation | None) -> str:
    context = _joined(claim.context)
    if equation is not None:
        return f"({context} ({equation.answer.text}))"
    if claim.block:
        body = f"{HARNESS.capitalize()}.block (fun () -> ignore ({claim.condition}))"
        return f"({context} ({body}))"
    return f"({context} ({claim.condition}))"


def _equation(claim: Claim, tainted: set[str]) -> Equation | None:
    if claim.sides is None:
        return None
    inside, free = set(tainted), []
    for piece in claim.context:
        if piece.effect or not inside.isdisjoint(piece.mentions):
            inside |= piece.binds
        else:
            inside -= piece.binds
            free.append(piece)
    left, right = claim.sides
    for answer, expected in ((left, right), (right, left)):
        if inside.isdisjoint(expected.mentions) and not inside.isdisjoint(answer.mentions):
            return Equation(answer, expected, tuple(free))
    return None


def _joined(pieces: Iterable[Piece]) -> str:
    return "\n".join(piece.text for piece in pieces)

"""The OCaml programs that the judge writes: one runs claims over an answer, one computes what is expected."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ocaml.grading.assertions import Claim, Piece, Side, Suite
from ocaml.grading.scope import Scope, constructors
from ocaml.interface import Item

_LEFT = "ocamler_left_"
_TOLD = "let () = Ocamler_h.told ();;\n"
_VOLATILE = frozenset({"Random", "Sys", "Unix", "Gc"})  # modules that answer differently in another process


@dataclass(frozen=True, slots=True)
class Equation:
    """A claim ``answer = expected`` whose expected side does not depend on the answer."""

    answer: Side
    expected: Side
    context: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The suite, knowing the answer's names: which claims are equations, which items are free of it.

    ``equations`` and ``free`` are by the place of the claim among claims, of the item among steps.
    """

    suite: Suite
    scope: Scope
    equations: dict[int, Equation]
    free: frozenset[int]


def plan(suite: Suite, scope: Scope) -> Plan:
    """Find the claims whose expected side can be computed without the answer."""
    tainted = set(scope.answer_names | _VOLATILE)
    bound: set[str] = set()
    changing: set[str] = set()
    free: set[int] = set()
    equations: dict[int, Equation] = {}
    index = 0
    for place, step in enumerate(suite.steps):
        if isinstance(step, Claim):
            equation = _equation(step, tainted)
            if equation is not None:
                equations[index] = equation
            index += 1
            tainted |= step.mentions & changing  # the answer may have changed it
        elif step.effect:
            tainted |= (step.mentions & bound) | step.binds
        elif tainted.isdisjoint(step.mentions):
            free.add(place)
            tainted -= step.binds
            bound |= step.binds
            changing = changing - step.binds if step.stateless else changing | step.binds
        else:
            tainted |= step.binds
    return Plan(suite, scope, equations, frozenset(free))


def undecided(plan: Plan, items: Sequence[Item]) -> frozenset[int]:
    """The equations with a constructor or field of several types: only their types tell which is meant."""
    several = {name for name, count in constructors(items).items() if count > 1}
    if not several:
        return frozenset()
    fields = any(not name[0].isupper() for name in several)
    return frozenset(
        index
        for index, equation in plan.equations.items()
        if not several.isdisjoint(equation.expected.mentions) or (fields and "{" in equation.expected.text)
    )


def driver_source(plan: Plan, weak: frozenset[int]) -> str:
    """The program that runs every claim; those in ``weak`` are decided in it, the others print a value."""
    lines = _with_bodies(
        plan,
        weak,
        lambda index, body: f"let () = Ocamler_h.claim {index} (fun () -> Ocamler_h.repr (\n{body}\n));;",
        before_pieces=_TOLD,
    )
    return "\n".join([*lines, "let () = Ocamler_h.finish ()", ""])


def whole_source(plan: Plan) -> str:
    """The driver with the right sides of its equations in it, for a compiler that takes them out."""
    lines = _with_bodies(
        plan,
        frozenset(),
        lambda index, body: f"let () = Ocamler_h.claim {index} (fun () -> Ocamler_h.repr (\n{body}\n));;",
        before_pieces=_TOLD,
        with_right=True,
    )
    return "\n".join([*lines, "let () = Ocamler_h.finish ()", ""])


def values_source(plan: Plan, weak: frozenset[int]) -> str:
    """The same claims as functions with names (``left_index`` reads them): what their types are."""
    return "\n".join(
        [*_with_bodies(plan, weak, lambda index, body: f"let {_LEFT}{index} () =\n{body}\n;;"), ""]
    )


def expected_source(plan: Plan) -> str:
    """The program that computes the expected sides; it sees the answer's types and is not linked with it."""
    lines = [plan.scope.prelude]
    index = 0
    for place, step in enumerate(plan.suite.steps):
        if isinstance(step, Piece):
            lines += [f"{step.text}\n;;"] if place in plan.free else []
            continue
        equation = plan.equations.get(index)
        if equation is not None:
            value = f"{_joined(equation.context)} ({equation.expected.text})"
            lines.append(f"let () = Ocamler_h.claim {index} (fun () -> Ocamler_h.repr ({value}));;")
        index += 1
    return "\n".join([*lines, "let () = Ocamler_h.finish ()", ""])


def left_index(name: str) -> int | None:
    """The claim that a value of the driver belongs to."""
    return int(name.removeprefix(_LEFT)) if name.startswith(_LEFT) else None


def _with_bodies(
    plan: Plan,
    weak: frozenset[int],
    as_item: Callable[[int, str], str],
    *,
    before_pieces: str = "",
    with_right: bool = False,
) -> Iterator[str]:
    yield plan.scope.prelude
    index = 0
    for step in plan.suite.steps:
        if isinstance(step, Piece):
            yield f"{before_pieces if index else ''}{step.text}\n;;"
            continue
        equation = plan.equations.get(index) if index not in weak else None
        yield as_item(index, _claim_body(step, equation, with_right=with_right))
        index += 1


def _claim_body(claim: Claim, equation: Equation | None, *, with_right: bool) -> str:
    context = _joined(claim.context)
    if equation is not None and with_right:
        return f"({context} (Ocamler_h.left ({equation.answer.text}) ({equation.expected.text})))"
    if equation is not None:
        return f"({context} ({equation.answer.text}))"
    if claim.block:
        return f"({context} (Ocamler_h.block (fun () -> ignore ({claim.condition}))))"
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

"""A verdict in the words that the model gets."""

import pytest

from app.complaint import complaint
from ocaml.diagnostics import Diagnostic, Kind, Position, Severity, Span
from ocaml.verdict import Assertion, Outcome, Stage, Verdict

CODE = "let f x =\n  List.lenght x\n"


def test_an_error_comes_with_its_line_and_hint() -> None:
    error = Diagnostic(
        Severity.ERROR,
        Kind.UNBOUND,
        "Unbound value\nList.lenght",
        Span(Position(2, 2), Position(2, 13)),
        hints=("Did you mean length?",),
    )
    told = complaint(CODE, Verdict(Stage.TYPE, diagnostics=(error,)))
    assert told == "Line 2: List.lenght x\nError: Unbound value List.lenght Did you mean length?"


@pytest.mark.parametrize(
    ("assertion", "words"),
    [
        (Assertion("f 1 = 2", Outcome.FAILED, "2", "3"), "f 1 should be 2 but is 3."),
        (Assertion("f 1 = 2", Outcome.RAISED, "2", "Not_found"), "f 1 raises Not_found."),
        (Assertion("f 1 = 2", Outcome.LIMIT, "2"), "f 1 does not end."),
        (Assertion("f 1 > 2", Outcome.FAILED), "This does not hold: f 1 > 2"),
    ],
)
def test_a_failing_example_is_told_with_its_values(assertion: Assertion, words: str) -> None:
    assert complaint(CODE, Verdict(Stage.TESTS, (assertion,))) == words


def test_only_the_first_failing_examples_are_told() -> None:
    failing = tuple(Assertion(f"f {n} = 0", Outcome.FAILED, "0", "1") for n in range(9))
    assert len(complaint(CODE, Verdict(Stage.TESTS, failing)).splitlines()) == 2


def test_an_empty_answer_is_called_one() -> None:
    assert "no OCaml code" in complaint("", Verdict(Stage.EMPTY))

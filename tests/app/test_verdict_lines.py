"""What users see of a verdict, to the letter."""

import pytest

from app.render import Style, render_assertions, render_verdict_line
from ocaml.diagnostics import Diagnostic, Kind, Position, Severity, Span
from ocaml.verdict import Assertion, Limit, Outcome, Stage, Verdict


def error(kind: Kind, message: str = "no", line: int | None = 4) -> Diagnostic:
    at = None if line is None else Span(Position(line, 0), Position(line, 1))
    return Diagnostic(Severity.ERROR, kind, message, at, "a.ml")


def warning() -> Diagnostic:
    return Diagnostic(Severity.WARNING, Kind.WARNING, "unused", Span(Position(1, 0), Position(1, 1)), "a.ml")


def assertions(passed: int, failed: int) -> tuple[Assertion, ...]:
    return (Assertion("a", Outcome.PASSED),) * passed + (Assertion("b", Outcome.FAILED),) * failed


LINES = [
    (Verdict(Stage.PASS, assertions(3, 0)), "✓ types, runs, 3/3 examples hold"),
    (Verdict(Stage.PASS, assertions(1, 0)), "✓ types, runs, 1/1 example holds"),
    (Verdict(Stage.PASS), "✓ types and runs"),
    (Verdict(Stage.EMPTY), "✗ no code"),
    (Verdict(Stage.SYNTAX, diagnostics=(warning(), error(Kind.SYNTAX))), "✗ syntax error, line 4"),
    (Verdict(Stage.TYPE, diagnostics=(error(Kind.TYPE),)), "✗ type error, line 4"),
    (Verdict(Stage.TYPE, diagnostics=(error(Kind.UNBOUND),)), "✗ unbound name, line 4"),
    (Verdict(Stage.TYPE, diagnostics=(error(Kind.TYPE, line=None),)), "✗ type error"),
    (Verdict(Stage.TYPE), "✗ type error"),
    (Verdict(Stage.LINK, diagnostics=(error(Kind.OTHER, line=None),)), "✗ link error"),
    (
        Verdict(Stage.RUN, diagnostics=(error(Kind.EXCEPTION, 'Uncaught exception: Failure "boom"', 3),)),
        '✗ raises Failure "boom", line 3',
    ),
    (Verdict(Stage.RUN, diagnostics=(error(Kind.ASSERTION),)), "✗ an assertion fails, line 4"),
    (Verdict(Stage.RUN, diagnostics=(error(Kind.STACK_OVERFLOW, line=None),)), "✗ stack overflow"),
    (Verdict(Stage.RUN, diagnostics=(error(Kind.OUT_OF_MEMORY, line=None),)), "✗ out of memory"),
    (Verdict(Stage.RUN), "✗ fails when run"),
    (Verdict(Stage.TESTS, assertions(3, 2)), "✗ 2 of 5 tests fail"),
    (Verdict(Stage.TESTS, assertions(4, 1)), "✗ 1 of 5 tests fails"),
    (Verdict(Stage.TESTS, assertions(0, 1)), "✗ 1 of 1 test fails"),
    (Verdict(Stage.TESTS), "✗ the tests fail"),
    (Verdict(Stage.RUN, limit=Limit.TIME, seconds=2.04), "⏱ time limit reached after 2.0 s while running"),
    (
        Verdict(Stage.TYPE, limit=Limit.TIME, seconds=10),
        "⏱ time limit reached after 10.0 s while type-checking",
    ),
    (Verdict(Stage.RUN, limit=Limit.MEMORY), "✗ memory limit reached while running"),
    (Verdict(Stage.RUN, limit=Limit.OUTPUT), "✗ output limit reached while running"),
    (
        Verdict(Stage.TESTS, assertions(1, 2), limit=Limit.TIME, seconds=5),
        "⏱ time limit reached after 5.0 s in the tests, 1 of 3 tests passed",
    ),
]


@pytest.mark.parametrize(("verdict", "line"), LINES, ids=[line for _, line in LINES])
def test_a_verdict_is_a_line(verdict: Verdict, line: str) -> None:
    assert render_verdict_line(verdict) == line


def test_an_exception_in_the_line_is_short_and_harmless() -> None:
    found = error(Kind.EXCEPTION, 'Uncaught exception: Failure "\x1b[2J\n' + "long " * 50)
    line = render_verdict_line(Verdict(Stage.RUN, diagnostics=(found,)))
    assert line.startswith('✗ raises Failure "␛[2J long long')
    assert line.endswith("…, line 4")
    assert len(line) < 80


def test_only_the_sign_has_a_colour() -> None:
    good = render_verdict_line(Verdict(Stage.PASS), style=Style.coloured())
    assert good == "\x1b[1;32m✓\x1b[0m types and runs"


def test_each_failing_assertion_has_expected_and_actual_on_aligned_lines() -> None:
    verdict = Verdict(
        Stage.TESTS,
        (
            Assertion("f 1 = 1", Outcome.PASSED, "1", "1"),
            Assertion("pack [1; 1]\n  = [(2, 1); (1, 2)]", Outcome.FAILED, "[(2, 1); (1, 2)]", "[(1, 2)]"),
            Assertion("f 2 = 2", Outcome.RAISED, "2", 'Failure "boom"'),
            Assertion("f 3 = 3", Outcome.RAISED),
            Assertion("f 4 = 4", Outcome.LIMIT, "4"),
            Assertion("is_prime 7", Outcome.FAILED),
            Assertion("s = \"a\"", Outcome.FAILED, '"a\\nb"', '"\x1b[31m"'),
        ),
    )  # fmt: skip
    assert (
        render_assertions(verdict)
        == """\
✗ pack [1; 1] = [(2, 1); (1, 2)]
    expected  [(2, 1); (1, 2)]
    actual    [(1, 2)]
✗ f 2 = 2
    expected  2
    raised    Failure "boom"
✗ f 3 = 3
    raised    an exception
✗ f 4 = 4
    expected  4
    actual    stopped by a limit
✗ is_prime 7
✗ s = "a"
    expected  "a\\nb"
    actual    "␛[31m\""""
    )


def test_when_all_hold_there_is_nothing_to_say() -> None:
    assert render_assertions(Verdict(Stage.PASS, assertions(3, 0))) == ""


def test_of_long_values_the_first_difference_is_shown() -> None:
    same = "; ".join(map(str, range(100)))
    verdict = Verdict(
        Stage.TESTS, (Assertion("f " + "x" * 200, Outcome.FAILED, f"[{same}; 7; 8]", f"[{same}; 9]"),)
    )
    text, expected, actual = render_assertions(verdict, width=60).split("\n")
    assert text == "✗ f " + "x" * 55 + "…"
    assert (expected, actual) == (
        "    expected  …90; 91; 92; 93; 94; 95; 96; 97; 98; 99; 7; 8]",
        "    actual    …90; 91; 92; 93; 94; 95; 96; 97; 98; 99; 9]",
    )


def test_long_values_that_differ_early_are_cut_at_the_end() -> None:
    verdict = Verdict(Stage.TESTS, (Assertion("f", Outcome.FAILED, "1" + "x" * 500, "2" + "x" * 500),))
    assert render_assertions(verdict, width=60).split("\n")[1:] == [
        "    expected  1" + "x" * 44 + "…",
        "    actual    2" + "x" * 44 + "…",
    ]


def test_values_of_any_size_take_no_time() -> None:
    verdict = Verdict(
        Stage.TESTS, (Assertion("f", Outcome.FAILED, "é" * 500_000 + "a", "é" * 500_000 + "b"),)
    )
    assert render_assertions(verdict, width=80).count("é") < 150

"""Verdicts in a line, and the assertions that fail with what was expected and what came."""

from collections.abc import Iterator

from app.excerpt import lay_out
from app.style import Style
from ocaml.diagnostics import Diagnostic, Kind
from ocaml.verdict import Assertion, Limit, Outcome, Stage, Verdict

__all__ = ["render_assertions", "render_verdict_line"]

NARROWEST = 40  # columns; a narrower terminal breaks lines itself
VALUE_MARGIN = len("    expected  ")
LONGEST_REASON = 60  # columns of an exception in a verdict's line


def render_verdict_line(verdict: Verdict, *, style: Style | None = None) -> str:
    """Return how far an answer came: "✓ types, runs, 3/3 examples hold", "✗ type error, line 4"."""
    style = style or Style.plain()
    if verdict.limit is not None:
        return _limit_line(verdict, style)
    good, bad = style.paint(style.good, "✓"), style.paint(style.error, "✗")
    match verdict.stage:
        case Stage.PASS if verdict.total:
            return f"{good} types, runs, {verdict.passed}/{_examples_hold(verdict.total)}"
        case Stage.PASS:
            return f"{good} types and runs"
        case Stage.TESTS:
            return f"{bad} {_tests_fail(verdict)}"
        case Stage.EMPTY:
            return f"{bad} no code"
    error = next(iter(verdict.errors), None)
    return f"{bad} {_reason(verdict.stage, error)}{_line_of(error)}"


def render_assertions(verdict: Verdict, *, style: Style | None = None, width: int = 80) -> str:
    """Return each assertion that does not hold, with what was expected and what came on aligned lines."""
    style = style or Style.plain()
    width = max(NARROWEST, width)
    failing = [assertion for assertion in verdict.assertions if assertion.outcome is not Outcome.PASSED]
    return "\n".join(line for assertion in failing for line in _assertion(assertion, style, width))


def _limit_line(verdict: Verdict, style: Style) -> str:
    doing = {
        Stage.EMPTY: "",
        Stage.SYNTAX: " while parsing",
        Stage.TYPE: " while type-checking",
        Stage.LINK: " while linking",
        Stage.TESTS: " in the tests",
    }.get(verdict.stage, " while running")
    held = f", {verdict.passed} of {_counted(verdict.total, 'test')} passed" if verdict.total else ""
    if verdict.limit is Limit.TIME:
        return (
            f"{style.paint(style.warning, '⏱')} time limit reached after {verdict.seconds:.1f} s{doing}{held}"
        )
    limit = verdict.limit.value if verdict.limit else ""
    return f"{style.paint(style.error, '✗')} {limit} limit reached{doing}{held}"


def _examples_hold(total: int) -> str:
    return "1 example holds" if total == 1 else f"{total} examples hold"


def _tests_fail(verdict: Verdict) -> str:
    failing = verdict.total - verdict.passed
    if not verdict.total:
        return "the tests fail"
    return f"{failing} of {_counted(verdict.total, 'test')} {'fails' if failing == 1 else 'fail'}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _reason(stage: Stage, error: Diagnostic | None) -> str:
    """Return what an answer stopped at, in a few words."""
    if stage is Stage.RUN:
        return _ending(error)
    if stage is Stage.TYPE and error is not None and error.kind is Kind.UNBOUND:
        return "unbound name"
    return {Stage.SYNTAX: "syntax error", Stage.TYPE: "type error", Stage.LINK: "link error"}.get(
        stage, "refused"
    )


def _ending(error: Diagnostic | None) -> str:
    match error.kind if error else None:
        case Kind.ASSERTION:
            return "an assertion fails"
        case Kind.STACK_OVERFLOW:
            return "stack overflow"
        case Kind.OUT_OF_MEMORY:
            return "out of memory"
        case Kind.EXCEPTION if error:
            exception = _one_line(error.message.removeprefix("Uncaught exception: "))
            return f"raises {_cut(exception, LONGEST_REASON)}"
    return "fails when run"


def _line_of(error: Diagnostic | None) -> str:
    return f", line {error.span.start.line}" if error and error.span else ""


def _assertion(assertion: Assertion, style: Style, width: int) -> Iterator[str]:
    yield f"{style.paint(style.error, '✗')} {_cut(_one_line(assertion.text), width - len('✗ '))}"
    expected, actual = assertion.expected, assertion.actual
    if assertion.outcome is Outcome.FAILED and expected is not None and actual is not None:
        expected, actual = _around_difference(_one_line(expected), _one_line(actual), width - VALUE_MARGIN)
    else:
        expected, actual = (
            value and _cut(_one_line(value), width - VALUE_MARGIN) for value in (expected, actual)
        )
    if expected is not None:
        yield f"    expected  {style.paint(style.good, expected)}"
    if assertion.outcome is Outcome.LIMIT:
        yield "    actual    stopped by a limit"
    elif assertion.outcome is Outcome.RAISED:
        yield f"    raised    {style.paint(style.error, actual or 'an exception')}"
    elif actual is not None:
        yield f"    actual    {style.paint(style.error, actual)}"


def _around_difference(one: str, other: str, width: int) -> tuple[str, str]:
    """Return the parts of two long values where they begin to differ, one above the other."""
    length = max(len(one), len(other))
    pairs = enumerate(zip(one, other, strict=False))
    at = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    return _cut(one.ljust(length), width, at).rstrip(), _cut(other.ljust(length), width, at).rstrip()


def _cut(text: str, width: int, around: int = 0) -> str:
    """Return what of a line fits into ``width`` columns, around a character, as it may be printed."""
    line = lay_out(text, around)
    return line.view(*line.stretch(around, around), width).text


def _one_line(text: str) -> str:
    return " ".join(text.split())

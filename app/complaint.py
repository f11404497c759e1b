"""A verdict as words that a model can act on: what OCaml said, where, and which example fails."""

from ocaml.diagnostics import Diagnostic
from ocaml.verdict import Assertion, Outcome, Stage, Verdict

MOST_EXAMPLES = 2  # small models lose the thread in longer lists


def complaint(code: str, verdict: Verdict) -> str:
    """Return what is wrong with ``code``, in a few lines."""
    if verdict.stage is Stage.EMPTY:
        return "There is no OCaml code in the answer."
    if verdict.stage is Stage.TESTS:
        failing = [a for a in verdict.assertions if a.outcome is not Outcome.PASSED]
        return "\n".join(_failing(assertion) for assertion in failing[:MOST_EXAMPLES])
    return (
        "\n".join(_refusal(code, error) for error in verdict.errors[:1])
        or f"It fails at {verdict.stage.label}."
    )


def _refusal(code: str, error: Diagnostic) -> str:
    message = " ".join(error.message.split())
    hints = "".join(f" {hint}" for hint in error.hints)
    if error.span is None:
        return f"Error: {message}{hints}"
    line = error.span.start.line
    lines = code.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return f"Line {line}: {shown}\nError: {message}{hints}"


def _failing(assertion: Assertion) -> str:
    match assertion.outcome:
        case Outcome.RAISED:
            return f"{_call(assertion)} raises {assertion.actual}."
        case Outcome.LIMIT:
            return f"{_call(assertion)} does not end."
        case _ if assertion.expected is not None and assertion.actual is not None:
            return f"{_call(assertion)} should be {assertion.expected} but is {assertion.actual}."
        case _:
            return f"This does not hold: {assertion.text}"


def _call(assertion: Assertion) -> str:
    if assertion.expected is None:
        return assertion.text
    return assertion.text.rsplit(" = ", 1)[0]

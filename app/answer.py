"""Hand the answer over: printed or written, marked when OCaml refused it, kept when nothing takes it."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.exits import Exit
from app.files import FileProblem, keep, write_file
from app.judging import answers_folder
from app.show import show_verdict
from app.streams import forget_stdout, tell
from models.events import Attempt
from ocaml.diagnostics import Diagnostic, Position, Span
from ocaml.grading.scope import ANSWER_FILE
from ocaml.verdict import Stage, Verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """The best attempt of all, every attempt in order, and what made them."""

    best: Attempt[Verdict]
    attempts: tuple[Attempt[Verdict], ...]
    model: str
    seconds: float

    @property
    def text(self) -> str:
        """The code as it is printed: with a comment on top when it did not pass."""
        code = self.best.code.rstrip("\n") + "\n"
        return code if self._passed else f"{_mark(self.best.verdict)}\n{code}"

    @property
    def shown_verdict(self) -> Verdict:
        """The verdict with its places in ``text``, which may have a line more than the code."""
        verdict = self.best.verdict
        if self._passed:
            return verdict
        return replace(verdict, diagnostics=tuple(_a_line_down(found) for found in verdict.diagnostics))

    @property
    def is_untested(self) -> bool:
        """Whether it passed for want of anything that it could fail."""
        return self._passed and self.best.verdict.total == 0

    @property
    def _passed(self) -> bool:
        return self.best.verdict.stage is Stage.PASS

    def to_json(self) -> dict[str, Any]:
        """Return the documented ``solve`` object."""
        return {
            "code": self.best.code,
            "verdict": self.best.verdict.to_json(),
            "model": self.model,
            "seconds": round(self.seconds, 3),
            "attempts": [
                {
                    "code": attempt.code,
                    "verdict": attempt.verdict.to_json(),
                    "tokens": attempt.tokens,
                    "seconds": round(attempt.seconds, 3),
                    "how": attempt.how.value,
                    "dropped_messages": attempt.dropped_messages,
                    "dropped_tokens": attempt.dropped_tokens,
                }
                for attempt in self.attempts
            ],
        }


def deliver(answer: Answer, *, output: Path | None, as_json: bool, name: str) -> int | None:
    """Show the verdict, hand the answer over; return an exit code when that failed, else None."""
    show_verdict(answer.shown_verdict, {ANSWER_FILE: answer.text}, {ANSWER_FILE: str(output or "answer")})
    if answer.is_untested:
        tell("it was type-checked and runs; there is nothing to test it with: add examples or --tests.")
    attempts = len(answer.attempts)
    tell(f"{answer.model}, {attempts} attempt{'s' * (attempts != 1)}, {answer.seconds:.0f} s")
    failed = _write(answer, output) if output is not None else None
    if as_json:
        return _print(json.dumps(answer.to_json()) + "\n", answer, name) or failed
    if output is None or failed is not None:
        return _print(answer.text, answer, name) or failed
    return None


def _write(answer: Answer, output: Path) -> int | None:
    try:
        write_file(output, answer.text)
    except FileProblem as fault:
        tell(f"{fault} The answer goes to standard output instead.")
        return Exit.USAGE
    return None


def _print(text: str, answer: Answer, name: str) -> int | None:
    """Write to stdout; when nobody takes it, keep the code in a file and say where."""
    try:
        _to_stdout(text)
    except (OSError, ValueError) as error:
        forget_stdout()
        kept = keep(answer.text, answers_folder(), f"{Path(name).stem or 'answer'}.ml")
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is closed"
        where = f"the answer is kept in {kept}" if kept else "and the answer could not be kept either"
        tell(f"standard output can't be written ({reason.lower()}): {where}.")
        # A reader that has left (`| head -1`) had what it wanted; a full disk is another matter.
        return None if isinstance(error, BrokenPipeError) else Exit.USAGE
    return None


def _to_stdout(text: str) -> None:
    if sys.stdout is None:
        raise ValueError("closed")
    sys.stdout.write(text)
    sys.stdout.flush()


def _mark(verdict: Verdict) -> str:
    """A comment without quotes or anything else that could change what follows it."""
    if verdict.stage is Stage.TESTS:
        how = f"{verdict.passed} of {verdict.total} assertions hold"
    else:
        how = {
            Stage.EMPTY: "there is no code in it",
            Stage.SYNTAX: "it does not parse",
            Stage.TYPE: "it does not type-check",
            Stage.LINK: "it does not link",
            Stage.RUN: "it fails when run",
        }[verdict.stage]
    return f"(* ocamler: NOT ACCEPTED, {how} *)"


def _a_line_down(found: Diagnostic) -> Diagnostic:
    related = tuple(replace(other, span=_moved(other.span)) for other in found.related)
    return replace(found, span=_moved(found.span), related=related)


def _moved(span: Span | None) -> Span | None:
    if span is None:
        return None
    return Span(
        Position(span.start.line + 1, span.start.column), Position(span.end.line + 1, span.end.column)
    )

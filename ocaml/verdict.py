"""What the judge says of an answer: how far it came, and what each assertion did."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from ocaml.diagnostics import Diagnostic


class Stage(IntEnum):
    """Where an answer stopped, in order; ``PASS`` means that nothing stopped it.

    A function that is absent, or has another type than was asked for, stops at ``TYPE``.
    """

    EMPTY = 0
    SYNTAX = 1
    TYPE = 2
    LINK = 3
    RUN = 4
    TESTS = 5
    PASS = 6

    @property
    def label(self) -> str:
        """The stage as it stands in JSON."""
        return self.name.lower()


class Outcome(StrEnum):
    """What became of one assertion."""

    PASSED = "passed"
    FAILED = "failed"
    RAISED = "raised"
    LIMIT = "limit"


class Limit(StrEnum):
    """Which limit ended a process."""

    TIME = "time"
    MEMORY = "memory"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Assertion:
    """One assertion of the tests and what became of it.

    ``expected`` and ``actual`` are OCaml values as text, None where the assertion has no such
    form or never got so far. ``compared`` tells who decided: True when a trusted process compared
    values, False when the answer's own process said so (the weaker kind).
    """

    text: str
    outcome: Outcome
    expected: str | None = None
    actual: str | None = None
    seconds: float = 0.0
    compared: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the documented ``assertion`` object."""
        return {
            "text": self.text,
            "outcome": self.outcome.value,
            "expected": self.expected,
            "actual": self.actual,
            "seconds": round(self.seconds, 4),
            "compared": self.compared,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's whole answer; ``seconds`` is wall time, stdout and stderr are capped."""

    stage: Stage
    assertions: tuple[Assertion, ...] = ()
    constant_passed: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    limit: Limit | None = None
    stdout: str = ""
    stderr: str = ""
    output_truncated: bool = False
    seconds: float = 0.0

    @property
    def passed(self) -> int:
        """How many assertions hold."""
        return sum(assertion.outcome is Outcome.PASSED for assertion in self.assertions)

    @property
    def total(self) -> int:
        """How many assertions there are."""
        return len(self.assertions)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.is_error)

    def to_json(self) -> dict[str, Any]:
        """Return the documented ``grade`` object, without its ``id``."""
        return {
            "stage": self.stage.label,
            "passed": self.passed,
            "total": self.total,
            "constant_passed": self.constant_passed,
            "assertions": [assertion.to_json() for assertion in self.assertions],
            "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
            "limit": self.limit.value if self.limit else None,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "output_truncated": self.output_truncated,
            "seconds": round(self.seconds, 4),
        }

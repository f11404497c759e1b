"""What OCaml complains of, as data: spans, severities, kinds.

Positions have 1-based lines and 0-based columns counted in characters of the line
(the compiler counts bytes; ``ocaml.diagnostics.messages`` converts). Spans end exclusively.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is: an error stops the program, a warning or an alert does not."""

    ERROR = "error"
    WARNING = "warning"
    ALERT = "alert"


class Kind(StrEnum):
    """A stable name for what went wrong, the same for every compiler version."""

    SYNTAX = "syntax"
    UNBOUND = "unbound"
    TYPE = "type"
    PATTERN = "pattern"
    WARNING = "warning"
    EXCEPTION = "exception"
    ASSERTION = "assertion"
    STACK_OVERFLOW = "stack_overflow"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    OTHER = "other"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a source: 1-based line, 0-based column in characters."""

    line: int
    column: int

    def to_json(self) -> dict[str, int]:
        """Return ``{"line", "column"}``."""
        return {"line": self.line, "column": self.column}


@dataclass(frozen=True, slots=True)
class Span:
    """From ``start`` up to and without ``end``."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that explains the first ("this '(' might be unmatched")."""

    message: str
    span: Span | None = None
    path: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return ``{"start", "end", "message", "path"}``."""
        return {**_span_json(self.span), "message": self.message, "path": self.path}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One complaint. ``code`` and ``name`` are a warning's number and name (8, "partial-match").

    ``name`` is an alert's name too ("deprecated"), and an uncaught exception's constructor ("Failure").
    ``message`` holds the whole text, hints too; ``span`` is None where the compiler names no columns.
    """

    severity: Severity
    kind: Kind
    message: str
    span: Span | None = None
    path: str | None = None
    code: int | None = None
    name: str | None = None
    hints: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether the program is refused for it."""
        return self.severity is Severity.ERROR

    def to_json(self) -> dict[str, Any]:
        """Return the documented ``diagnostic`` object."""
        return {
            "severity": self.severity.value,
            "kind": self.kind.value,
            "code": self.code,
            "name": self.name,
            **_span_json(self.span),
            "message": self.message,
            "hints": list(self.hints),
            "related": [related.to_json() for related in self.related],
        }


def _span_json(span: Span | None) -> dict[str, dict[str, int] | None]:
    if span is None:
        return {"start": None, "end": None}
    return {"start": span.start.to_json(), "end": span.end.to_json()}

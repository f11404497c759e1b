"""From the wording of a message to its ``Kind``, the same for every compiler version's wording."""

import re

from ocaml.diagnostics import Kind, Severity

__all__ = ["is_link_error", "kind_of"]

# Of the warnings that `ocamlc -warn-help` lists, those about patterns: fragile-match, partial-match,
# missing-record-field-pattern, redundant-case, redundant-subpat, wildcard-arg-to-constant-constr,
# fragile-literal-pattern, unreachable-case, ambiguous-var-in-pattern-guard.
_PATTERN_WARNINGS = frozenset({4, 8, 9, 11, 12, 28, 52, 56, 57})

# What the lexer, the parser and the checks right after parsing say.
_SYNTAX = re.compile(
    r"""Syntax\ error
    | Illegal\ (?:character|backslash\ escape|empty\ character\ literal)
    | Invalid\ (?:literal|character|encoding\ of\ identifier|lexer\ directive|package\ type)
    | (?:Comment|String\ literal|Quoted\ string)\ not\ terminated
    | This\ comment\ contains\ an\ unterminated\ string\ literal
    | \S+\ is\ a\ keyword,\ it\ cannot\ be\ used
    | \S+\ has\ been\ defined\ as\ an\ additional\ keyword
    | \S+\ cannot\ be\ used\ as\ a\ (?:raw\ identifier|quoted\ string)
    | In\ this\ scoped\ type,
    | broken\ invariant\ in\ parsetree
    """,
    re.VERBOSE,
)

# Names that are not there. A module that exists as a name only ("alias for module X, which is missing") too.
_UNBOUND = re.compile(r"Unbound |(?:The module \S+|This) is an alias for module \S+, which is missing")

_PATTERN = re.compile(
    r"Variable \S+ (?:must occur on both sides of this|is bound several times in this matching)"
    r"|None of the patterns in this"
    r"|Exception patterns are not allowed"
)

_LINK = re.compile(
    r"""Reference\ to\ undefined\ (?:global|compilation\ unit)
    | No\ implementations?\ provided\ for\ the\ following\ modules
    | (?:Required\ m|M)odule\ \S+\ is\ unavailable
    | Module\ \S+\ unavailable
    | Error\ while\ linking
    | Error\ during\ linking
    | The\ external\ function\ \S+\ is\ not\ available
    | Error\ on\ dynamically\ loaded\ library
    """,
    re.VERBOSE,
)

# What is wrong with files and programs rather than with the code.
_OTHER = re.compile(
    r"""I/O\ error | Cannot\ find\ file | Could\ not\ find
    | The\ files?\ | Files\ | File\ \S+\ not\ found | Wrong\ file\ naming | Corrupted\ compiled\ interface
    | Error\ while\ running | Error-enabled | Some\ fatal\ warnings | Internal\ error | Unknown\ directive
    """,
    re.VERBOSE,
)


def kind_of(severity: Severity, message: str, code: int | None, name: str | None, *, placed: bool) -> Kind:
    """Classify a compiler's message.

    ``code`` and ``name`` are those of a warning or alert, also of one made an error. ``placed`` says whether
    the message points into a line: what the type checker refuses does, troubles with files do not.
    """
    if code is not None:
        return Kind.PATTERN if code in _PATTERN_WARNINGS else Kind.WARNING
    if severity is not Severity.ERROR or name is not None:
        return Kind.WARNING
    text = " ".join(message.split())
    for pattern, kind in ((_SYNTAX, Kind.SYNTAX), (_UNBOUND, Kind.UNBOUND), (_PATTERN, Kind.PATTERN)):
        if pattern.match(text):
            return kind
    if _LINK.match(text) or _OTHER.match(text):
        return Kind.OTHER
    return Kind.TYPE if placed or "does not match the interface" in text else Kind.OTHER


def is_link_error(message: str) -> bool:
    """Whether a compiler's error says that a module type-checks and is not there to be run."""
    return _LINK.match(" ".join(message.split())) is not None

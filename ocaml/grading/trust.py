"""Whether an answer stays within OCaml's types: only then can its process be believed anything."""

import re

from ocaml.diagnostics import Diagnostic, Kind, Severity
from ocaml.lexing import TokenKind, lex

# What reads or writes memory as it likes, or makes values of any type.
_STEP = re.compile(
    r"external|input_value|(?:Obj|Marshal|Callback|Dynlink|Parsing|Lexing)|(?:Camlinternal|Stdlib__|unsafe_)\w*"
)


def steps_around_types(answer: str) -> str | None:
    """Return the first word of an answer with which it could reach what its types hide, None without one.

    Found on the tokens: nothing of the kind can be used without being named once.
    """
    if _STEP.search(answer) is None:
        return None
    words = (token.text for token in lex(answer, comments=False) if token.kind is not TokenKind.STRING)
    return next((word for word in words if _STEP.fullmatch(word)), None)


def disbelieved(word: str) -> Diagnostic:
    """Say what an answer that steps around its types loses by it."""
    message = (
        f"The answer uses {word}, which steps around OCaml's types: "
        "of its assertions only equations are believed, whose values are compared outside of it."
    )
    return Diagnostic(Severity.WARNING, Kind.OTHER, message)

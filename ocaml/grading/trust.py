"""Whether an answer stays within OCaml's types: only then can its process be believed anything."""

import re
from collections.abc import Sequence

from ocaml.diagnostics import Diagnostic, Kind, Severity
from ocaml.grading.assertions import Suite
from ocaml.grading.scope import DECIDING
from ocaml.interface import Item, Standard
from ocaml.lexing import TokenKind, lex

_VALUE = re.compile(r"\b(?:val|external)\s+(\([^)]*\)|[\w']+)\s*:")

# What reads or writes memory as it likes, or makes values of any type.
_STEP = re.compile(
    r"external|input_value|(?:Obj|Marshal|Callback|Dynlink|Parsing|Lexing)|(?:Camlinternal|Stdlib__|unsafe_)\w*"
)


_OWN = re.compile("[Oo]camler_")  # modules and primitives of the judge


def steps_around_types(answer: str) -> str | None:
    """Return the first word of an answer with which it could reach what its types hide, None without one.

    Found on the tokens: nothing of the kind can be used without being named once.
    """
    if _STEP.search(answer) is None:
        return None
    words = (token.text for token in lex(answer, comments=False) if token.kind is not TokenKind.STRING)
    return next((word for word in words if _STEP.fullmatch(word)), None)


def judges_own(answer: str) -> str | None:
    """Return the first module or primitive of the judge's that an answer names, None without one."""
    if _OWN.search(answer) is None:
        return None
    tokens = lex(answer, comments=False)
    declares = any(token.text == "external" for token in tokens)
    named = {TokenKind.UPPER, TokenKind.STRING} if declares else {TokenKind.UPPER}
    words = (token.text.strip('"') for token in tokens if token.kind in named)
    return next((word for word in words if _OWN.match(word)), None)


def redefining(items: Sequence[Item], suite: Suite, standard: Standard) -> str | None:
    """Return a module of the answer that tests use and that gives a word of theirs another meaning.

    Opened, it would decide what ``=`` or ``not`` mean in an assertion.
    """
    for item in items:
        if item.keyword == "module" and not suite.mentions.isdisjoint(item.names):
            values = {name.strip("() ") for name in _VALUE.findall(item.text)}
            if values & DECIDING or any(not name[:1].isalpha() for name in values & standard.values.keys()):
                return item.names[0]
    return None


def disbelieved(word: str) -> Diagnostic:
    """Say what an answer loses by it that can decide its assertions itself."""
    message = (
        f"The answer uses {word}, by which it could decide its assertions itself: "
        "only equations are believed, whose values are compared outside of it."
    )
    return Diagnostic(Severity.WARNING, Kind.OTHER, message)

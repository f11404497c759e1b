"""What the readers of examples pass on: text that is not read as OCaml yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ocaml.lexing import Token


class PassageKind(StrEnum):
    """What a part of the problem is: prose, a block of OCaml, a block of other text (a session, a table)."""

    PROSE = "prose"
    OCAML = "ocaml"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of the problem where examples may stand. ``line`` is the 1-based line of its first line."""

    kind: PassageKind
    text: str
    line: int

    def lines(self) -> list[tuple[int, str]]:
        """Return its lines with their numbers."""
        return list(enumerate(self.text.split("\n"), self.line))


@dataclass(frozen=True, slots=True)
class Binding:
    """A ``let`` of a block (without ``in``) that examples behind it may use, and the words it mentions."""

    names: frozenset[str]
    text: str
    words: frozenset[str]


def bind(names: frozenset[str], text: str, tokens: Sequence[Token]) -> Binding:
    """Return a binding; what it mentions stands behind its ``=``."""
    equals = next((index for index, token in enumerate(tokens) if token.text == "="), len(tokens))
    return Binding(names, text, frozenset(token.text for token in tokens[equals + 1 :]))


def in_scope(bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """Return the bindings that an example may use: the latest, so that a file full of them stays linear."""
    return tuple(bindings[-_MOST_BINDINGS:])


@dataclass(frozen=True, slots=True)
class Draft:
    """An example as it was found: both sides as text, the line, and the bindings it may use.

    ``expected`` is None for a boolean. ``raises`` says that ``expected`` is an exception. A ``tentative``
    draft was found by its looks in prose: when it can't be read it was none.
    """

    expression: str
    expected: str | None
    line: int
    bindings: tuple[Binding, ...] = ()
    raises: bool = False
    tentative: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """An example that could not be read: its line, and why, without a full stop."""

    line: int
    why: str


_MOST_BINDINGS = 64

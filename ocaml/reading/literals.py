"""The syntax of values as people write them in examples: OCaml's, Python's and JSON's in one."""

import re
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "CLOSERS",
    "Applied",
    "Fields",
    "Items",
    "Literal",
    "Quoted",
    "Word",
    "literal_at",
    "parse_literal",
]


@dataclass(frozen=True, slots=True)
class Word:
    """A number, ``true``, ``()``, ``null`` or the name of a known value, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Quoted:
    """A string or a character, with its quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """``[1; 2]``, ``[1, 2]``, ``[|1|]``, ``(1, 2)``: rows parted by ``;``, each of values parted by ``,``."""

    opening: str
    rows: tuple[tuple["Literal", ...], ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """``Some 3``, ``Node (Leaf, 1, Leaf)``, ```A``: a constructor and its argument. Python's ``True`` too."""

    name: str
    argument: "Literal | None" = None


@dataclass(frozen=True, slots=True)
class Fields:
    """``{x = 1; y = 2}``."""

    fields: tuple[tuple[str, "Literal"], ...]


Literal: TypeAlias = Word | Quoted | Items | Applied | Fields
CLOSERS = {"(": ")", "[": "]", "[|": "|]"}


def parse_literal(text: str) -> Literal | None:
    """Parse all of ``text`` as a value; None when it is none, or more than one."""
    found = literal_at(text, 0)
    return found[0] if found and not text[found[1] :].strip() else None


def literal_at(text: str, at: int, *, argument: bool = False) -> tuple[Literal, int] | None:
    """Parse the value at ``at``; return it and where it ends. As an ``argument``, ``Some 3`` is ``Some``."""
    reader = _Reader(text, at)
    try:
        found = reader.atom() if argument else reader.value()
    except _NotALiteral:
        return None
    return found, reader.at


def mentioned(literal: Literal) -> set[str]:
    """Return the names of values that it mentions (``null`` and ``true`` are none)."""
    match literal:
        case Word(text):
            return (
                {text}
                if re.match(r"[a-z_]", text) and text not in {"true", "false", "null", "nil"}
                else set()
            )
        case Items(_, rows):
            return {name for row in rows for value in row for name in mentioned(value)}
        case Applied(_, argument):
            return set() if argument is None else mentioned(argument)
        case Fields(fields):
            return {name for _, value in fields for name in mentioned(value)}
        case _:
            return set()


class _NotALiteral(Exception):
    """Internal: the text is no value."""


_DEEPEST = 64  # brackets in brackets; no example is deeper, and recursion stays safe
_BLANK = re.compile(r"\s*")
_NUMBER = re.compile(
    r"-?(?:0[xX][\da-fA-F][\da-fA-F_]*|0[oO][0-7][0-7_]*|0[bB][01][01_]*"
    r"|(?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d+)(?:[eE][+-]?\d+)?)[lLn]?(?![\w'])"
)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SINGLE = re.compile(r"'(?:[^'\\\n]++|\\.)*+'")
_BARE_STRING = re.compile(r"\{\|(.*?)\|\}", re.DOTALL)
_NAME = re.compile(r"(?:[A-Z][\w']*\.)*([A-Za-z_][\w']*)|`([A-Za-z_][\w']*)")
_FIELD = re.compile(r"((?:[A-Z][\w']*\.)*[a-z_][\w']*)\s*=(?![=<>])")


class _Reader:
    """Recursive descent over a text."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at
        self._depth = 0

    def value(self) -> Literal:
        """A value, also ``Some 3``."""
        found = self.atom()
        if isinstance(found, Applied) and found.argument is None and self._argument_follows():
            return Applied(found.name, self.atom())
        return found

    def atom(self) -> Literal:
        """A value that can stand as an argument (or a negative number)."""
        self._blank()
        text, at = self._text, self.at
        for pattern, make in ((_NUMBER, Word), (_STRING, Quoted), (_SINGLE, Quoted), (_BARE_STRING, Quoted)):
            found = pattern.match(text, at)
            if found:
                self.at = found.end()
                return make(found[0])
        if text.startswith("[|", at):
            return self._items("[|")
        if text[at : at + 1] in {"(", "["}:
            return self._items(text[at])
        if text.startswith("{", at):
            return self._fields()
        return self._name()

    def _name(self) -> Literal:
        found = _NAME.match(self._text, self.at)
        if found is None:
            raise _NotALiteral
        self.at = found.end()
        last = found[1] or ""
        return Word(found[0]) if last[:1].islower() or last[:1] == "_" else Applied(found[0])

    def _argument_follows(self) -> bool:
        after = _BLANK.match(self._text, self.at)
        at = after.end() if after else self.at
        # on another line only inside brackets: what follows an example there is not its argument
        near = self._depth > 0 or "\n" not in self._text[self.at : at]
        return near and bool(re.match(r"[(\[{\"'`\w]", self._text[at : at + 1]))

    def _items(self, opening: str) -> Literal:
        self._enter(opening)
        closer = CLOSERS[opening]
        rows: list[tuple[Literal, ...]] = []
        row: list[Literal] = []
        while True:
            self._blank()
            if not row and (opening != "(" or not rows) and self._take(closer):
                break
            row.append(self.value())
            self._blank()
            if self._take(","):
                continue
            rows.append(tuple(row))
            row = []
            if self._take(closer):
                break
            if opening == "(" or not self._take(";"):
                raise _NotALiteral
        self._depth -= 1
        if opening == "(" and not rows:
            return Word("()")
        return rows[0][0] if opening == "(" and len(rows[0]) == 1 else Items(opening, tuple(rows))

    def _fields(self) -> Literal:
        self._enter("{")
        fields: list[tuple[str, Literal]] = []
        while True:
            self._blank()
            if fields and self._take("}"):
                break
            name = _FIELD.match(self._text, self.at)
            if name is None:
                raise _NotALiteral
            self.at = name.end()
            fields.append((name[1], self.value()))
            self._blank()
            if self._take("}"):
                break
            if not self._take(";"):
                raise _NotALiteral
        self._depth -= 1
        return Fields(tuple(fields))

    def _enter(self, opening: str) -> None:
        self.at += len(opening)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotALiteral

    def _blank(self) -> None:
        found = _BLANK.match(self._text, self.at)
        self.at = found.end() if found else self.at

    def _take(self, mark: str) -> bool:
        if not self._text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

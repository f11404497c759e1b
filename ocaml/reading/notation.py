"""Writes values of OCaml's, Python's and JSON's notation as OCaml of a known type.

Nothing is guessed: where the type does not say which reading is meant, there is no value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ocaml.lexing import TokenKind, closing, lex
from ocaml.reading.literals import CLOSERS, Applied, Fields, Items, Literal, Quoted, Word, parse_literal
from ocaml.typexpr import Arrow, Constructor, Tuple, Type, Variable

__all__ = ["Known", "as_argument", "canonical", "spell", "to_ocaml", "write"]


@dataclass(frozen=True, slots=True)
class Known:
    """What the problem defines: types that are another name for a type, and values that may be mentioned."""

    aliases: Mapping[str, Type] = field(default_factory=dict)
    values: frozenset[str] = frozenset()


def to_ocaml(text: str, kind: Type | None, known: Known) -> str | None:
    """Return a value's OCaml text: as it was written where that is OCaml of this type, else converted."""
    literal = parse_literal(text)
    written = None if literal is None else write(literal, kind, known)
    if written is None:
        return None
    return text.strip() if written[1] else written[0]


def write(literal: Literal, kind: Type | None, known: Known) -> tuple[str, bool] | None:
    """Return OCaml text for a value of type ``kind``, and whether OCaml reads what was written as that."""
    writer = _Writer(known)
    try:
        own = writer.write(literal, kind, own=True)
        converted = writer.write(literal, kind, own=False) if own is None else None
    except _TooMuch:
        return None
    if own is not None:
        return own, True
    return None if converted is None else (converted, False)


def as_argument(text: str) -> str:
    """Put parentheses around a value where it stands as an argument, if it needs them."""
    tokens = lex(text)
    alone = len(tokens) == 1 or (bool(tokens) and closing(tokens, 0) == len(tokens) - 1)
    path = len(tokens) % 2 == 1 and all(
        token.text == "." if index % 2 else token.kind in {TokenKind.UPPER, TokenKind.LOWER}
        for index, token in enumerate(tokens)
    )
    return text if alone or path else f"({text})"


def canonical(text: str) -> tuple[str, ...] | None:
    """Return a spelling that is the same for every way to write the same value; None when it is no value."""
    literal = parse_literal(text)
    return None if literal is None else tuple(spell(literal))


def spell(literal: Literal) -> list[str]:
    """Return words that are the same for two spellings of one value."""
    match literal:
        case Word(text):
            if _whole(text, ""):
                return [str(int(text.replace("_", ""), 0) if not re.match(r"-?0\d", text) else int(text))]
            return [repr(float(text.replace("_", "")))] if _FLOAT.match(text) else [text]
        case Quoted(text):
            plain = text[2:-2] if text.startswith("{|") else _decoded(text[1:-1])
            return [text if plain is None else text[0].replace("{", '"') + plain]
        case Items(opening, rows):
            return [opening, *(word for row in rows for value in row for word in [*spell(value), ","]), "]"]
        case Applied(name, argument):
            return [name, *(spell(argument) if argument is not None else [])]
        case Fields(fields):
            return [
                "{",
                *(
                    word
                    for name, value in sorted(fields, key=lambda f: f[0])
                    for word in [name, *spell(value)]
                ),
            ]


class _TooMuch(Exception):
    """Internal: a value has too many readings to try them all."""


_INT = re.compile(r"-?(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*)\Z")
_FLOAT = re.compile(r"-?\d[\d_]*(?:\.[\d_]*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)\Z")
_SUFFIXES = {"int32": "l", "Int32.t": "l", "int64": "L", "Int64.t": "L", "nativeint": "n", "Nativeint.t": "n"}
_BOUNDS = {"": 2**62, "l": 2**31, "L": 2**63, "n": 2**63}
_CONSTANTS = {
    "int": frozenset({"max_int", "min_int"}),
    "float": frozenset({"infinity", "neg_infinity", "epsilon_float", "max_float"}),
}
_OWN_STRING = re.compile(
    r'"(?:[^"\\]|\\(?:[\\"\'ntbr ]|[0-9]{3}|o[0-3][0-7]{2}|x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]{1,6}\}|\n))*"\Z'
)
_OWN_CHAR = re.compile(r"'(?:[^\\'\n]|\\(?:[\\\"'ntbr ]|[0-9]{3}|o[0-3][0-7]{2}|x[0-9a-fA-F]{2}))'\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "\\": "\\", '"': '"', "'": "'", "/": "/"}


class _Writer:
    """Writes a value of a type: ``own`` takes OCaml's reading alone, else the other notations too."""

    _MOST = 100_000  # steps: a comma is read in two ways, and those double with each bracket

    def __init__(self, known: Known) -> None:
        self._known = known
        self._left = self._MOST

    def write(self, literal: Literal, kind: Type | None, *, own: bool) -> str | None:
        self._left -= 1
        if self._left < 0:
            raise _TooMuch
        if isinstance(kind, Tuple):
            return self._tuple(literal, kind.parts, own=own)
        if isinstance(kind, Constructor):
            return self._constructed(literal, kind.name.removeprefix("Stdlib."), kind.arguments, own=own)
        if kind is None or isinstance(kind, Variable):
            return _write_plain(literal, self._known)
        if isinstance(kind, Arrow) and isinstance(literal, Word) and re.match(r"[A-Za-z_]", literal.text):
            return literal.text  # a function's name: whether it is known was asked before
        return self._named(literal)

    def _constructed(
        self, literal: Literal, name: str, arguments: tuple[Type, ...], *, own: bool
    ) -> str | None:
        if name in self._known.aliases:
            return self.write(literal, self._known.aliases[name], own=own)
        if isinstance(literal, Word) and literal.text in self._known.values | _CONSTANTS.get(
            name, frozenset()
        ):
            return literal.text
        match name, arguments:
            case (
                "int" | "float" | "int32" | "int64" | "nativeint" | "Int32.t" | "Int64.t" | "Nativeint.t",
                (),
            ):
                return _write_number(literal, name, own=own)
            case "bool", ():
                return _write_bool(literal, own=own)
            case "unit", ():
                return "()" if literal == Word("()") or (not own and literal == Applied("None")) else None
            case "string" | "String.t" | "char" | "Char.t", ():
                is_char = name in {"char", "Char.t"}
                return _write_quoted(literal, is_char, own=own) if isinstance(literal, Quoted) else None
            case "list" | "array", (item,):
                return self._items(literal, "[" if name == "list" else "[|", item, own=own)
            case "option", (item,):
                return self._option(literal, item, own=own)
            case "result", (good, bad) if isinstance(literal, Applied) and literal.argument is not None:
                inner = {"Ok": good, "Error": bad}.get(literal.name)
                return None if inner is None else self._applied(literal, inner, own=own)
            case _:
                return self._named(literal)

    def _applied(self, literal: Applied, inner: Type, *, own: bool) -> str | None:
        text = None if literal.argument is None else self.write(literal.argument, inner, own=own)
        return None if text is None else f"{literal.name} {as_argument(text)}"

    def _items(self, literal: Literal, opening: str, item: Type, *, own: bool) -> str | None:
        """Write a list or an array, whose values OCaml parts by ``;`` and everyone else by ``,``."""
        if not isinstance(literal, Items) or literal.opening == "(":
            return None
        if literal.opening != opening and (own or opening == "["):
            return None
        rows = literal.rows
        as_pairs = [row[0] if len(row) == 1 else Items("(", (row,)) for row in rows]
        readings = [self._all(as_pairs, item, own=own)]
        if len(rows) == 1 and len(rows[0]) > 1:
            readings.append(self._all(rows[0], item, own=False))
            if None not in readings:
                return None  # both would do
            if own:
                readings.pop()
        texts = next((reading for reading in readings if reading is not None), None)
        return None if texts is None else f"{opening}{'; '.join(texts)}{CLOSERS[opening]}"

    def _tuple(self, literal: Literal, parts: tuple[Type, ...], *, own: bool) -> str | None:
        if not isinstance(literal, Items) or literal.opening == "[|" or len(literal.rows) != 1:
            return None
        values = literal.rows[0]
        if len(values) != len(parts) or (own and literal.opening != "("):
            return None
        texts = [self.write(value, part, own=own) for value, part in zip(values, parts, strict=True)]
        return None if None in texts else f"({', '.join(text for text in texts if text)})"

    def _option(self, literal: Literal, item: Type, *, own: bool) -> str | None:
        if literal == Applied("None"):
            return "None"
        if isinstance(literal, Applied) and literal.name == "Some":
            return self._applied(literal, item, own=own)
        if own:
            return None
        if literal in {Word("null"), Word("nil")}:
            return "None"
        # -1 often stands for "none" where a language has no options
        if literal == Word("-1") or (isinstance(item, Constructor) and item.name == "option"):
            return None
        text = self.write(literal, item, own=own)
        return None if text is None else f"Some {as_argument(text)}"

    def _all(self, values: Sequence[Literal], item: Type, *, own: bool) -> list[str] | None:
        texts: list[str] = []
        for value in values:
            text = self.write(value, item, own=own)
            if text is None:
                return None
            texts.append(text)
        return texts

    def _named(self, literal: Literal) -> str | None:
        """Write a value of a type that the problem defines: only what names its constructors or fields."""
        by_name = isinstance(literal, Applied | Fields)
        known = isinstance(literal, Word) and literal.text in self._known.values
        return _write_plain(literal, self._known) if by_name or known else None


def _write_number(literal: Literal, name: str, *, own: bool) -> str | None:
    if not isinstance(literal, Word):
        return None
    text = literal.text
    if name == "float":
        if _FLOAT.match(text):
            return text
        if own:
            return None
        return re.sub(r"^(-?)\.", r"\g<1>0.", text) if re.match(r"-?\.\d", text) else _whole(text, ".")
    suffix = _SUFFIXES.get(name, "")
    if suffix and text.endswith(suffix):
        return text if _whole(text[:-1], suffix) else None
    return _whole(text, suffix) if not (own and suffix) else None


def _whole(text: str, suffix: str) -> str | None:
    """Return a whole number with ``suffix``, if it is one that fits."""
    if not _INT.match(text) or len(text) > 70:
        return None
    digits = text.replace("_", "")
    value = int(digits, 0) if not re.match(r"-?0\d", digits) else int(digits)
    bound = _BOUNDS.get(suffix, 2**62)
    return text + suffix if -bound <= value < bound else None


def _write_bool(literal: Literal, *, own: bool) -> str | None:
    if isinstance(literal, Word) and literal.text in {"true", "false"}:
        return literal.text
    if not own and literal in {Applied("True"), Applied("False")} and isinstance(literal, Applied):
        return literal.name.lower()
    return None


def _write_quoted(literal: Quoted, is_char: bool, *, own: bool) -> str | None:
    text = literal.text
    if text.startswith("{|"):
        return None if is_char else text
    if (_OWN_CHAR if is_char else _OWN_STRING).match(text):
        return text
    plain = None if own else _decoded(text[1:-1])
    if plain is None:
        return None
    if not is_char:
        return f'"{_escaped(plain, chr(34))}"'
    return f"'{_escaped(plain, chr(39))}'" if len(plain) == 1 and plain.isascii() else None


def _decoded(inner: str) -> str | None:
    """Return what a Python or JSON string means; None for an escape that OCaml would take otherwise."""
    parts: list[str] = []
    at = 0
    for found in re.finditer(r"\\(?:u([0-9a-fA-F]{4})|x([0-7][0-9a-fA-F])|(.))", inner, re.DOTALL):
        parts.append(inner[at : found.start()])
        at = found.end()
        code, simple = found[1] or found[2], found[3]
        if code:
            parts.append(chr(int(code, 16)))
        elif simple in _ESCAPES:
            parts.append(_ESCAPES[simple])
        else:
            return None
    text = "".join([*parts, inner[at:]])
    return None if any(0xD800 <= ord(character) < 0xE000 for character in text) else text


def _escaped(text: str, quote: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\\": "\\\\", quote: "\\" + quote}
    return "".join(short.get(c) or (f"\\{ord(c):03d}" if ord(c) < 32 or ord(c) == 127 else c) for c in text)


def _write_plain(literal: Literal, known: Known) -> str | None:
    """Write a value of unknown type: only where OCaml's reading is the one reading."""
    match literal:
        case Word(text):
            own = text in {"true", "false", "()", *known.values} or any(
                text in c for c in _CONSTANTS.values()
            )
            number = _FLOAT.match(text) or _whole(
                text.rstrip("lLn"), text[-1:] if text[-1:] in _BOUNDS else ""
            )
            return text if own or number else None
        case Quoted(text):
            return text if text.startswith("{|") or _OWN_STRING.match(text) or _OWN_CHAR.match(text) else None
        case Items(opening, rows):
            if opening != "(" and len(rows) == 1 and len(rows[0]) > 1:
                return None  # [1, 2]: a list of one pair, or of two numbers?
            texts = [[_write_plain(value, known) for value in row] for row in rows]
            if any(None in row for row in texts):
                return None
            return opening + "; ".join(", ".join(t for t in row if t) for row in texts) + CLOSERS[opening]
        case Applied("True" | "False", _):
            return None
        case Applied(name, None):
            return name
        case Applied(name, argument):
            inner = None if argument is None else _write_plain(argument, known)
            return None if inner is None else f"{name} {as_argument(inner)}"
        case Fields(fields):
            pairs = [(name, _write_plain(value, known)) for name, value in fields]
            if any(text is None for _, text in pairs):
                return None
            return f"{{{'; '.join(f'{name} = {text}' for name, text in pairs)}}}"

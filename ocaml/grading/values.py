"""OCaml values that a child printed as tokens: compared here, outside it, and shown as OCaml.

The tokens are those of ``harness/ocamler_dump``. Nothing is unmarshalled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ocaml.typexpr import Constructor, Declaration, Record, Tuple, Type, Variable, Variant, substitute

SHOWN_CHARACTERS = 400  # a longer value is cut; nobody reads it in a terminal
_DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Block:
    """A constructor with arguments, a tuple, a record or a list cell."""

    tag: int
    fields: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """A function, an object, or more than the harness prints: it can't be compared."""


Value: TypeAlias = int | float | bytes | Block | Hidden


def comparable(tokens: Sequence[str]) -> bool:
    """Whether every part of the value was printed."""
    return bool(tokens) and not any(token in {"o", "!"} for token in tokens)


def equal(left: Sequence[str], right: Sequence[str]) -> bool:
    """Compare as OCaml's ``=`` does: by structure, ``0. = -0.``, and nan equals nothing."""
    if len(left) != len(right) or not comparable(left):
        return False
    return all(
        _same_float(one, other) if one[0] == "f" and other[0] == "f" else one == other
        for one, other in zip(left, right, strict=True)
    )


def show(tokens: Sequence[str], kind: Type | None, declarations: Mapping[str, Declaration]) -> str:
    """Return the value as OCaml text, by its type where that is known; cut when it is long."""
    if "!" in tokens:
        return "<a value too large to print, or cyclic>"
    try:
        text = _Shower(declarations).show(_value(tokens), kind, 0, nested=False)
    except (ValueError, IndexError):
        return "<a value that could not be read>"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _same_float(one: str, other: str) -> bool:
    if "nan" in one or "nan" in other:
        return False
    return float.fromhex(one[1:]) == float.fromhex(other[1:])


def _value(tokens: Sequence[str]) -> Value:
    """Read prefix tokens from the back, so that long lists need no recursion."""
    stack: list[Value] = []
    index = len(tokens) - 1
    while index >= 0:
        token = tokens[index]
        head, rest = token[0], token[1:]
        if index and tokens[index - 1][0] == "b" and token.isdigit():
            size = int(token)
            fields = tuple(stack.pop() for _ in range(size))
            stack.append(Block(int(tokens[index - 1][1:]), fields))
            index -= 2
            continue
        if head == "d":
            stack.append(Block(-1, tuple(stack.pop() for _ in range(int(rest)))))
        else:
            stack.append(_atom(head, rest))
        index -= 1
    return stack[-1]


def _atom(head: str, rest: str) -> Value:
    match head:
        case "i":
            return int(rest)
        case "f":
            return float.fromhex(rest) if "nan" not in rest else math.nan
        case "s":
            return bytes.fromhex(rest)
        case "c":
            return _custom(bytes.fromhex(rest))
        case _:
            return Hidden()


def _custom(data: bytes) -> Value:
    """An int32, int64 or nativeint: an identifier, then the number, big-endian."""
    name, _, body = data[1:].partition(b"\0")
    if name in {b"_i", b"_j"}:
        return int.from_bytes(body, "big", signed=True)
    if name == b"_n":
        return int.from_bytes(body[1:], "big", signed=True)
    return Hidden()


class _Shower:
    """Prints a value by its type; where the type does not tell, by its shape."""

    def __init__(self, declarations: Mapping[str, Declaration]) -> None:
        self._declarations = declarations
        self._left = 4 * SHOWN_CHARACTERS

    def show(self, value: Value, kind: Type | None, depth: int, *, nested: bool) -> str:
        if depth > _DEEPEST or self._left <= 0:
            return "…"
        text = self._by_type(value, kind, depth, nested)
        if not isinstance(value, Block):
            self._left -= len(text)
        return text

    def _by_type(self, value: Value, kind: Type | None, depth: int, nested: bool) -> str:
        if isinstance(value, Hidden):
            return "<fun>"
        match kind:
            case Tuple(parts) if isinstance(value, Block) and len(value.fields) == len(parts):
                pairs = zip(value.fields, parts, strict=True)
                return f"({', '.join(self.show(part, of, depth + 1, nested=False) for part, of in pairs)})"
            case Constructor(name, arguments):
                return self._constructor(value, name.removeprefix("Stdlib."), arguments, depth, nested)
            case _:
                return self._by_shape(value, depth, nested)

    def _constructor(
        self, value: Value, name: str, arguments: tuple[Type, ...], depth: int, nested: bool
    ) -> str:
        first = arguments[0] if arguments else None
        match name, value:
            case "bool", 0 | 1:
                return "true" if value else "false"
            case "unit", 0:
                return "()"
            case "char", int(code) if 0 <= code < 256:
                return f"'{_character(code, chr(39))}'"
            case "int" | "int32" | "int64" | "nativeint" | "Int32.t" | "Int64.t" | "Nativeint.t", int(number):
                return _signed(f"{number}{_SUFFIX.get(name, '')}", nested)
            case "bytes" | "Bytes.t", bytes(data):
                return _argument(f"Bytes.of_string {_string(data)}", nested)
            case "list" | "List.t", _:
                return self._list(value, first, depth)
            case "array" | "floatarray" | "Array.t", Block(_, fields):
                kind = first or Constructor("float")
                return f"[|{self._joined(fields, kind, depth)}|]"
            case "array" | "Array.t", 0:
                return "[||]"
            case "ref", Block(_, (inner,)):
                return f"{{contents = {self.show(inner, first, depth + 1, nested=False)}}}"
            case "option" | "result" | "Option.t" | "Result.t", _:
                variant = _OPTION if name.lower().startswith("option") else _RESULT
                return self._declared(value, variant, arguments, depth, nested)
            case _, _ if name in self._declarations:
                return self._declared(value, self._declarations[name], arguments, depth, nested)
        return self._by_shape(value, depth, nested)

    def _declared(
        self, value: Value, declaration: Declaration, arguments: tuple[Type, ...], depth: int, nested: bool
    ) -> str:
        types = dict(zip(declaration.parameters, arguments, strict=False))
        match declaration.body:
            case Variant(cases):
                return self._variant(value, cases, types, depth, nested)
            case Record(fields) if isinstance(value, Block) and len(value.fields) == len(fields):
                shown = [
                    f"{name} = {self.show(inner, substitute(kind, types), depth + 1, nested=False)}"
                    for inner, (name, kind) in zip(value.fields, fields, strict=True)
                ]
                return "{" + "; ".join(shown) + "}"
            case None | Record():
                return self._by_shape(value, depth, nested)
            case alias:
                return self.show(value, substitute(alias, types), depth + 1, nested=nested)

    def _variant(
        self,
        value: Value,
        cases: tuple[tuple[str, tuple[Type, ...], tuple[str, ...]], ...],
        types: dict[str, Type],
        depth: int,
        nested: bool,
    ) -> str:
        if isinstance(value, int):
            return [name for name, kinds, _ in cases if not kinds][value]
        full = [case for case in cases if case[1]]
        if len(cases) == 1 and not isinstance(value, Block):  # [@@unboxed]
            value = Block(0, (value,))
        if not isinstance(value, Block) or not 0 <= max(value.tag, 0) < len(full):
            return self._by_shape(value, depth, nested)
        name, kinds, fields = full[max(value.tag, 0)]
        pairs = zip(value.fields, kinds, strict=False)
        if fields:
            shown = [
                f"{f} = {self.show(v, substitute(k, types), depth + 1, nested=False)}"
                for f, (v, k) in zip(fields, pairs, strict=False)
            ]
            return _argument(f"{name} {{{'; '.join(shown)}}}", nested)
        single = len(kinds) == 1
        parts = [self.show(v, substitute(k, types), depth + 1, nested=single) for v, k in pairs]
        return _argument(f"{name} {parts[0]}" if single else f"{name} ({', '.join(parts)})", nested)

    def _list(self, value: Value, kind: Type | None, depth: int) -> str:
        items: list[Value] = []
        while isinstance(value, Block) and len(value.fields) == 2:
            items.append(value.fields[0])
            value = value.fields[1]
        return f"[{self._joined(tuple(items), kind, depth)}]"

    def _joined(self, items: Sequence[Value], kind: Type | None, depth: int) -> str:
        shown: list[str] = []
        for item in items:
            if self._left <= 0:
                shown.append("…")
                break
            shown.append(self.show(item, kind, depth + 1, nested=False))
            self._left -= 2
        return "; ".join(shown)

    def _by_shape(self, value: Value, depth: int, nested: bool) -> str:
        match value:
            case int(number):
                return _signed(str(number), nested)
            case float(number):
                return _signed(_float(number), nested)
            case bytes(data):
                return _string(data)
            case Block(tag, fields):
                inner = ", ".join(self.show(field, None, depth + 1, nested=False) for field in fields)
                return f"<block {tag}: {inner}>" if tag > 0 else f"({inner})"
            case _:
                return "<fun>"


_A, _B = Variable("'a"), Variable("'b")
_OPTION = Declaration(("'a",), Variant((("None", (), ()), ("Some", (_A,), ()))))
_RESULT = Declaration(("'a", "'b"), Variant((("Ok", (_A,), ()), ("Error", (_B,), ()))))
_SUFFIX = {"int32": "l", "Int32.t": "l", "int64": "L", "Int64.t": "L", "nativeint": "n", "Nativeint.t": "n"}
_ESCAPES = {10: "\\n", 9: "\\t", 13: "\\r", 8: "\\b", 92: "\\\\"}


def _argument(text: str, nested: bool) -> str:
    return f"({text})" if nested else text


def _signed(text: str, nested: bool) -> str:
    return _argument(text, nested and text.startswith("-"))


def _float(number: float) -> str:
    """As OCaml's toplevel prints it: the shortest text that reads back, always with a dot or an exponent."""
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "infinity" if number > 0 else "neg_infinity"
    text = next(text for digits in (12, 15, 17) if float(text := f"{number:.{digits}g}") == number)
    return text if any(mark in text for mark in ".e") else text + "."


def _string(data: bytes) -> str:
    try:
        text = data.decode()
        return '"' + "".join(_readable(character) for character in text) + '"'
    except UnicodeDecodeError:
        return '"' + "".join(_character(code, '"') for code in data) + '"'


def _readable(character: str) -> str:
    code = ord(character)
    return (
        _character(code, '"')
        if code < 128
        else (character if character.isprintable() else f"\\u{{{code:x}}}")
    )


def _character(code: int, quote: str) -> str:
    if code in _ESCAPES:
        return _ESCAPES[code]
    if chr(code) == quote:
        return "\\" + quote
    return chr(code) if 32 <= code < 127 else f"\\{code:03d}"

"""OCaml's types as data, read from the text that the compiler prints (not from what people write)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constructor:
    """``(int, string) result``: a name applied to arguments."""

    name: str
    arguments: tuple["Type", ...] = ()


@dataclass(frozen=True, slots=True)
class Tuple:
    """``int * string``."""

    parts: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """``label:int -> string``; the label is as printed (``x:``, ``?x:``) or empty."""

    label: str
    argument: "Type"
    result: "Type"


@dataclass(frozen=True, slots=True)
class Variable:
    """``'a``."""

    name: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A type that we do not look into: an object, a polymorphic variant, a package."""

    text: str


Type: TypeAlias = Constructor | Tuple | Arrow | Variable | Opaque


@dataclass(frozen=True, slots=True)
class Variant:
    """Constructors in order: name, argument types, and field names when the argument is an inline record."""

    cases: tuple[tuple[str, tuple[Type, ...], tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in order: name and type."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A type's parameters and what it stands for; None for an abstract one."""

    parameters: tuple[str, ...]
    body: Variant | Record | Type | None


class TypeSyntaxError(ValueError):
    """The text is no type that we can read."""


_TOKEN = re.compile(
    r"\s*(->|\[[|<>]?|\|\]|\?[a-z_][\w']*:|[a-z_][\w']*:(?!:)|`?[\w'.#!]+|[(){};*,|:=\]<>.&])"
)


def parse_type(text: str) -> Type:
    """Parse one type. Raises TypeSyntaxError."""
    parser = _Parser(text)
    parsed = parser.arrow()
    parser.expect_end()
    return parsed


def parse_declarations(text: str) -> dict[str, Declaration]:
    """Parse a ``type … and …`` item as the compiler prints it; what can't be read is left out."""
    declarations: dict[str, Declaration] = {}
    for part in re.split(r"(?:^|\n)\s*(?:type|and)\s+(?:nonrec\s+)?", text):
        try:
            name, declaration = _declaration(part)
        except (ValueError, IndexError):
            continue
        declarations[name] = declaration
    return declarations


def _declaration(text: str) -> tuple[str, Declaration]:
    head, _, body = text.partition("=")
    *parameters, name = re.findall(r"'\w+|\w+", head)
    parser = _Parser(body.split(" constraint ")[0])
    parser.skip("private")
    return name, Declaration(tuple(parameters), parser.body() if body.strip() else None)


class _Parser:
    """Recursive descent over the tokens of one type or type body."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next
        if not token:
            raise TypeSyntaxError("the type ends too early")
        self._at += 1
        return token

    def skip(self, token: str) -> bool:
        """Take ``token`` if it comes next."""
        if self._next != token:
            return False
        self._at += 1
        return True

    def expect_end(self) -> None:
        """Raise unless everything was read."""
        if self._next:
            raise TypeSyntaxError(f"unexpected '{self._next}'")

    def body(self) -> Variant | Record | Type | None:
        """What stands behind ``type t =``: constructors, fields or another type."""
        start = self._at
        if self._next not in {"|", "{"} and not self._next[:1].isupper():
            alias = self.arrow()
            if not self.skip("="):
                return alias
            start = self._at
        self._at = start
        self.skip("private")
        if self._next == "{":
            return Record(self._fields())
        return self._variant()

    def _variant(self) -> Variant:
        cases = []
        self.skip("|")
        while True:
            cases.append(self._case())
            if not self.skip("|"):
                break
        self.expect_end()
        return Variant(tuple(cases))

    def _case(self) -> tuple[str, tuple[Type, ...], tuple[str, ...]]:
        name = self._take().removesuffix(":")
        if name in {"(", "["}:  # (::) and []
            while self._take() not in {")", "]"}:
                name += "…"
        if self.skip(":"):  # GADT style: the arguments stand before the arrow
            if self._next == "{":
                fields = self._fields()
                return name, tuple(kind for _, kind in fields), tuple(field for field, _ in fields)
            found = self.arrow()
            return name, _parts(found.argument) if isinstance(found, Arrow) else (), ()
        if not self.skip("of"):
            return name, (), ()
        if self._next == "{":
            fields = self._fields()
            return name, tuple(kind for _, kind in fields), tuple(field for field, _ in fields)
        parts = [self._application()]
        while self.skip("*"):
            parts.append(self._application())
        return name, tuple(parts), ()

    def _fields(self) -> tuple[tuple[str, Type], ...]:
        fields = []
        self.skip("{")
        while not self.skip("}"):
            self.skip("mutable")
            name = self._take()
            if not name.endswith(":") and not self.skip(":"):
                raise TypeSyntaxError("a field without a type")
            fields.append((name.removesuffix(":"), self.arrow()))
            self.skip(";")
        return tuple(fields)

    def arrow(self) -> Type:
        """A whole type."""
        label = self._take() if self._next.endswith(":") and len(self._next) > 1 else ""
        self._quantifiers()
        left = self._tuple()
        if self.skip("->"):
            return Arrow(label, left, self.arrow())
        return left

    def _quantifiers(self) -> None:
        """Pass over ``'a 'b.`` in front of a polymorphic type."""
        ahead = self._at
        while ahead < len(self._tokens) and self._tokens[ahead].startswith("'"):
            ahead += 1
            if self._tokens[ahead - 1].endswith("."):
                self._at = ahead

    def _tuple(self) -> Type:
        parts = [self._application()]
        while self.skip("*"):
            parts.append(self._application())
        return parts[0] if len(parts) == 1 else Tuple(tuple(parts))

    def _application(self) -> Type:
        found = self._atom()
        while (
            re.match(r"[\w'.#]+\Z", self._next)
            and not self._next.startswith("'")
            and self._next not in _STOPS
        ):
            found = Constructor(self._take(), (found,) if not isinstance(found, _Arguments) else found.types)
        if isinstance(found, _Arguments):
            raise TypeSyntaxError("type arguments without a type")
        return found

    def _atom(self) -> "Type | _Arguments":
        token = self._take()
        if token == "(":
            inner = [self.arrow()]
            while self.skip(","):
                inner.append(self.arrow())
            if not self.skip(")"):
                raise TypeSyntaxError("')' is missing")
            return inner[0] if len(inner) == 1 else _Arguments(tuple(inner))
        if token in {"<", "[", "[<", "[>"}:
            return self._balanced(token)
        if token.startswith("'"):
            return Variable(token)
        if re.match(r"[\w'.]+\Z", token):
            return Constructor(token)
        raise TypeSyntaxError(f"unexpected '{token}'")

    def _balanced(self, opening: str) -> Opaque:
        closing = ">" if opening == "<" else "]"
        depth, text = 1, [opening]
        while depth:
            token = self._take()
            depth += (token[0] == opening[0]) - (token == closing)
            text.append(token)
        return Opaque(" ".join(text))


@dataclass(frozen=True, slots=True)
class _Arguments:
    """``(int, string)`` before the name it belongs to."""

    types: tuple[Type, ...]


_STOPS = {"of", "mutable", "as", "constraint"}


def _parts(kind: Type) -> tuple[Type, ...]:
    return kind.parts if isinstance(kind, Tuple) else (kind,)


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise TypeSyntaxError(f"unexpected '{text[at]}'")
        tokens.append(found[1])
        at = found.end()
    return tokens


def substitute(kind: Type, values: dict[str, Type]) -> Type:
    """Put types in the place of type variables."""
    match kind:
        case Variable(name):
            return values.get(name, kind)
        case Constructor(name, arguments):
            return Constructor(name, _all(arguments, values))
        case Tuple(parts):
            return Tuple(_all(parts, values))
        case Arrow(label, argument, result):
            return Arrow(label, substitute(argument, values), substitute(result, values))
        case _:
            return kind


def _all(kinds: Iterable[Type], values: dict[str, Type]) -> tuple[Type, ...]:
    return tuple(substitute(kind, values) for kind in kinds)

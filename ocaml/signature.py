"""Reads a function's header (``let f (x : int) : int =``, ``val f : int -> int``) into a ``Signature``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ocaml.lexing import Token, TokenKind, at_depth_zero, closing, lex
from ocaml.parameters import (
    Parameter,
    SignatureError,
    check_brackets,
    groups,
    is_abstract,
    parameter,
    shown,
    type_text,
)
from ocaml.typexpr import Arrow, Type, TypeSyntaxError, parse_type

__all__ = [
    "Argument",
    "Header",
    "Shape",
    "Signature",
    "SignatureError",
    "is_stub",
    "parse_header",
    "parse_signature",
    "read_type",
    "shape",
]


@dataclass(frozen=True, slots=True)
class Signature:
    """The function asked for.

    ``text`` is what the problem wrote (``let f (x : int) : int =``), without a body and with its ``=``, or
    ``val f : int -> int``. ``type`` is its
    OCaml type (``int -> int``) when every part of it is annotated, else None. ``parameters`` are the
    parameter patterns as written (``(x : int)``), which a body can be put behind.
    """

    name: str
    text: str
    type: str | None = None
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: ``label`` is ``""``, ``"x"`` or ``"?x"``; name and type where they are known."""

    label: str = ""
    name: str | None = None
    type: Type | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What goes in and what comes out, as far as the header says; a result that is a function is unfolded."""

    arguments: tuple[Argument, ...] = ()
    result: Type | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed header; ``body`` is the tokens behind its ``=``, None where there is no ``=``."""

    signature: Signature
    shape: Shape
    recursive: bool = False
    body: tuple[Token, ...] | None = None

    @property
    def bare(self) -> bool:
        """Whether it has no body, or one that only keeps the place."""
        return self.body is None or is_stub(self.body)


def parse_signature(text: str) -> Signature:
    """Parse ``let f … =``, ``val f : …`` or ``f : …``; a body is left out. Raises SignatureError."""
    return parse_header(text).signature


def shape(signature: Signature) -> Shape:
    """Return what is known of arguments and result."""
    try:
        found = parse_header(signature.text).shape
    except SignatureError:
        found = Shape()
    if signature.type is None:
        return found
    kind = read_type(signature.type)
    typed = Shape() if kind is None else _unfold((), kind)
    if len(typed.arguments) < len(found.arguments):
        return found
    names = [argument.name for argument in found.arguments]
    names += [None] * (len(typed.arguments) - len(names))
    arguments = zip(typed.arguments, names, strict=True)
    return Shape(tuple(Argument(a.label, name or a.name, a.type) for a, name in arguments), typed.result)


def parse_header(text: str) -> Header:
    """Parse a header and keep its body's tokens. Raises SignatureError."""
    tokens = lex(text, comments=False)
    if not tokens:
        raise SignatureError("it is empty")
    if tokens[0].text in {"let", "and"}:
        return _let_header(text, tokens)
    return _value_header(text, tokens)


def is_stub(body: Sequence[Token]) -> bool:
    """Whether a body only keeps the place: none, ``failwith "…"``, ``raise …``, ``assert false``, ``...``.

    So does one with a gap (``| [] -> | x :: r ->``), or with a comment that says so.
    """
    if any(t.kind is TokenKind.COMMENT and _ASKS_FOR_CODE.search(t.text) for t in body):
        return True
    tokens = [token for token in body if token.kind is not TokenKind.COMMENT]
    words = [token.text for token in tokens]
    if any(word in _HOLES for word in words) or ("->", "|") in pairwise(words):
        return True
    if words and words[-1] in _UNFINISHED:
        return True
    tokens = _innermost(tokens)
    words = [token.text for token in tokens]
    if words[:1] in (["raise"], ["raise_notrace"], ["failwith"], ["invalid_arg"]):
        return not at_depth_zero(tokens, ";", "|", "in", "else")
    if words in ([], ["assert", "false"]) or words[:3] == ["Obj", ".", "magic"]:
        return True
    return len(words) == 1 and words[0].strip('"').strip(" .!").lower() in _TO_DO


def read_type(text: str) -> Type | None:
    """Parse a type that a person wrote; None where we do not understand it."""
    try:
        return parse_type(text)
    except (TypeSyntaxError, ValueError, IndexError, RecursionError):
        return None


_HOLES = {"...", "??", "???", "…", "___"}
_UNFINISHED = {"->", "=", "with", "then", "else", "in", "begin", "of"}
_ASKS_FOR_CODE = re.compile(
    r"to ?do|fixme|(?:your|add|write|insert|missing)\b.*\b(?:code|here)|fill|implement", re.IGNORECASE
)
_TO_DO = {"todo", "tbd", "fixme", "_", "__", "?", "unimplemented", "not_implemented", "not implemented"}
_DEEPEST = 32  # brackets in brackets
_WORD_OPERATORS = {"mod", "land", "lor", "lxor", "lsl", "lsr", "asr", "or"}


def _innermost(tokens: list[Token]) -> list[Token]:
    """Take parentheses, ``begin … end`` and ``fun … ->`` off a body."""
    for _ in range(_DEEPEST):
        first = tokens[0].text if tokens else ""
        if (first == "begin" and tokens[-1].text == "end") or (
            first == "(" and len(tokens) > 2 and closing(tokens, 0) == len(tokens) - 1
        ):
            tokens = tokens[1:-1]
        elif first in {"fun", "function"}:
            arrows = at_depth_zero(tokens, "->")
            tokens = tokens[arrows[0] + 1 :] if arrows else []
        else:
            break
    return tokens


def _value_header(text: str, tokens: list[Token]) -> Header:
    """``val f : …``, ``external f : … = …`` or ``f : …``."""
    introduced = tokens[0].text in {"val", "external"}
    name, behind = _name(tokens, int(introduced))
    if behind >= len(tokens) or tokens[behind].text != ":":
        raise SignatureError(f"':' and a type should stand behind '{name}'")
    kind, equals = _annotation(tokens, behind + 1, {})
    end = tokens[-1 if equals is None else equals - 1].end
    written = " ".join(text[tokens[0].start : end].split())
    signature = Signature(name, written if introduced else f"val {written}", kind)
    parsed = read_type(kind)
    return Header(signature, _unfold((), parsed) if parsed else Shape())


def _let_header(text: str, tokens: list[Token]) -> Header:
    recursive, at = _after_let(tokens)
    name, at = _name(tokens, at)
    parts, at = groups(tokens, at)
    variables = {
        token.text: f"'{token.text}" for group in parts if is_abstract(group) for token in group[2:-1]
    }
    parameters = [parameter(text, group, variables) for group in parts if not is_abstract(group)]
    kind: str | None = None
    equals: int | None = at if at < len(tokens) else None
    if at < len(tokens) and tokens[at].text == ":":
        kind, equals = _annotation(tokens, at + 1, variables)
    end = tokens[-1].end if equals is None else tokens[equals].end
    signature = Signature(
        name=name,
        text=text[tokens[0].start : end] if equals is not None else f"{text[tokens[0].start : end]} =",
        type=_whole_type(parameters, kind),
        parameters=tuple(text[group[0].start : group[-1].end] for group in parts),
    )
    arguments = tuple(Argument(p.label, p.name, read_type(p.type) if p.type else None) for p in parameters)
    body = None if equals is None else tuple(lex(text[tokens[equals].end :]))
    return Header(signature, _unfold(arguments, read_type(kind) if kind else None), recursive, body)


def _after_let(tokens: Sequence[Token]) -> tuple[bool, int]:
    """Return whether ``rec`` follows, and the index behind ``let``, ``rec`` and attributes."""
    at, recursive = 1, False
    while at < len(tokens):
        if tokens[at].text == "rec":
            recursive = True
            at += 1
        elif tokens[at].text in {"[@", "[@@"}:
            close = closing(tokens, at)
            at = len(tokens) if close is None else close + 1
        else:
            break
    return recursive, at


def _name(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the name at ``at`` (``f`` or ``( + )``) and the index behind it."""
    if at >= len(tokens):
        raise SignatureError("it names no function")
    token = tokens[at]
    if token.kind is TokenKind.LOWER and token.text != "_":
        return token.text, at + 1
    if token.text == "(":
        close = closing(tokens, at)
        inner = tokens[at + 1 : close] if close is not None else []
        if close is not None and _is_operator(inner):
            return "".join(part.text for part in inner), close + 1
    if token.kind is TokenKind.ERROR:
        raise SignatureError(token.problem)
    raise SignatureError(f"a function's name should stand where {shown(token)} stands")


def _is_operator(tokens: Sequence[Token]) -> bool:
    if len(tokens) == 2 and tokens[0].text in {"let", "and"}:
        return tokens[1].kind is TokenKind.OPERATOR
    return len(tokens) == 1 and (tokens[0].kind is TokenKind.OPERATOR or tokens[0].text in _WORD_OPERATORS)


def _annotation(tokens: list[Token], at: int, variables: Mapping[str, str]) -> tuple[str, int | None]:
    """Read the type that starts at ``at``; return it and the index of the ``=`` behind it."""
    rest = tokens[at:]
    equals = at_depth_zero(rest, "=")
    kind = rest[: equals[0]] if equals else rest
    if not kind:
        raise SignatureError("a type should stand behind ':'")
    check_brackets(kind)
    return type_text(kind, variables), at + equals[0] if equals else None


def _whole_type(parameters: Sequence[Parameter], result: str | None) -> str | None:
    """Return ``a -> b -> c`` when each part is annotated."""
    parts = [parameter.in_arrow for parameter in parameters]
    if result is None or None in parts:
        return None
    return " -> ".join([*(part for part in parts if part), result])


def _unfold(arguments: tuple[Argument, ...], result: Type | None) -> Shape:
    while isinstance(result, Arrow):
        arguments = (*arguments, Argument(result.label.rstrip(":"), None, result.argument))
        result = result.result
    return Shape(arguments, result)

"""Reads the parameters of a header: where each ends, its label, its name, its type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocaml.errors import OCamlError
from ocaml.lexing import CLOSERS, Token, TokenKind, at_depth_zero, closing, fault, lex

__all__ = [
    "Parameter",
    "SignatureError",
    "check_brackets",
    "groups",
    "is_abstract",
    "parameter",
    "shown",
    "type_text",
]


class SignatureError(OCamlError):
    """A header that does not parse; the message says why in a few words."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its source, its label, its pattern's name, and its type as text."""

    text: str
    label: str = ""
    name: str | None = None
    type: str | None = None

    @property
    def in_arrow(self) -> str | None:
        """The type as it stands left of an arrow."""
        if self.type is None:
            return None
        tokens = lex(self.type)
        loose = at_depth_zero(tokens, "->", "as") or (self.label and at_depth_zero(tokens, "*"))
        kind = f"({self.type})" if loose else self.type
        return f"{self.label}:{kind}" if self.label else kind


def groups(tokens: Sequence[Token], at: int) -> tuple[list[Sequence[Token]], int]:
    """Return the tokens of each parameter from ``at`` on, and the index of ``=``, ``:`` or the end."""
    found: list[Sequence[Token]] = []
    while at < len(tokens) and tokens[at].text not in {"=", ":"}:
        end = _pattern_end(tokens, at)
        found.append(tokens[at:end])
        at = end
    return found, at


def parameter(text: str, group: Sequence[Token], variables: Mapping[str, str]) -> Parameter:
    """Read the tokens of one parameter; ``variables`` are the types that ``(type a)`` made abstract."""
    written = text[group[0].start : group[-1].end]
    first = group[0]
    if first.kind is TokenKind.LABEL and not first.text.endswith(":"):
        return Parameter(written, first.text.lstrip("~"), first.text[1:])
    if first.kind is TokenKind.LABEL or first.text in {"~", "?"}:
        name, kind, default = _pattern(group[1:], variables)
        label = first.text[1:-1] or name or ""
        if first.text[0] == "?":
            kind = kind if default or kind is None else _under_option(kind)
            label = f"?{label}"
        return Parameter(written, label, name or first.text[1:-1], kind)
    name, kind, _ = _pattern(group, variables)
    return Parameter(written, "", name, kind)


def type_text(tokens: Sequence[Token], variables: Mapping[str, str]) -> str:
    """Return a type in one spelling: no quantifier, ``type a.`` as ``'a``, single blanks."""
    dots = at_depth_zero(tokens, ".")
    if dots and all(t.kind is TokenKind.TYPE_VARIABLE for t in tokens[: dots[0]]):
        tokens = tokens[dots[0] + 1 :]
    elif dots and tokens[0].text == "type":
        variables = {**variables, **{t.text: f"'{t.text}" for t in tokens[1 : dots[0]]}}
        tokens = tokens[dots[0] + 1 :]
    text = ""
    before: Token | None = None
    for token in tokens:
        word = (
            token.text if before is not None and before.text == "." else variables.get(token.text, token.text)
        )
        text += word if before is None or _joined(before, token) else f" {word}"
        before = token
    return text


def is_abstract(group: Sequence[Token]) -> bool:
    """Whether a parameter is ``(type a b)``."""
    return len(group) > 2 and group[0].text == "(" and group[1].text == "type"


def check_brackets(tokens: Sequence[Token]) -> None:
    """Refuse brackets that do not match, or nest as nobody writes them."""
    problem = fault(tokens)
    if problem:
        raise SignatureError(problem)
    depth = 0
    for token in tokens:
        depth += (token.text in CLOSERS) - (token.text in _CLOSING)
        if depth > _DEEPEST:
            raise SignatureError("its brackets nest too deep")


def shown(token: Token) -> str:
    """Return a token as a message shows it."""
    text = " ".join(token.text.split())
    return f"'{text}'" if len(text) <= 30 else f"'{text[:29]}…'"


_ATOMS = {
    TokenKind.LOWER,
    TokenKind.UPPER,
    TokenKind.INT,
    TokenKind.FLOAT,
    TokenKind.STRING,
    TokenKind.CHAR,
}
_CLOSING = frozenset(CLOSERS.values())
_DEEPEST = 32  # brackets in brackets


def _pattern_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index behind the parameter that starts at ``at``."""
    token = tokens[at]
    if token.kind is TokenKind.LABEL and not token.text.endswith(":"):
        return at + 1
    if token.kind is TokenKind.LABEL or token.text in {"~", "?"}:
        at += 1
    if at >= len(tokens):
        raise SignatureError("a parameter is missing behind a label")
    return _atom_end(tokens, at)


def _atom_end(tokens: Sequence[Token], at: int) -> int:
    token = tokens[at]
    if token.kind is TokenKind.PUNCTUATION and token.text in {"(", "[", "[|", "{"}:
        close = closing(tokens, at)
        check_brackets(tokens[at:] if close is None else tokens[at : close + 1])
        return at if close is None else close + 1
    if token.kind in _ATOMS or token.text in {"true", "false"}:
        return at + 1
    if token.kind is TokenKind.ERROR:
        raise SignatureError(token.problem)
    raise SignatureError(f"a parameter should stand where {shown(token)} stands")


def _pattern(tokens: Sequence[Token], variables: Mapping[str, str]) -> tuple[str | None, str | None, bool]:
    """Return a pattern's name, its type as text, and whether a default stands in it."""
    if len(tokens) == 1 and tokens[0].kind is TokenKind.LOWER:
        return tokens[0].text, None, False
    if not tokens or tokens[0].text != "(" or closing(tokens, 0) != len(tokens) - 1:
        return None, None, False
    inner = tokens[1:-1]
    if not inner:
        return None, "unit", False
    name = inner[0].text if inner[0].kind is TokenKind.LOWER else None
    equals = at_depth_zero(inner, "=")
    typed = inner[: equals[0]] if equals else inner
    colons = at_depth_zero(typed, ":")
    if colons:
        named = name if colons[0] == 1 else None
        return named, type_text(typed[colons[0] + 1 :], variables), bool(equals)
    commas = at_depth_zero(typed, ",")
    if commas:
        return None, _tuple_type(typed, commas, variables), False
    inner_name, kind, _ = _pattern(typed, variables)
    return inner_name, kind, bool(equals)


def _tuple_type(tokens: Sequence[Token], commas: Sequence[int], variables: Mapping[str, str]) -> str | None:
    """``(a : int), (b : string)`` is ``int * string``."""
    kinds = []
    for start, end in zip([-1, *commas], [*commas, len(tokens)], strict=True):
        kind = _pattern(tokens[start + 1 : end], variables)[1]
        if kind is None:
            return None
        kinds.append(f"({kind})" if at_depth_zero(lex(kind), "*", "->") else kind)
    return " * ".join(kinds)


def _under_option(kind: str) -> str | None:
    """An optional argument without a default is annotated with the option that the body sees."""
    bare = kind.removesuffix(" option")
    return None if bare == kind else bare


def _joined(before: Token, token: Token) -> bool:
    """Whether no blank stands between two tokens of a type."""
    if before.text in {"(", ".", "`", "#", ":"} or before.text.endswith(":"):
        return True
    return token.text in {")", ",", ".", ":"} or before.text in {"[", "?"}

"""Parts an example's tokens into its two sides: at the one ``=``, or at an arrow."""

from collections.abc import Sequence

from ocaml.lexing import CLOSERS, Token, TokenKind, at_depth_zero, closing

__all__ = ["arrow", "equation", "unwrapped"]

Sides = tuple[Sequence[Token], Sequence[Token]]


def equation(tokens: Sequence[Token]) -> Sides | None:
    """Split ``a = b``; None for anything that binds less than that one ``=``."""
    tokens = unwrapped(tokens)
    loose = {"&&", "||", "&", ":=", "<-", ";", ",", "->", "|", "!="}
    comparisons: list[int] = []
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.PUNCTUATION:
            depth += (token.text in CLOSERS) - (token.text in _CLOSING)
        if depth:
            continue
        if token.kind is TokenKind.KEYWORD and token.text in _OPEN_ENDED:
            return None
        if token.text in loose:
            return None
        if token.kind is TokenKind.OPERATOR and token.text[0] in "=<>|&$" and token.text not in {"|>", "@@"}:
            comparisons.append(index)
    if len(comparisons) != 1 or tokens[comparisons[0]].text != "=":
        return None
    left, right = tokens[: comparisons[0]], tokens[comparisons[0] + 1 :]
    return (unwrapped(left), unwrapped(right)) if left and right else None


def arrow(tokens: Sequence[Token]) -> Sides | None:
    """Split ``a => b`` or ``a -> b``; None where the arrow is OCaml's own."""
    if any(token.text in {"fun", "function", "match", "try"} for token in tokens):
        return None
    arrows = at_depth_zero(tokens, *_ARROWS)
    if len(arrows) != 1 or arrows[0] in {0, len(tokens) - 1}:
        return None
    return tokens[: arrows[0]], tokens[arrows[0] + 1 :]


def unwrapped(tokens: Sequence[Token]) -> Sequence[Token]:
    """Take parentheses off that wrap all of it (a few: nobody writes more)."""
    for _ in range(8):
        wrapped = len(tokens) > 2 and tokens[0].text == "(" and closing(tokens, 0) == len(tokens) - 1
        block = len(tokens) > 2 and tokens[0].text == "begin" and tokens[-1].text == "end"
        if not wrapped and not (block and all(t.text not in {"begin", "end"} for t in tokens[1:-1])):
            break
        tokens = tokens[1:-1]
    return tokens


_CLOSING = frozenset(CLOSERS.values())
_OPEN_ENDED = {"if", "match", "fun", "function", "let", "try", "while", "for", "type", "or"}
_ARROWS = {"=>", "==>", "->", "-->", "→", "⇒"}

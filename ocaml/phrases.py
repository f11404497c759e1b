"""Splits OCaml text into its top-level phrases by tokens, also where the text is incomplete or wrong.

No parser: whether a phrase is well formed is the compiler's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ocaml.lexing import CLOSERS, Token, TokenKind, closing, lex, without_comments


class PhraseKind(StrEnum):
    """What a phrase is, named by its first keyword; ``COMMENT`` is comments with nothing behind them."""

    LET = "let"
    TYPE = "type"
    EXCEPTION = "exception"
    MODULE = "module"
    OPEN = "open"
    INCLUDE = "include"
    EXTERNAL = "external"
    CLASS = "class"
    VAL = "val"
    EXPRESSION = "expression"
    DIRECTIVE = "directive"
    ATTRIBUTE = "attribute"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase: ``text`` without its ``;;`` and the comments around it, and the ``names`` that it binds.

    ``()`` and ``_`` count as names. ``before`` and ``after`` are the comments above it and at the end of its
    last line. ``start`` and ``end`` are the offsets of all of it: comments and ``;;`` too. ``bindings`` are
    the offsets in ``text`` where its own ``let`` and each ``and`` of it begin.
    """

    kind: PhraseKind
    names: tuple[str, ...]
    text: str
    tokens: tuple[Token, ...]
    before: tuple[Token, ...]
    after: tuple[Token, ...]
    start: int
    end: int
    line: int
    bindings: tuple[int, ...] = ()

    @property
    def words(self) -> frozenset[str]:
        """The identifiers that it mentions."""
        return frozenset(t.text for t in self.tokens if t.kind in {TokenKind.LOWER, TokenKind.UPPER})

    @property
    def provides(self) -> frozenset[str]:
        """What others may use of it: the names it binds, and a type's constructors."""
        if self.kind is PhraseKind.TYPE:
            return frozenset(self.names) | {t.text for t in self.tokens if t.kind is TokenKind.UPPER}
        return frozenset(self.names)

    @property
    def defines(self) -> bool:
        """Whether it brings something that other phrases may use."""
        return self.kind in _DEFINING and not set(self.names) <= {"()", "_"}


def split(text: str) -> list[Phrase]:
    """Return the phrases of ``text`` in order; between them are blanks only."""
    tokens = lex(text)
    nesting = _nesting(tokens)
    starts = _starts(tokens, nesting)
    phrases: list[Phrase] = []
    lead = tokens[: starts[0]] if starts else tokens
    for first, last in zip(starts, [*starts[1:], len(tokens)], strict=False):
        body_end, own_end = _edges(tokens, first, last)
        if body_end > first:
            phrases.append(_phrase(text, tokens, nesting, lead, (first, body_end, own_end)))
            lead = tokens[own_end:last]
        else:
            lead = lead + [token for token in tokens[first:last] if token.kind is TokenKind.COMMENT]
    if lead:
        end = lead[-1].end
        whole = text[lead[0].start : end]
        comments = tuple(lead)
        phrases.append(
            Phrase(PhraseKind.COMMENT, (), whole, (), comments, (), lead[0].start, end, lead[0].line)
        )
    return phrases


def free_names(tokens: Sequence[Token]) -> set[str]:
    """Return the values that an expression mentions and does not bind itself (by a look at the tokens)."""
    bound: set[str] = set()
    mentioned: list[str] = []
    binding = typing = False
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text in {"fun", "function", "let", "with", "|", "for", "and"}:
            binding = True
        elif token.text in {"->", "=", "when"}:
            binding = typing = False
        elif token.text == ":":
            typing = True
        elif token.text in {")", "]", "}"}:
            typing = False
        elif token.kind is TokenKind.LOWER and token.text != "_" and before != ".":
            if binding:
                bound.add(token.text)
            elif not typing and not (after == "=" and before in {"{", ";", "with"}):
                mentioned.append(token.text)
    return set(mentioned) - bound


_DEFINING = {
    PhraseKind.LET,
    PhraseKind.TYPE,
    PhraseKind.EXCEPTION,
    PhraseKind.MODULE,
    PhraseKind.OPEN,
    PhraseKind.INCLUDE,
    PhraseKind.EXTERNAL,
    PhraseKind.CLASS,
}
_BLOCKS = {"begin": "end", "struct": "end", "sig": "end", "object": "end", "do": "done"}
# Keywords that start a phrase, unless one of these stands before them.
_NOT_AFTER: dict[str, frozenset[str]] = {
    "type": frozenset({":", "module", "class", "with", "and", "of"}),
    "exception": frozenset({"|", "let", "with", "function", "match"}),
    "module": frozenset({"let", "with", "include", "and", "of", ":"}),
    "open": frozenset({"let"}),
    "include": frozenset(),
    "external": frozenset(),
    "class": frozenset(),
    "val": frozenset(),
}


@dataclass(slots=True)
class _Nesting:
    """How deep each token stands in brackets and blocks, which ``let`` has an ``in``, whose an ``and`` is."""

    depth: list[int]
    local: set[int] = field(default_factory=set)
    owner: dict[int, int] = field(default_factory=dict)


def _nesting(tokens: Sequence[Token]) -> _Nesting:
    """Pair what opens and closes; what has no mate opens nothing, so that one slip does not hide the rest."""
    nesting = _Nesting([0] * len(tokens))
    pairs: list[tuple[int, int]] = []
    stack: list[tuple[str, int]] = []  # the closer waited for, and where it was opened
    waiting: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.kind not in {TokenKind.PUNCTUATION, TokenKind.KEYWORD}:
            continue
        text = token.text
        closer = CLOSERS.get(text) or _BLOCKS.get(text)
        if closer:
            stack.append((closer, index))
            waiting[closer] = waiting.get(closer, 0) + 1
        elif text == "let":
            stack.append(("in", index))
        elif text == "in" and stack and stack[-1][0] == "in":
            nesting.local.add(stack.pop()[1])
        elif text == "and" and stack and stack[-1][0] == "in":
            nesting.owner[index] = stack[-1][1]
        elif text == ";;":
            stack.clear()
            waiting.clear()
        elif waiting.get(text):
            while True:
                closed, opened = stack.pop()
                if closed != "in":
                    waiting[closed] -= 1
                if closed == text:
                    pairs.append((opened, index))
                    break
    _measure(nesting.depth, pairs)
    return nesting


def _measure(depth: list[int], pairs: Sequence[tuple[int, int]]) -> None:
    steps = [0] * (len(depth) + 1)
    for opened, closed in pairs:
        steps[opened + 1] += 1
        steps[closed] -= 1
    level = 0
    for index in range(len(depth)):
        level += steps[index]
        depth[index] = level


def _starts(tokens: Sequence[Token], nesting: _Nesting) -> list[int]:
    found: list[int] = []
    previous: Token | None = None
    margin = next((token.column for token in tokens), 0)
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.COMMENT:
            continue
        if previous is None:
            found.append(index)
        elif nesting.depth[index] == 0:
            anew = token.column <= margin and token.line > previous.line
            keyword = _keyword_starts(index, token, previous, nesting, anew=anew)
            if keyword or (anew and _usage_starts(token, previous, tokens[found[-1] : found[-1] + 4])):
                found.append(index)
        previous = None if token.text == ";;" else token
    return found


def _keyword_starts(index: int, token: Token, previous: Token, nesting: _Nesting, *, anew: bool) -> bool:
    if token.text == "[@@@":
        return True
    if token.kind is not TokenKind.KEYWORD:
        return False
    if token.text == "let":
        return previous.ends_operand or (anew and index not in nesting.local)
    return token.text in _NOT_AFTER and previous.text not in _NOT_AFTER[token.text]


def _usage_starts(token: Token, previous: Token, phrase: Sequence[Token]) -> bool:
    """Whether a line at the margin uses what stands above it: nobody goes on with a phrase there.

    Behind a header without a body only what can't be that body does: a use of its own name, or an
    ``assert`` after a blank line.
    """
    names = [t.text for t in phrase if t.kind is TokenKind.LOWER]
    if phrase[0].text == "let" and previous.text == "=" and names:
        own = token.text == names[0]
        return own or (token.text == "assert" and token.line > previous.line + 1 and names[0] != "_")
    uses = token.kind in {TokenKind.LOWER, TokenKind.UPPER} or token.text in {"(", "assert"}
    return uses and previous.ends_operand


def _edges(tokens: Sequence[Token], first: int, last: int) -> tuple[int, int]:
    """Return where the phrase's code ends, and where its ``;;`` and comments on that line end."""
    body_end = last
    while body_end > first and (
        tokens[body_end - 1].kind is TokenKind.COMMENT or tokens[body_end - 1].text == ";;"
    ):
        body_end -= 1
    own_end = body_end
    while own_end < last:
        before = tokens[own_end - 1]
        if tokens[own_end].text != ";;" and tokens[own_end].line > before.line + before.text.count("\n"):
            break
        own_end += 1
    return body_end, own_end


def _phrase(
    text: str,
    tokens: Sequence[Token],
    nesting: _Nesting,
    lead: Sequence[Token],
    limits: tuple[int, int, int],
) -> Phrase:
    first, body_end, own_end = limits
    body = tokens[first:body_end]
    start, end = body[0].start, body[-1].end
    kind = _kind(body, first, nesting)
    own = [first] if kind is PhraseKind.LET else []
    if kind is PhraseKind.LET:
        own += [i for i in range(first + 1, body_end) if nesting.owner.get(i) == first]
    return Phrase(
        kind=kind,
        names=_names(kind, tokens, own, body),
        text=text[start:end],
        tokens=tuple(body),
        before=tuple(lead),
        after=tuple(token for token in tokens[body_end:own_end] if token.kind is TokenKind.COMMENT),
        start=lead[0].start if lead else start,
        end=max(end, tokens[own_end - 1].end),
        line=body[0].line,
        bindings=tuple(tokens[i].start - start for i in own),
    )


def _kind(body: Sequence[Token], first: int, nesting: _Nesting) -> PhraseKind:
    text = body[0].text
    if text == "let":
        return PhraseKind.EXPRESSION if first in nesting.local else PhraseKind.LET
    if body[0].kind is TokenKind.KEYWORD and text in _NOT_AFTER:
        return PhraseKind(text)
    if text == "[@@@":
        return PhraseKind.ATTRIBUTE
    code = without_comments(body[:4])
    if text == "#" and body[0].column == 0 and len(code) > 1 and code[1].kind is TokenKind.LOWER:
        return PhraseKind.DIRECTIVE
    return PhraseKind.EXPRESSION


def _names(
    kind: PhraseKind, tokens: Sequence[Token], own: Sequence[int], body: Sequence[Token]
) -> tuple[str, ...]:
    code = without_comments(body)
    match kind:
        case PhraseKind.LET:
            bounds = [*own[1:], own[0] + len(body)]
            groups = [without_comments(tokens[i:j]) for i, j in zip(own, bounds, strict=True)]
            return tuple(name for group in groups for name in _bound(group))
        case PhraseKind.TYPE:
            return _type_names(code)
        case PhraseKind.EXCEPTION:
            return tuple(token.text for token in code[1:2])
        case PhraseKind.MODULE | PhraseKind.CLASS:
            return tuple(t.text for t in code[1:] if t.kind in {TokenKind.LOWER, TokenKind.UPPER})[:1]
        case PhraseKind.OPEN | PhraseKind.INCLUDE:
            return ("".join(token.text for token in code[1:] if token.text != "!"),)
        case PhraseKind.EXTERNAL | PhraseKind.VAL:
            return _bound(code)
        case _:
            return ()


def _bound(code: Sequence[Token]) -> tuple[str, ...]:
    """Return the names behind ``let``, ``and``, ``val`` or ``external``."""
    at = 1
    while at < len(code) and code[at].text in {"rec", "nonrec", "%"}:
        at += 2 if code[at].text == "%" else 1
    if at >= len(code):
        return ()
    token = code[at]
    if token.kind is TokenKind.LOWER:
        return (token.text,)
    if token.text != "(":
        return ()
    close = closing(code, at)
    if close is None:
        return ()
    inner = code[at + 1 : close]
    if not inner:
        return ("()",)
    names = tuple(t.text for t in inner if t.kind is TokenKind.LOWER)
    return names or ("".join(t.text for t in inner),)


def _type_names(code: Sequence[Token]) -> tuple[str, ...]:
    names: list[str] = []
    depth = 0
    expecting = False
    for token in code:
        depth += (token.text in CLOSERS) - (token.text in _CLOSED and token.kind is TokenKind.PUNCTUATION)
        if depth == 0 and token.text in {"type", "and"}:
            expecting = True
        elif expecting and depth == 0 and token.kind is TokenKind.LOWER and token.text != "_":
            names.append(token.text)
            expecting = False
    return tuple(names)


_CLOSED = frozenset(CLOSERS.values())

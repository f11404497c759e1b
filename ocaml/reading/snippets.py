"""Reads blocks of OCaml as examples: ``assert``s, ``f 1 = 2``, ``f 1 (* = 2 *)``, ``f 1 => 2``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocaml.lexing import CLOSERS, Token, TokenKind, at_depth_zero, closing, comment_text, without_comments
from ocaml.phrases import Phrase, PhraseKind
from ocaml.reading.calls import Asked, exception_pattern
from ocaml.reading.drafts import Binding, Draft, Unread, bind, in_scope
from ocaml.reading.literals import Word, parse_literal
from ocaml.reading.mentions import leading_value, stated
from ocaml.reading.sides import arrow, equation, unwrapped

__all__ = ["Snippet", "claims_of", "snippets"]


@dataclass(frozen=True, slots=True)
class Snippet:
    """The phrases of a block that are neither the header nor given definitions; the source they come from.

    ``offset`` is what makes the block's line numbers the file's.
    """

    source: str
    phrases: Sequence[Phrase]
    offset: int = 0


def snippets(snippet: Snippet, asked: Asked) -> Iterator[Draft | Unread]:
    """Find the examples of a block."""
    reader = _Reader(snippet.source, asked, snippet.offset)
    for index, phrase in enumerate(snippet.phrases):
        following = snippet.phrases[index + 1].before if index + 1 < len(snippet.phrases) else ()
        yield from reader.phrase(phrase, (*phrase.after, *following[:1]))


_CLOSING = frozenset(CLOSERS.values())
_GIVES = re.compile(
    r"(?:=+>?|-+>|→|⇒|val [a-z_][\w']* : [^=]*=|-? ?: [^=]*=|(?:it\s+)?(?:should\s+)?"
    r"(?:returns?|evaluates? to|gives?|is|be|yields?|result(?:s in)?:?))\s*(.+)\Z",
    re.DOTALL,
)


class _Reader:
    """Goes through a block's phrases; what they bind is kept for the phrases behind."""

    def __init__(self, source: str, asked: Asked, offset: int) -> None:
        self._source = source
        self._asked = asked
        self._offset = offset
        self._bindings: list[Binding] = []

    def phrase(self, phrase: Phrase, comments: Sequence[Token]) -> Iterator[Draft | Unread]:
        """Read one phrase; ``comments`` stand behind it."""
        if phrase.kind is PhraseKind.LET:
            yield from self._let(phrase, comments)
        elif phrase.kind is PhraseKind.EXPRESSION:
            for line in _logical_lines([*phrase.tokens, *comments]):
                yield from self._line(line)

    def _let(self, phrase: Phrase, comments: Sequence[Token]) -> Iterator[Draft | Unread]:
        code = without_comments(phrase.tokens)
        equals = at_depth_zero(code, "=")
        body = code[equals[0] + 1 :] if equals else []
        if not body or not self._asked.names.isdisjoint(phrase.names):
            return
        if phrase.text.startswith("let%test"):
            yield self._boolean(body, self._bindings)
            return
        if any(token.text == "assert" for token in body):
            yield from self._sequence(body, list(self._bindings))
            return
        found = self._commented(body, comments, explicit=phrase.names != ("_",))
        if found is not None:
            yield found
        if phrase.defines:
            self._bindings.append(bind(frozenset(phrase.names), phrase.text, phrase.tokens))

    def _sequence(self, tokens: Sequence[Token], bindings: list[Binding]) -> Iterator[Draft | Unread]:
        """Read ``let … in assert …; assert …; ()``."""
        tokens = unwrapped(tokens)
        at = 0
        while at < len(tokens):
            if tokens[at].text != "let":
                end = _item_end(tokens, at)
                yield from self._item(tokens[at:end], bindings)
                at = end + 1
                continue
            within = _matching_in(tokens, at)
            if within is None:
                return
            names = frozenset(t.text for t in tokens[at + 1 : within] if t.kind is TokenKind.LOWER)
            bindings.append(bind(names, self._text(tokens[at:within]), tokens[at:within]))
            at = within + 1

    def _item(self, tokens: Sequence[Token], bindings: list[Binding]) -> Iterator[Draft | Unread]:
        inner = unwrapped(tokens)
        if len(inner) < len(tokens):
            yield from self._sequence(inner, list(bindings))
        elif inner and inner[0].text == "assert":
            yield from self._claim(inner[1:], bindings)
        elif any(token.text == "assert" for token in inner):
            text = f"({self._text(inner)}; true)"
            yield Draft(text, None, self._number(inner), in_scope(bindings))

    def _claim(self, tokens: Sequence[Token], bindings: Sequence[Binding]) -> Iterator[Draft | Unread]:
        """Read what stands behind ``assert``."""
        if not tokens:
            return
        whole = len(tokens) == 1 or closing(tokens, 0) == len(tokens) - 1 or tokens[0].text in {"!", "begin"}
        if not whole and tokens[0].kind is not TokenKind.UPPER:
            yield Unread(self._number(tokens), "`assert` takes one argument: put it in parentheses")
            return
        yield self._boolean(tokens, bindings)

    def _boolean(self, tokens: Sequence[Token], bindings: Sequence[Binding]) -> Draft:
        sides = equation(tokens)
        if sides is None:
            text = self._text(unwrapped(tokens))
            return Draft(text, None, self._number(tokens), in_scope(bindings))
        left, right = sides
        if not self._about(left) and self._about(right):
            left, right = right, left
        return Draft(self._text(left), self._text(right), self._number(tokens), in_scope(bindings))

    def _line(self, tokens: Sequence[Token]) -> Iterator[Draft | Unread]:
        """Read a line (or a few that belong together) of an expression."""
        code = without_comments(tokens)
        if not code or not self._about(code):
            return
        if code[0].text == "assert":
            yield from self._claim(code[1:], self._bindings)
            return
        if code[0].text == "let":
            yield from self._local(code, [t for t in tokens if t.kind is TokenKind.COMMENT])
            return
        found = self._arrow(code) or self._equation(code) or self._commented(code, tokens, explicit=False)
        if found is None:
            found = stated(self._text(tokens), self._number(code), self._asked)
        if found is not None:
            yield found

    def _local(self, code: Sequence[Token], comments: Sequence[Token]) -> Iterator[Draft | Unread]:
        """Read ``let t = … in f t = 2``, alone or before a comment."""
        if any(token.text == "assert" for token in code):
            yield from self._sequence(code, list(self._bindings))
            return
        at = 0
        while at < len(code) and code[at].text == "let" and (within := _matching_in(code, at)) is not None:
            at = within + 1
        if equation(code[at:]) is not None:
            yield Draft(self._text(code), None, self._number(code), in_scope(self._bindings))
            return
        found = self._commented(code, comments, explicit=False)
        if found is not None:
            yield found

    def _equation(self, code: Sequence[Token]) -> Draft | None:
        return self._boolean(code, self._bindings) if equation(code) is not None else None

    def _arrow(self, code: Sequence[Token]) -> Draft | None:
        sides = arrow(code)
        if sides is None:
            return None
        expected = self._text(sides[1])
        pattern = exception_pattern(expected)
        return self._draft(sides[0], pattern or expected, raises=pattern is not None)

    def _commented(self, code: Sequence[Token], comments: Sequence[Token], *, explicit: bool) -> Draft | None:
        """Read ``f 1 (* = 2 *)``; a comment that is only a value counts behind a call of what is asked."""
        if any(token.text.startswith(("print", "Printf", "Format")) for token in code) or not self._about(
            code
        ):
            return None
        for comment in comments:
            if comment.kind is not TokenKind.COMMENT:
                continue
            text = " ".join(comment_text(comment.text).split())
            pattern = exception_pattern(text)
            if pattern is not None:
                return self._draft(code, pattern, raises=True)
            given = _GIVES.match(text)
            if given is not None:
                return self._draft(code, leading_value(given[1]) or given[1])
            plain = not explicit and code[0].text in self._asked.names and parse_literal(text)
            if plain and not (
                isinstance(plain, Word) and plain.text[0].isalpha() and text not in {"true", "false"}
            ):
                return self._draft(code, text)
        return None

    def _draft(self, code: Sequence[Token], expected: str, *, raises: bool = False) -> Draft:
        # a comment or an arrow may also introduce words: then it was no example
        tentative = not raises and parse_literal(expected) is None
        return Draft(
            self._text(code),
            expected,
            self._number(code),
            in_scope(self._bindings),
            raises,
            tentative=tentative,
        )

    def _about(self, tokens: Sequence[Token]) -> bool:
        return self._asked.is_about(frozenset(token.text for token in tokens))

    def _number(self, tokens: Sequence[Token]) -> int:
        return tokens[0].line + self._offset

    def _text(self, tokens: Sequence[Token]) -> str:
        return self._source[tokens[0].start : tokens[-1].end]


def _logical_lines(tokens: Sequence[Token]) -> list[list[Token]]:
    """Part an expression where a line starts anew at its margin: text that OCaml would read as one."""
    lines: list[list[Token]] = []
    depth = 0
    margin = tokens[0].column if tokens else 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        fresh = before is None or (
            token.line > before.line and depth == 0 and token.column <= margin and _starts_anew(token, before)
        )
        if fresh:
            lines.append([])
        lines[-1].append(token)
        if token.kind is TokenKind.PUNCTUATION:
            depth = max(0, depth + (token.text in CLOSERS) - (token.text in _CLOSING))
    return lines


def _starts_anew(token: Token, before: Token) -> bool:
    if token.kind is TokenKind.COMMENT:
        return False
    goes_on = token.kind is TokenKind.OPERATOR or token.text in {"in", "then", "else", "with", "and", "|"}
    return not goes_on and (before.kind is TokenKind.COMMENT or before.ends_operand)


def _matching_in(tokens: Sequence[Token], at: int) -> int | None:
    """Return the index of the ``in`` of the ``let`` at ``at``."""
    depth = 0
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.kind is TokenKind.KEYWORD:
            depth += (token.text == "let") - (token.text == "in")
            if depth == 0:
                return index
    return None


def _item_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the first ``;`` from ``at`` on outside brackets and blocks, or the end."""
    depth = 0
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.kind is TokenKind.PUNCTUATION:
            depth += (token.text in CLOSERS) - (token.text in _CLOSING)
        elif token.text in {"begin", "end", "do", "done"}:
            depth += 1 if token.text in {"begin", "do"} else -1
        if depth == 0 and token.text == ";":
            return index
    return len(tokens)


def claims_of(phrase: Phrase) -> int | None:
    """Return how many examples a phrase holds if it is nothing but examples; None when it says more."""
    if phrase.before or any(token.kind is TokenKind.COMMENT for token in phrase.tokens):
        return None
    if phrase.kind is PhraseKind.EXPRESSION:
        return len(_logical_lines(phrase.tokens))
    if phrase.kind is not PhraseKind.LET:
        return None
    asserts = sum(token.text == "assert" for token in phrase.tokens)
    return asserts or (0 if phrase.defines else None)

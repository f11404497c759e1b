"""OCaml's tokens, for reading what people and models write: it never raises and takes linear time.

What OCaml itself refuses becomes a token of kind ``ERROR``. A comment that holds half a string (prose does)
is read to its ``*)`` all the same; its ``problem`` says so.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple


class TokenKind(StrEnum):
    """What a token is; ``_`` is ``LOWER``, ``true`` is ``KEYWORD``, brackets are ``PUNCTUATION``."""

    LOWER = "lower"
    UPPER = "upper"
    KEYWORD = "keyword"
    INT = "int"
    FLOAT = "float"
    CHAR = "char"
    STRING = "string"
    TYPE_VARIABLE = "type variable"
    LABEL = "label"
    OPERATOR = "operator"
    PUNCTUATION = "punctuation"
    COMMENT = "comment"
    ERROR = "error"


class Token(NamedTuple):
    """A token: its text, character offsets, 1-based line, 0-based column, and what is wrong with it.

    A tuple, since a frozen dataclass takes four times as long to make, and there are many.
    """

    kind: TokenKind
    text: str
    start: int
    line: int
    column: int
    problem: str = ""

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.text)

    @property
    def ends_operand(self) -> bool:
        """Whether an expression may be complete behind it, so that ``let`` there starts a new phrase."""
        return self.kind in _OPERANDS or self.text in _OPERAND_ENDS


_KEYWORDS = """
and as assert begin class constraint do done downto else end exception external false for fun function
functor if in include inherit initializer lazy let match method module mutable new nonrec object of open or
private rec sig struct then to true try type val virtual when while with mod land lor lxor lsl lsr asr
"""
KEYWORDS = frozenset(_KEYWORDS.split())
CLOSERS = {"(": ")", "[": "]", "[|": "|]", "{": "}", "{<": ">}", "[<": "]", "[>": "]", "[@": "]", "[@@": "]"}
CLOSERS |= {"[@@@": "]", "[%": "]", "[%%": "]"}


def lex(text: str, *, comments: bool = True) -> list[Token]:
    """Return the tokens of ``text``; blanks are left out, comments too when ``comments`` is False."""
    found: list[Token] = []
    ends = CommentEnds(text)
    at, line, line_start = 0, 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        kind = match.lastgroup if match else None
        end = match.end() if match else at + 1
        if kind in _SIMPLE:
            found.append(Token(_SIMPLE[kind], text[at:end], at, line, at - line_start))
            at = end
            continue
        if kind != "blank":
            token_kind, end, problem = _classify(text, kind, at, end, ends)
            if comments or token_kind is not TokenKind.COMMENT:
                found.append(Token(token_kind, text[at:end], at, line, at - line_start, problem))
        breaks = text.count("\n", at, end)
        if breaks:
            line += breaks
            line_start = text.rindex("\n", at, end) + 1
        at = end
    return found


def without_comments(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens that the compiler sees."""
    return [token for token in tokens if token.kind is not TokenKind.COMMENT]


def normalise(text: str) -> tuple[str, ...]:
    """Return the texts of the tokens: equal for two texts that differ in blanks and comments only."""
    return tuple(token.text for token in lex(text, comments=False))


def fault(tokens: Sequence[Token]) -> str | None:
    """Say in a few words why ``tokens`` can't be OCaml (a bad token, a bracket without its mate), or None."""
    open_tokens: list[Token] = []
    for token in tokens:
        if token.kind is TokenKind.ERROR:
            return token.problem
        if token.kind is not TokenKind.PUNCTUATION:
            continue
        if token.text in CLOSERS:
            open_tokens.append(token)
        elif token.text in _CLOSING:
            if not open_tokens:
                return f"'{token.text}' closes nothing"
            opener = open_tokens.pop()
            if CLOSERS[opener.text] != token.text:
                return f"'{opener.text}' is closed by '{token.text}'"
    return f"'{open_tokens[-1].text}' is not closed" if open_tokens else None


def closing(tokens: Sequence[Token], opening: int) -> int | None:
    """Return the index of the token that closes the bracket at ``opening``, or None."""
    depth = 0
    for index in range(opening, len(tokens)):
        token = tokens[index]
        if token.kind is TokenKind.PUNCTUATION:
            depth += (token.text in CLOSERS) - (token.text in _CLOSING)
            if depth == 0:
                return index
    return None


def at_depth_zero(tokens: Sequence[Token], *texts: str) -> list[int]:
    """Return the indexes of the tokens outside all brackets whose text is one of ``texts``."""
    found, depth = [], 0
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.PUNCTUATION and token.text in CLOSERS:
            depth += 1
        elif token.kind is TokenKind.PUNCTUATION and token.text in _CLOSING:
            depth -= 1
        elif depth == 0 and token.text in texts:
            found.append(index)
    return found


def comment_text(comment: str) -> str:
    """Return the words of a comment, without its delimiters and a margin of stars."""
    inner = comment.removeprefix("(*").removesuffix("*)").lstrip("*").removesuffix("*")
    lines = inner.split("\n")
    starred = [line for line in lines[1:] if line.strip()]
    if starred and all(re.match(r"\s*\*(?:\s|\Z)", line) for line in starred):
        lines = [lines[0], *(re.sub(r"^\s*\* ?", "", line) for line in lines[1:])]
    return "\n".join(line.rstrip() for line in lines)


class CommentEnds:
    """Finds where comments end: as OCaml does, and where that fails (half a string), as a reader would.

    A failure reads to the end of the text, so only so many are tried: the time stays linear.
    """

    _TRIES = 16

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = self._TRIES

    def end(self, start: int) -> tuple[int | None, str]:
        """Return the offset behind the comment that opens at ``start`` (None: nowhere), and what is wrong."""
        if self._left > 0:
            end = self._strict(start)
            if end is not None:
                return end, ""
            self._left -= 1
            end = self._nested(start)
            if end is not None:
                return end, "a string in a comment is not closed"
        first = self._text.find("*)", start + 2)
        return (None, "") if first < 0 else (first + 2, "a comment in a comment is not closed")

    def _strict(self, start: int) -> int | None:
        depth, at = 0, start
        while (found := _IN_COMMENT.search(self._text, at)) is not None:
            mark, at = found[0], found.end()
            if mark == "(*":
                depth += 1
            elif mark == "*)":
                depth -= 1
                if depth == 0:
                    return at
            elif mark == '"':
                closed = _STRING_END.match(self._text, at)
                if closed is None:
                    return None
                at = closed.end()
            elif mark[0] == "{":
                end = _quoted_end(self._text, found.start(), at)
                if end is None:
                    return None
                at = end
        return None

    def _nested(self, start: int) -> int | None:
        depth = 0
        for found in _COMMENT_MARK.finditer(self._text, start):
            depth += 1 if found[0] == "(*" else -1
            if depth == 0:
                return found.end()
        return None


_CLOSING = frozenset(CLOSERS.values())
_OPERANDS = frozenset(
    {
        TokenKind.LOWER,
        TokenKind.UPPER,
        TokenKind.INT,
        TokenKind.FLOAT,
        TokenKind.CHAR,
        TokenKind.STRING,
        TokenKind.TYPE_VARIABLE,
    }
)
_OPERAND_ENDS = frozenset({")", "]", "}", "|]", ">}", "end", "done", "true", "false", "??", "...", "…"})

_SYMBOL = r"[!$%&*+\-./:<=>?@^|~]"
_ESCAPE = r"\\(?:[\\\"'ntbr ]|[0-9]{3}|o[0-3][0-7]{2}|x[0-9a-fA-F]{2})"
_CHAR = rf"'(?:[^\\'\n\r]|{_ESCAPE})'"
_QUOTED = r"\{(?:%%?[a-z_][\w'.]*\s*)?[a-z_]*\|"
_TOKEN = re.compile(
    rf"""
    (?P<blank>\s+)
  | (?P<comment>\(\*)
  | (?P<quoted>{_QUOTED})
  | (?P<string>")
  | (?P<char>{_CHAR})
  | (?P<type_variable>'[^\W\d][\w']*)
  | (?P<float>0[xX][\da-fA-F][\da-fA-F_]*(?:\.[\da-fA-F_]*(?:[pP][+-]?\d[\d_]*)?|[pP][+-]?\d[\d_]*)
      | \d[\d_]*(?:\.[\d_]*(?:[eE][+-]?\d[\d_]*)?|[eE][+-]?\d[\d_]*))
  | (?P<int>(?:0[xX][\da-fA-F][\da-fA-F_]*|0[oO][0-7][0-7_]*|0[bB][01][01_]*|\d[\d_]*)[lLn]?)
  | (?P<label>[~?][a-z_][\w']*:?)
  | (?P<word>[^\W\d][\w']*)
  | (?P<punctuation>;;|;|,|\(|\)|\[@@@|\[@@|\[@|\[%%|\[%|\[\||\[<|\[>|\[|\|\]|\]|\{{<|\{{|>\}}|\}}|`)
  | (?P<operator>\.\.+|\.|:[:=>]?|\#[\#!$%&*+\-./:<=>?@^|~]*|[=<>|&$@^+\-*/%!~?]{_SYMBOL}*)
    """,
    re.VERBOSE,
)
_STRING_END = re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_IN_COMMENT = re.compile(rf"\(\*|\*\)|\"|{_QUOTED}|{_CHAR}|[^\W\d][\w']*")
_COMMENT_MARK = re.compile(r"\(\*|\*\)")
_SIMPLE: dict[str | None, TokenKind] = {
    "char": TokenKind.CHAR,
    "type_variable": TokenKind.TYPE_VARIABLE,
    "float": TokenKind.FLOAT,
    "int": TokenKind.INT,
    "label": TokenKind.LABEL,
    "punctuation": TokenKind.PUNCTUATION,
    "operator": TokenKind.OPERATOR,
}


def _classify(
    text: str, kind: str | None, at: int, end: int, comments: "CommentEnds"
) -> tuple[TokenKind, int, str]:
    """Return the kind, end and problem of the token that starts at ``at``."""
    match kind:
        case None:
            return TokenKind.ERROR, end, f"{text[at]!r} means nothing in OCaml"
        case "comment":
            closed, problem = comments.end(at)
            if closed is None:
                return TokenKind.ERROR, len(text), "a comment is not closed"
            return TokenKind.COMMENT, closed, problem
        case "string":
            found = _STRING_END.match(text, end)
            if found is None:
                return TokenKind.ERROR, len(text), "a string is not closed"
            return TokenKind.STRING, found.end(), ""
        case "quoted":
            closed = _quoted_end(text, at, end)
            if closed is None:
                return TokenKind.ERROR, len(text), "a quoted string is not closed"
            return TokenKind.STRING, closed, ""
        case _:
            return _word(text[at:end]), end, ""


def _word(text: str) -> TokenKind:
    if text in KEYWORDS:
        return TokenKind.KEYWORD
    return TokenKind.UPPER if text[0].isupper() else TokenKind.LOWER


def _quoted_end(text: str, at: int, end: int) -> int | None:
    """Return the end of ``{id|…|id}`` that opens at ``at`` (its opening ends at ``end``)."""
    opening = text[at + 1 : end - 1]
    identifier = opening.split()[-1] if opening.startswith("%") and opening.split()[1:] else opening
    identifier = "" if identifier.startswith("%") else identifier
    closer = f"|{identifier}}}"
    found = text.find(closer, end)
    return None if found < 0 else found + len(closer)

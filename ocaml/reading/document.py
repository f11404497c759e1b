"""Takes a problem's text apart: prose, and blocks of OCaml with their phrases, fenced or standing loose."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum

from ocaml.lexing import CommentEnds
from ocaml.markdown import Code, Prose
from ocaml.markdown import split as split_markdown
from ocaml.phrases import Phrase
from ocaml.phrases import split as split_phrases
from ocaml.prose import looks_like_prose, starts_code
from ocaml.reading.transcripts import is_doctest, turns

__all__ = ["Block", "BlockKind", "Prose", "read_document"]


class BlockKind(StrEnum):
    """What a block of code is: OCaml source, a session or other text that may hold examples, or foreign."""

    OCAML = "ocaml"
    TEXT = "text"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: ``fence`` is its opening line, empty where it stood loose; ``line`` is its first."""

    kind: BlockKind
    text: str
    line: int
    fence: str
    phrases: tuple[Phrase, ...] = ()

    def numbered(self) -> list[tuple[int, str]]:
        """Return its lines with their numbers in the file."""
        return list(enumerate(self.text.split("\n"), self.line))


def read_document(text: str) -> list[Prose | Block]:
    """Return prose and blocks in order."""
    parts: list[Prose | Block] = []
    for part in split_markdown(text):
        if isinstance(part, Code):
            parts.append(_block(part))
        else:
            parts.extend(_loose(part))
    return parts


_OCAML_TAGS = {"ocaml", "ml", "mli", "ocamllight", "reason", "objective-caml"}
_TEXT_TAGS = {
    "",
    "text",
    "txt",
    "plain",
    "plaintext",
    "code",
    "console",
    "output",
    "terminal",
    "utop",
    "none",
}
_CONTINUES = re.compile(r"(?:assert|and|in|end)(?![\w'])|[=|:]|\[@")
_BODY = re.compile(r"(?:match|if|fun|function|begin|raise|failwith)(?![\w'])|\.\.\.|\?\?|;;")


def _block(code: Code) -> Block:
    numbered = list(enumerate(code.text.split("\n"), code.line))
    first = next((line for _, line in numbered if line.strip()), "")
    if code.tag not in _OCAML_TAGS | _TEXT_TAGS:
        kind = BlockKind.TEXT if is_doctest(first) else BlockKind.FOREIGN
        return Block(kind, code.text, code.line, code.fence)
    if is_doctest(first) or turns(numbered, fenced=True):
        return Block(BlockKind.TEXT, code.text, code.line, code.fence)
    if code.tag in _OCAML_TAGS or first.startswith("assert") or starts_code(first):
        return Block(BlockKind.OCAML, code.text, code.line, code.fence, tuple(split_phrases(code.text)))
    return Block(BlockKind.TEXT, code.text, code.line, code.fence)


def _loose(prose: Prose) -> list[Prose | Block]:
    """Find the code that stands in prose without a fence, at the margin or as an indented block."""
    return _LooseCode(prose).parts()


class _LooseCode:
    """Goes through the lines of prose."""

    def __init__(self, prose: Prose) -> None:
        self._text = prose.text
        self._lines = prose.text.split("\n")
        self._first = prose.line
        self._starts = [0, *(index + 1 for index, character in enumerate(prose.text) if character == "\n")]
        self._comments = CommentEnds(prose.text)

    def parts(self) -> list[Prose | Block]:
        """Return prose and loose blocks in order."""
        parts: list[Prose | Block] = []
        start = at = 0
        while at < len(self._lines):
            margin = self._margin(at)
            end = at if margin is None else self._end(at, margin)
            if margin is None or end == at:
                at += 1
                continue
            self._add_prose(parts, start, at)
            text = "\n".join(line.removeprefix(margin) for line in self._lines[at:end]).rstrip()
            parts.append(Block(BlockKind.OCAML, text, self._first + at, "", tuple(split_phrases(text))))
            start = at = end
        self._add_prose(parts, start, len(self._lines))
        return parts

    def _add_prose(self, parts: list[Prose | Block], start: int, end: int) -> None:
        text = "\n".join(self._lines[start:end])
        if text.strip():
            parts.append(Prose(text, self._first + start))

    def _margin(self, at: int) -> str | None:
        """Return the blanks before code that starts on line ``at``; None when none does."""
        line = self._lines[at]
        bare = line.lstrip(" \t")
        margin = line[: len(line) - len(bare)]
        indented = len(margin.expandtabs(4)) >= 4 and (at == 0 or not self._lines[at - 1].strip())
        return None if (margin and not indented) or not starts_code(bare) else margin

    def _end(self, at: int, margin: str) -> int:
        """Return the index behind the code that starts on line ``at``; ``at`` itself where it was none."""
        end = at
        while end < len(self._lines):
            line = self._lines[end]
            if line.removeprefix(margin).startswith("(*"):
                behind = self._behind_comment(end)
                if behind is None:
                    return end
                end = behind
            elif not line.strip():
                following = end
                while following < len(self._lines) and not self._lines[following].strip():
                    following += 1
                if following == len(self._lines) or not _goes_on(self._lines[following], margin):
                    return end
                end = following
            elif end > at and not _goes_on(line, margin):
                return end
            else:
                end += 1
        return end

    def _behind_comment(self, at: int) -> int | None:
        """Return the index behind the line on which the comment of line ``at`` ends."""
        closed, _ = self._comments.end(self._text.index("(*", self._starts[at]))
        return None if closed is None else bisect_right(self._starts, closed - 1)


def _goes_on(line: str, margin: str) -> bool:
    """Whether a line belongs to the code before it."""
    if margin and not line.startswith(margin):
        return False
    bare = line.removeprefix(margin)
    if bare[:1] in {" ", "\t"}:
        return not looks_like_prose(bare) and not is_doctest(bare)
    if starts_code(bare) or _CONTINUES.match(bare):
        return True
    return bool(_BODY.match(bare)) and not looks_like_prose(bare)

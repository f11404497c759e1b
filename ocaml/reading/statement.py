"""The words of a problem: its text without the header, the code given, and what was read as examples."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from ocaml.examples import Example
from ocaml.markdown import Prose
from ocaml.reading.document import Block, BlockKind
from ocaml.reading.drafts import Unread
from ocaml.reading.roles import Piece, Role, SortedBlock
from ocaml.reading.snippets import claims_of
from ocaml.reading.transcripts import doctests, turns

__all__ = ["statement"]


def statement(
    parts: Sequence[Prose | SortedBlock], examples: Sequence[Example], unread: Sequence[Unread]
) -> str:
    """Return what is left to say, as Markdown."""
    read = Counter(example.line for example in examples if example.line is not None)
    not_read = {item.line for item in unread}
    # where examples are all there is, they are the statement
    return _text(parts, read, not_read) or _text(parts, Counter(), not_read)


def _text(parts: Sequence[Prose | SortedBlock], read: Counter[int], unread: set[int]) -> str:
    told = [piece for part in parts for piece in _told(part, read, unread)]
    text = "\n\n".join(piece.strip("\n").rstrip() for piece in told if piece.strip())
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _told(part: Prose | SortedBlock, read: Counter[int], unread: set[int]) -> Iterator[str]:
    if isinstance(part, Prose):
        yield _without_doctests(part.text, part.line, read)
        return
    block = part.block
    if block.kind is not BlockKind.OCAML:
        if not (block.kind is BlockKind.TEXT and _is_session(block, read)):
            yield _fenced(block, block.text)
        return
    code: list[Piece] = []
    for piece in part.pieces:
        if piece.role is Role.CODE:
            code.append(piece)
            continue
        if piece.role is Role.COMMENT:
            yield from _code(block, code, read, unread)
            code = []
            yield _without_doctests(_outdented(piece.text), piece.line, read)
    yield from _code(block, code, read, unread)


def _without_doctests(text: str, line: int, read: Counter[int]) -> str:
    """Take out the ``>>>`` lines that were read, and the values under them."""
    if ">>>" not in text:
        return text
    lines = text.split("\n")
    gone = {
        number
        for found in doctests(list(enumerate(lines, line)))
        if found.line in read
        for number in range(found.line, found.last + 1)
    }
    return "\n".join(words for number, words in enumerate(lines, line) if number not in gone)


def _outdented(comment: str) -> str:
    """Take the indentation off a comment's lines; its first line stands behind the opening."""
    first, _, rest = comment.partition("\n")
    return f"{first.strip()}\n{textwrap.dedent(rest)}" if rest else first.strip()


def _is_session(block: Block, read: Counter[int]) -> bool:
    """Whether every line belongs to a session whose turns were all read."""
    numbered = block.numbered()
    found = [(item.line, item.last) for item in doctests(numbered)]
    found += [(item.line, item.last) for item in turns(numbered, fenced=True)]
    covered = {number for first, last in found for number in range(first, last + 1)}
    whole = all(number in covered for number, line in numbered if line.strip())
    return bool(found) and whole and all(first in read for first, _ in found)


def _code(block: Block, pieces: Sequence[Piece], read: Counter[int], unread: set[int]) -> Iterator[str]:
    """Show usage, unless all of it was read as examples."""
    if not pieces:
        return
    last = block.line + block.text.count("\n")
    lines = range(pieces[0].line, last + 1)
    claims = [claims_of(piece.phrase) if piece.phrase else None for piece in pieces]
    told = sum(read[line] for line in lines)
    whole = None not in claims and sum(count or 0 for count in claims) == told
    if whole and told and unread.isdisjoint(lines):
        return
    yield _fenced(block, "\n".join(piece.text for piece in pieces))


def _fenced(block: Block, text: str) -> str:
    opening = block.fence.strip() or "```ocaml"
    marks = re.match(r"(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})", opening)
    fence = marks[1] if marks else "```"
    return f"{opening[opening.index(fence) :] if marks else opening}\n{text.strip(chr(10)).rstrip()}\n{fence}"

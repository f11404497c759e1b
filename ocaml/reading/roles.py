"""Says what each phrase of a problem's code is for: the header, code that is given, or usage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ocaml.lexing import Token, comment_text
from ocaml.markdown import Prose
from ocaml.phrases import Phrase, PhraseKind
from ocaml.reading.document import Block
from ocaml.reading.headers import Candidate
from ocaml.signature import Signature

__all__ = ["Piece", "Role", "SortedBlock", "sort_blocks"]


class Role(StrEnum):
    """What a piece of code is for. ``COMMENT`` is prose that stands in a comment."""

    COMMENT = "comment"
    HEADER = "header"
    DEFINITION = "definition"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Piece:
    """A phrase with the comments that belong to it, or a comment's words; ``line`` is that of the file."""

    role: Role
    text: str
    line: int
    phrase: Phrase | None = None


@dataclass(frozen=True, slots=True)
class SortedBlock:
    """A block and its pieces in order; a block that is not OCaml has none."""

    block: Block
    pieces: tuple[Piece, ...] = ()


def sort_blocks(
    parts: Sequence[Prose | Block],
    headers: Sequence[Candidate],
    signature: Signature | None,
    names: frozenset[str],
) -> list[Prose | SortedBlock]:
    """Say of each phrase what it is for. ``names`` are the functions that have headers."""
    asked = {
        id(header.phrase)
        for header in headers
        if header.phrase is not None
        and header.signature is not None
        and signature is not None
        and header.signature.name == signature.name
        and len(header.phrase.bindings) < 2
    }
    stubs = {id(header.phrase) for header in headers}
    found: list[Prose | SortedBlock] = []
    spoken = any(isinstance(part, Prose) for part in parts)
    for part in parts:
        if isinstance(part, Prose):
            found.append(part)
            continue
        # a value stands with what is given, not with usage, when its block brings types or the header
        typed = any(phrase.kind in _GIVEN or id(phrase) in asked for phrase in part.phrases)
        roles = [_role(phrase, asked, stubs, names, typed=typed) for phrase in part.phrases]
        spoken = spoken or any(
            role is Role.HEADER and phrase.before for role, phrase in zip(roles, part.phrases, strict=True)
        )
        found.append(SortedBlock(part, tuple(_pieces(part, roles, spoken=spoken))))
        spoken = spoken or any(phrase.before for phrase in part.phrases)
    return found


_GIVEN = {PhraseKind.TYPE, PhraseKind.EXCEPTION, PhraseKind.MODULE, PhraseKind.CLASS}


def _role(phrase: Phrase, asked: set[int], stubs: set[int], names: frozenset[str], *, typed: bool) -> Role:
    if id(phrase) in asked:
        return Role.HEADER
    if phrase.kind in _GIVEN:
        return Role.DEFINITION
    if phrase.kind in {PhraseKind.OPEN, PhraseKind.INCLUDE}:
        return Role.DEFINITION if typed else Role.CODE
    given = phrase.kind is PhraseKind.LET and phrase.defines and id(phrase) not in stubs
    if not given or not names.isdisjoint(phrase.names) or not names.isdisjoint(phrase.words):
        return Role.CODE
    return Role.DEFINITION if typed and "assert" not in {t.text for t in phrase.tokens} else Role.CODE


def _pieces(block: Block, roles: Sequence[Role], *, spoken: bool) -> Iterator[Piece]:
    """Part a block; the comments of the first definition speak for the problem when nothing else does."""
    for role, phrase in zip(roles, block.phrases, strict=True):
        if phrase.kind is PhraseKind.COMMENT:
            yield from (_comment(block, comment) for comment in phrase.before)
            continue
        if role is Role.HEADER:
            apart = len(phrase.before)
        elif role is Role.DEFINITION:
            apart = _detached(block, phrase) if spoken else len(phrase.before)
        else:
            apart = next((i for i, c in enumerate(phrase.before) if not _speaks(c)), len(phrase.before))
        spoken = spoken or bool(phrase.before)
        yield from (_comment(block, comment) for comment in phrase.before[:apart])
        start = phrase.before[apart].start if apart < len(phrase.before) else phrase.tokens[0].start
        line = block.line + phrase.line - 1
        yield Piece(role, block.text[start : phrase.end], line, phrase)


def _detached(block: Block, phrase: Phrase) -> int:
    """Return how many of the comments above a definition do not touch it."""
    below = phrase.tokens[0].start
    for index in range(len(phrase.before) - 1, -1, -1):
        comment = phrase.before[index]
        if block.text.count("\n", comment.end, below) > 1 or ">>>" in comment.text:
            return index + 1
        below = comment.start
    return 0


def _speaks(comment: Token) -> bool:
    """Whether a comment over usage speaks of the problem, not of the line under it."""
    return comment.text.startswith("(**") or ">>>" in comment.text


def _comment(block: Block, comment: Token) -> Piece:
    return Piece(Role.COMMENT, comment_text(comment.text), block.line + comment.line - 1)

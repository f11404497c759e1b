"""Reads a whole problem: the header asked for, the code given, the examples, and what is left to say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocaml.examples import Example, read_examples
from ocaml.lexing import normalise
from ocaml.phrases import PhraseKind
from ocaml.phrases import split as split_phrases
from ocaml.reading.calls import Asked
from ocaml.reading.document import Block, BlockKind, Prose, read_document
from ocaml.reading.drafts import Passage, PassageKind
from ocaml.reading.headers import Candidate, choose, code_headers, defined, sentence_headers, session_headers
from ocaml.reading.notation import Known
from ocaml.reading.roles import Role, SortedBlock, sort_blocks
from ocaml.reading.snippets import Snippet
from ocaml.reading.statement import statement
from ocaml.reading.transcripts import turns
from ocaml.signature import Shape, Signature, shape
from ocaml.typexpr import Record, Type, Variant, parse_declarations

__all__ = ["Reading", "read"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a problem's text says; the fields are those of ``Problem``."""

    statement: str
    signature: Signature | None
    definitions: str
    examples: tuple[Example, ...]
    unread: tuple[str, ...]


def read(text: str, *, asked: Signature | None = None, name: str = "") -> Reading:
    """Read a problem. ``asked`` is its header when something else gave it, ``name`` the function's name.

    Raises SignatureError when the header does not parse.
    """
    document = read_document(text)
    blocks = [part for part in document if isinstance(part, Block)]
    headers = list(code_headers(blocks))
    signature = asked or _asked(document, blocks, headers, name)
    names = _names(headers, signature)
    parts = sort_blocks(document, headers, signature, names)
    definitions = "\n".join(_definitions(parts))
    about = Asked(
        name=signature.name if signature else None,
        names=names,
        shape=shape(signature) if signature else Shape(),
        known=_known(definitions),
    )
    examples, unread = read_examples(list(_passages(parts)), list(_snippets(parts)), about)
    return Reading(
        statement=statement(parts, examples, unread),
        signature=signature,
        definitions=definitions,
        examples=examples,
        unread=tuple(f"The example on line {item.line} was not read: {item.why}." for item in unread),
    )


def _asked(
    document: Sequence[Prose | Block], blocks: Sequence[Block], headers: Sequence[Candidate], name: str
) -> Signature | None:
    """Return the header of the code, of a sentence or of a session, or that of a function to write anew."""
    prose = [part for part in document if isinstance(part, Prose)]
    in_code = choose(headers, name) if any(header.signature for header in headers) else None
    if in_code is not None:
        return in_code
    in_words = list(sentence_headers(prose))
    whole = defined(blocks, frozenset(word for part in prose for word in normalise(part.text)))
    return choose([*session_headers(blocks), *whole, *headers, *in_words], name)


def _names(headers: Sequence[Candidate], signature: Signature | None) -> frozenset[str]:
    """Return every function that has a header, each of a ``let … and …`` too."""
    names = {signature.name} if signature else set()
    for header in headers:
        if header.signature is not None:
            names |= {header.signature.name, *(header.phrase.names if header.phrase else ())}
    return frozenset(names)


def _definitions(parts: Sequence[Prose | SortedBlock]) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, SortedBlock):
            continue
        yield from (piece.text for piece in part.pieces if piece.role is Role.DEFINITION)
        if part.block.kind is BlockKind.TEXT:
            for turn in turns(part.block.numbered(), fenced=True):
                given = split_phrases(turn.phrase)
                if given and all(phrase.kind in _SESSION_GIVES for phrase in given):
                    yield turn.phrase


_SESSION_GIVES = {PhraseKind.TYPE, PhraseKind.EXCEPTION, PhraseKind.MODULE}


def _known(definitions: str) -> Known:
    """Return the types that are another name, and the values, that the problem gives."""
    aliases: dict[str, Type] = {}
    values: set[str] = set()
    for phrase in split_phrases(definitions):
        if phrase.kind is PhraseKind.LET:
            values |= set(phrase.names)
        if phrase.kind is not PhraseKind.TYPE:
            continue
        try:
            declarations = parse_declarations(" ".join(normalise(phrase.text)))
        except RecursionError:
            continue
        for name, declaration in declarations.items():
            body = declaration.body
            if body is not None and not isinstance(body, Variant | Record) and not declaration.parameters:
                aliases[name] = body
    return Known(aliases, frozenset(values))


def _passages(parts: Sequence[Prose | SortedBlock]) -> Iterator[Passage]:
    """Return where examples may stand, in order; a comment's words are prose."""
    for part in parts:
        if isinstance(part, Prose):
            yield Passage(PassageKind.PROSE, part.text, part.line)
        elif part.block.kind is BlockKind.TEXT:
            yield Passage(PassageKind.TEXT, part.block.text, part.block.line)
        elif part.block.kind is BlockKind.OCAML:
            yield from (
                Passage(PassageKind.PROSE, piece.text, piece.line)
                for piece in part.pieces
                if piece.role is Role.COMMENT
            )
            if any(piece.role is Role.CODE for piece in part.pieces):
                yield Passage(PassageKind.OCAML, part.block.text, part.block.line)


def _snippets(parts: Sequence[Prose | SortedBlock]) -> Iterator[Snippet]:
    for part in parts:
        if isinstance(part, SortedBlock) and part.block.kind is BlockKind.OCAML:
            code = [piece.phrase for piece in part.pieces if piece.role is Role.CODE and piece.phrase]
            yield Snippet(part.block.text, code, part.block.line - 1)

"""Finds the function asked for: the last header in the code, else one in a sentence, else in a session."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ocaml.markdown import Prose
from ocaml.phrases import Phrase, PhraseKind
from ocaml.reading.document import Block, BlockKind
from ocaml.reading.transcripts import turns, value_types
from ocaml.signature import Signature, SignatureError, parse_header

__all__ = ["Candidate", "choose", "code_headers", "defined", "sentence_headers", "session_headers"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A header found: what it says (or why it does not parse), its line, and the phrase that it is."""

    line: int
    signature: Signature | None = None
    problem: str = ""
    phrase: Phrase | None = None


def code_headers(blocks: Sequence[Block]) -> Iterator[Candidate]:
    """Find the headers that stand in code without a body, or with one that only keeps the place."""
    for block in blocks:
        for phrase in block.phrases if block.kind is BlockKind.OCAML else ():
            line = block.line + phrase.line - 1
            if phrase.kind is PhraseKind.VAL:
                yield _candidate(phrase.text, line, phrase)
            elif phrase.kind is PhraseKind.LET and not {"()", "_"} & set(phrase.names):
                yield from _let_candidate(phrase, line)


def sentence_headers(prose: Sequence[Prose]) -> Iterator[Candidate]:
    """Find headers in sentences; the surer a find is, the later it comes."""
    found = [found for part in prose for found in _in_sentences(part)]
    yield from (candidate for sure, candidate in sorted(found, key=lambda pair: pair[0]))


def session_headers(blocks: Sequence[Block]) -> Iterator[Candidate]:
    """Find functions whose type a toplevel session shows."""
    for block in blocks:
        if block.kind is BlockKind.TEXT:
            for name, kind, line in value_types(turns(block.numbered(), fenced=True)):
                yield _candidate(f"val {name} : {kind}", line, None)


def defined(blocks: Sequence[Block], words: frozenset[str]) -> Iterator[Candidate]:
    """Find whole functions that the problem's words name: one to mend or to write anew."""
    for block in blocks:
        for phrase in block.phrases:
            if phrase.kind is PhraseKind.LET and not words.isdisjoint(phrase.names[:1]):
                found = _candidate(phrase.text, block.line + phrase.line - 1, phrase)
                if found.signature is not None:
                    yield found


def choose(candidates: Sequence[Candidate], name: str = "") -> Signature | None:
    """Return the last header (of ``name``, where one has it); its type may stand in another of that name.

    Raises SignatureError when there are headers and none parses.
    """
    signatures = [candidate.signature for candidate in candidates if candidate.signature is not None]
    if not signatures:
        broken = [candidate for candidate in candidates if candidate.problem]
        if broken:
            raise SignatureError(
                f"the signature on line {broken[-1].line} does not parse, {broken[-1].problem}: "
                "write it like `let f (x : int) : int =` or `val f : int -> int`"
            )
        return None
    chosen = next((found for found in reversed(signatures) if found.name == name), signatures[-1])
    if chosen.type is None:
        kind = next((found.type for found in signatures if found.name == chosen.name and found.type), None)
        chosen = replace(chosen, type=kind)
    return chosen


_SPAN = re.compile(r"``?([^`\n]+)``?")
_LONGEST = 2_000  # characters of a line in which a header is looked for
_TYPED = re.compile(r"(?:\(\s*[^\s\w]+\s*\)|[a-z_][\w']*)\s*:(?![:=])")
_ASKING = re.compile(
    r"\b(?:functions?|write|implement|define|defining|called|named|create|complete|signature|type|header|predicate|"
    r"operator|declaration|interface|provide|of the form|value)\W*$",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[a-z_][\w']*(?:\s+(?:~?[a-z_][\w']*|\(\)))+\Z")
_BARE = re.compile(
    r"^[\s>*-]*\**(?:type|signature|header|function|declaration|prototype)s?\**\s*:\**\s*"
    r"((?:let|val)\s.*|[a-z_][\w']*\s*:[^:=].*->.*?)\.?\s*$",
    re.IGNORECASE,
)


def _let_candidate(phrase: Phrase, line: int) -> Iterator[Candidate]:
    """Read ``let … and …``: the first function is the one asked for."""
    bounds = [*phrase.bindings[1:], len(phrase.text)]
    texts = [phrase.text[start:end] for start, end in zip(phrase.bindings, bounds, strict=True)]
    try:
        headers = [parse_header(text) for text in texts]
    except SignatureError as error:
        if len(phrase.tokens) < 200:
            yield Candidate(line, None, str(error), phrase)
        return
    if all(header.bare for header in headers):
        yield Candidate(line, headers[0].signature, "", phrase)


def _candidate(text: str, line: int, phrase: Phrase | None) -> Candidate:
    try:
        return Candidate(line, parse_header(text).signature, "", phrase)
    except SignatureError as error:
        return Candidate(line, None, str(error), phrase)


def _in_sentences(prose: Prose) -> Iterator[tuple[int, Candidate]]:
    """Find headers, and how sure each is: 0 a name with parameters, 1 a type, 2 one asked for, 3 ``let``."""
    for number, line in enumerate(prose.text.split("\n"), prose.line):
        if len(line) > _LONGEST:
            continue
        bare = _BARE.match(line.replace("`", ""))
        if bare is not None:
            sure, candidate = _in_span(bare[1], number, asking=True)
            if sure >= 0:
                yield sure, candidate
                continue
        for span in _SPAN.finditer(line):
            asking = bool(_ASKING.search(line[: span.start()][-80:]))
            sure, candidate = _in_span(span[1].strip(), number, asking=asking)
            if sure >= 0:
                yield sure, candidate


def _in_span(text: str, line: int, *, asking: bool) -> tuple[int, Candidate]:
    nothing = (-1, Candidate(line))
    if text.startswith(("let ", "val ")):
        return _in_let(text, line) or nothing
    if _TYPED.match(text):
        candidate = _candidate(text, line, None)
        sure = 2 if asking else 1
        typed = candidate.signature is not None and ("->" in text or asking)
        return (sure, candidate) if typed else nothing
    if asking and _NAMED.match(text):
        return 0, _candidate(f"let {text} =", line, None)
    return nothing


def _in_let(text: str, line: int) -> tuple[int, Candidate] | None:
    try:
        header = parse_header(text)
    except SignatureError as error:
        # half a phrase in a sentence is no header; one with parameters was meant to be
        return (3, Candidate(line, None, str(error))) if "(" in text and ":" in text else None
    value = text.startswith("let") and not header.signature.parameters and header.signature.type is None
    return (3, Candidate(line, header.signature)) if header.bare and not value else None

"""Reads examples as kata sites give them: ``Input: …`` / ``Output: …``, sections, lists of ``[1,2] -> 3``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocaml.reading.calls import Asked, NotOCaml, call_at
from ocaml.reading.drafts import Draft, Passage, PassageKind, Unread
from ocaml.reading.inputs import describes, kata_draft, plain
from ocaml.reading.tables import tables

__all__ = ["katas"]


def katas(passages: Sequence[Passage], asked: Asked) -> Iterator[Draft | Unread]:
    """Find the Input/Output pairs, tables and lists of a whole problem."""
    rows = [row for block, passage in enumerate(passages) for row in _rows(passage, block)]
    yield from _pairs(rows, asked)
    yield from tables([(row.number, row.text) for row in rows], asked)
    yield from _listed(rows, asked)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line; ``block`` is the number of the code block that it stands in, None in prose."""

    number: int
    text: str
    block: int | None


@dataclass(frozen=True, slots=True)
class _Label:
    """A line that says ``Input`` or ``Output``, and what stands behind it on the line."""

    output: bool
    rest: str


_LONGEST = 12_000  # characters of a line that is looked at
_MOST_LINES = 40  # of one input or output
_LABEL = re.compile(
    r"^\s*+(?:>\s*+)*+(?:\(\*++\s*+)?(?:(?:[-*+•]|\d+[.)])\s++)?(#{1,6}\s++)?([*_`]{0,3})"
    r"(?:(?:sample|example|test)\s+)?"
    r"(inputs?|outputs?|expected(?:\s+(?:outputs?|results?|values?))?|results?|returns?)\b(?:\s*#?\d+)?([*_`]{0,3})"
    r"\s*+(:?)\s*+(?:[*_]{1,3}(?=\s|$))?\s*+(.*)$",
    re.IGNORECASE,
)
_OUTPUT_BEHIND = re.compile(
    r"(?<![\w\"'])[*_]{0,3}(?:expected\s+)?(?:outputs?|results?|returns?|expected)[*_]{0,3}\s*+:[*_]{0,3}",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"^\s*+(?:[-*+•]\s++)?(?:#{1,6}\s++)?[*_]{0,3}"
    r"(?:explanation|notes?|constraints?|examples?|hints?|why|follow[- ]up|because)\b"
    r"[\s\d]*+[*_]{0,3}\s*+(?::|$)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\s+[\[({\"'\d-]|\s*+[A-Za-z_]\w*\s*=\s")
_ARROW = re.compile(r"(?<=[\s`])(?:=>|==?>|-+>|→|⇒|⟹|↦)(?=[\s`])")
_BULLET = re.compile(r"^\s*+(?:>\s*+)?(?:(?:[-*+•]|\d+[.)])\s++)?")
_EXAMPLES = re.compile(
    r"^[^\w]*+(?:(?:some|sample)\s+)?(?:examples?|samples?|for example|e\.g\.)(?!\w)[\s\d]*+\W*$",
    re.IGNORECASE,
)


def _rows(passage: Passage, block: int) -> Iterator[_Row]:
    inside = None if passage.kind is PassageKind.PROSE else block
    for number, text in passage.lines():
        yield _Row(number, text if len(text) <= _LONGEST else "", inside)


def _pairs(rows: Sequence[_Row], asked: Asked) -> Iterator[Draft | Unread]:
    at = 0
    while at < len(rows):
        start, label = at, _label(rows, at)
        if label is None or label.output:
            at += 1
            continue
        behind = _OUTPUT_BEHIND.search(label.rest)
        if behind is not None:
            given = (
                label.rest[: behind.start()]
                .rstrip(" \t,;.|")
                .removesuffix("->")
                .removesuffix("=>")
                .rstrip(" →")
            )
            expected, at = label.rest[behind.end() :].strip(), at + 1
            if not expected:
                expected, at = _content(rows, at)
        else:
            given, at = _introduced(rows, at, label)
            while at < len(rows) and not rows[at].text.strip():
                at += 1
            following = _label(rows, at)
            if following is None or not following.output:
                continue
            expected, at = _introduced(rows, at, following)
        found = _pair(plain(given), plain(expected), rows[start].number, asked)
        if found is not None:
            yield found


def _label(rows: Sequence[_Row], at: int) -> _Label | None:
    found = _LABEL.match(rows[at].text) if at < len(rows) else None
    if found is None:
        return None
    heading, bold, word, _, colon, rest = found.groups()
    alone = not rest and (heading or bold or rows[at].text.strip().lower() == word.lower())
    return _Label(not word.lower().startswith("input"), rest) if colon or alone else None


def _introduced(rows: Sequence[_Row], at: int, label: _Label) -> tuple[str, int]:
    """Return what a label introduces (on its line, or below it) and the index behind."""
    if not label.rest.strip():
        return _content(rows, at + 1)
    lines = [label.rest]
    at += 1
    while at < len(rows) and len(lines) < _MOST_LINES and _goes_on(rows, at):
        lines.append(rows[at].text.strip())
        at += 1
    return "\n".join(lines), at


def _goes_on(rows: Sequence[_Row], at: int) -> bool:
    """Whether a line under ``Input: …`` holds more of it."""
    text = rows[at].text
    return bool(_GOES_ON.match(text)) and _label(rows, at) is None and not _OTHER.match(text)


def _content(rows: Sequence[_Row], at: int) -> tuple[str, int]:
    """Read the lines from ``at`` on, up to a blank one, the next label, or the end of their block."""
    while at < len(rows) and not rows[at].text.strip():
        at += 1
    lines: list[str] = []
    block = rows[at].block if at < len(rows) else None
    while at < len(rows) and len(lines) < _MOST_LINES:
        row = rows[at]
        if row.block != block or not row.text.strip() or _label(rows, at) or _OTHER.match(row.text):
            break
        lines.append(row.text.strip())
        at += 1
    return "\n".join(lines), at


def _pair(given: str, expected: str, number: int, asked: Asked) -> Draft | Unread | None:
    if describes(given) or describes(expected):
        return None
    try:
        return kata_draft([("", given)], expected, number, asked)
    except NotOCaml as problem:
        return Unread(number, str(problem))


def _listed(rows: Sequence[_Row], asked: Asked) -> Iterator[Draft]:
    """Read ``[1, 2] -> 3`` under the word "Examples": what does not fit the header there is no example."""
    inside = False
    for row in rows:
        if _EXAMPLES.match(row.text):
            inside = True
            continue
        text = _BULLET.sub("", row.text, count=1).strip()
        parts = _ARROW.split(text, maxsplit=2) if inside else []
        if len(parts) != 2:
            inside = inside and not text
            continue
        given, expected = (part.strip().strip("`").strip() for part in parts)
        if call_at(given) is not None:
            continue
        try:
            found = kata_draft([("", given)], expected, row.number, asked)
        except NotOCaml:
            continue
        yield Draft(found.expression, found.expected, found.line, raises=found.raises, tentative=True)

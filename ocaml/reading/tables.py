"""Reads Markdown tables as examples: columns for the input, or for each parameter, and for the output."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocaml.reading.calls import Asked, NotOCaml
from ocaml.reading.drafts import Draft, Unread
from ocaml.reading.inputs import column_key, describes, kata_draft, plain

__all__ = ["tables"]


def tables(lines: Sequence[tuple[int, str]], asked: Asked) -> Iterator[Draft | Unread]:
    """Find the rows that are examples; a table of something else gives none."""
    at = 1
    while at < len(lines):
        header = _cells(lines[at - 1][1]) if _RULE.match(lines[at][1]) else []
        at += 1
        if len(header) < 2:
            continue
        columns = _columns(header, asked)
        while at < len(lines) and "|" in lines[at][1]:
            found = None if columns is None else _row(lines[at], header, columns, asked)
            if found is not None:
                yield found
            at += 1


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the inputs and the output stand."""

    inputs: tuple[int, ...]
    output: int


_LONGEST = 4_000  # characters of a row
_RULE = re.compile(r"^\s*+\|?\s*+:?-+:?\s*+(?:\|\s*+:?-+:?\s*+)*+\|?\s*$")
_CELL = re.compile(r"(?:`[^`]*`|\\\||\[\||\|\]|\"(?:[^\"\\|]|\\.)*\"|[^|])*")
_OUTPUT = re.compile(
    r"(?:expected\b.*|outputs?|results?|returns?(?: value)?|values?|answers?|gives)\Z", re.IGNORECASE
)
_INPUT = re.compile(r"(?:inputs?|calls?|expressions?|arguments?|args|examples?|given)\b.*\Z", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:#|no\.?|case|test|name|explanation|notes?|why|comments?|remarks?|description|)\Z", re.IGNORECASE
)


def _cells(line: str) -> list[str]:
    """Part a row; a ``|`` in code, in ``[| |]``, in a string or behind a backslash parts nothing."""
    text = line.strip().removeprefix("|")
    if len(text) > _LONGEST:
        return []
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    cells: list[str] = []
    at = 0
    while True:
        found = _CELL.match(text, at)
        end = found.end() if found else at
        cells.append(text[at:end].strip().replace("\\|", "|"))
        if end >= len(text):
            return cells
        at = end + 1


def _columns(header: Sequence[str], asked: Asked) -> _Columns | None:
    names = [plain(cell).strip("*_ ") for cell in header]
    parameters = {column_key(a.name or a.label.lstrip("?")) for a in asked.shape.arguments} - {""}
    inputs = [i for i, name in enumerate(names) if column_key(name) in parameters]
    inputs = inputs or [i for i, name in enumerate(names) if _INPUT.match(name)]
    outputs = [i for i, name in enumerate(names) if _OUTPUT.match(name)]
    # `| n | fib n |`: a column that is headed by the call holds its value
    calls = [i for i, n in enumerate(names) if asked.name and re.match(rf"{re.escape(asked.name)}\b", n)]
    if calls and not inputs:
        words = re.findall(r"[a-z_][\w']*", names[calls[0]])[1:]
        inputs = [i for i, name in enumerate(names) if name in words]
    outputs += calls
    output = next((i for i in outputs if i not in inputs), None)
    if output is None or not inputs:
        return None
    others = [i for i in range(len(names)) if i != output and i not in inputs]
    known = all(_ASIDE.match(names[i]) or i > output for i in others)
    return _Columns(tuple(inputs), output) if known else None


def _row(
    line: tuple[int, str], header: Sequence[str], columns: _Columns, asked: Asked
) -> Draft | Unread | None:
    number, text = line
    cells = [plain(cell) for cell in _cells(text)]
    if len(cells) > len(header) or max(columns.output, *columns.inputs) >= len(cells):
        many = f"the row has {len(cells)} cells where the table has {len(header)}"
        return Unread(number, f"{many}; write `\\|` for a `|` inside a value")
    given = [(plain(header[i]), cells[i]) for i in columns.inputs]
    expected = cells[columns.output]
    if not expected or describes(expected) or any(describes(value) for _, value in given):
        return None
    named = {column_key(a.name or a.label.lstrip("?")) for a in asked.shape.arguments} - {""}
    if len(given) == 1 and (column_key(given[0][0]) not in named or "=" in given[0][1]):
        given = [("", given[0][1])]
    try:
        return kata_draft(given, expected, number, asked)
    except NotOCaml as problem:
        return Unread(number, str(problem))

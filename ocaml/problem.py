"""A problem as data, and the door where Markdown, OCaml with a doc comment or a dataset row becomes one."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ocaml.errors import OCamlError
from ocaml.examples import Example, contradiction
from ocaml.reading.reader import Reading, read
from ocaml.signature import Signature, SignatureError, parse_signature

__all__ = [
    "Example",
    "Problem",
    "ProblemError",
    "Signature",
    "parse_problem",
    "parse_row",
    "read_problem",
]

MOST_BYTES = 1024 * 1024  # of a problem's text


@dataclass(frozen=True, slots=True)
class Problem:
    """A statement, the function asked for, the types it comes with, examples and tests.

    ``statement`` is the prose, with what of the code is not said elsewhere: the header and the definitions
    are taken out, and so are blocks and ``>>>`` lines that were read as examples.
    ``definitions`` is OCaml (types, exceptions, modules) that the answer may rely on. ``tests`` is
    OCaml source of assertions that is never shown to the model; examples are. ``unread`` says, a
    sentence each, which examples could not be read.
    """

    id: str
    statement: str
    signature: Signature | None = None
    definitions: str = ""
    examples: tuple[Example, ...] = ()
    tests: str = ""
    unread: tuple[str, ...] = ()


class ProblemError(OCamlError):
    """A problem that can't be read; the message is a sentence that says why and what to do."""


def read_problem(path: Path | str, *, stdin: BinaryIO | None = None) -> Problem:
    """Read a problem from a file, or from standard input for ``-``. Raises ProblemError."""
    if str(path) == "-":
        source = stdin if stdin is not None else sys.stdin.buffer
        what, name, data = "The standard input", "stdin", source.read(MOST_BYTES + 1)
    else:
        what, name, data = str(path), Path(path).stem, _bytes(Path(path))
    return _problem(_checked(_decoded(data, what), what), name, what)


def parse_problem(text: str, *, id: str) -> Problem:  # noqa: A002 - the field's name
    """Read a problem from its text. Raises ProblemError."""
    return _problem(_checked(text, id), id, id)


def parse_row(row: Mapping[str, object]) -> Problem:
    """Read a dataset row (``prompt`` or its like, ``tests``, ``signature``). Raises ProblemError."""
    name = next((str(row[key]) for key in ("id", "task_id", "name") if row.get(key) not in (None, "")), "row")
    prompt = _text(row, name, "prompt", "statement", "problem", "question", "description")
    header = _text(row, name, "signature")
    function = _text(row, name, "function", "entry_point", "function_name")
    if not prompt.strip() and not header.strip():
        raise ProblemError(
            f'Row {name} has no text under "prompt", "statement", "problem" or "question": add it.'
        )
    asked = _row_signature(header or function, name) if header or " " in function.strip() else None
    what = f"Row {name}"
    text = _checked(prompt, what) if prompt.strip() else ""
    problem = _problem(text, name, what, asked=asked, function=function.strip())
    return Problem(
        id=name,
        statement=problem.statement,
        signature=problem.signature,
        definitions=problem.definitions,
        examples=problem.examples,
        tests=_text(row, name, "tests", "test", "test_list"),
        unread=problem.unread,
    )


def _bytes(path: Path) -> bytes:
    """Read a file, but never much more of it than a problem may have."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
            size = path.stat().st_size
    except FileNotFoundError:
        raise ProblemError(f"There is no file {path}: check the path.") from None
    except IsADirectoryError:
        raise ProblemError(f"{path} is a folder: name a problem's file in it.") from None
    except PermissionError:
        raise ProblemError(f"{path} may not be read: change its permissions.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ProblemError(f"{path} cannot be read ({reason}): check the path.") from error
    if len(data) > MOST_BYTES and b"\0" not in data:
        raise ProblemError(_too_big(str(path), max(size, len(data))))
    return data


def _too_big(what: str, size: int) -> str:
    return f"{what} has {size:,} bytes, more than the {MOST_BYTES:,} that a problem may have: cut it down."


def _decoded(data: bytes, what: str) -> str:
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise ProblemError(f"{what} is UTF-16: save it as UTF-8.")
    if b"\0" in data:
        raise ProblemError(
            f"{what} is binary (byte {data.index(0)} is NUL): give a text file with a problem."
        )
    if len(data) > MOST_BYTES:
        raise ProblemError(
            f"{what} has more than the {MOST_BYTES:,} bytes that a problem may have: cut it down."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        byte = data[offset]
        raise ProblemError(
            f"{what} is not UTF-8 at byte {offset} (0x{byte:02x}): save it as UTF-8."
        ) from None


def _checked(text: str, what: str) -> str:
    """Refuse what can be no problem; return the text with plain line ends."""
    size = len(text)
    if size > MOST_BYTES:
        raise ProblemError(_too_big(what, size))
    if "\0" in text:
        raise ProblemError(
            f"{what} is binary (character {text.index(chr(0))} is NUL): give a text with a problem."
        )
    if not text.strip("\ufeff \t\r\n\f\v"):
        raise ProblemError(f"{what} is empty: write the problem into it.")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _problem(
    text: str,
    name: str,
    what: str,
    *,
    asked: Signature | None = None,
    function: str = "",
) -> Problem:
    """Read a text; errors speak of it as ``what``."""
    try:
        reading = read(text, asked=asked, name=function)
    except SignatureError as error:
        raise ProblemError(f"{what}: {error}.") from None
    _refuse_contradiction(reading, what)
    if reading.signature is None and not any(character.isalnum() for character in text):
        raise ProblemError(f"{what} has no words and no code: write the problem into it.")
    return Problem(
        id=name,
        statement=reading.statement,
        signature=reading.signature,
        definitions=reading.definitions,
        examples=reading.examples,
        unread=reading.unread,
    )


def _refuse_contradiction(reading: Reading, name: str) -> None:
    pair = contradiction(reading.examples)
    if pair is None:
        return
    first, second = pair
    raise ProblemError(
        f"{name}: line {first.line} says that `{first.expression}` gives `{first.expected}`, "
        f"line {second.line} that it gives `{second.expected}`: mend one of them."
    )


def _text(row: Mapping[str, object], name: str, *keys: str) -> str:
    """Return the first text under one of ``keys``; a list of texts is joined by lines."""
    for key in keys:
        value = row.get(key)
        if value is None:
            continue
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return "\n".join(value)
        raise ProblemError(
            f'Row {name} has no text under "{key}" but {type(value).__name__}: make it a string.'
        )
    return ""


def _row_signature(text: str, name: str) -> Signature:
    try:
        return parse_signature(text)
    except SignatureError as error:
        raise ProblemError(f"Row {name}: its signature does not parse ({error}): mend it.") from None

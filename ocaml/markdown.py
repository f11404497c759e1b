"""Splits a Markdown text, or a model's reply, into prose and code blocks; lenient, and never fails."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prose:
    """Text outside code blocks. ``line`` is the 1-based line that it starts on."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Code:
    """A fenced block: its tag in lower case (or empty), its text without the fence's own indentation.

    ``line`` is the 1-based line of its first line of text; ``closed`` is False where the text ended first.
    ``fence`` is its opening line as it was written.
    """

    tag: str
    text: str
    line: int
    closed: bool = True
    fence: str = "```"


_OPENING = re.compile(r"^([ \t>]*)(?:(?:[-*+]|\d+[.)])[ \t]+)?(`{3,}|~{3,})[ \t]*([^`]*)$")
_TAG = re.compile(r"\{?\.?([\w+#-]*)")


def split(text: str) -> list[Prose | Code]:
    """Return the blocks of ``text`` in order; blank prose is left out. Lines end in a line feed."""
    blocks: list[Prose | Code] = []
    lines = text.split("\n")
    prose_from = at = 0
    while at < len(lines):
        opening = _OPENING.match(lines[at])
        if opening is None:
            at += 1
            continue
        _add_prose(blocks, lines[prose_from:at], prose_from)
        block, at = _code(lines, at, opening)
        blocks.append(block)
        prose_from = at
    _add_prose(blocks, lines[prose_from:], prose_from)
    return blocks


def _add_prose(blocks: list[Prose | Code], lines: list[str], start: int) -> None:
    text = "\n".join(lines)
    if text.strip():
        blocks.append(Prose(text, start + 1))


def _code(lines: list[str], at: int, opening: re.Match[str]) -> tuple[Code, int]:
    """Read the block whose fence stands on line ``at``; return it and the index of the line behind it."""
    margin, fence, info = opening.groups()
    tag_match = _TAG.match(info)
    tag = tag_match[1].lower() if tag_match else ""
    close = re.compile(rf"^[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    restart = re.compile(rf"^[ \t>]*{re.escape(fence)}[ \t]*\w+[ \t]*$")
    body: list[str] = []
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if close.match(line):
            return Code(tag, "\n".join(body), at + 2, fence=lines[at]), index + 1
        if restart.match(line):  # a new block begins though this one was never closed
            return Code(tag, "\n".join(body), at + 2, fence=lines[at]), index
        if fence[0] == "`" and line.rstrip().endswith(fence) and not line.rstrip().endswith("`" + fence):
            body.append(_outdent(line.rstrip().removesuffix(fence), margin))
            return Code(tag, "\n".join(body), at + 2, fence=lines[at]), index + 1
        body.append(_outdent(line, margin))
    return Code(tag, "\n".join(body), at + 2, closed=False, fence=lines[at]), len(lines)


def _outdent(line: str, margin: str) -> str:
    """Take the fence's own indentation (and quote marks) off a line, as far as the line has it."""
    if line.startswith(margin):
        return line[len(margin) :]
    return line.lstrip(" \t") if not line[: len(margin)].strip() else line

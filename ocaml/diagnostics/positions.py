"""From the compiler's bytes to our characters: where in a source a byte column stands."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import PurePosixPath
from types import MappingProxyType

from ocaml.diagnostics import Position, Span

__all__ = ["NO_SOURCES", "Place", "Sources"]

NO_SOURCES: Mapping[str, str | bytes] = MappingProxyType({})

_DIRECTIVE = re.compile(r"#\s*(?:line\s+)?\d")

Place = tuple[int, int]
"""A line from 1 and a column in bytes from 0, as the compiler prints them."""


class Sources:
    """The texts that messages point into, by the name that the compiler prints or by its last part.

    A text that isn't known leaves columns in bytes. A byte that is no UTF-8 counts as one character.
    """

    def __init__(self, texts: Mapping[str, str | bytes]) -> None:
        self._texts = {path.removeprefix("./"): text for path, text in texts.items()}
        for path, text in texts.items():
            self._texts.setdefault(PurePosixPath(path).name, text)
        self._redirecting: dict[str, bool] = {}
        self._lines: dict[str, list[str]] = {}
        self._boundaries: dict[tuple[str, int], list[int]] = {}

    def __contains__(self, path: str) -> bool:
        return self._key(path) is not None

    def __bool__(self) -> bool:
        return bool(self._texts)

    @property
    def paths(self) -> tuple[str, ...]:
        """The names under which the texts are known."""
        return tuple(self._texts)

    def line(self, path: str, number: int) -> str | None:
        """Return line ``number`` (from 1) of a text without its line end, None where there is none."""
        line = self._line(path, number)
        return None if line is None else line.removesuffix("\r")

    def redirects(self, path: str) -> bool:
        """Whether a text has ``# 1 "x.ml"`` lines, which give what follows another name and number."""
        key = self._key(path)
        if key is not None and key not in self._redirecting:
            self._redirecting[key] = any(map(_DIRECTIVE.match, self._split(key)))
        return key is not None and self._redirecting[key]

    def span(self, path: str, start: Place, end: Place) -> Span:
        """Return the span between two places.

        A character that it cuts through belongs to it; what it covers past the end of a line does not.
        """
        first = Position(start[0], self._column(path, start))
        last = Position(end[0], self._column(path, end, rounding_up=True))
        return Span(first, max(first, last))

    def overflowing(self, path: str, place: Place) -> Place:
        """Resolve a column that counts on over line ends, as backtraces before OCaml 5.2 have them."""
        line, column = place
        while (text := self._line(path, line)) is not None and self._line(path, line + 1) is not None:
            length = sum(map(_width, text))
            if column <= length:
                break
            line, column = line + 1, column - length - 1
        return line, column

    def _column(self, path: str, place: Place, *, rounding_up: bool = False) -> int:
        line, byte = place
        text = self.line(path, line)
        if text is None:
            return byte
        if text.isascii():
            return min(byte, len(text))
        if (path, line) not in self._boundaries:
            self._boundaries[path, line] = list(accumulate(map(_width, text), initial=0))
        boundaries = self._boundaries[path, line]
        if byte >= boundaries[-1]:
            return len(text)
        return bisect_left(boundaries, byte) if rounding_up else bisect_right(boundaries, byte) - 1

    def _line(self, path: str, number: int) -> str | None:
        key = self._key(path)
        lines = [] if key is None else self._split(key)
        return lines[number - 1] if 0 < number <= len(lines) else None

    def _split(self, key: str) -> list[str]:
        if key not in self._lines:
            text = self._texts[key]
            text = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
            self._lines[key] = text.split("\n")
        return self._lines[key]

    def _key(self, path: str) -> str | None:
        for key in (path.removeprefix("./"), PurePosixPath(path).name):
            if key in self._texts:
                return key
        return None


def _width(character: str) -> int:
    """Return how many bytes a character has in UTF-8; an undecodable byte is one."""
    code = ord(character)
    if code < 0x80 or 0xDC80 <= code <= 0xDCFF:
        return 1
    return 2 if code < 0x800 else 3 if code < 0x10000 else 4

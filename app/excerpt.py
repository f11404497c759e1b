"""How one line of a hostile text is shown in columns: what each character prints, and where it stands.

Nothing that comes out of here can drive a terminal.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Line", "View", "harmless", "lay_out", "shown_width", "wrap"]

TAB = 4  # columns between tab stops
LONGEST = 8000  # characters of a line that are looked at, around what is shown
LONGEST_CLUSTER = 12  # characters printed into one place; the rest of a heap of accents is left out
CUT = "…"
UNSHOWABLE = "\N{REPLACEMENT CHARACTER}"

_ZERO_WIDTH_JOINER, _ZERO_WIDTH_NON_JOINER = "\u200d", "\u200c"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)


@dataclass(frozen=True, slots=True)
class View:
    """The part of a line that is shown; a column of the line less ``offset`` is one of the view."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line laid out: what each character from ``first`` on prints, and the columns before and after."""

    pieces: Sequence[str]
    columns: Sequence[int]
    first: int = 0
    is_cut_short: bool = False

    def stretch(self, start: int, end: int) -> tuple[int, int]:
        """Return the columns that the characters from ``start`` to ``end`` take: one at least."""
        left, right = self._column(start), self._column(end)
        if left < right:
            return left, right
        at = start - self.first
        if 0 <= at < len(self.pieces) and self.pieces[at] == "":
            left = max(
                (column for column in self.columns if column < left), default=left
            )  # an accent's letter
        return left, next((column for column in self.columns if column > left), left + 1)

    def view(self, start: int, end: int, width: int) -> View:
        """Return what of the line fits into ``width`` columns, around those from ``start`` to ``end``."""
        total = max(self.columns[-1], end)
        if total <= width and not self.first and not self.is_cut_short:
            return View("".join(self.pieces), 0)
        left = max(0, min(start - max(0, width - (end - start)) // 2, total - width))
        is_cut_left = left > 0 or self.first > 0
        is_cut_right = self.columns[-1] > left + width or self.is_cut_short
        low, high = left + len(CUT) * is_cut_left, left + width - len(CUT) * is_cut_right
        text = "".join(self._between(low, high))
        return View(CUT * is_cut_left + text + CUT * is_cut_right, left)

    def _between(self, low: int, high: int) -> Iterator[str]:
        """Yield what is printed from column ``low`` to ``high``, blanks for halves of what is cut through."""
        at = low
        for piece, column, after in zip(self.pieces, self.columns, self.columns[1:], strict=False):
            if column >= low and after <= high:
                yield piece
                at = after
            elif column < low < after:
                yield " " * (after - low)
                at = after
        if self.columns[-1] > high:
            yield " " * (high - at)

    def _column(self, character: int) -> int:
        return self.columns[max(0, min(character - self.first, len(self.columns) - 1))]


def lay_out(line: str, around: int = 0) -> Line:
    """Lay a line out, without its line end. Of a very long one only what is near a character is looked at."""
    line = line.removesuffix("\n").removesuffix("\r")
    first = 0
    is_cut_short = False
    if len(line) > LONGEST:
        first = max(0, min(around - LONGEST // 2, len(line) - LONGEST))
        is_cut_short = first + LONGEST < len(line)
        line = line[first : first + LONGEST]
    if line.isascii() and line.isprintable():
        return Line(line, range(len(line) + 1), first, is_cut_short)
    pieces: list[str] = []
    columns = [0]
    for cluster in _clusters(line):
        piece, width = _print(cluster, columns[-1])
        pieces += [piece, *[""] * (len(cluster) - 1)]
        columns += [columns[-1] + width] * len(cluster)
    return Line(pieces, columns, first, is_cut_short)


def harmless(text: str) -> str:
    """Return one line of text as it may be printed: control characters become signs; a huge line is cut."""
    return lay_out(text).view(0, 0, LONGEST * TAB).text


def shown_width(text: str) -> int:
    """Return how many columns a text takes that went through ``harmless``."""
    if text.isascii():
        return len(text)
    return lay_out(text).columns[-1]


def wrap(text: str, width: int) -> list[str]:
    """Break a line at spaces so that its parts fit into ``width`` columns; they keep its indentation.

    A word that is longer stays whole: it is for the terminal to break, and for the user to copy.
    """
    if shown_width(text) <= width:
        return [text]
    indent = " " * min(len(text) - len(text.lstrip(" ")), max(0, width // 2))
    lines: list[list[str]] = []
    at = width
    for word in text.split():
        columns = shown_width(word)
        if at + 1 + columns > width:
            lines.append([])
            at = len(indent) - 1
        lines[-1].append(word)
        at += 1 + columns
    return [indent + " ".join(words) for words in lines]


def _clusters(line: str) -> Iterator[str]:
    """Yield the characters that are printed in one place: a letter with its accents, an emoji of several."""
    cluster = ""
    for character in line:
        if cluster and _belongs(character, cluster):
            cluster += character
        else:
            if cluster:
                yield cluster
            cluster = character
    if cluster:
        yield cluster


def _belongs(character: str, cluster: str) -> bool:
    """Whether a character is printed in the place of those before it. Nothing invisible may hide in there."""
    base = cluster[0]
    if character.isascii() or not base.isprintable():
        return False
    if character in (
        _ZERO_WIDTH_JOINER,
        _ZERO_WIDTH_NON_JOINER,
    ):  # emoji, and scripts that join their letters
        return unicodedata.category(base) in ("So", "Lo")
    code = ord(character)
    if cluster[-1] == _ZERO_WIDTH_JOINER or code in _SKIN_TONES:
        return not base.isascii() and not _is_unshowable(character)
    if code in _FLAG_LETTERS:
        return len(cluster) == 1 and ord(cluster) in _FLAG_LETTERS
    return _width(character) == 0 and not _is_unshowable(character)


def _is_unshowable(character: str) -> bool:
    """Whether a character moves the cursor, shows code in another order than it runs, or hides."""
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Cs", "Zl", "Zp") or (category == "Cn" and _width(character) <= 0)


def _print(cluster: str, column: int) -> tuple[str, int]:
    """Return what a cluster prints at a column, and how wide that is."""
    if len(cluster) == 1:
        if cluster.isascii():
            return _print_ascii(cluster, column)
        if _is_unshowable(cluster):
            return UNSHOWABLE, 1
    cluster = cluster[:LONGEST_CLUSTER]
    width = _width(cluster)
    if width > 0:
        return cluster, width
    return "\N{DOTTED CIRCLE}" + cluster, 1  # an accent with nothing to stand on


def _print_ascii(character: str, column: int) -> tuple[str, int]:
    if character == "\t":
        width = TAB - column % TAB
        return " " * width, width
    if character.isprintable():
        return character, 1
    return chr(0x2421 if character == "\x7f" else 0x2400 + ord(character)), 1


def _width(text: str) -> int:
    import wcwidth  # its tables cost 40 ms, and most code is ASCII

    width: int = wcwidth.wcswidth(text)
    return width

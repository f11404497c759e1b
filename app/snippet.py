"""Lines of a source with what is said of them drawn underneath, as compilers we like do it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.excerpt import Line, View, harmless, lay_out, shown_width, wrap
from app.style import Style
from ocaml.diagnostics import Position, Span

__all__ = ["Mark", "draw", "gutter_width", "split_lines"]

LONG_SPAN = 8  # lines; of a longer one only the ends are shown
SHOWN_HEAD, SHOWN_TAIL = 4, 3
NARROWEST = 20  # columns of code, however narrow the terminal
ROOM_FOR_TEXT = 24  # columns that a label needs to stand under its mark


@dataclass(frozen=True, slots=True)
class Mark:
    """A span to be underlined with ``sign``, and what is to be said beside it."""

    span: Span
    sign: str
    role: str
    text: str = ""
    text_role: str = ""


def gutter_width(spans: Iterable[Span | None]) -> int:
    """Return how many columns the line numbers of these spans take."""
    return max((len(str(span.end.line)) for span in spans if span is not None), default=1)


def split_lines(source: str) -> list[str]:
    """Split a source as the compiler counts lines: at line feeds alone."""
    return [line.removesuffix("\r") for line in source.split("\n")]


def draw(lines: Sequence[str], marks: Sequence[Mark], *, gutter: int, style: Style, width: int) -> list[str]:
    """Return the rows for ``marks``, of which the first may go over several lines.

    Spans may lie outside of the text: they are drawn at its nearest place.
    """
    primary, *others = (_within(mark, lines) for mark in marks)
    others = [_first_line(mark, lines) for mark in others]
    bar = primary if primary.span.start.line < primary.span.end.line else None
    pen = _Pen(lines, gutter, style, max(NARROWEST, width - gutter - len(" | ") - (2 if bar else 0)), bar)
    underlined = others if bar else [primary, *others]
    rows = [pen.margin("")]
    before: int | None = None
    for number in _shown(primary, others, lines):
        if before is not None and number > before + 1:
            rows.append(pen.gap(number))
        before = number
        rows += pen.line(number, [mark for mark in underlined if mark.span.start.line == number])
    return rows


@dataclass(frozen=True, slots=True)
class _Pen:
    """Draws the rows of a snippet. ``bar`` is the mark that goes over several lines; it has two columns."""

    lines: Sequence[str]
    gutter: int
    style: Style
    width: int  # columns for code
    bar: Mark | None

    def margin(self, rest: str, number: str = "") -> str:
        left = self.style.paint(self.style.gutter, f"{number:>{self.gutter}} |")
        return f"{left} {rest}" if rest else left

    def gap(self, number: int) -> str:
        inside = self.bar is not None and self.bar.span.start.line < number <= self.bar.span.end.line
        row = "...".ljust(self.gutter + len(" | ")) + "|" if inside else "..."
        return self.style.paint(self.style.gutter, row)

    def line(self, number: int, marks: Sequence[Mark]) -> Iterator[str]:
        """Yield a line of code and what stands under it."""
        focus = self._focus(number, marks)
        line = lay_out(self.lines[number - 1], around=focus[0])
        view = line.view(*line.stretch(*focus), self.width)
        yield self.margin((self._bar_before(number) + view.text).rstrip(), str(number))
        yield from self._opening(number, line, view)
        yield from self._closing(number, line, view)
        for mark in marks:
            left, right = self._columns(line, view, mark.span.start.column, mark.span.end.column)
            underline = self.style.paint(mark.role, mark.sign * (right - left))
            yield from self._labelled(self._bar_under(number), " " * left + underline, left, right, mark)

    def _focus(self, number: int, marks: Sequence[Mark]) -> tuple[int, int]:
        """Return the characters of a line that must be seen of it."""
        if self.bar is not None:
            start, end = self.bar.span.start, self.bar.span.end
            if number == start.line:
                return start.column, start.column + 1
            if number == end.line:
                return max(0, end.column - 1), end.column
        return (marks[0].span.start.column, marks[0].span.end.column) if marks else (0, 0)

    def _columns(self, line: Line, view: View, start: int, end: int) -> tuple[int, int]:
        left, right = (column - view.offset for column in line.stretch(start, end))
        left = max(0, min(left, self.width - 1))
        return left, max(left + 1, min(right, self.width))

    def _bar_before(self, number: int) -> str:
        """Return the bar's two columns before a line of code."""
        if self.bar is None:
            return ""
        start, end = self.bar.span.start.line, self.bar.span.end.line
        sign = " "
        if start < number <= end:
            sign = "|"
        elif number == start and self._starts_its_line():
            sign = "/"
        return self.style.paint(self.bar.role, sign) + " "

    def _bar_under(self, number: int) -> str:
        """Return the bar's two columns before what stands under a line of code."""
        if self.bar is None:
            return ""
        inside = self.bar.span.start.line <= number < self.bar.span.end.line
        return self.style.paint(self.bar.role, "|" if inside else " ") + " "

    def _starts_its_line(self) -> bool:
        if self.bar is None:
            return False
        start = self.bar.span.start
        return not self.lines[start.line - 1][: start.column].strip()

    def _opening(self, number: int, line: Line, view: View) -> Iterator[str]:
        if self.bar is None or number != self.bar.span.start.line or self._starts_its_line():
            return
        left, _ = self._columns(line, view, self.bar.span.start.column, self.bar.span.start.column)
        yield self.margin(self.style.paint(self.bar.role, " " + "_" * (left + 1) + self.bar.sign))

    def _closing(self, number: int, line: Line, view: View) -> Iterator[str]:
        if self.bar is None or number != self.bar.span.end.line:
            return
        end = self.bar.span.end.column
        _, right = self._columns(line, view, max(0, end - 1), end)
        row = self.style.paint(self.bar.role, "|" + "_" * right + self.bar.sign)
        yield from self._labelled("", row, 0, right + 2, self.bar)

    def _labelled(self, before: str, underline: str, left: int, right: int, mark: Mark) -> Iterator[str]:
        """Yield an underline with its text beside it, or below where there is no room."""
        text = [harmless(line) for line in mark.text.split("\n") if line.strip()]
        if len(text) == 1 and right + 1 + shown_width(text[0]) <= self.width:
            yield self.margin(f"{before}{underline} {self.style.paint(mark.text_role, text[0])}")
            return
        yield self.margin(before + underline)
        indent = left if self.width - left >= ROOM_FOR_TEXT else 0
        for part in (part for line in text for part in wrap(line, self.width - indent)):
            yield self.margin(before + " " * indent + self.style.paint(mark.text_role, part))


def _within(mark: Mark, lines: Sequence[str]) -> Mark:
    """Move a mark into the text."""
    start, end = (_nearest(place, lines) for place in (mark.span.start, mark.span.end))
    return replace(mark, span=Span(start, max(start, end)))


def _nearest(place: Position, lines: Sequence[str]) -> Position:
    if place.line > len(lines):
        return Position(len(lines), len(lines[-1]))
    line = max(1, place.line)
    return Position(line, max(0, min(place.column, len(lines[line - 1]))))


def _first_line(mark: Mark, lines: Sequence[str]) -> Mark:
    """Cut a mark down to the first of its lines."""
    start, end = mark.span.start, mark.span.end
    if start.line == end.line:
        return mark
    return replace(mark, span=Span(start, Position(start.line, len(lines[start.line - 1]))))


def _shown(primary: Mark, others: Sequence[Mark], lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines to show."""
    first, last = primary.span.start.line, primary.span.end.line
    numbers = set(range(first, min(last, first + LONG_SPAN) + 1))
    if last - first >= LONG_SPAN:
        numbers = {*range(first, first + SHOWN_HEAD), *range(last - SHOWN_TAIL + 1, last + 1)}
    numbers |= {mark.span.start.line for mark in others}
    if not lines[first - 1].strip():  # the end of a file, mostly: show what it is the end of
        numbers |= set(next(([at] for at in range(first - 1, 0, -1) if lines[at - 1].strip()), []))
    return sorted(numbers | {number + 1 for number in numbers if number + 2 in numbers})

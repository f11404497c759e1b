"""Errors beside the code, for any terminal: text out of diagnostics, and nothing is printed here.

Whatever the code and the messages hold, they cannot drive the terminal: see ``app.excerpt``.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from app.excerpt import harmless, shown_width, wrap
from app.snippet import Mark, draw, gutter_width, split_lines
from app.style import Style, style_for
from app.verdict_lines import render_assertions, render_verdict_line
from ocaml.diagnostics import Diagnostic, Kind, Related, Severity, Span

__all__ = ["Style", "render_assertions", "render_diagnostics", "render_verdict_line", "style_for"]

Texts = Mapping[str, Sequence[str]]
"""The lines of the sources by path."""

NARROWEST = 40  # columns; a narrower terminal breaks lines itself
SET_IN = 2  # columns, of a message's further lines where its heading is long
LONG_MESSAGE = 60  # lines; types may be of any size
LONG_HEADING = 9  # columns, that of "warning: "


def render_diagnostics(
    diagnostics: Sequence[Diagnostic], sources: Mapping[str, str], *, style: Style, width: int
) -> str:
    """Return diagnostics beside the code they are about, with a line at the end that counts them.

    Warnings come first and errors last, where they are seen; else the order is the compiler's. ``sources``
    are the texts by path, or by its last part; what isn't known is told without its code.
    """
    if not diagnostics:
        return ""
    texts = {path: split_lines(text) for path, text in sources.items()}
    ordered = sorted(diagnostics, key=lambda diagnostic: diagnostic.is_error)
    width = max(NARROWEST, width)
    blocks = ["\n".join(_block(diagnostic, texts, style, width)) for diagnostic in ordered]
    return "\n\n".join([*blocks, style.paint(style.strong, _summary(diagnostics))])


def _block(diagnostic: Diagnostic, sources: Texts, style: Style, width: int) -> Iterator[str]:
    """Yield the rows of one diagnostic."""
    message, hints = _message_and_hints(diagnostic)
    yield from _heading(diagnostic, message, style, width)
    source = None if diagnostic.span is None else _source(diagnostic.path, sources)
    marks = [] if diagnostic.span is None else [_primary(diagnostic, diagnostic.span, hints[:1], style)]
    elsewhere: list[Related] = []
    for other in diagnostic.related:
        if source is not None and other.span is not None and other.path == diagnostic.path:
            marks.append(_mark(other, other.span, style))
        else:
            elsewhere.append(other)
    gutter = gutter_width(
        [diagnostic.span, *(other.span for other in diagnostic.related if _known(other, sources))]
    )
    if diagnostic.path or diagnostic.span:
        yield _location("-->", diagnostic.path, diagnostic.span, gutter, style)
    if source is not None:
        yield from draw(source, marks, gutter=gutter, style=style, width=width)
        hints = hints[1:]
    for other in elsewhere:
        yield from _elsewhere(other, sources, gutter, style, width)
    for hint in hints:
        yield from _remark("hint", style.hint, hint, gutter, style, width)


def _message_and_hints(diagnostic: Diagnostic) -> tuple[str, list[str]]:
    """Return the message without the hints that can stand by themselves, and those."""
    message = diagnostic.message
    said = {_fold(other.message).removeprefix("Hint: ") for other in diagnostic.related}
    hints = [hint for hint in diagnostic.hints if hint not in said]
    at = message.find("Hint:")
    if at >= 0 and _fold(message[at:]) == _fold(" ".join(f"Hint: {hint}" for hint in hints)):
        message = message[:at].rstrip()
    folded = _fold(message)
    return message, [hint for hint in hints if _fold(hint) not in folded]


def _heading(diagnostic: Diagnostic, message: str, style: Style, width: int) -> Iterator[str]:
    severity = diagnostic.severity.value
    of_warning = diagnostic.code is not None or diagnostic.kind is Kind.WARNING
    number = f" {diagnostic.code}" if diagnostic.code is not None else ""
    name = ""
    if of_warning and diagnostic.name:
        name = f" [{diagnostic.name}]" if number else f" {diagnostic.name}"
    label = harmless(f"{severity}{number}{name}")  # as the compiler writes it: warning 8 [partial-match]
    indent = len(label) + len(": ")
    indent = indent if indent <= LONG_HEADING else SET_IN
    first, *rest = _message_lines(message, width - len(label) - len(": "), width - indent)
    role = style.error if diagnostic.is_error else style.warning
    yield f"{style.paint(role, label + ':')} {style.paint(style.strong, first)}".rstrip()
    for line in rest:
        yield (" " * indent + line).rstrip()


def _message_lines(message: str, first_width: int, width: int) -> list[str]:
    """Return a message's lines as the compiler broke them, or on one line where it broke for want of room."""
    lines = [harmless(line) for line in message.split("\n")]
    if len(lines) == 2 and lines[1].startswith("  "):
        joined = f"{lines[0]} {lines[1].strip()}"
        lines = [joined] if shown_width(joined) <= first_width else lines
    first, *more = wrap(lines[0], first_width) if first_width >= NARROWEST // 2 else ("", lines[0])
    broken = [part for line in (" ".join(more), *lines[1:])[not more :] for part in wrap(line, width)]
    if len(broken) > LONG_MESSAGE:
        broken = [*broken[:LONG_MESSAGE], f"… {len(broken) - LONG_MESSAGE} more lines"]
    return [first, *broken]


def _primary(diagnostic: Diagnostic, span: Span, hints: Sequence[str], style: Style) -> Mark:
    role = style.error if diagnostic.is_error else style.warning
    return Mark(span, "^", role, "".join(f"hint: {hint}" for hint in hints), style.hint)


def _mark(other: Related, span: Span, style: Style) -> Mark:
    if other.message.startswith("Hint:"):
        return Mark(span, "-", style.hint, "hint:" + other.message.removeprefix("Hint:"), style.hint)
    return Mark(span, "-", style.note, other.message, style.note)


def _location(arrow: str, path: str | None, span: Span | None, gutter: int, style: Style) -> str:
    return f"{' ' * gutter}{style.paint(style.gutter, arrow)} {_place(path, span)}"


def _place(path: str | None, span: Span | None) -> str:
    """Return a place as terminals and editors know it: columns count from 1."""
    name = harmless(path) if path else "line" if span is None else f"line {span.start.line}"
    if span is None or not path:
        return name
    return f"{name}:{span.start.line}:{span.start.column + 1}"


def _elsewhere(other: Related, sources: Texts, gutter: int, style: Style, width: int) -> Iterator[str]:
    """Yield a related place in another file, beside its code where that is known."""
    source = _source(other.path, sources)
    if source is None or other.span is None:
        place = f"{_place(other.path, other.span)}: " if other.path or other.span else ""
        yield from _remark("note", style.note, place + other.message, gutter, style, width)
        return
    yield _location(":::", other.path, other.span, gutter, style)
    yield from draw(source, [_mark(other, other.span, style)], gutter=gutter, style=style, width=width)


def _remark(label: str, role: str, text: str, gutter: int, style: Style, width: int) -> Iterator[str]:
    margin = gutter + len(" = ") + len(label) + len(": ")
    lines = [part for line in text.split("\n") for part in wrap(harmless(line), width - margin)]
    yield f"{' ' * gutter} {style.paint(style.gutter, '=')} {style.paint(role, label + ':')} {lines[0]}"
    for line in lines[1:]:
        yield (" " * margin + line).rstrip()


def _known(other: Related, sources: Texts) -> bool:
    return _source(other.path, sources) is not None


def _source(path: str | None, sources: Texts) -> Sequence[str] | None:
    """Find a text by its path, or by the path's last part."""
    name = (path or "").removeprefix("./")
    for key in (path or "", name, PurePosixPath(name).name):
        if key in sources:
            return sources[key]
    return next((text for key, text in sources.items() if name and PurePosixPath(key).name == name), None)


def _summary(diagnostics: Sequence[Diagnostic]) -> str:
    counts = [
        (sum(diagnostic.severity is severity for diagnostic in diagnostics), severity.value)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.ALERT)
    ]
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in counts if count)


def _fold(text: str) -> str:
    return " ".join(text.split())

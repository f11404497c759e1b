"""The compiler's words as data: what ocamlc, ocaml and its toplevel print becomes ``Diagnostic`` values.

For words alone: no stage is decided here. What the runtime says is read in ``ocaml.diagnostics.exceptions``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ocaml.diagnostics import Diagnostic, Related, Severity, Span
from ocaml.diagnostics.exceptions import parse_runtime
from ocaml.diagnostics.kinds import kind_of
from ocaml.diagnostics.positions import NO_SOURCES, Sources

__all__ = ["as_new", "parse", "parse_runtime", "read_reports"]

_PLACE = (
    r'(?:File "(?P<path>{path})"|(?=Lines? \d))'
    r"(?:,? ?[Ll]ines? (?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?"
    r"(?:, characters (?P<from>\d{1,9})-(?P<to>\d{1,9}))?)?:"
)
_PROMPT = r"(?:# [# ]*)?"
_HEADER = re.compile(_PROMPT + _PLACE.replace("{path}", ".*") + r"\s*$")
# A program that leaves its last line open on stderr, before the toplevel complains.
_HEADER_AFTER_OUTPUT = re.compile(_PLACE.replace("{path}", '[^"]*').replace(r"|(?=Lines? \d)", "") + r"\s*$")
_HEADER_WITHIN = re.compile(
    r"(?P<indent> +)" + _PLACE.replace("{path}", '[^"]*') + r"(?:\s+(?P<text>\S.*))?\s*$"
)

_EXCERPT = re.compile(r" *\d* \|(?: |$)|\.\.\.$")  # the number is missing where a line is quoted in part
_CARETS = re.compile(r"[ \t]*\^[\^ \t]*$")

_OPENING = re.compile(
    r"(?:(?P<error>Error)(?: \((?:warning (?P<error_code>\d{1,9})(?: \[(?P<error_name>[^\]]*)\])?"
    r"|alert (?P<error_alert>[^)]*))\))?"
    r"|Warning (?P<code>\d{1,9})(?: \[(?P<name>[^\]]*)\])?"
    r"|Alert (?P<alert>[^\s:]+)): ?(?P<text>.*)$"
)

# Complaints without a place: of the toplevel's directives, and of a command line.
_BARE = re.compile(
    _PROMPT + r"(?P<text>(?:Unknown directive|Cannot find file|Wrong type of argument for directive|Directive"
    r"|Unbound|Unknown element|Cannot load) ?.*\."
    r"|ocaml\w*(?:\.\w+)?: \S.*|[Dd]on't know what to do with .*)$"
)
_EXCEPTION = re.compile(
    _PROMPT + r"(?:Exception:(?: |$)|Fatal error: |Stack overflow during evaluation"
    r"|Out of memory during evaluation|Interrupted\.$)"
)
_TOPLEVEL_ANSWER = re.compile(r"#(?: |$)|(?:val|type|module|exception|class|external) |- : ")

_WEAK = re.compile(r"'_weak(\d+)")
_HINT = re.compile(r"(?:^|\s)Hint:(?:\s+|$)")
_HINT_WITHIN = re.compile(r"; (maybe you forgot .{1,200})$|\b(Did you mean [^?]{1,200}\?)(?= |$)")

_PREPROCESSOR_WARNING = 22  # its text, like an alert's, is the program's own
_ERROR_INDENT = len("Error: ")
_WARNING_INDENT = 2  # OCaml 5.4 sets warnings in


def parse(text: str, sources: Mapping[str, str | bytes] = NO_SOURCES) -> tuple[Diagnostic, ...]:
    """Read every error, warning and alert out of ``text``, in the order printed; other lines are skipped.

    ``sources`` are the texts compiled, by the file name as printed or its last part: with them columns
    become characters, without they stay bytes. The toplevel's phrases have the name ``""``.
    """
    lines = _lines(text)
    known = Sources(sources)
    return tuple(draft.finish(known) for draft in _drafts(lines, known))


def read_reports(
    reports: Sequence[Mapping[str, Any]], sources: Mapping[str, bytes]
) -> tuple[Diagnostic, ...]:
    """Return what the check server reports: ``sources`` are the texts judged, by file name.

    Places, and which text explains which, are the compiler's own data; only the words are read here.
    """
    known = Sources(sources)
    numbers: dict[str, int] = {}
    return tuple(_draft_of(report, numbers).finish(known) for report in reports)


def as_new(text: str, numbers: dict[str, int] | None = None) -> str:
    """Make the server's words those of a compiler that has seen nothing else.

    Weak type variables are numbered from 1; bytes that are no text are shown as such.
    """
    text = text.encode(errors="surrogateescape").decode(errors="replace")
    seen = {} if numbers is None else numbers
    return _WEAK.sub(lambda found: f"'_weak{seen.setdefault(found[1], len(seen) + 1)}", text)


@dataclass(frozen=True, slots=True)
class _Place:
    """A header's words: columns are bytes, None where it names none."""

    path: str | None
    first: int | None
    last: int | None
    columns: tuple[int, int] | None

    @property
    def is_empty(self) -> bool:
        return self.columns is None or (self.first == self.last and self.columns[0] == self.columns[1])

    def span(self, known: Sources) -> Span | None:
        if self.columns is None or self.first is None or self.last is None:
            return None
        start, end = self.columns
        return known.span(self.path or "", (self.first, start), (self.last, end))


_NOWHERE = _Place(None, None, None, None)


@dataclass(frozen=True, slots=True)
class _Block:
    """A header with its excerpt, and the index of the line after; ``opening`` starts a message there."""

    place: _Place
    body: int
    has_excerpt: bool
    opening: re.Match[str] | None


@dataclass(slots=True)
class _Draft:
    """A diagnostic while its lines are gathered."""

    severity: Severity
    place: _Place
    code: int | None = None
    name: str | None = None
    has_excerpt: bool = False
    lines: list[str] = field(default_factory=list)
    related: list[tuple[_Place, str]] = field(default_factory=list)

    @property
    def set_in(self) -> int:
        """How far the compiler sets the lines of the message in."""
        return _ERROR_INDENT if self.severity is Severity.ERROR else _WARNING_INDENT

    @property
    def text_is_the_programs(self) -> bool:
        """Whether the message was written in the program, and may hold anything."""
        return (self.name is not None and self.code is None) or self.code == _PREPROCESSOR_WARNING

    def finish(self, known: Sources) -> Diagnostic:
        message = "\n".join(self.lines).strip("\n")
        related = tuple(Related(text, place.span(known), place.path) for place, text in self.related)
        texts = (self.lines, *(text.split("\n") for _, text in self.related))
        hints = tuple(dict.fromkeys(hint for text in texts for hint in _hints(text)))
        span = self.place.span(known)
        kind = kind_of(self.severity, message, self.code, self.name, placed=span is not None)
        return Diagnostic(
            severity=self.severity,
            kind=kind,
            message=message,
            span=span,
            path=self.place.path,
            code=self.code,
            name=self.name,
            hints=hints,
            related=related,
        )


def _draft_of(report: Mapping[str, Any], numbers: dict[str, int]) -> _Draft:
    words = as_new(report["text"], numbers)
    lines = _lines(words.lstrip("\n"))  # some versions break the line behind a place
    opening = _OPENING.match(lines[0])
    draft = _Draft(Severity.ERROR, _place_of(report["place"]) or _NOWHERE)
    if opening is not None:
        draft = _open(_Block(draft.place, 0, False, opening), opening)
    at = 1
    while at < len(lines):
        within = _HEADER_WITHIN.match(lines[at])
        if within is not None and (within["text"] or _indent(lines, at + 1) > len(within["indent"])):
            at = _gather_within(draft, lines, at, within)
            continue
        draft.lines.append(_set_out(lines[at], draft.set_in))
        at += 1
    for related in report["related"]:
        place, text = _place_of(related["place"]), _lines(as_new(related["text"], numbers))
        if place is None:
            draft.lines += [_set_out(line, draft.set_in) for line in text]
        else:
            draft.related.append((place, "\n".join(_set_out(line, 2) for line in text)))
    return draft


def _place_of(place: Mapping[str, Any] | None) -> _Place | None:
    if place is None:
        return None
    (first, start), (last, end) = place["start"], place["end"]
    columns = None if start < 0 else (start, end)  # a file as a whole
    return _Place(place["file"].removeprefix("./"), first, last, columns)


def _lines(text: str) -> list[str]:
    """Split at line feeds alone: an excerpt may hold anything else that Python takes for a line end."""
    if "\x1b" in text:
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [line.removesuffix("\r") for line in text.split("\n")]


def _drafts(lines: Sequence[str], known: Sources) -> Iterator[_Draft]:
    at = 0
    while at < len(lines):
        block = _block(lines, at)
        if block is not None and block.opening is not None:
            draft = _open(block, block.opening)
            at = _gather(draft, lines, block.body + 1, known)
            yield draft
            continue
        bare = _BARE.match(lines[at])
        if bare is not None:
            severity = Severity.WARNING if "warning" in bare["text"].lower() else Severity.ERROR
            yield _Draft(severity, _NOWHERE, lines=[bare["text"]])
        at += 1


def _block(lines: Sequence[str], at: int) -> _Block | None:
    """Read a header at ``lines[at]``; what looks like one is one only if a message follows."""
    line = lines[at]
    if "ine" not in line and "File" not in line:
        return None
    header = _HEADER.match(line) or (_HEADER_AFTER_OUTPUT.search(line) if line[:1].strip() else None)
    if header is None:
        return None
    body = at + 1
    while body < len(lines) and _EXCERPT.match(lines[body]):
        body += 1
        if body < len(lines) and _CARETS.match(lines[body]):
            body += 1
    if body == len(lines):
        return None
    opening = _OPENING.match(lines[body])
    is_related = lines[body].startswith("  ") and lines[body].strip() != "" and header.start() == 0
    if opening is None and not is_related:
        return None
    return _Block(_place(header), body, body > at + 1, opening)


def _place(header: re.Match[str]) -> _Place:
    path = header["path"]
    first = int(header["first"]) if header["first"] else None
    last = int(header["last"]) if header["last"] else first
    columns = (int(header["from"]), int(header["to"])) if header["from"] else None
    return _Place(None if path in (None, "_none_") else path.removeprefix("./"), first, last, columns)


def _open(block: _Block, opening: re.Match[str]) -> _Draft:
    severity = Severity.ALERT if opening["alert"] else Severity.WARNING
    severity = Severity.ERROR if opening["error"] else severity
    code = opening["error_code"] or opening["code"]
    name = opening["error_name"] or opening["error_alert"] or opening["name"] or opening["alert"]
    draft = _Draft(severity, block.place, int(code) if code else None, name, block.has_excerpt)
    draft.lines.append(opening["text"].rstrip())
    return draft


def _gather(draft: _Draft, lines: Sequence[str], at: int, known: Sources) -> int:
    """Add the message's lines from ``at`` on to ``draft``; return the index of the first not its own."""
    in_toplevel = draft.place.path is None
    while at < len(lines) and not _EXCEPTION.match(lines[at]):
        if in_toplevel and (_TOPLEVEL_ANSWER.match(lines[at]) or _BARE.match(lines[at])):
            break
        block = _block(lines, at)
        if block is not None and not _is_quotation(draft, block, known):
            if block.opening is not None:
                break
            at = _gather_related(draft, lines, block)
            continue
        within = _HEADER_WITHIN.match(lines[at])
        if within is not None and (within["text"] or _indent(lines, at + 1) > len(within["indent"])):
            at = _gather_within(draft, lines, at, within)
            continue
        if draft.related and lines[at].strip() and not lines[at].startswith((" ", "Hint:")):
            break  # after a related place the message is over: this is some program's output
        draft.lines.append(_set_out(lines[at], draft.set_in))
        at += 1
    return at


def _is_quotation(draft: _Draft, block: _Block, known: Sources) -> bool:
    """Whether a header stands in a text that the program wrote: it quotes no source where others do."""
    if not draft.text_is_the_programs or not draft.has_excerpt or block.has_excerpt or block.place.is_empty:
        return False
    path, own = block.place.path or "", draft.place.path or ""
    return path == own or (bool(known) and path not in known and not known.redirects(own))


def _gather_related(draft: _Draft, lines: Sequence[str], block: _Block) -> int:
    """Take a second header with its indented message."""
    at = block.body
    while at < len(lines) and lines[at].startswith("  ") and lines[at].strip():
        at += 1
    draft.related.append((block.place, "\n".join(_set_out(line, 2) for line in lines[block.body : at])))
    return at


def _gather_within(draft: _Draft, lines: Sequence[str], at: int, header: re.Match[str]) -> int:
    """Take a header set into a message, with what follows on its line or deeper set in below it."""
    indent = len(header["indent"])
    text = [header["text"].rstrip()] if header["text"] else []
    at += 1
    while at < len(lines) and _indent(lines, at) > indent:
        text.append(_set_out(lines[at], indent + 2))
        at += 1
    draft.related.append((_place(header), "\n".join(text)))
    return at


def _indent(lines: Sequence[str], at: int) -> int:
    """Return how far a line is set in; -1 for an empty one or none."""
    if at >= len(lines) or not lines[at].strip():
        return -1
    return len(lines[at]) - len(lines[at].lstrip(" "))


def _set_out(line: str, width: int) -> str:
    """Remove at most ``width`` leading spaces, and trailing ones."""
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(spaces, width) :].rstrip()


def _hints(lines: Sequence[str]) -> Iterator[str]:
    """Yield the hints of a message, each on one line without its "Hint:"."""
    before: list[str] = []
    hint: list[str] | None = None
    for line in lines:
        start = _HINT.search(line)
        if start is not None:
            if hint is not None:
                yield _fold(hint)
            else:
                before.append(line[: start.start()])
            hint = [line[start.end() :]]
        elif hint is not None and line.strip():
            hint.append(line)
        elif hint is not None:
            break
        else:
            before.append(line)
    for found in _HINT_WITHIN.finditer(_fold(before)):
        yield found[1] or found[2]
    if hint is not None:
        yield _fold(hint)


def _fold(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())

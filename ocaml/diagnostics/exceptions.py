"""The runtime's words as data: how a program or a toplevel phrase ended with an exception, and where."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ocaml.diagnostics import Diagnostic, Kind, Position, Related, Severity, Span
from ocaml.diagnostics.positions import NO_SOURCES, Place, Sources

__all__ = ["parse_runtime"]

MAX_CALLERS = 8  # of a backtrace, distinct ones

_COMPILED = re.compile(r"Fatal error(?P<handler> in uncaught exception handler)?: exception (?P<text>.*)$")
_FATAL = re.compile(r"Fatal error: (?P<text>.+)$")
_TOPLEVEL = re.compile(r"Exception:(?: (?P<text>.*)|\s*)$")
_TOPLEVEL_LIMIT = re.compile(r"(?P<text>Stack overflow|Out of memory) during evaluation\b.*$")
_PROMPT = re.compile(r"# [# ]*")

_FRAME = re.compile(
    r"(?P<how>Raised at|Re-raised at|Raised by primitive operation at|Called from) "
    r'(?:(?P<where>.*?) )?(?:in )?file "(?P<path>[^"]*)"(?: \(inlined\))?, '
    r"lines? (?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?, characters (?P<from>\d{1,9})-(?P<to>\d{1,9})$"
)
_UNKNOWN_FRAME = re.compile(
    r"(?:Raised at|Re-raised at|Raised by primitive operation at|Called from) unknown location"
    r"|\((?:Program not linked with -g|Cannot print)"
)
_TOPLEVEL_ANSWER = re.compile(
    r"#(?: |$)|(?:val|type|module|exception|class|external) |- : |(?:File \"|Lines? \d).*:$"
)

# The standard library and the toplevel raise and call, but it is the user's line that matters.
_NOT_THE_USERS = re.compile(
    r"Stdlib\b|Stdlib__|Camlinternal|Std_exit\b|Top(?:eval|loop|main|start)\b|Dynlink"
)

_CONSTRUCTOR = re.compile(
    r"(?P<name>[A-Z][\w']*(?:\.[A-Z][\w']*)*)(?:(?P<space>\s)?(?P<argument>.+))?$", re.DOTALL
)
_SINGLE = re.compile(r'(?:".*"|-?\d+|_)$', re.DOTALL)
_SEVERAL = re.compile(r'(?:"[^"]*"|-?\d+|_)(?:, (?:"[^"]*"|-?\d+|_))+$')
_LOCATED = re.compile(r'\(\s*"(?P<path>[^"]*)",\s*(?P<line>\d{1,9}),\s*(?P<column>\d{1,9})\)$')
# What Printexc makes of the exceptions that carry a place.
_SPELLED_OUT = re.compile(
    r'File "(?P<path>[^"]*)", line (?P<line>\d{1,9}), characters (?P<column>\d{1,9})-\d+: '
    r"(?P<what>Assertion failed|Pattern matching failed|Undefined recursive module)$"
)
_SPELLED_NAMES = {
    "Assertion failed": "Assert_failure",
    "Pattern matching failed": "Match_failure",
    "Undefined recursive module": "Undefined_recursive_module",
}
_CARRYING = {
    "Assert_failure": "Assertion failed",
    "Match_failure": "Uncaught exception: Match_failure (no case matches the value)",
    "Undefined_recursive_module": "Uncaught exception: Undefined_recursive_module (used too early)",
}
_STACK_OVERFLOW = ("Stack overflow (looping recursion?)", "Stack_overflow")  # message and name
_OUT_OF_MEMORY = ("Out of memory", "Out_of_memory")
_TOPLEVEL_PATH = "//toplevel//"
_WORD = re.compile(r"[\w']+")


def parse_runtime(stderr: str, sources: Mapping[str, str | bytes] = NO_SOURCES) -> tuple[Diagnostic, ...]:
    """Read every uncaught exception out of what a program or a toplevel wrote.

    The span is the place that the exception names, or else the innermost line of the backtrace that is the
    user's: one in ``sources``, or, where none is, one outside the standard library. The further such
    lines become related places. ``name`` is the exception's constructor.
    """
    lines = [line.removesuffix("\r") for line in stderr.split("\n")]
    known = Sources(sources)
    return tuple(_diagnostic(end, known) for end in _ends(lines))


@dataclass(frozen=True, slots=True)
class _Frame:
    """A line of a backtrace; columns are bytes."""

    how: str
    where: str
    path: str
    start: Place
    end: Place

    @property
    def place(self) -> str:
        """The function, without the module of its own file; "here" outside of any."""
        unit = _unit(self.path)
        return "here" if self.where in ("", "<unknown>", unit) else self.where.removeprefix(f"{unit}.")


@dataclass(frozen=True, slots=True)
class _End:
    """An exception as printed: its text, whether the runtime called it an exception at all, its backtrace."""

    text: str
    is_exception: bool
    frames: tuple[_Frame, ...]
    in_handler: bool = False


def _ends(lines: Sequence[str]) -> Iterator[_End]:
    # Only where no line begins with an exception: it may stand behind a line that the program left open.
    anywhere = not any(_start(line, anywhere=False) for line in lines)
    at = 0
    while at < len(lines):
        start = _start(lines[at], anywhere=anywhere)
        at += 1
        if start is None:
            continue
        text = start["text"] or ""
        if start.re is _COMPILED:
            text, at = _compiled_text(text, lines, at)
        elif start.re is _TOPLEVEL:
            text, at = _toplevel_text(text, lines, at)
        frames, at = _backtrace(lines, at)
        in_handler = start.re is _COMPILED and start["handler"] is not None
        yield _End(text, start.re is _COMPILED or start.re is _TOPLEVEL, frames, in_handler)


def _start(line: str, *, anywhere: bool) -> re.Match[str] | None:
    """Find where an exception begins. The runtime's own words count anywhere in a line: it flushes first."""
    if "Fatal error" in line:
        return _COMPILED.search(line) or _FATAL.search(line)
    prompt = _PROMPT.match(line)
    for pattern in (_TOPLEVEL, _TOPLEVEL_LIMIT):
        found = pattern.search(line) if anywhere else pattern.match(line, prompt.end() if prompt else 0)
        if found is not None:
            return found
    return None


def _compiled_text(text: str, lines: Sequence[str], at: int) -> tuple[str, int]:
    """Take the rest of an exception whose argument, printed as it is, goes over several lines."""
    constructor = _CONSTRUCTOR.match(text)
    if _SPELLED_OUT.match(text) or (constructor and (not constructor["argument"] or text.endswith(")"))):
        return text, at
    whole = [text]
    while at < len(lines) and not _is_frame(lines[at]) and not _start(lines[at], anywhere=False):
        whole.append(lines[at])
        at += 1
    return "\n".join(whole).rstrip(), at


def _toplevel_text(text: str, lines: Sequence[str], at: int) -> tuple[str, int]:
    """Take the rest of a value that the toplevel wrapped, and drop its full stop."""
    whole = [text]
    while not whole[-1].endswith(".") and at < len(lines) and lines[at].strip():
        if _is_frame(lines[at]) or _TOPLEVEL_ANSWER.match(lines[at]) or _start(lines[at], anywhere=False):
            break
        whole.append(lines[at])
        at += 1
    joined = "\n".join(whole) if text else " ".join(line.strip() for line in whole).strip()
    return joined.removesuffix("."), at


def _backtrace(lines: Sequence[str], at: int) -> tuple[tuple[_Frame, ...], int]:
    """Read the frames that follow; OCaml 5's toplevel sets them off with an empty line."""
    frames = []
    after = at
    while after < len(lines) and (_is_frame(lines[after]) or not lines[after].strip()):
        found = _FRAME.match(lines[after])
        after += 1
        if found is not None:
            frames.append(_frame(found))
            at = after
    return tuple(frames), at


def _frame(found: re.Match[str]) -> _Frame:
    first, last = int(found["first"]), int(found["last"] or found["first"])
    start, end = (first, int(found["from"])), (last, int(found["to"]))
    return _Frame(found["how"], found["where"] or "", found["path"].removeprefix("./"), start, end)


def _is_frame(line: str) -> bool:
    return _FRAME.match(line) is not None or _UNKNOWN_FRAME.match(line) is not None


def _diagnostic(end: _End, known: Sources) -> Diagnostic:
    frames = _users_frames(end.frames, known)
    if not end.is_exception:
        return _limit(end.text, frames, known)
    units = {_unit(path) for path in (*known.paths, *(frame.path for frame in frames))}
    exception = _exception(end.text, units)
    placed = _placed(exception, frames, known)
    path, span, callers = placed or _innermost(frames, known)
    message = exception.message
    if end.in_handler:
        message = f"In the handler of uncaught exceptions: {message}"
    return _error(exception.kind, message, exception.name, path, span, _related(callers, known))


def _limit(text: str, frames: Sequence[_Frame], known: Sources) -> Diagnostic:
    """Make a diagnostic of an end that is no exception."""
    path, span, callers = _innermost(frames, known)
    folded = text.lower()
    if "stack overflow" in folded:
        kind, message, name = Kind.STACK_OVERFLOW, *_STACK_OVERFLOW
    elif "memory" in folded or folded.startswith("allocation failure"):
        kind, message, name = Kind.OUT_OF_MEMORY, *_OUT_OF_MEMORY
        message = message if "out of memory" in folded else f"{message}: {text}"
    else:
        kind, message, name = Kind.OTHER, f"Fatal error: {text}", None
    return _error(kind, message, name, path, span, _related(callers, known))


@dataclass(frozen=True, slots=True)
class _Exception:
    """An exception understood. ``place`` is a path, a line and a byte column that it carries."""

    kind: Kind
    message: str
    name: str | None
    place: tuple[str, int, int] | None = None


# As the runtime names them, and as Printexc does in a program that it is part of.
_WORDS = {
    "Stack_overflow": _Exception(Kind.STACK_OVERFLOW, *_STACK_OVERFLOW),
    "Stack overflow": _Exception(Kind.STACK_OVERFLOW, *_STACK_OVERFLOW),
    "Out_of_memory": _Exception(Kind.OUT_OF_MEMORY, *_OUT_OF_MEMORY),
    "Out of memory": _Exception(Kind.OUT_OF_MEMORY, *_OUT_OF_MEMORY),
}


def _exception(text: str, units: Collection[str]) -> _Exception:
    if text in _WORDS:
        return _WORDS[text]
    spelled_out = _SPELLED_OUT.match(text)
    if spelled_out is not None:
        return _carrying_place(_SPELLED_NAMES[spelled_out["what"]], spelled_out)
    constructor = _CONSTRUCTOR.match(text)
    argument = (constructor and constructor["argument"]) or ""
    if constructor is None or not (argument == "" or constructor["space"] or argument.startswith("(")):
        return _Exception(Kind.EXCEPTION, f"Uncaught exception: {text}", None)
    located = _LOCATED.match(argument)
    if located is not None and constructor["name"] in _SPELLED_NAMES.values():
        return _carrying_place(constructor["name"], located)
    name = _unqualified(constructor["name"], units)
    if name in _WORDS:
        return _WORDS[name]
    if argument.startswith("(") and not constructor["space"]:  # compiled: Failure("x"), E(1, "x"), E(_)
        inside = argument[1:-1]
        argument = inside if _SINGLE.match(inside) and not _SEVERAL.match(inside) else argument
    shown = f"{name} {argument}" if argument else name
    return _Exception(Kind.EXCEPTION, f"Uncaught exception: {shown}", name.rpartition(".")[2])


def _carrying_place(name: str, place: re.Match[str]) -> _Exception:
    kind = Kind.ASSERTION if name == "Assert_failure" else Kind.EXCEPTION
    return _Exception(kind, _CARRYING[name], name, (place["path"], int(place["line"]), int(place["column"])))


def _unqualified(name: str, units: Collection[str]) -> str:
    """Drop the module of the user's own file, and ``Stdlib``."""
    first, _, rest = name.partition(".")
    return rest if rest and (first in units or first == "Stdlib") else name


def _unit(path: str) -> str:
    stem = PurePosixPath(path).name.partition(".")[0]
    return stem[:1].upper() + stem[1:]


def _placed(
    exception: _Exception, frames: Sequence[_Frame], known: Sources
) -> tuple[str | None, Span, Sequence[_Frame]] | None:
    """Return where an exception says that it happened; the end is the backtrace's, or its first word's."""
    if exception.place is None:
        return None
    path, line, column = exception.place
    path = path.removeprefix("./")
    for at, frame in enumerate(frames):
        if frame.start == (line, column) and PurePosixPath(frame.path).name == PurePosixPath(path).name:
            return path, _span(frame, known), frames[at + 1 :]
    key = "" if path == _TOPLEVEL_PATH else path
    start = known.span(key, (line, column), (line, column)).start
    word = _WORD.match(known.line(key, line) or "", start.column)
    length = len(word[0]) if word else len("match") if exception.name == "Match_failure" else len("assert")
    span = Span(start, Position(line, start.column + length))
    return (None if path == _TOPLEVEL_PATH else path), span, frames


def _innermost(frames: Sequence[_Frame], known: Sources) -> tuple[str | None, Span | None, Sequence[_Frame]]:
    if not frames:
        return None, None, ()
    return frames[0].path, _span(frames[0], known), frames[1:]


def _users_frames(frames: Sequence[_Frame], known: Sources) -> list[_Frame]:
    own = [frame for frame in frames if frame.path in known]
    candidates = own or [frame for frame in frames if not _NOT_THE_USERS.match(frame.where)]
    return list(dict.fromkeys(candidates))


def _related(callers: Sequence[_Frame], known: Sources) -> tuple[Related, ...]:
    return tuple(
        Related(f"{frame.how} {frame.place}", _span(frame, known), frame.path)
        for frame in callers[:MAX_CALLERS]
    )


def _span(frame: _Frame, known: Sources) -> Span:
    return known.span(frame.path, frame.start, known.overflowing(frame.path, frame.end))


def _error(
    kind: Kind,
    message: str,
    name: str | None,
    path: str | None,
    span: Span | None,
    related: tuple[Related, ...],
) -> Diagnostic:
    return Diagnostic(Severity.ERROR, kind, message, span, path, name=name, related=related)

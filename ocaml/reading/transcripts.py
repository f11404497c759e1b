"""Reads sessions as examples: the toplevel's (``# f 1;;`` / ``- : int = 2``) and ``>>> f 1`` / ``2``."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ocaml.lexing import TokenKind, at_depth_zero, fault, lex, without_comments
from ocaml.phrases import PhraseKind, split
from ocaml.reading.calls import exception_pattern
from ocaml.reading.drafts import Binding, Draft, Unread, bind, in_scope

__all__ = [
    "Doctest",
    "Turn",
    "doctests",
    "drafts_of_doctests",
    "drafts_of_turns",
    "is_doctest",
    "turns",
    "value_types",
]

Lines = Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A phrase given to the toplevel (without ``;;``), what came back, and its first and last line."""

    phrase: str
    output: str
    line: int
    last: int


def is_doctest(line: str) -> bool:
    """Whether a line is ``>>> …``."""
    return _DOCTEST.match(line) is not None


@dataclass(frozen=True, slots=True)
class Doctest:
    """``>>> expression`` and the value under it (None where none stands); its first and last line."""

    expression: str
    expected: str | None
    line: int
    last: int


def doctests(lines: Lines) -> Iterator[Doctest]:
    """Find ``>>>`` examples: the value stands below, up to a blank line or the next one."""
    at = 0
    while at < len(lines):
        number, line = lines[at]
        found = _DOCTEST.match(line)
        at += 1
        if found is None:
            continue
        expression = re.sub(r"\*\)\s*$|``?$", "", found[1].rstrip())
        while at < len(lines) and (more := _CONTINUED.match(lines[at][1])):
            expression += "\n" + (more[1] or "")
            at += 1
        expression = expression.strip().removesuffix(";;").rstrip()
        expected: str | None = None
        if _binding(expression) is None:
            expected, at = _expected(lines, at)
        if expression:
            yield Doctest(expression, expected, number, lines[at - 1][0])


def drafts_of_doctests(found: Iterable[Doctest]) -> Iterator[Draft | Unread]:
    """Read doctests as examples; a ``let`` is kept for those behind it."""
    bindings: list[Binding] = []
    for doctest in found:
        binding = _binding(doctest.expression)
        if binding is not None:
            bindings.append(binding)
        elif doctest.expected is None:
            yield Unread(doctest.line, "no value stands under it")
        else:
            yield _draft(doctest.expression, doctest.expected, doctest.line, bindings)


def turns(lines: Lines, *, fenced: bool) -> list[Turn]:
    """Find what was typed at OCaml's toplevel and what it said; in prose a heading (``# Title``) is none."""
    found: list[Turn] = []
    prompted = any(_PROMPT.match(line) for _, line in lines)
    if not prompted and not any(line.lstrip().startswith("- :") for _, line in lines):
        return []
    at = 0
    while at < len(lines):
        number, line = lines[at]
        prompt = _PROMPT.match(line)
        if prompted and prompt is None:
            at += 1
            continue
        if not prompted and (not line.strip() or _OUTPUT.match(line)):
            at += 1
            continue
        phrase, behind = _phrase(lines, at, prompt[1] if prompt else line)
        if phrase is None:
            at += 1
            continue
        output, at = _output(lines, behind)
        if fenced or prompt or output:
            found.append(Turn(phrase, output, number, lines[at - 1][0]))
    if prompted or any(_OUTPUT.match(turn.output) for turn in found):
        return found
    return []


def drafts_of_turns(found: Sequence[Turn], asked: frozenset[str]) -> Iterator[Draft | Unread]:
    """Read turns as examples; a ``let`` is kept for those behind it, unless it is the answer itself."""
    bindings: list[Binding] = []
    for turn in found:
        binding = _binding(turn.phrase)
        if binding is not None:
            if asked.isdisjoint(binding.names):
                bindings.append(binding)
            continue
        pattern = _EXCEPTION.search(turn.output)
        if pattern is not None:
            yield _draft(turn.phrase, pattern[0], turn.line, bindings)
            continue
        value = _value(turn.output)
        if value is None or value == "<fun>":
            continue
        if re.search(r"<\w+>|\.\.\.|<cycle>|\bnan\b", _without_strings(value)):
            yield Unread(turn.line, f"the toplevel does not print all of the value `{_short(value)}`")
            continue
        yield Draft(turn.phrase, value, turn.line, in_scope(bindings))


def value_types(found: Sequence[Turn]) -> Iterator[tuple[str, str, int]]:
    """Return name, type and line of each function that the toplevel showed (``- : int -> int = <fun>``)."""
    for turn in found:
        shown = re.match(r"\s*(?:val ([a-z_][\w']*)|-) : (.*)= <fun>\s*\Z", turn.output, re.DOTALL)
        if shown is None:
            continue
        name = shown[1] or turn.phrase.strip()
        if re.fullmatch(r"[a-z_][\w']*", name):
            yield name, " ".join(shown[2].split()), turn.line


_DOCTEST = re.compile(r"^\s*+(?:\(\*++\s*+)?(?:[*>]\s++)?`{0,2}>>>(?:\s++|(?=[^>\s]))(.*)$")
_CONTINUED = re.compile(r"^\s*+(?:\*\s++)?\.\.\.(?:\s(.*))?$")
_PROMPT = re.compile(r"^\s*+(?:utop\s*(?:\[\d+\]>|#)|ocaml>|#)\s+(?!\*\s)(.*)$")
_OUTPUT = re.compile(r"^\s*(?:- :|val [a-z_(].* : |Exception:|exception |type |module |Error:|Line \d|File )")
_EXCEPTION = re.compile(r"^\s*Exception:.*", re.DOTALL | re.MULTILINE)
_MOST_LINES = 60  # of one phrase or one value


def _expected(lines: Lines, at: int) -> tuple[str | None, int]:
    """Read the value under a doctest: its first line, and more while brackets or strings are open."""
    text: str | None = None
    for index in range(at, min(at + _MOST_LINES, len(lines))):
        line = re.sub(r"^\s*\*(?:\s+|$)", "", lines[index][1]).strip()
        line = line.removesuffix("*)").strip("`" if line.count("`") == 2 else " ").strip()
        if not line or is_doctest(lines[index][1]):
            return text, index
        text = line if text is None else f"{text}\n{line}"
        problem = fault(lex(text))
        if problem is None or "not closed" not in problem:
            return text, index + 1
    return text, min(at + _MOST_LINES, len(lines))


def _phrase(lines: Lines, at: int, first: str) -> tuple[str | None, int]:
    """Read a phrase up to its ``;;``; return it and the index of the line behind it."""
    text = first
    for index in range(at, min(at + _MOST_LINES, len(lines))):
        if index > at:
            line = lines[index][1]
            if not line.strip() or _PROMPT.match(line):
                return None, at
            text += "\n" + line
        if ";;" in lines[index][1]:
            tokens = without_comments(lex(text))
            if tokens and tokens[-1].text == ";;":
                return text[: tokens[-1].start].strip(), index + 1
    return None, at


def _output(lines: Lines, at: int) -> tuple[str, int]:
    said: list[str] = []
    while at < len(lines) and lines[at][1].strip() and not _PROMPT.match(lines[at][1]):
        said.append(lines[at][1])
        at += 1
        if ";;" in lines[at - 1][1]:
            return "\n".join(said[:-1]), at - 1
    return "\n".join(said), at


def _value(output: str) -> str | None:
    """Return ``2`` of ``- : int = 2``; what the phrase printed itself may stand before it."""
    found = re.search(r"^\s*-\s*:", output, re.MULTILINE)
    if found is None:
        return None
    shown = output[found.end() :]
    tokens = lex(shown)
    equals = at_depth_zero(tokens, "=")
    return shown[tokens[equals[0]].end :].strip() if equals else None


def _binding(phrase: str) -> Binding | None:
    if not phrase.startswith("let"):
        return None
    parts = split(phrase)
    if len(parts) != 1 or parts[0].kind is not PhraseKind.LET or not parts[0].defines:
        return None
    return bind(frozenset(parts[0].names), parts[0].text, parts[0].tokens)


def _draft(expression: str, expected: str, line: int, bindings: Sequence[Binding]) -> Draft | Unread:
    pattern = exception_pattern(expected)
    if pattern is not None:
        return Draft(expression, pattern, line, in_scope(bindings), raises=True)
    if expected.startswith(("Exception", "Traceback")):
        return Unread(line, f"`{_short(expected)}` names no exception that OCaml can match")
    value = _value(expected) if expected.startswith("- :") else expected
    return Draft(expression, value, line, in_scope(bindings))


def _without_strings(text: str) -> str:
    return " ".join(token.text for token in lex(text) if token.kind is not TokenKind.STRING)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"

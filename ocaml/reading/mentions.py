"""Finds examples in sentences and lists: ``f 1 = 2``, "`f 1` returns `2`", ``f 1 => 2``; laws are none."""

import re
from collections.abc import Iterator

from ocaml.lexing import at_depth_zero, fault, lex
from ocaml.reading.calls import Asked, Call, call_at, exception_pattern
from ocaml.reading.drafts import Draft
from ocaml.reading.literals import Word, literal_at
from ocaml.reading.sides import arrow, equation

__all__ = ["leading_value", "mentions", "stated"]


def mentions(line: str, number: int, asked: Asked) -> Iterator[Draft]:
    """Find the examples on a line of prose."""
    whole = stated(_bare(line), number, asked) if asked.names else None
    if whole is not None:
        yield whole
    yield from _in_spans(line, number, asked)
    yield from _after_spans(line, number, asked)


def stated(text: str, number: int, asked: Asked) -> Draft | None:
    """Read all of ``text`` as a call, a word or sign between, and a value (and perhaps a remark)."""
    call = call_at(text)
    if call is None or not _calls(call, asked):
        return _equated(text, number, asked)
    expected = _expected(text[call.end :])
    if expected is None:
        return _equated(text, number, asked)
    value, raises = expected
    return Draft(text[: call.end].strip(), value, number, raises=raises, tentative=True)


def leading_value(text: str) -> str | None:
    """Return the value that ``text`` starts with, when only a remark follows; a full stop is none of it."""
    found = literal_at(text, 0)
    if found is None:
        return None
    literal, end = found
    value, rest = text[:end].strip(), text[end:]
    if isinstance(literal, Word) and re.fullmatch(r"-?\d[\d_]*\.", value) and not rest.startswith("`"):
        value, rest = value[:-1], f".{rest}"
    if isinstance(literal, Word) and literal.text[0].isalpha() and literal.text not in {"true", "false"}:
        return None
    return value if _REMARK.match(rest) else None


_SPAN = re.compile(r"``?([^`\n]+)``?")
_BETWEEN = re.compile(
    r"\s*+(?:;;)?\s*+,?\s*+(?:\(\*\s*+)?(?:=>|==?>|-+>|→|⇒|⟹|↦|===?|=|"
    r"(?:(?:should|must|will|would|shall)\s+)?"
    r"(?:returns?|gives?|is\s+equal\s+to|equals?|is|be|yields?|evaluates?\s+to|produces?|becomes?|results?\s+in)\b)"
    r"\s*:?\s*(?:(?:the|a|an)\s+)?"
    r"(?:(?:empty\s+)?(?:list|string|value|number|integer|float|character|char|pair|tuple|array|boolean|bool|result)\s+)?"
)
_RAISING = re.compile(
    r"\s*+(?:;;)?\s*+,?\s*+(?:\(\*\s*+)?(?:=>|->|→)?\s*+"
    r"(?=(?:should\s+|must\s+|will\s+)?(?:raise|throw|Exception\s*+:))"
)
_REMARK = re.compile(
    r"`{0,2}\s*+(?:\*\))?\s*+"
    r"(?:$|[.;!)](?![\w'])|,(?!\s*`?[\d\[(\"'-])|[(#`]|//|--|—|–|:\s*$|(?:because|since|as|and|but|while|whereas)\b)"
)
_LEAD = re.compile(
    r"\s*+(?:>\s*+)?(?:(?:[-*+•]|\d+[.)])\s++)?"
    r"(?:\*{0,3}(?:examples?|e\.g\.|ex\.?|for example|for instance|so|thus|hence|that is|i\.e\.)"
    r"[\s\d]*+\**+[:,]*+\**+\s*+)?",
    re.IGNORECASE,
)


def _bare(line: str) -> str:
    """Take bullets, "Example:" and backticks off a line."""
    lead = _LEAD.match(line)
    text = line[lead.end() :] if lead else line
    return text.replace("`", "").strip()


def _in_spans(line: str, number: int, asked: Asked) -> Iterator[Draft]:
    """``… `f 1 = 2` …``."""
    for span in _SPAN.finditer(line):
        draft = stated(span[1].strip(), number, asked)
        if draft is not None:
            yield draft


def _after_spans(line: str, number: int, asked: Asked) -> Iterator[Draft]:
    """``… `f 1` returns `2` …``."""
    for span in _SPAN.finditer(line):
        text = span[1].strip().removesuffix(";;").strip()
        if not _is_call(text, asked):
            continue
        expected = _expected(line[span.end() :])
        if expected is not None:
            yield Draft(text, expected[0], number, raises=expected[1], tentative=True)


def _expected(rest: str) -> tuple[str, bool] | None:
    """Read what stands behind a call: a value, or an exception (True)."""
    raising = _RAISING.match(rest)
    if raising is not None:
        words = re.sub(r"^(?:should|must|will)\s+", "", rest[raising.end() :].replace("`", ""))
        pattern = exception_pattern(words, remark=True)
        return None if pattern is None else (pattern, True)
    between = _BETWEEN.match(rest)
    if between is None:
        return None
    tail = rest[between.end() :]
    if tail.startswith("`"):
        span = _SPAN.match(tail)
        if span is None or not _REMARK.match(tail[span.end() :]):
            return None
        return span[1].strip(), False
    value = leading_value(tail)
    return None if value is None else (value, False)


def _is_call(text: str, asked: Asked) -> bool:
    """Whether all of ``text`` applies the function asked for, to values or to anything OCaml has."""
    call = call_at(text)
    if call is not None and not text[call.end :].strip():
        return _calls(call, asked)
    tokens = lex(text)
    return (
        len(tokens) > 1
        and tokens[0].text in asked.names
        and fault(tokens) is None
        and equation(tokens) is None
    )


def _equated(text: str, number: int, asked: Asked) -> Draft | None:
    """Read ``map succ [1] = [2]``: it counts when all that it mentions is known."""
    tokens = lex(text)
    if not asked.names or fault(tokens) or asked.names.isdisjoint(token.text for token in tokens):
        return None
    stated_type = tokens[0].text in {"val", "let", "type", "fun"} or at_depth_zero(tokens, ":")
    sides = None if stated_type else equation(tokens) or arrow(tokens)
    if sides is None:
        return None
    left, right = (text[side[0].start : side[-1].end] for side in sides)
    about = not asked.names.isdisjoint(token.text for token in sides[0])
    return Draft(left, right, number, tentative=True) if about else None


def _calls(call: Call, asked: Asked) -> bool:
    return call.name in asked.names or (not asked.names and len(call.arguments) > 0)

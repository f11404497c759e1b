"""Maps the inputs of a kata (``nums = [1,2], k = 2``; ``[1,2], 2``; ``[1; 2] 2``) onto parameters."""

import re
from collections.abc import Iterator, Sequence

from ocaml.reading.calls import Asked, NotOCaml, call_at, compose, exception_pattern
from ocaml.reading.drafts import Draft
from ocaml.reading.literals import Items, Literal, Word, literal_at, parse_literal
from ocaml.reading.mentions import leading_value
from ocaml.signature import Argument
from ocaml.typexpr import Constructor

__all__ = ["column_key", "describes", "kata_draft", "plain"]


def kata_draft(inputs: Sequence[tuple[str, str]], expected: str, line: int, asked: Asked) -> Draft:
    """Make an example of inputs (the name of a table's column, or ``""``, and a text) and an output.

    Raises NotOCaml.
    """
    pattern = exception_pattern(expected)
    value = leading_value(expected) or expected
    return Draft(_call(inputs, asked), pattern or value, line, raises=pattern is not None)


def describes(text: str) -> bool:
    """Whether a text says what an input looks like ("a list of integers"), instead of giving one."""
    if not text or _TYPE_WORDS.match(text) or re.match(r"[A-Za-z_]\w*\s*[:=]\s*(?:an?|the)\s", text):
        return True
    if re.match(r"(?:(?i:an?|the|two|one|three|any|no)|some)\s+[A-Za-z]", text):  # not OCaml's `Some x`
        return True
    words = re.findall(r"[A-Za-z']+", re.sub(r"\"[^\"]*\"|'[^']*'", " ", text))
    return len(words) >= 4 and not re.match(r"[\w.]+\s*[=:(]|[\[({\"'\d-]", text)


def plain(text: str) -> str:
    """Take Markdown's marks off a value."""
    text = text.strip()
    if "`" in text and not re.match(r"`[A-Z]\w*(?!\S*`)", text):
        text = re.sub(r"`([^`]*)`", r"\1", text).strip()
    return text.strip("*_ ") if text.startswith("**") else text


def column_key(name: str | None) -> str:
    """Return a name without what parts its words: ``maxSize`` and ``max_size`` are one."""
    return (name or "").replace("_", "").lower()


_UNIT = Constructor("unit")
_LONGEST = 10_000  # characters of an input: longer ones are data, not examples
_TYPE_WORDS = re.compile(
    r"(?:an?\s+)?(?:int(?:eger)?|string|str|list|array|float|double|bool(?:ean)?|char|tuple|number|unit"
    r"|option|tree)s?\Z",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[\s,;]*+(?:and\s+)?([A-Za-z_][\w']*)\s*[=:]\s*")
_BEHIND_NAMED = re.compile(r"\s*+(?:[,;\n]|and\b|\Z|(?<=\s)[A-Za-z_])")


def _call(inputs: Sequence[tuple[str, str]], asked: Asked) -> str:
    if asked.name is None:
        raise NotOCaml("no function header says what takes the input")
    if sum(len(text) for _, text in inputs) > _LONGEST:
        raise NotOCaml("its input is longer than an example may be")
    if len(inputs) > 1:
        values = [(name, _one(text)) for name, text in inputs]
        return compose(_by_name(values, asked), asked)[0]
    text = inputs[0][1]
    call = call_at(text)
    if call is not None and call.name == asked.name and not text[call.end :].strip():
        return text
    named = _named(text)
    if named is not None:
        return compose(_by_name(named, asked), asked)[0]
    return _by_place(text, asked)


def _one(text: str) -> Literal:
    named = _named(text)
    literal = parse_literal(text) if named is None else named[0][1]
    if literal is None:
        raise NotOCaml(_no_value(text))
    return literal


def _named(text: str) -> list[tuple[str, Literal]] | None:
    """Read ``nums = [1,2,3], k = 2``."""
    found: list[tuple[str, Literal]] = []
    at = 0
    while at < len(text):
        name = _NAMED.match(text, at)
        value = literal_at(text, name.end()) if name else None
        if name is None or value is None or not _BEHIND_NAMED.match(text, value[1]):
            return None
        found.append((name[1], value[0]))
        at = value[1]
    return found or None


def _by_name(values: Sequence[tuple[str, Literal]], asked: Asked) -> list[tuple[str, Literal]]:
    """Order named values as the function takes them; by place where the header gives no such names."""
    wanted = asked.shape.arguments
    if not wanted or len(values) > len(wanted):
        raise NotOCaml(_too_many(len(values), len(wanted), asked))
    names = {column_key(a.name or a.label.lstrip("?")): i for i, a in enumerate(wanted) if a.name or a.label}
    places = [names.get(column_key(name)) for name, _ in values]
    known = [place for place in places if place is not None]
    if known:
        if len(set(known)) < len(values):
            raise NotOCaml("the names of its inputs are not those of the header's parameters")
        pairs = sorted(zip(known, (value for _, value in values), strict=True), key=lambda pair: pair[0])
        return _placed([value for _, value in pairs], [wanted[place] for place, _ in pairs], asked)
    needed = _needed(asked, len(values))
    if len(values) != len(needed):
        raise NotOCaml(_too_many(len(values), len(needed), asked))
    return _placed([value for _, value in values], needed, asked)


def _needed(asked: Asked, given: int) -> list[Argument]:
    """Return the arguments that inputs stand for: not the optional ones, nor a ``()`` that nobody gives."""
    needed = [argument for argument in asked.shape.arguments if not argument.label.startswith("?")]
    telling = [argument for argument in needed if argument.type != _UNIT]
    return telling if len(telling) == given else needed


def _placed(values: Sequence[Literal], needed: Sequence[Argument], asked: Asked) -> list[tuple[str, Literal]]:
    """Give each argument its value, and ``()`` where the function wants it."""
    given = dict(zip((id(argument) for argument in needed), values, strict=True))
    placed: list[tuple[str, Literal]] = []
    for argument in asked.shape.arguments:
        if id(argument) in given:
            placed.append((_label(argument.label), given[id(argument)]))
        elif argument.type == _UNIT and not argument.label:
            placed.append(("", Word("()")))
    return placed


def _label(label: str) -> str:
    return f"~{label.removeprefix('?')}:" if label else ""


def _by_place(text: str, asked: Asked) -> str:
    """Read values parted by commas, lines or blanks as the arguments in order."""
    if not asked.shape.arguments:
        raise NotOCaml(f"the header of `{asked.name}` does not show what it takes")
    reasons: list[str] = []
    for values in _readings(text):
        first = values[0]
        needed = _needed(asked, len(values))
        if len(values) == 1 and len(needed) > 1 and isinstance(first, Items) and first.opening == "(":
            values = list(first.rows[0])
            needed = _needed(asked, len(values))
        if len(values) != len(needed):
            reasons.append(_too_many(len(values), len(needed), asked))
            continue
        try:
            return compose(_placed(values, needed, asked), asked)[0]
        except NotOCaml as problem:
            reasons.append(str(problem))
    raise NotOCaml(reasons[0] if reasons else _no_value(text))


def _readings(text: str) -> Iterator[list[Literal]]:
    """Read a text as values in each way there is: as one, parted by commas or lines, parted by blanks."""
    whole = parse_literal(text)
    if whole is not None:
        yield [whole]
    parted = _sequence(text, re.compile(r"\s*+[,;]\s*+|\s*\n\s*"), argument=False)
    if parted is not None and len(parted) > 1:
        yield parted
        yield [Items("(", (tuple(parted),))]
    parted = _sequence(text, re.compile(r"\s+"), argument=True)
    if parted is not None and len(parted) > 1:
        yield parted


def _sequence(text: str, between: re.Pattern[str], *, argument: bool) -> list[Literal] | None:
    values: list[Literal] = []
    at = 0
    while True:
        found = literal_at(text, at, argument=argument)
        if found is None:
            return None
        values.append(found[0])
        if not text[found[1] :].strip():
            return values
        gap = between.match(text, found[1])
        if gap is None or gap.end() == found[1]:
            return None
        at = gap.end()


def _too_many(given: int, taken: int, asked: Asked) -> str:
    return f"it gives {given} inputs where `{asked.name}` takes {taken}"


def _no_value(text: str) -> str:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return f"`{shown}` is no value; write it in OCaml's notation, strings in quotes"

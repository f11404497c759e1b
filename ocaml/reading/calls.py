"""Turns both sides of an example into OCaml: a call with its arguments, a value or an exception."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ocaml.lexing import CLOSERS, Token, TokenKind, fault, lex
from ocaml.phrases import free_names
from ocaml.reading.literals import Applied, Items, Literal, Word, literal_at, mentioned, parse_literal
from ocaml.reading.notation import Known, as_argument, spell, write
from ocaml.signature import Shape
from ocaml.typexpr import Tuple, Type

__all__ = [
    "Asked",
    "Call",
    "NotAnExample",
    "NotOCaml",
    "call_at",
    "compose",
    "exception_pattern",
    "expression",
    "value",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What examples are about: the function asked for, what goes into it, what the problem defines.

    ``name`` is None and ``names`` are empty where no header says it; ``names`` are all that have headers.
    """

    name: str | None = None
    names: frozenset[str] = frozenset()
    shape: Shape = field(default_factory=Shape)
    known: Known = field(default_factory=Known)

    def is_about(self, words: frozenset[str]) -> bool:
        """Whether an expression that mentions ``words`` calls a function asked for."""
        return not self.names or not self.names.isdisjoint(words)


@dataclass(frozen=True, slots=True)
class Call:
    """``f [1; 2] 3`` or ``f([1, 2], 3)``: labels (``~x:`` or empty) and values, and where it ends."""

    name: str
    arguments: tuple[tuple[str, Literal], ...]
    end: int

    @property
    def key(self) -> tuple[str, ...]:
        """The same words for two spellings of one call."""
        return (self.name, *(word for label, literal in self.arguments for word in [label, *spell(literal)]))


class NotOCaml(Exception):
    """A side of an example has no certain reading; the message says why and what to do."""


class NotAnExample(NotOCaml):
    """It speaks of names that nothing defines: a law (``f x = 2 * x``), not an example."""


def call_at(text: str, at: int = 0) -> Call | None:
    """Parse a call with arguments that are all values; None where none stands."""
    head = _HEAD.match(text, at)
    if head is None:
        return None
    end = head.end()
    arguments: list[tuple[str, Literal]] = []
    while True:
        label = None if _CONNECTING.match(text, end) else _LABEL.match(text, end)
        found = literal_at(text, label.end(), argument=True) if label else None
        if label is None or found is None or "\n" in text[end : label.end()].rstrip("\n"):
            break
        arguments.append((label[1], found[0]))
        end = found[1]
    return Call(head[1], tuple(arguments), end) if arguments else None


def expression(text: str, asked: Asked) -> tuple[str, Type | None]:
    """Return an expression as OCaml, and its type where that is known. Raises NotOCaml."""
    text = text.strip()
    call = call_at(text)
    if call is not None and not text[call.end :].strip() and call.name == asked.name:
        return _converted(call, text, asked)
    _check(text, asked)
    return text, None


def compose(arguments: Sequence[tuple[str, Literal]], asked: Asked) -> tuple[str, Type | None]:
    """Return a call of the function asked for, and its type. Raises NotOCaml."""
    if asked.name is None:
        raise NotOCaml("no header says which function it calls")
    written, full = _arguments(arguments, asked)
    name = asked.name if re.match(r"[a-z_][\w']*\Z", asked.name) else f"( {asked.name} )"
    words = [name, *(label + as_argument(text) for label, text, _ in written)]
    return " ".join(words), asked.shape.result if full else None


def value(text: str, kind: Type | None, asked: Asked) -> str:
    """Return an expected value as OCaml. Raises NotOCaml."""
    text = text.strip()
    literal = parse_literal(text)
    if literal is None:
        _check(text, asked)
        return text
    _refuse_unknown(literal, asked)
    written = write(literal, kind, asked.known)
    if written is None:
        raise NotOCaml(_uncertain(text, kind))
    return text if written[1] else written[0]


def exception_pattern(text: str, *, remark: bool = False) -> str | None:
    """Return ``Not_found`` for ``Exception: Not_found.`` or ``raises Not_found``; None where none is named.

    A ``remark`` may follow it ("when the list is empty").
    """
    found = _EXCEPTION.match(text)
    if found is None:
        return None
    rest = re.split(r"\n\s*(?:Raised|Called|Re-raised) ", found[1])[0].strip(" `\n")
    literal = literal_at(rest, 0)
    if literal is None or not isinstance(literal[0], Applied) or mentioned(literal[0]):
        return None
    if not remark and rest[literal[1] :].strip(" `.\n"):
        return None
    pattern = rest[: literal[1]].strip()
    return pattern[1:-1].strip() if pattern.startswith("(") else pattern


_HEAD = re.compile(r"\s*([a-z_][\w']*)(?=[\s(\[\"'{])")
_LABEL = re.compile(r"[ \t\n]*((?:[~?][a-z_][\w']*:)?)(?=[\[({\"'`\w.-])")
# English between a call and its value, which would else be taken for the names of values
_CONNECTING = re.compile(
    r"\s*(?:returns?|gives?|is|should|must|will|would|be|equals?|evaluates?|yields?|produces?|becomes?|results?|raises?"
    r"|throws?|and|or|for|because|when|then|but|since|as|has|to)\b"
)
_EXCEPTION = re.compile(
    r"\s*(?:Exception\s*:|(?:it\s+)?(?:raises|raise|throws|exception|fails with)\b)\s*"
    r"(?:the\s+)?(?:exception\s+)?(?:Stdlib\.)?(.+)",
    re.DOTALL,
)
# What Stdlib opens into every program, as far as examples use it.
_STDLIB = """
abs fst snd not ref ignore min max compare succ pred float truncate sqrt exp log log10 sin cos tan atan atan2
hypot floor ceil abs_float mod_float max_int min_int infinity neg_infinity nan epsilon_float incr decr lnot
failwith raise invalid_arg string_of_int int_of_string int_of_string_opt float_of_int int_of_float exit
string_of_bool bool_of_string string_of_float float_of_string float_of_string_opt char_of_int int_of_char
print_int print_string print_endline print_float print_char print_newline
"""
_INITIAL = frozenset(_STDLIB.split())


def _converted(call: Call, text: str, asked: Asked) -> tuple[str, Type | None]:
    written, full = _arguments(call.arguments, asked)
    kind = asked.shape.result if full else None
    if len(written) == len(call.arguments) and all(own for _, _, own in written) and not _negative(call):
        return text, kind
    return " ".join([call.name, *(label + as_argument(argument) for label, argument, _ in written)]), kind


def _negative(call: Call) -> bool:
    """Whether OCaml would read ``f -1`` as a subtraction."""
    return any(isinstance(argument, Word) and argument.text.startswith("-") for _, argument in call.arguments)


def _arguments(
    given: Sequence[tuple[str, Literal]], asked: Asked
) -> tuple[list[tuple[str, str, bool]], bool]:
    """Return label, text and "as OCaml reads it" of each argument, and whether none is missing."""
    wanted = asked.shape.arguments
    needed = [argument for argument in wanted if not argument.label.startswith("?")]
    given = _spread(given, [argument.type for argument in needed])
    unlabelled = [argument for argument in wanted if not argument.label]
    written: list[tuple[str, str, bool]] = []
    position = 0
    for label, literal in given:
        kind: Type | None = None
        if label:
            kind = next((a.type for a in wanted if a.label.lstrip("?") == label[1:-1]), None)
        elif wanted:
            # labels may be left out where every argument is given
            bare = len(given) == len(needed) and not any(label for label, _ in given)
            pool = needed if bare else unlabelled
            if position >= len(pool):
                raise NotOCaml(f"it gives {len(given)} arguments where {asked.name} takes {len(needed)}")
            kind = pool[position].type
            position += 1
        _refuse_unknown(literal, asked)
        found = write(literal, kind, asked.known)
        if found is None:
            raise NotOCaml(_uncertain(f"argument {len(written) + 1}", kind))
        written.append((label, *found))
    plain = sum(1 for label, _ in given if not label.startswith("?"))
    return written, bool(needed) and plain >= len(needed)


def _spread(
    given: Sequence[tuple[str, Literal]], needed: Sequence[Type | None]
) -> Sequence[tuple[str, Literal]]:
    """Read ``f(1, 2)`` as a call with two arguments where the function takes two."""
    if len(given) != 1 or given[0][0] or len(needed) < 2:
        return given
    literal, first = given[0][1], needed[0]
    if not isinstance(literal, Items) or literal.opening != "(" or len(literal.rows[0]) != len(needed):
        return given
    if isinstance(first, Tuple):
        return given
    return [("", item) for item in literal.rows[0]]


def _refuse_unknown(literal: Literal, asked: Asked) -> None:
    unknown = mentioned(literal) - _INITIAL - asked.known.values
    if unknown:
        raise NotAnExample(f"`{min(unknown)}` is a name that nothing defines (a string stands in quotes)")


def _check(text: str, asked: Asked) -> None:
    """Raise unless ``text`` is OCaml that can only be read one way and whose names are known."""
    tokens = lex(text, comments=False)
    problem = fault(tokens) if tokens else "it is empty"
    if problem:
        raise NotOCaml(f"`{_short(text)}` is not OCaml: {problem}")
    if any(token.kind is TokenKind.TYPE_VARIABLE or token.text in {"True", "False"} for token in tokens):
        raise NotOCaml(f"`{_short(text)}` is not OCaml; write it in OCaml's notation")
    if _lists_with_commas(tokens):
        raise NotOCaml(f"`{_short(text)}` parts a list by commas, which in OCaml makes one tuple; write `;`")
    unknown = free_names(tokens) - _INITIAL - asked.names - asked.known.values
    if not asked.names:
        unknown -= {tokens[0].text}
    if unknown:
        raise NotAnExample(f"`{_short(text)}` mentions `{min(unknown)}`, which nothing defines")


def _lists_with_commas(tokens: Sequence[Token]) -> bool:
    marks: list[set[str]] = [set()]
    openers = [""]
    for token in tokens:
        if token.kind is not TokenKind.PUNCTUATION:
            continue
        if token.text in CLOSERS:
            marks.append(set())
            openers.append(token.text)
        elif token.text in {",", ";"}:
            marks[-1].add(token.text)
        elif len(marks) > 1 and token.text == CLOSERS[openers[-1]]:
            opener = openers.pop()
            if marks.pop() == {","} and opener in {"[", "[|"}:
                return True
    return False


def _uncertain(what: str, kind: Type | None) -> str:
    shown = what if what.startswith("argument") else f"`{_short(what)}`"
    known = "the type in the header" if kind is not None else "a type that the header does not say"
    return f"{shown} has no certain reading as OCaml of {known}; write it in OCaml's notation"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"

"""The examples of a problem, in all the notations that people use, as OCaml that can be run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocaml.lexing import TokenKind, lex, normalise, without_comments
from ocaml.phrases import split
from ocaml.reading.calls import Asked, NotAnExample, NotOCaml, call_at, expression, value
from ocaml.reading.drafts import Binding, Draft, Passage, PassageKind, Unread
from ocaml.reading.katas import katas
from ocaml.reading.mentions import mentions
from ocaml.reading.notation import Known, canonical
from ocaml.reading.snippets import Snippet, snippets
from ocaml.reading.transcripts import doctests, drafts_of_doctests, drafts_of_turns, is_doctest, turns

__all__ = ["Example", "contradiction", "read_examples"]


@dataclass(frozen=True, slots=True)
class Example:
    """One example of the statement: ``expression`` should give ``expected``, both OCaml text.

    ``expected`` is None for a plain boolean assertion. ``line`` is its 1-based line in the source.
    """

    expression: str
    expected: str | None = None
    line: int | None = None

    @property
    def assertion(self) -> str:
        """The example as an OCaml boolean expression."""
        return self.expression if self.expected is None else f"({self.expression}) = ({self.expected})"


def read_examples(
    passages: Sequence[Passage], blocks: Sequence[Snippet], asked: Asked
) -> tuple[tuple[Example, ...], tuple[Unread, ...]]:
    """Return the examples in the order of their lines, each once, and those that can't be read.

    ``passages`` are all parts of the problem, ``blocks`` the code that stands in its blocks of OCaml.
    """
    found = [found for passage in passages for found in _in_passage(passage, asked)]
    found += katas(passages, asked)
    found += [found for block in blocks for found in snippets(block, asked)]
    examples: list[Example] = []
    unread: dict[int, Unread] = {}
    for item in sorted(found, key=lambda item: item.line):
        read = _settled(item, asked) if isinstance(item, Draft) else item
        if isinstance(read, Example):
            examples.append(read)
        elif read is not None:
            unread.setdefault(read.line, read)
    kept = _once(examples)
    read_lines = {example.line for example in kept}
    return tuple(kept), tuple(item for line, item in unread.items() if line not in read_lines)


def contradiction(examples: Sequence[Example]) -> tuple[Example, Example] | None:
    """Return two examples that give one expression two values, or None."""
    seen: dict[tuple[str, ...], Example] = {}
    for example in examples:
        if example.expected is None:
            continue
        first = seen.setdefault(_key(example.expression), example)
        if first.expected is not None and _key(first.expected) != _key(example.expected):
            return first, example
    return None


def _in_passage(passage: Passage, asked: Asked) -> Iterator[Draft | Unread]:
    lines = passage.lines()
    if passage.kind is PassageKind.OCAML:
        return
    yield from drafts_of_doctests(doctests(lines))
    prose = passage.kind is PassageKind.PROSE
    yield from drafts_of_turns(turns(lines, fenced=not prose), asked.names)
    for number, line in lines:
        if len(line) > _LONGEST_LINE or is_doctest(line):
            continue
        yield from mentions(line, number, asked)
        if line.lstrip(" \t`*-").startswith("assert"):
            text = line.strip(" \t`*-.")
            yield from snippets(Snippet(text, split(text), number - 1), asked)


_LONGEST_LINE = 2_000  # characters; a longer line of prose is no sentence


def _settled(draft: Draft, asked: Asked) -> Example | Unread | None:
    """Read a draft as OCaml; None when it turns out to be no example."""
    words = frozenset(
        t.text for t in lex(draft.expression) if t.kind in {TokenKind.LOWER, TokenKind.OPERATOR}
    )
    bindings = _needed(draft)
    mentioned = words.union(*(binding.words for binding in bindings))
    if not asked.is_about(mentioned):
        return None
    names = asked.known.values.union(*(binding.names for binding in bindings))
    asked = Asked(asked.name, asked.names, asked.shape, Known(asked.known.aliases, names))
    try:
        text, kind = expression(draft.expression, asked)
        if draft.expected is None:
            return Example(_within(bindings, text), None, draft.line)
        if draft.raises:
            return Example(
                _within(bindings, f"(try ignore ({text}); false with {draft.expected} -> true)"),
                None,
                draft.line,
            )
        expected = value(draft.expected, kind, asked)
    except NotAnExample:
        return None
    except NotOCaml as problem:
        return (
            None
            if draft.tentative and call_at(draft.expression) is None
            else Unread(draft.line, str(problem))
        )
    bound = frozenset(name for binding in bindings for name in binding.names)
    if not bound.isdisjoint(normalise(expected)):
        return Example(_within(bindings, f"({text}) = ({expected})"), None, draft.line)
    return Example(_within(bindings, text), expected, draft.line)


def _needed(draft: Draft) -> list[Binding]:
    """Return the bindings that a draft mentions, and those that these mention, in order."""
    wanted = set(normalise(draft.expression)) | set(normalise(draft.expected or ""))
    needed: list[Binding] = []
    for binding in reversed(draft.bindings):
        if not wanted.isdisjoint(binding.names):
            needed.append(binding)
            wanted = (wanted - binding.names) | binding.words
    return needed[::-1]


def _within(bindings: Sequence[Binding], text: str) -> str:
    return " ".join([*(f"{binding.text} in" for binding in bindings), text])


def _once(examples: Sequence[Example]) -> list[Example]:
    kept: dict[tuple[tuple[str, ...], tuple[str, ...] | None], Example] = {}
    for example in examples:
        expected = None if example.expected is None else _key(example.expected)
        kept.setdefault((_key(example.expression), expected), example)
    return list(kept.values())


def _key(text: str) -> tuple[str, ...]:
    """Return what two ways to write the same expression or value have in common."""
    value_key = canonical(text)
    if value_key is not None:
        return value_key
    call = call_at(text)
    if call is not None and not text[call.end :].strip():
        return call.key
    words = [token.text for token in without_comments(lex(text))]
    return tuple(words)

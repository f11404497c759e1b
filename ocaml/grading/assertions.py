"""Tests as a list of claims, each of which can be run by itself.

The source of the tests is taken apart on the compiler's parse tree: an ``assert`` becomes a claim with
the ``let`` bindings and statements it stands under; everything else stays what it was.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ocaml.grading import syntax
from ocaml.grading.parsetree import Node

_RAISING = {"raise", "failwith", "invalid_arg", "exit", "raise_notrace"}
_OPENING = re.compile(r"\s*(?:\((?!\*)|begin\b|\(\*.*?\*\))?", re.DOTALL)
_DISPLAY_BARE = {"Pexp_apply", "Pexp_ident", "Pexp_constant", "Pexp_construct"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the tests' source that comes before a claim: what it mentions, binds and opens.

    ``effect``: it does something when it is run. ``stateless``: what it binds can't change.
    """

    text: str
    mentions: frozenset[str]
    binds: frozenset[str] = frozenset()
    effect: bool = False
    stateless: bool = False
    opens: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of ``left = right``; ``head`` is the function it applies, if it is an application."""

    text: str
    mentions: frozenset[str]
    head: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """One assertion: ``condition`` under ``context``. ``sides`` is there when it is an equation.

    A claim that is not an ``assert`` by itself (a loop over cases, a call of a test function) is a
    ``block``: it holds when it ends without an exception.
    """

    text: str
    condition: str
    context: tuple[Piece, ...] = ()
    sides: tuple[Side, Side] | None = None
    block: bool = False
    mentions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests in order: top-level items that claims rely on, and claims."""

    steps: tuple[Piece | Claim, ...] = ()
    mentions: frozenset[str] = frozenset()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims alone."""
        return tuple(step for step in self.steps if isinstance(step, Claim))

    @property
    def heads(self) -> frozenset[str]:
        """The functions that equations apply: those under test."""
        sides = (side for claim in self.claims for side in claim.sides or ())
        return frozenset(side.head for side in sides if side.head is not None)


def read_suite(
    source: bytes, items: list[Node], standard_modules: frozenset[str], *, whole: bool = False
) -> Suite:
    """Return the claims of a test source, given its bytes and its parse tree.

    With ``whole`` no item is taken apart: one that asserts is one claim.
    """
    reader = _Reader(source, standard_modules)
    read = reader.whole_item if whole else reader.item
    steps = tuple(step for item in items for step in read(item))
    return Suite(steps, syntax.mentions(*items))


class _Reader:
    """Walks the items of a source; remembers which functions of the tests assert something."""

    def __init__(self, source: bytes, standard_modules: frozenset[str]) -> None:
        self._source = source
        self._standard_modules = standard_modules
        self._asserting: set[str] = set()
        self._equality_is_ours = True

    def item(self, item: Node) -> Iterator[Piece | Claim]:
        """Take an item apart into claims, or leave it what it is."""
        expression = syntax.statement(item)
        if expression is not None and self._asserts(expression):
            yield from (step for step in self._flatten(expression, ()) if isinstance(step, Claim))
            yield from self._unit_names(item)
        elif self._binds_nothing(item) and self._asserts(item):
            yield self._as_block(f"{self._slice(item)} in ()", item)
        else:
            yield self._piece(item)

    def whole_item(self, item: Node) -> Iterator[Piece | Claim]:
        """Make an item that asserts one claim."""
        expression = syntax.statement(item)
        if expression is not None and self._asserts(expression):
            yield self._as_block(self._slice(expression), expression)
            yield from self._unit_names(item)
        else:
            yield self._piece(item)

    def _as_block(self, text: str, node: Node) -> Claim:
        return Claim(display(self._slice(node)), text, block=True, mentions=syntax.mentions(node))

    def _binds_nothing(self, item: Node) -> bool:
        """Whether it is ``let () = … and () = …``."""
        kind = item.kind()
        return kind is not None and kind.word == "Pstr_value" and not syntax.bound(item)

    def _unit_names(self, item: Node) -> Iterator[Piece]:
        """``let tests = assert …`` also binds a name."""
        for name in sorted(syntax.bound(item)):
            yield Piece(f"let {name} = ()", frozenset(), frozenset({name}), stateless=True)

    def _piece(self, item: Node) -> Piece:
        binds, opens = syntax.bound(item), syntax.opened(item)
        if self._asserts(item):
            self._asserting |= binds
        self._equality_is_ours &= self._keeps_equality(binds, opens)
        effect = syntax.statement(item) is not None
        return Piece(
            self._slice(item),
            syntax.mentions(item),
            binds,
            effect,
            syntax.is_stateless(item.expressions()),
            opens,
        )

    def _keeps_equality(self, binds: frozenset[str], opens: frozenset[str]) -> bool:
        return binds.isdisjoint({"=", "not"}) and opens <= self._standard_modules

    def _flatten(self, node: Node, context: tuple[Piece, ...]) -> Iterator[Piece | Claim]:
        """Yield the claims of an expression of type unit, and a piece for each effect between them."""
        while (branch := self._branch(node, context)) is not None:
            first, node, context = branch
            for step in self._flatten(first, context) if first is not None else ():
                yield step
                context = self._after(step, context)
        kind = node.kind()
        parts = node.expressions()
        if kind is not None and kind.word == "Pexp_assert" and parts:
            yield self._claim(parts[0], context)
        elif kind is not None and kind.word == "Pexp_construct" and kind.name == "()":
            return
        elif self._asserts(node):
            text = self._slice(node)
            yield Claim(display(text), text, context, block=True, mentions=syntax.mentions(node))
        else:
            yield Piece(f"({self._slice(node)});", syntax.mentions(node), effect=True)

    def _branch(
        self, node: Node, context: tuple[Piece, ...]
    ) -> tuple[Node | None, Node, tuple[Piece, ...]] | None:
        """Take ``first; rest`` or ``let … in rest`` apart: what comes first, what is left, and under what."""
        kind = node.kind()
        word = kind.word if kind is not None else ""
        parts = node.expressions()
        if word == "Pexp_sequence" and len(parts) == 2:
            return parts[0], parts[1], context
        if word in syntax.CONTEXT and parts and not any(map(self._asserts, parts[:-1])):
            return None, parts[-1], (*context, self._binding(node, parts[-1]))
        if word == "Pexp_constraint" and parts:
            return None, parts[0], context
        return None

    def _after(self, step: Piece | Claim, context: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Return the context of what follows ``step``: effects stay in force.

        A claim is run again only where state hangs on it: under a binding that is more than a name.
        """
        if isinstance(step, Piece):
            return (*context, step)
        if not any(piece.effect for piece in context):
            return context
        again = step.condition if step.sides is None else step.sides[0].text
        text = f"({again});" if step.block else f"ignore ({again});"
        return (*context, Piece(text, frozenset(), effect=True))

    def _binding(self, node: Node, body: Node) -> Piece:
        text = _without_brackets(self._text(node.start, body.start))
        parts = [child for child in node.children if child is not body]
        if text[:1].isupper() or text[:1] > "\x7f":  # M.( … )
            opened = next((found.name for part in parts for found in part.all("Pmod_ident")), None)
            text = f"let open {opened} in "
        stateless = syntax.is_stateless(part for part in node.expressions() if part is not body)
        return Piece(
            text,
            syntax.mentions(*parts),
            syntax.bound(node),
            not stateless,
            stateless,
            syntax.opened(node, body),
        )

    def _claim(self, condition: Node, context: tuple[Piece, ...]) -> Claim:
        text = self._slice(condition)
        mentions = syntax.mentions(condition)
        plain = all(self._keeps_equality(piece.binds, piece.opens) for piece in context)
        sides = self._sides(condition) if plain and self._equality_is_ours else None
        if sides is None:
            return Claim(display(_bare(text)), text, context, mentions=mentions)
        shown = f"{display(sides[0].text)} = {display(sides[1].text)}"
        return Claim(shown, text, context, sides, mentions=mentions)

    def _sides(self, condition: Node) -> tuple[Side, Side] | None:
        """Read ``a = b``; a plain boolean ``a`` is ``a = true`` and ``not a`` is ``a = false``."""
        kind = condition.kind()
        if kind is None:
            return None
        if kind.word == "Pexp_ident":
            return self._side(condition), _TRUE
        if kind.word != "Pexp_apply":
            return None
        operator, *arguments = condition.expressions()
        head = operator.kind()
        name = head.name if head and head.word == "Pexp_ident" else None
        if name in {"=", "Stdlib.="} and len(arguments) == 2:
            return self._side(arguments[0]), self._side(arguments[1])
        if name == "not" and len(arguments) == 1:
            return self._side(arguments[0]), _FALSE
        if name is None or not (name[-1].isalnum() or name[-1] in "_'") or name[0].isupper():
            return None  # an operator or a library's predicate: the weaker kind
        return self._side(condition), _TRUE

    def _side(self, node: Node) -> Side:
        kind = node.kind()
        head = None
        if kind is not None and kind.word == "Pexp_apply":
            function = node.expressions()[0].kind()
            head = function.name if function and function.word == "Pexp_ident" else None
        text = self._slice(node)
        if kind is not None and kind.word in _DISPLAY_BARE:
            text = _bare(text)
        return Side(text, syntax.mentions(node), head)

    def _asserts(self, node: Node) -> bool:
        """Whether something below asserts, raises, or calls a test function that does."""
        for found in node.marks():
            if found.word == "Pexp_assert":
                return True
            if found.word == "Pexp_ident" and found.name and self._may_raise(found.name):
                return True
        return False

    def _may_raise(self, name: str) -> bool:
        return name.removeprefix("Stdlib.") in _RAISING or syntax.first(name) in self._asserting

    def _slice(self, node: Node) -> str:
        return self._text(node.start, node.end)

    def _text(self, start: int | None, end: int | None) -> str:
        return self._source[start:end].decode(errors="surrogateescape")


_TRUE = Side("true", frozenset(), None)
_FALSE = Side("false", frozenset(), None)


def _without_brackets(text: str) -> str:
    """Take off what may stand before a ``let``: parentheses, ``begin``, comments."""
    while (found := _OPENING.match(text)) is not None and found.end():
        text = text[found.end() :]
    return text


def display(text: str) -> str:
    """On one line, and without what is no text."""
    return " ".join(text.encode(errors="surrogateescape").decode(errors="replace").split())


def _bare(text: str) -> str:
    """Take one pair of parentheses off when it wraps the whole text."""
    inner = text.strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        return text
    depth = 0
    for index, character in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return inner[1:-1].strip() or text if index == len(inner) - 1 else text
    return text


def bound_at(item: Node) -> Iterator[tuple[tuple[int, int], str]]:
    """The names that a top-level ``let`` binds, each with its byte offsets."""
    for pattern in syntax.patterns(item):
        for found in pattern.all("Ppat_var"):
            if found.name and found.start is not None and found.end is not None:
                yield (found.start, found.end), found.name

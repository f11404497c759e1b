"""Tests as a list of claims, each of which can be run by itself.

The source of the tests is taken apart on the compiler's parse tree: an ``assert`` becomes a claim with
the ``let`` bindings and statements it stands under; everything else stays what it was.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ocaml.grading.parsetree import Node

_CONTEXT = {"Pexp_let", "Pexp_open", "Pexp_letmodule", "Pexp_letexception"}
_RAISING = {"raise", "failwith", "invalid_arg", "exit", "raise_notrace"}
# A binding to one of these has no effect and no state: running it again changes nothing.
_STATELESS = {"Pexp_ident", "Pexp_constant", "Pexp_fun", "Pexp_function", "Pexp_newtype"}
# What makes something new, and perhaps mutable, each time.
_MAKING = ("Pexp_apply", "Pexp_array", "Pexp_record", "Pexp_new", "Pexp_object", "Pexp_letop", "Pexp_lazy")
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
    mentions = frozenset(name for item in items for name in _mentions(item))
    return Suite(steps, mentions)


class _Reader:
    """Walks the items of a source; remembers which functions of the tests assert something."""

    def __init__(self, source: bytes, standard_modules: frozenset[str]) -> None:
        self._source = source
        self._standard_modules = standard_modules
        self._asserting: set[str] = set()
        self._equality_is_ours = True

    def item(self, item: Node) -> Iterator[Piece | Claim]:
        """Take an item apart into claims, or leave it what it is."""
        expression = _statement(item)
        if expression is not None and self._asserts(expression):
            yield from (step for step in self._flatten(expression, ()) if isinstance(step, Claim))
            yield from self._unit_names(item)
        elif self._binds_nothing(item) and self._asserts(item):
            yield self._as_block(f"{self._slice(item)} in ()", item)
        else:
            yield self._piece(item)

    def whole_item(self, item: Node) -> Iterator[Piece | Claim]:
        """Make an item that asserts one claim."""
        expression = _statement(item)
        if expression is not None and self._asserts(expression):
            yield self._as_block(self._slice(expression), expression)
            yield from self._unit_names(item)
        else:
            yield self._piece(item)

    def _as_block(self, text: str, node: Node) -> Claim:
        return Claim(_display(self._slice(node)), text, block=True, mentions=_mentions(node))

    def _binds_nothing(self, item: Node) -> bool:
        """Whether it is ``let () = … and () = …``."""
        kind = item.kind()
        return kind is not None and kind.word == "Pstr_value" and not any(_bound(item))

    def _unit_names(self, item: Node) -> Iterator[Piece]:
        """``let tests = assert …`` also binds a name."""
        for name in sorted(_bound(item)):
            yield Piece(f"let {name} = ()", frozenset(), frozenset({name}), stateless=True)

    def _piece(self, item: Node) -> Piece:
        binds, opens = frozenset(_bound(item)), _opened(item)
        if self._asserts(item):
            self._asserting |= binds | _modules_of(item)
        self._equality_is_ours &= self._keeps_equality(binds, opens)
        effect = _statement(item) is not None
        return Piece(
            self._slice(item), _mentions(item), binds, effect, _is_stateless(item.expressions()), opens
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
            yield Claim(_display(text), text, context, block=True, mentions=_mentions(node))
        else:
            yield Piece(f"({self._slice(node)});", _mentions(node), effect=True)

    def _branch(
        self, node: Node, context: tuple[Piece, ...]
    ) -> tuple[Node | None, Node, tuple[Piece, ...]] | None:
        """Take ``first; rest`` or ``let … in rest`` apart: what comes first, what is left, and under what."""
        kind = node.kind()
        word = kind.word if kind is not None else ""
        parts = node.expressions()
        if word == "Pexp_sequence" and len(parts) == 2:
            return parts[0], parts[1], context
        if word in _CONTEXT and parts and not any(map(self._asserts, parts[:-1])):
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
        text = _without_brackets(self._slice(Node("", node.start, body.start)))
        local = re.match(r"([A-Z][\w']*(?:\.[A-Z][\w']*)*)\s*\.", text)
        if local is not None:  # M.( … )
            text = f"let open {local[1]} in "
        bound = [part for part in node.expressions() if part is not body]
        stateless = _is_stateless(bound)
        return Piece(
            text, _mentions_of(bound), frozenset(_bound(node)), not stateless, stateless, _opened(node, body)
        )

    def _claim(self, condition: Node, context: tuple[Piece, ...]) -> Claim:
        text = self._slice(condition)
        mentions = _mentions(condition)
        plain = all(self._keeps_equality(piece.binds, piece.opens) for piece in context)
        sides = self._sides(condition) if plain and self._equality_is_ours else None
        if sides is None:
            return Claim(_display(_bare(text)), text, context, mentions=mentions)
        shown = f"{_display(sides[0].text)} = {_display(sides[1].text)}"
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
        return Side(text, _mentions(node), head)

    def _asserts(self, node: Node) -> bool:
        """Whether something below asserts, raises, or calls a test function that does."""
        if next(node.all("Pexp_assert"), None) is not None:
            return True
        calls = (found.name or "" for found in node.all("Pexp_ident"))
        return any(
            name in self._asserting | _RAISING or name.split(".")[0] in self._asserting for name in calls
        )

    def _slice(self, node: Node) -> str:
        return self._source[node.start : node.end].decode(errors="surrogateescape")


_TRUE = Side("true", frozenset(), None)
_FALSE = Side("false", frozenset(), None)


def _statement(item: Node) -> Node | None:
    """Return the expression of ``e;;``, ``let () = e`` or ``let _ = e``, or of ``let tests = …; ()``."""
    kind = item.kind()
    parts = item.expressions()
    if kind is None or len(parts) != 1:
        return None
    if kind.word == "Pstr_eval":
        return parts[0]
    if kind.word != "Pstr_value":
        return None
    patterns = [found for found in _patterns(item) if (found_kind := found.kind()) is not None]
    words = {found_kind.word for found in patterns if (found_kind := found.kind()) is not None}
    if words <= {"Ppat_any", "Ppat_construct", "Ppat_constraint"} or _ends_in_unit(parts[0]):
        return parts[0]
    return None


def _patterns(item: Node) -> Iterator[Node]:
    """The left sides of the item's own bindings."""
    for group in item.children:
        for definition in group.children:
            if definition.word == "<def>":
                yield from (child for child in definition.children if child.word == "pattern")


def bound_at(item: Node) -> Iterator[tuple[tuple[int, int], str]]:
    """The names that a top-level ``let`` binds, each with its byte offsets."""
    for pattern in _patterns(item):
        for found in pattern.all("Ppat_var"):
            if found.name and found.start is not None and found.end is not None:
                yield (found.start, found.end), found.name


def _ends_in_unit(node: Node) -> bool:
    kind = node.kind()
    while kind is not None and kind.word in _CONTEXT | {"Pexp_sequence"}:
        node = node.expressions()[-1]
        kind = node.kind()
    return kind is not None and (kind.word == "Pexp_assert" or kind.name == "()")


def _bound(node: Node) -> Iterator[str]:
    """The names that the bindings of an item or a ``let`` introduce (not those of inner functions)."""
    for child in node.children:
        if child.word == "expression":
            continue
        if child.word == "pattern":
            yield from (found.name for found in child.all("Ppat_var") if found.name)
            continue
        yield from _bound(child)


def _modules_of(item: Node) -> set[str]:
    """The module that an item defines."""
    kind = item.kind()
    if kind is None or kind.word != "Pstr_module":
        return set()
    return {
        text.strip('"') for child in item.children for text in child.text.split()[:1] if text.startswith('"')
    }


def _opened(node: Node, but: Node | None = None) -> frozenset[str]:
    """The modules that an item or a local ``open`` opens or includes (``?`` for one without a name)."""
    found: set[str] = set()
    kind = node.kind()
    if kind is not None and kind.word in {"Pstr_open", "Pstr_include", "Pexp_open"}:
        parts = [child for child in node.children if child is not but]
        names = [found.name for part in parts for found in part.all("Pmod_ident") if found.name]
        found |= {name.split(".")[0] for name in names} or {"?"}
    return frozenset(found)


def _is_stateless(expressions: Iterable[Node]) -> bool:
    """Whether what is bound to these can't change: functions, names, literals without anything mutable."""
    for expression in expressions:
        kind = expression.kind()
        if kind is not None and kind.word in _STATELESS:
            continue
        if any(next(expression.all(word), None) is not None for word in _MAKING):
            return False
    return True


def _without_brackets(text: str) -> str:
    """Take off what may stand before a ``let``: parentheses, ``begin``, comments."""
    while (found := _OPENING.match(text)) is not None and found.end():
        text = text[found.end() :]
    return text


def _mentions(node: Node) -> frozenset[str]:
    return _mentions_of([node])


def _mentions_of(nodes: list[Node]) -> frozenset[str]:
    """The values and modules named below, by the first part of their path."""
    words = ("Pexp_ident", "Pmod_ident", "Pexp_construct", "Pexp_field")
    names = (found.name for node in nodes for word in words for found in node.all(word))
    return frozenset(name.split(".")[0] if name[0].isupper() else name for name in names if name)


def _display(text: str) -> str:
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
            return inner[1:-1].strip() if index == len(inner) - 1 else text
    return text

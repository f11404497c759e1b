"""The compiler's own parse tree of a source, read from ``ocamlc -dparsetree``.

The text has kept its shape from 4.13 to 5.x: one node a line, children indented by two, places as
``(file[line,bol+column]..[line,bol+column])``. Offsets are bytes into the source.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_PLACE = re.compile(r"\([^\[\]()]*\[\d+,(-?\d+)\+(-?\d+)\]\.\.(?:[^\[\]()]*)\[\d+,(-?\d+)\+(-?\d+)\]\)")
_NAME = re.compile(r'^P\w+ "((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Node:
    """A line of the tree; ``start`` and ``end`` are byte offsets, None where the line has no place."""

    text: str
    start: int | None = None
    end: int | None = None
    children: list["Node"] = field(default_factory=list)

    @property
    def word(self) -> str:
        """The first word: ``expression``, ``Pexp_apply`` or ``structure_item``, say."""
        return self.text.split(" ", 1)[0]

    @property
    def name(self) -> str | None:
        """The quoted name of ``Pexp_ident "f"``, ``Ppat_var "x"`` and their like."""
        found = _NAME.match(self.text)
        return found[1] if found else None

    def all(self, word: str) -> Iterator["Node"]:
        """Every node below (and this one) whose first word is ``word``, in source order."""
        stack = [self]
        while stack:
            node = stack.pop()
            if node.word == word:
                yield node
            stack.extend(reversed(node.children))

    def kind(self) -> "Node | None":
        """What an ``expression``, ``pattern`` or ``structure_item`` is: its first ``P…_…`` child."""
        return next((child for child in self.children if re.match(r"P[a-z]+_", child.text)), None)

    def expressions(self) -> list["Node"]:
        """The direct sub-expressions, through lists and arguments, in the order printed."""
        found: list[Node] = []
        stack = list(reversed(self.children))
        while stack:
            node = stack.pop()
            if node.word == "expression":
                found.append(node)
            elif not node.text.startswith("attribute"):
                stack.extend(reversed(node.children))
        return found


def parse(text: str) -> list[Node]:
    """Return the top-level nodes (structure items) of a ``-dparsetree`` dump."""
    tree = _Tree()
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        if bare and bare != "]":
            tree.add((len(line) - len(bare)) // 2, _node(bare))
    return [node for node in tree.finish().children if node.word == "structure_item"]


class _Tree:
    """Rebuilds the nesting. The compiler prints a node of depth d with ``2 * d mod 72`` spaces.

    So a depth is known up to a multiple of 36: a line goes as deep as it can without leaving the span of the
    node above it; a line without a place is decided by the first line with one that follows.
    """

    def __init__(self) -> None:
        self._root = Node("")
        self._open: list[tuple[int, Node]] = [(-1, self._root)]
        self._waiting: list[tuple[int, Node]] = []

    def add(self, column: int, node: Node) -> None:
        """Take the next line; ``column`` is its depth modulo 36."""
        if node.text == "[" and not self._root.children and not column:
            return  # the list of all items
        deepest = self._open[-1][0] + 1
        if node.start is not None:
            self._place_waiting(depth := self._depth(column, node))
            self._attach(depth, node)
        elif not self._waiting and (deepest - column) % _WRAP == 0:
            self._attach(deepest, node)
        else:
            self._waiting.append((column, node))

    def finish(self) -> Node:
        """Return the root."""
        self._place_waiting(0)
        return self._root

    def _depth(self, column: int, node: Node) -> int:
        deepest = self._open[-1][0] + len(self._waiting) + 1
        candidates = range(deepest - (deepest - column) % _WRAP, -1, -_WRAP)
        return next((depth for depth in candidates if self._fits(depth, node)), column)

    def _fits(self, depth: int, node: Node) -> bool:
        """Whether the node's span lies within that of the node it would come under."""
        under = min([depth, *self._waiting_depths(depth)])
        above = next((n for level, n in reversed(self._open) if level < under and n.start is not None), None)
        if (
            above is None
            or above.start is None
            or above.end is None
            or node.start is None
            or node.end is None
        ):
            return True
        return above.start <= node.start and node.end <= above.end

    def _waiting_depths(self, next_depth: int) -> list[int]:
        """The depths of the waiting lines, when the line after them has ``next_depth``."""
        depths: list[int] = []
        for column, _ in reversed(self._waiting):
            least = max(0, next_depth - 1)
            next_depth = least + (column - least) % _WRAP
            depths.append(next_depth)
        return depths[::-1]

    def _place_waiting(self, next_depth: int) -> None:
        for (_, node), depth in zip(self._waiting, self._waiting_depths(next_depth), strict=True):
            self._attach(depth, node)
        self._waiting.clear()

    def _attach(self, depth: int, node: Node) -> None:
        while self._open[-1][0] >= depth:
            self._open.pop()
        self._open[-1][1].children.append(node)
        self._open.append((depth, node))


_WRAP = 36


def _node(text: str) -> Node:
    place = _PLACE.search(text)
    if place is None:
        return Node(text)
    start_line, start_column, end_line, end_column = map(int, place.groups())
    start, end = start_line + start_column, end_line + end_column
    return Node(text, start, end) if start >= 0 else Node(text)

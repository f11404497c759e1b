"""The compiler's own parse tree of a source, read from ``ocamlc -dparsetree``.

The text has kept its shape from 4.13 to 5.x: one node a line, children indented by two, places as
``(file[line,bol+column]..[line,bol+column])``. Offsets are bytes into the source.
"""

import re
from collections.abc import Iterator, Sequence

_POINT = r"\[\d+,(-?\d+)\+(-?\d+)\]"
# A line: its indentation, first word, quoted name, and place where there is nothing odd about that.
_LINE = re.compile(
    r'^( *)([^\s"]*) ?(?:"((?:[^"\\\n]|\\.)*)")?'
    rf"(?:[^(\n]*\([^\[\n]*{_POINT}\.\.{_POINT}\)(?: ghost)?$)?",
    re.MULTILINE,
)
_PLACE = re.compile(rf"\([^\n]*{_POINT}\.\.[^\n]*{_POINT}\)(?: ghost)?$")
_UNENDED = re.compile(r"^( *#abstract)(?=.)", re.MULTILINE)  # the compiler forgets to end this line
_KIND = re.compile(r"P[a-z]+_")
_ATTRIBUTES = {"Pstr_attribute", "Psig_attribute", "Pcf_attribute", "Pctf_attribute"}


class Node:
    """A line of the tree; ``start`` and ``end`` are byte offsets, None where the line has no place.

    ``word`` is its first word: ``expression``, ``Pexp_apply`` or ``structure_item``, say; ``"`` for a line
    that is a name. ``name`` is the quoted name of ``Pexp_ident "f"``, ``Ppat_var "x"`` and their like.
    Attributes are left out: they do nothing.
    """

    __slots__ = (
        "_expressions",
        "_first",
        "_kind",
        "_last",
        "_marks",
        "children",
        "end",
        "name",
        "start",
        "word",
    )

    def __init__(self, word: str, name: str | None, place: Sequence[str], marks: list["Node"]) -> None:
        """Take a line's parts. ``marks`` are the kinds and names of the whole tree, so far."""
        self.word = word
        self.name = name
        self.start: int | None = None
        self.end: int | None = None
        if place and (start := int(place[0]) + int(place[1])) >= 0:
            self.start, self.end = start, int(place[2]) + int(place[3])
        self.children: list[Node] = []
        self._kind: Node | None = None
        self._expressions: list[Node] | None = None
        self._marks = marks
        self._first = self._last = 0

    def marks(self) -> list["Node"]:
        """Every kind and every name below (and this one), in source order."""
        return self._marks[self._first : self._last]

    def all(self, word: str) -> Iterator["Node"]:
        """Every kind below (and this one) that is called ``word``, in source order."""
        return (node for node in self.marks() if node.word == word)

    def kind(self) -> "Node | None":
        """What an ``expression``, ``pattern`` or ``structure_item`` is: its first ``P…_…`` child."""
        return self._kind

    def expressions(self) -> list["Node"]:
        """The direct sub-expressions, through lists and arguments, in the order printed."""
        if self._expressions is None:
            self._expressions = []
            stack = self.children[::-1]
            while stack:
                node = stack.pop()
                if node.word == "expression":
                    self._expressions.append(node)
                elif node.children:
                    stack += node.children[::-1]
        return self._expressions

    def open_below(self, parent: "Node") -> None:
        """Become the last child of ``parent``; what comes now is below."""
        parent.children.append(self)
        self._first = len(self._marks)
        if self.word[0] == "P":
            self._marks.append(self)
            if parent._kind is None and _KIND.match(self.word):
                parent._kind = self
        elif self.word == '"':
            self._marks.append(self)

    def close(self) -> None:
        """Nothing more comes below."""
        self._last = len(self._marks)


def parse(text: str) -> list[Node]:
    """Return the top-level nodes (structure items) of a ``-dparsetree`` dump."""
    tree = _Tree()
    types = False  # the names of `type a b.` go on over lines that are not indented
    if "#abstract" in text:
        text = _UNENDED.sub(r"\1\n", text)
    for line in _LINE.finditer(text):
        indent, word, name, *found = line.groups()
        if word == "]" or (not word and (name is None or types)):
            continue
        types = word == "<type>"
        place = found if found[0] is not None else _odd_place(text, line)
        tree.add(len(indent) // 2, word or '"', name, place)
    return [node for node in tree.finish().children if node.word == "structure_item"]


def _odd_place(text: str, line: "re.Match[str]") -> Sequence[str]:
    """The place of a line that has two, or where a file has an odd name."""
    end = text.find("\n", line.end())
    whole = text[line.start() : end if end >= 0 else len(text)]
    found = _PLACE.search(whole) if whole.endswith(("])", " ghost")) else None
    return found.groups() if found else ()


class _Tree:
    """Rebuilds the nesting. The compiler prints a node of depth d with ``2 * d mod 72`` spaces.

    So a depth is known up to a multiple of 36: a line goes as deep as it can without leaving the span of the
    node above it; a line without a place is decided by the first line with one that follows.
    """

    def __init__(self) -> None:
        self._marks: list[Node] = []
        self._root = Node("", None, (), self._marks)
        self._open: list[tuple[int, Node]] = [(-1, self._root)]
        self._waiting: list[tuple[int, Node]] = []
        self._muted: int | None = None  # what is deeper belongs to an attribute

    def add(self, column: int, word: str, name: str | None, place: Sequence[str]) -> None:
        """Take the next line; ``column`` is its depth modulo 36."""
        if word == "[" and not self._root.children and not column:
            return  # the list of all items
        node = Node(word, name, place, self._marks)
        deepest = self._open[-1][0] + 1
        if not self._waiting:
            if deepest < _WRAP - 1:  # an attribute may be one deeper
                self._attach(column, node)
                return
            depth = deepest - (deepest - column) % _WRAP
            if depth == deepest and node.start is None:
                self._attach(depth, node)
                return
        if node.start is None:
            self._waiting.append((column, node))
        else:
            self._place(column, node)

    def finish(self) -> Node:
        """Return the root."""
        self._place_waiting(self._waiting_depths(0))
        self._close(0)
        return self._root

    def _place(self, column: int, node: Node) -> None:
        """Attach a node that has a place, and what has waited for it."""
        deepest = self._open[-1][0] + len(self._waiting) + 1
        for depth in range(deepest - (deepest - column) % _WRAP, -1, -_WRAP):
            depths = self._waiting_depths(depth)
            if depth < _WRAP or self._fits(min([depth, *depths]), node):
                break
        else:
            depth, depths = column, self._waiting_depths(column)
        self._place_waiting(depths)
        self._attach(depth, node)

    def _fits(self, depth: int, node: Node) -> bool:
        """Whether the node's span lies within that of the node above ``depth``."""
        if node.start is None or node.end is None:
            return True
        for level, above in reversed(self._open):
            if level >= depth or above.word == '"':  # the place of a name is not that of what it names
                continue
            if above.start is not None and above.end is not None:
                return above.start <= node.start and node.end <= above.end
        return True

    def _waiting_depths(self, next_depth: int) -> list[int]:
        """The depths of the waiting lines, when the line after them has ``next_depth``."""
        depths: list[int] = []
        above = 1  # how far up the line before may be
        for column, node in reversed(self._waiting):
            least = max(_ITEM + 1, next_depth - above)
            next_depth = least + (column - least) % _WRAP
            depths.append(next_depth)
            above = 2 if node.word == "attribute" else 1  # a binding's stand two below it
        return depths[::-1]

    def _place_waiting(self, depths: list[int]) -> None:
        for (_, node), depth in zip(self._waiting, depths, strict=True):
            self._attach(depth, node)
        self._waiting.clear()

    def _attach(self, depth: int, node: Node) -> None:
        self._close(depth)
        if self._muted is not None and depth <= self._muted:
            self._muted = None
        if self._muted is None:
            if node.word == "attribute":
                self._muted = depth
            else:
                node.open_below(self._open[-1][1])
                if node.word in _ATTRIBUTES:
                    self._muted = depth - 1  # its payload stands beside it
        self._open.append((depth, node))

    def _close(self, depth: int) -> None:
        """End the nodes that are as deep as ``depth``, or deeper."""
        while self._open[-1][0] >= depth:
            self._open.pop()[1].close()


_WRAP = 36
_ITEM = 1  # the depth of the items of a source

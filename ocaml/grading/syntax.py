"""What an item or expression of the tests does, by its parse tree: what it binds, opens, mentions, makes."""

from collections.abc import Iterable, Iterator

from ocaml.grading.parsetree import Node

# What stands before `in`.
CONTEXT = {"Pexp_let", "Pexp_open", "Pexp_letmodule", "Pexp_letexception"}
# A binding to one of these has no effect and no state: running it again changes nothing.
_STATELESS = {"Pexp_ident", "Pexp_constant", "Pexp_fun", "Pexp_function", "Pexp_newtype"}
# What makes something new, and perhaps mutable, each time.
_MAKING = {"Pexp_apply", "Pexp_array", "Pexp_record", "Pexp_new", "Pexp_object", "Pexp_letop", "Pexp_lazy"}
_NAMING = {"Pexp_ident", "Pmod_ident", "Pexp_construct"}
_QUALIFIED = {"Ppat_construct", '"'}  # constructors of patterns; fields: they name a module or nothing
_BINDING = {"Ppat_var", "Ppat_alias", "Ppat_unpack"}


def statement(item: Node) -> Node | None:
    """Return the expression of ``e;;``, ``let () = e`` or ``let _ = e``, or of ``let tests = …; ()``."""
    kind = item.kind()
    parts = item.expressions()
    if kind is None or len(parts) != 1:
        return None
    if kind.word == "Pstr_eval":
        return parts[0]
    if kind.word != "Pstr_value":
        return None
    expression = _unconstrained(parts[0])
    if any(map(_binds_unit, patterns(item))) or _ends_in_unit(expression):
        return expression
    return None


def patterns(item: Node) -> Iterator[Node]:
    """The left sides of the item's own bindings."""
    for group in item.children:
        for definition in group.children:
            if definition.word == "<def>":
                yield from (child for child in definition.children if child.word == "pattern")


def bound(node: Node) -> frozenset[str]:
    """The names that an item or a ``let`` introduces; those of a module's values too: it may be opened."""
    names: set[str | None] = {found.name for found in _own_names(node)}
    stack = list(node.children)
    while stack:
        child = stack.pop()
        if child.word == "pattern":
            names |= {found.name for found in child.marks() if found.word in _BINDING}
        elif child.word != "expression":
            stack += child.children
    return frozenset(name for name in names if name and name != "_")


def opened(node: Node, but: Node | None = None) -> frozenset[str]:
    """The modules that an item or a local ``open`` opens or includes (``?`` for one without a name)."""
    found: set[str] = set()
    kind = node.kind()
    if kind is not None and kind.word in {"Pstr_open", "Pstr_include", "Pexp_open"}:
        parts = [child for child in node.children if child is not but]
        names = [found.name for part in parts for found in part.all("Pmod_ident") if found.name]
        found |= set(map(first, names)) or {"?"}
    return frozenset(found)


def is_stateless(expressions: Iterable[Node]) -> bool:
    """Whether what is bound to these can't change: functions, names, literals without anything mutable."""
    for expression in expressions:
        kind = _unconstrained(expression).kind()
        if kind is not None and kind.word in _STATELESS:
            continue
        if any(found.word in _MAKING for found in expression.marks()):
            return False
    return True


def mentions(*nodes: Node) -> frozenset[str]:
    """The values and modules named below, by the first part of their path."""
    marks = [found for node in nodes for found in node.marks()]
    names = {found.name for found in marks if found.word in _NAMING and found.name}
    fields = {found.name for found in marks if found.word in _QUALIFIED and found.name}
    return frozenset({*map(first, names), *(first(name) for name in fields if first(name) != name)})


def first(name: str) -> str:
    """The first part of a path, which is a module if there is another part."""
    return name.split(".")[0] if name[0].isupper() else name


def _unconstrained(node: Node) -> Node:
    """OCaml 4 puts the type of ``let x : t = e`` around ``e``, with the place of the whole binding."""
    while (kind := node.kind()) is not None and kind.word == "Pexp_constraint":
        node = node.expressions()[0]
    return node


def _binds_unit(pattern: Node) -> bool:
    kind = pattern.kind()
    while kind is not None and kind.word == "Ppat_constraint":
        pattern = next(child for child in pattern.children if child.word == "pattern")
        kind = pattern.kind()
    return kind is not None and (kind.word == "Ppat_any" or kind.name == "()")


def _ends_in_unit(node: Node) -> bool:
    kind = node.kind()
    while kind is not None and kind.word in CONTEXT | {"Pexp_sequence"}:
        node = node.expressions()[-1]
        kind = node.kind()
    return kind is not None and (kind.word == "Pexp_assert" or kind.name == "()")


def _own_names(node: Node) -> Iterator[Node]:
    """The lines with the names of the modules that a node defines, or of its ``external``."""
    kind = node.kind()
    if kind is None:
        return
    if kind.word == "Pexp_letmodule":
        yield kind
    elif kind.word in {"Pstr_module", "Pstr_recmodule"}:
        lines = [line for child in node.children for line in (child, *child.children)]
        yield from (line for line in lines if line.word == '"')
    elif kind.word == "Pstr_primitive":
        yield from (child for child in node.children if child.word == "value_description")

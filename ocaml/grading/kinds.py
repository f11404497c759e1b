"""What type the left side of an equation has, where the function that it applies tells."""

from collections.abc import Mapping, Sequence

from ocaml.grading.assertions import Claim
from ocaml.interface import VALUES, Item
from ocaml.typexpr import Arrow, Constructor, Tuple, Type, parse_type

_PLAIN = frozenset(
    {"int", "string", "bool", "char", "float", "unit", "bytes", "list", "option", "array", "result"}
)


def kinds_by_signature(claims: Sequence[Claim], items: Sequence[Item]) -> Mapping[int, Type]:
    """Return the types of the left sides that are sure, by claim.

    An equation whose values can be compared applies its function to all its arguments, so its type is what
    the function returns; only types that every program has are taken, for another may be one in disguise.
    """
    returned = {
        item.names[0]: kind
        for item in items
        if item.keyword in VALUES and (kind := _returned(item.value_type or "")) is not None
    }
    own = {name for item in items if item.keyword == "type" for name in item.names}
    if own & _PLAIN:
        return {}
    heads = ((index, side.head) for index, claim in enumerate(claims) for side in claim.sides or ())
    return {index: returned[head] for index, head in heads if head in returned}


def _returned(text: str) -> Type | None:
    try:
        kind = parse_type(text)
    except ValueError:
        return None
    if not isinstance(kind, Arrow):
        return None
    while isinstance(kind, Arrow):
        kind = kind.result
    return kind if _is_plain(kind) else None


def _is_plain(kind: Type) -> bool:
    match kind:
        case Constructor(name, arguments):
            return name in _PLAIN and all(map(_is_plain, arguments))
        case Tuple(parts):
            return all(map(_is_plain, parts))
        case _:
            return False

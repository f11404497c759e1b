"""What a unit offers, read from the signature that ``ocamlc -i`` prints, and what of it others may see."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_KEYWORD = re.compile(r"(val|external|type|exception|module|class|open|include)\b")
_VALUE = re.compile(r"(?:val|external)\s+(\(\s*.+?\s*\)|[\w']+)\s*:\s*(.*)\Z", re.DOTALL)
_TYPE = re.compile(r"^(?:type|and)\s+(?:nonrec\s+)?(?:\([^)]*\)\s+|[+\-!]*'\w+\s+)?(\w+)", re.MULTILINE)
_NAMED = re.compile(
    r"(?:exception|module\s+type|module|class\s+type|class)\s+(?:virtual\s+)?(?:\[[^\]]*\]\s*)?(\w+)"
)


VALUES = frozenset({"val", "external"})
"""The keywords of items that are values."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a signature: its keyword, the names it introduces and its text."""

    keyword: str
    names: tuple[str, ...]
    text: str

    @property
    def value_type(self) -> str | None:
        """The type of a value, on one line."""
        found = _VALUE.match(self.text)
        return None if found is None else " ".join(found[2].split('= "')[0].split())


def read_signature(text: str) -> tuple[Item, ...]:
    """Split what ``ocamlc -i`` printed into items; ``type … and …`` is one item."""
    groups: list[list[str]] = []
    for line in text.splitlines():
        if _KEYWORD.match(line) or not groups:
            groups.append([line])
        else:
            groups[-1].append(line)
    return tuple(_item("\n".join(group)) for group in groups if group[0].strip())


@dataclass(frozen=True, slots=True)
class Standard:
    """What the standard library gives to every program: values with their declarations, and modules."""

    values: Mapping[str, str]
    modules: frozenset[str]


STANDARD_SOURCE = "include Stdlib"
"""Compiled with ``-i``, this prints all that a program finds without asking."""


def standard_names(items: Iterable[Item]) -> Standard:
    """Return the names in the signature of ``STANDARD_SOURCE``."""
    values = {item.names[0]: item.text for item in items if item.keyword in VALUES}
    modules = {name for item in items if item.keyword == "module" for name in item.names}
    return Standard(values, frozenset(modules | {"Stdlib"}))


def quoted(name: str) -> str:
    """A value's name as it stands in a definition: operators in parentheses."""
    return name if re.fullmatch(r"[\w']+", name) else f"( {name} )"


def _item(text: str) -> Item:
    keyword = text.split(None, 1)[0]
    if keyword in {"val", "external"}:
        found = _VALUE.match(text)
        return Item(keyword, (found[1].strip("() ") if found else "",), text)
    if keyword == "type":
        return Item(keyword, tuple(_TYPE.findall(text)), text)
    named = _NAMED.match(text)
    return Item(keyword, (named[1],) if named else (), text)

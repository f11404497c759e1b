"""What a unit offers, read from the signature that ``ocamlc -i`` prints, and what of it others may see."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_KEYWORD = re.compile(r"(val|external|type|exception|module|class|open|include)\b")
_VALUE = re.compile(r"(?:val|external)\s+(\(\s*.+?\s*\)|[\w']+)\s*:\s*(.*)\Z", re.DOTALL)
_TYPE = re.compile(r"^(?:type|and)\s+(?:nonrec\s+)?(?:\([^)]*\)\s+|[+\-!]*'\w+\s+)?(\w+)", re.MULTILINE)
_NAMED = re.compile(
    r"(?:exception|module\s+type|module|class\s+type|class)\s+(?:virtual\s+)?(?:\[[^\]]*\]\s*)?(\w+)"
)
_CONSTRUCTOR = re.compile(
    r"(?:[=|]|^\s*\|)\s*(Some|None|Ok|Error|true|false|\(\)|\[\]|\(::\))(?=\s|\Z|;)", re.MULTILINE
)

_BUILTIN_TYPES = frozenset(
    {
        "int",
        "char",
        "string",
        "bytes",
        "float",
        "bool",
        "unit",
        "exn",
        "array",
        "list",
        "option",
        "nativeint",
        "int32",
        "int64",
        "lazy_t",
        "ref",
        "result",
        "extension_constructor",
        "floatarray",
        "in_channel",
        "out_channel",
        "format",
        "format4",
        "format6",
    }
)


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


def restrict(items: Iterable[Item], values: dict[str, str | None], standard: "Standard") -> str:
    """Return the ``.mli`` through which tests see an answer.

    ``values`` maps the values they may see to the type asked for, or None for the type they have. Types,
    exceptions and modules stay, except those that would change what the standard library's names mean.
    """
    kept: list[str] = []
    for item in items:
        if item.keyword in {"val", "external"}:
            name = item.names[0]
            if name in values:
                kept.append(f"val {_quoted(name)} : {values[name] or item.value_type}")
        elif not _redefines(item, standard):
            kept.append(item.text)
    return "\n".join(kept) + "\n"


@dataclass(frozen=True, slots=True)
class Standard:
    """The names that the installed standard library's initial environment gives."""

    values: frozenset[str]
    modules: frozenset[str]
    exceptions: frozenset[str]


STANDARD_SOURCE = "include Stdlib"
"""Compiled with ``-i``, this prints all that a program finds without asking."""


def standard_names(items: Iterable[Item]) -> Standard:
    """Return the names in the signature of ``STANDARD_SOURCE``."""
    found: dict[str, set[str]] = {"val": set(), "module": {"Stdlib"}, "exception": set()}
    for item in items:
        found.setdefault("val" if item.keyword == "external" else item.keyword, set()).update(item.names)
    return Standard(frozenset(found["val"]), frozenset(found["module"]), frozenset(found["exception"]))


def _item(text: str) -> Item:
    keyword = text.split(None, 1)[0]
    if keyword in {"val", "external"}:
        found = _VALUE.match(text)
        return Item(keyword, (found[1].strip("() ") if found else "",), text)
    if keyword == "type":
        return Item(keyword, tuple(_TYPE.findall(text)), text)
    named = _NAMED.match(text)
    return Item(keyword, (named[1],) if named else (), text)


def _redefines(item: Item, standard: Standard) -> bool:
    if item.keyword == "type":
        return not _BUILTIN_TYPES.isdisjoint(item.names) or _CONSTRUCTOR.search(item.text) is not None
    if item.keyword == "module":
        return not standard.modules.isdisjoint(item.names)
    return item.keyword == "exception" and not standard.exceptions.isdisjoint(item.names)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w']+", name) else f"( {name} )"

"""Models as people and programs read them: the list's table, and the facts of one model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from models.address import Server, is_address
from models.catalogue import Entry, FileSource, Format, HubSource, Model, PyPISource, Source
from models.choice import engine_for
from models.engines.options import EngineOptions
from models.engines.plan import plan_here
from models.errors import ModelError, NotConverted
from models.progress import human_bytes
from models.store import Store

_CONTEXT = 4096  # tokens that the memory is told for


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list. ``where`` is a path, None for what is not here; ``partial`` counts bytes.

    ``engine`` is the one that loads it here by default, None when none here does.
    """

    name: str
    format: str
    size: int
    installed: bool
    partial: int
    where: str | None
    source: str
    runs_here: bool
    engine: str | None
    default: bool
    licence: str
    context: int
    description: str | None


def rows(store: Store, default: str) -> list[Row]:
    """Return the models that are here, then those of the catalogue that are not."""
    installed = store.installed()
    here = {model.name for model in installed}
    missing = [entry for entry in store.catalogue.entries if entry.name not in here]
    return [
        *(_installed(model, store, default) for model in installed),
        *(_missing(entry, store, default) for entry in missing),
    ]


def table(lines: Sequence[Row]) -> str:
    """Return the rows as aligned columns; ``*`` marks the default."""
    cells = [("", "model", "format", "engine", "size", "installed", "where"), *(_cells(row) for row in lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
    )
    return "\n".join(line.rstrip() for line in padded)


def rows_json(lines: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows as ``ocamler models list --json`` prints them."""
    return [asdict(row) for row in lines]


def facts(name: str, store: Store, default: str) -> dict[str, Any]:
    """Return all that is known of a model, in the order it is shown; the keys are the JSON's.

    ``name`` may also be the path of weights or a server's address. Raises ``UnknownModel`` or ``NotAModel``.
    """
    if is_address(name):
        return _server_facts(Server(name), default)
    entry = store.catalogue.find(name)
    here = [model for model in store.installed() if model.name.casefold() == name.casefold()]
    if entry is not None:
        known = _entry_facts(entry, store.formats)
    else:
        here = here or [store.resolve(name, tuple(Format))]
        known = _own_facts(here[0])
    return {
        **known,
        "default": known["name"] == default,
        "installed": [_model_facts(model, store) for model in here],
    }


def facts_text(known: dict[str, Any]) -> str:
    """Return the facts as lines."""
    return "\n".join(line for label, value in known.items() for line in _lines(label, value))


def source_word(source: Source) -> str:
    """Return where weights come from, in a word."""
    match source:
        case FileSource():
            return "added"
        case HubSource():
            return "hub"
        case PyPISource():
            return "PyPI"


def _installed(model: Model, store: Store, default: str) -> Row:
    entry = store.catalogue.find(model.name)
    return Row(
        name=model.name,
        format=model.format.value,
        size=model.size,
        installed=True,
        partial=0,
        where=str(model.path),
        source=source_word(model.source),
        runs_here=model.format in store.formats,
        engine=_engine(model.format, store),
        default=model.name == default,
        licence=model.licence,
        context=model.context,
        description=entry.description if entry else None,
    )


def _missing(entry: Entry, store: Store, default: str) -> Row:
    usable = [form for form in store.formats if form in entry.formats]
    return Row(
        name=entry.name,
        format=(usable or entry.formats)[0].value,
        size=entry.size_in(usable[:1]),
        installed=False,
        partial=store.bytes_here(entry.name),
        where=None,
        source=" or ".join(dict.fromkeys(source_word(source) for source in entry.sources)),
        runs_here=bool(usable),
        engine=_engine(usable[0], store) if usable else None,
        default=entry.name == default,
        licence=entry.licence,
        context=entry.context,
        description=entry.description,
    )


def _cells(row: Row) -> tuple[str, ...]:
    state = "yes" if row.installed else "no"
    if row.partial:
        state = f"partly, {human_bytes(row.partial)}"
    where = _short(row.where) if row.where else f"on {row.source}"
    if not row.runs_here:
        where += " (no engine here loads it)"
    size = human_bytes(row.size)
    return ("*" if row.default else "", row.name, row.format, row.engine or "–", size, state, where)


def _engine(form: Format, store: Store) -> str | None:
    return engine_for(form, store.engines) if form in store.formats else None


def _short(path: str) -> str:
    home = str(Path.home())
    return "~" + path[len(home) :] if home != "/" and path.startswith(home + "/") else path


def _entry_facts(entry: Entry, formats: Sequence[Format]) -> dict[str, Any]:
    known: dict[str, Any] = {
        "name": entry.name,
        "description": entry.description,
        "licence": entry.licence,
        "parameters": entry.parameters,
        "context": entry.context,
        "prompt_format": entry.prompt_format.value,
        "memory": entry.memory,
        "sources": [_source_facts(source) for source in entry.sources],
    }
    try:
        entry.sources_in(formats)
    except NotConverted as error:
        known["note"] = str(error)
    return known


def _own_facts(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "licence": model.licence,
        "context": model.context,
        "prompt_format": model.prompt_format.value,
    }


def _server_facts(server: Server, default: str) -> dict[str, Any]:
    """Return what an address says by itself: whether anybody answers there, the first question shows."""
    from models.engines.openai_address import parse_address

    address = parse_address(server.address)
    return {
        "name": server.name,
        "engine": "openai",
        "address": address.api,
        "model": address.model or None,
        "default": server.name == default,
        "installed": [],
    }


def _source_facts(source: HubSource | PyPISource) -> dict[str, Any]:
    match source:
        case HubSource():
            kind, where = "hub", f"{source.repo} at {source.revision}"
            pinned = next(iter(source.sha256.values()), None)
        case PyPISource():
            first, last = source.parts[0].package, source.parts[-1].package
            wheels = (
                f"the wheel {first}" if first == last else f"{len(source.parts)} wheels, {first} to {last}"
            )
            kind, where = "PyPI", f"{source.what} in {wheels}, put there by {source.whose}"
            pinned = source.sha256
    return {
        "kind": kind,
        "format": source.format.value,
        "where": where,
        "size": source.size,
        "sha256": pinned,
    }


def _model_facts(model: Model, store: Store) -> dict[str, Any]:
    engine = _engine(model.format, store)
    return {
        "format": model.format.value,
        "path": str(model.path),
        "base": None if model.base is None else str(model.base),
        "engine": engine,
        "size": model.size,
        "source": source_word(model.source),
        "sha256": model.sha256,
        "memory": _memory(model, engine or engine_for(model.format, ())),
    }


def _memory(model: Model, engine: str) -> int | None:
    """Return what the model takes once loaded, in bytes."""
    options = EngineOptions(context_tokens=_CONTEXT)
    try:
        return plan_here(model.path, model.format, engine, options, base=model.base).needed_bytes
    except (ModelError, OSError):
        return None


_BYTES = {"size", "memory"}


def _lines(label: str, value: Any) -> list[str]:
    title = label.replace("_", " ")
    match value:
        case None:
            return []
        case []:
            return [f"{title}: no"]
        case list():
            return [f"{title}:", *(f"  {_one_line(item)}" for item in value)]
        case bool():
            return [f"{title}: {'yes' if value else 'no'}"]
        case int() if label in _BYTES:
            return [f"{title}: {human_bytes(value)} with a context of {_CONTEXT} tokens"]
        case int():
            return [f"{title}: {value:,}"]
        case _:
            return [f"{title}: {value}"]


def _one_line(item: dict[str, Any]) -> str:
    told = {key: fact for key, fact in item.items() if fact is not None}
    return ", ".join(f"{key} {human_bytes(fact) if key in _BYTES else fact}" for key, fact in told.items())

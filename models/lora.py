"""What a folder with a LoRA adapter is: its own few weights, and the base model that they change."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from models.catalogue import Format, HubSource, load
from models.errors import DamagedFile, NotAModel
from models.shelf import Shelf, default_home

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's ``adapter_config.json``, as much of it as we need; ``base`` is what it calls its base."""

    folder: Path
    base: str
    revision: str | None


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no weights of a whole model beside it."""
    if not (folder / CONFIG).is_file():
        return False
    whole = (file for file in folder.glob("*.safetensors") if not file.name.startswith("adapter_"))
    return not (folder / "config.json").is_file() or not any(whole)


def read_adapter(folder: Path) -> Adapter:
    """Read what an adapter says of itself; raise ``NotAModel`` or ``DamagedFile`` with one sentence."""
    path = folder / CONFIG
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        kind, base, revision = (
            table.get(key) for key in ("peft_type", "base_model_name_or_path", "revision")
        )
    except (ValueError, AttributeError, RecursionError) as error:
        raise DamagedFile(f"{path} is not a readable JSON object: fetch it again.") from error
    if isinstance(kind, str) and kind.upper() != "LORA":
        raise NotAModel(f"{folder} is an adapter of the kind {kind}, and LoRA alone is loaded: merge it.")
    if not isinstance(base, str) or not base.strip():
        raise NotAModel(
            f"{folder} is a LoRA adapter that names no base model: "
            f"write its folder into {CONFIG} as base_model_name_or_path."
        )
    return Adapter(folder, base.strip(), revision if isinstance(revision, str) and revision else None)


def base_of(folder: Path, home: Path | None = None) -> Path:
    """Return the folder of the model that an adapter changes.

    Its name is a folder, from the adapter's own if it is relative, or a model of the store in ``home`` by
    its name or its hub's, or one in the hub's own cache. Raises ``NotAModel`` when it is nowhere.
    """
    adapter = read_adapter(folder)
    found = _as_folder(adapter) or _in_store(adapter, home or default_home()) or _in_hub_cache(adapter)
    if found is None:
        raise NotAModel(
            f"{folder.name} is a LoRA adapter of {adapter.base}, which is not on this machine: "
            f"{_how_to_get(adapter)}, or write the folder of that model into {CONFIG}."
        )
    if found.resolve() == folder.resolve() or not (found / "config.json").is_file():
        raise NotAModel(
            f"{folder.name} is a LoRA adapter of {found}, which is no whole Hugging Face model: "
            f"write the folder of one into its {CONFIG}."
        )
    return found


def _as_folder(adapter: Adapter) -> Path | None:
    try:
        path = adapter.folder / Path(adapter.base).expanduser()
        return Path(os.path.abspath(path)) if path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # no path at all: too long, of a user who is not here
        return None


def _in_store(adapter: Adapter, home: Path) -> Path | None:
    """Find the base by the name it has here, be it the last part of a longer one, or by the hub's."""
    wanted = {adapter.base.casefold(), _name(adapter)} - {""}
    for known in Shelf(home).manifests():
        model = known.model
        repo = model.source.repo.casefold() if isinstance(model.source, HubSource) else ""
        if model.format is Format.HF and wanted & {model.name.casefold(), repo}:
            return model.path
    return None


def _in_hub_cache(adapter: Adapter) -> Path | None:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", adapter.base, re.ASCII):
        return None
    from huggingface_hub import try_to_load_from_cache  # costs a third of a second

    try:
        path = try_to_load_from_cache(adapter.base, "config.json", revision=adapter.revision)
    except ValueError:  # no name that the hub could have
        return None
    return Path(path).parent if isinstance(path, str) else None


def _how_to_get(adapter: Adapter) -> str:
    name = _name(adapter)
    for entry in load().entries:
        repos = {source.repo.casefold() for source in entry.sources if isinstance(source, HubSource)}
        if Format.HF in entry.formats and (entry.name == name or adapter.base.casefold() in repos):
            return f"run `ocamler models pull {entry.name} --format hf`"
    return f"run `ocamler models add FOLDER --name {name}`"


def _name(adapter: Adapter) -> str:
    """Return the name under which the base would be in the store."""
    last = re.split(r"[/\\]", adapter.base.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", last).strip("-._+").casefold()[:64] or "base"

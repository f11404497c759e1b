"""What a model's folder says of itself: ``manifest.json``, written last, so that what has one is whole."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.catalogue import (
    FileSource,
    Format,
    Model,
    PromptFormat,
    source_from_json,
    source_to_json,
)
from models.digest import sha256_of

NAME = "manifest.json"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when it was last known to be good; ``path`` is relative to the model's folder.

    ``sha256`` is None for weights used in place, which are never hashed.
    """

    path: str
    size: int
    mtime_ns: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model and the stamps of its files; ``folder`` is where the manifest lies."""

    folder: Path
    model: Model
    stamps: tuple[Stamp, ...]

    @property
    def is_pulled(self) -> bool:
        """Whether we fetched the weights, rather than use the user's own where they lie."""
        return not isinstance(self.model.source, FileSource)

    @property
    def base(self) -> Path:
        """The folder that the stamps' paths start from."""
        if self.is_pulled:
            return self.folder
        return self.model.path.parent if self.model.format is Format.GGUF else self.model.path


def stamp(base: Path, path: str, sha256: str | None) -> Stamp:
    """Take a file's stamp as it is now."""
    status = (base / path).stat()
    return Stamp(path, status.st_size, status.st_mtime_ns, sha256)


def read(folder: Path) -> Manifest | None:
    """Return the manifest in ``folder``, or None when there is none that can be read."""
    try:
        table = json.loads((folder / NAME).read_text(encoding="utf-8"))
        return _from_json(folder, table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(manifest: Manifest) -> None:
    """Write the manifest into its folder, whole or not at all."""
    target = manifest.folder / NAME
    partial = target.with_name(f".{NAME}.{os.getpid()}")
    text = json.dumps(_to_json(manifest), indent=1, ensure_ascii=False) + "\n"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, target)


def changed(manifest: Manifest) -> tuple[Stamp, ...]:
    """Return the files that are gone or have another size or time than they had. Cheap: reads no weights."""
    return tuple(known for known in manifest.stamps if _differs(manifest.base / known.path, known))


def damage(manifest: Manifest) -> tuple[str, ...]:
    """Return the files whose bytes are not the pinned ones; read only those that changed, stamp them anew.

    A copied or touched model is as good as before, and is not read twice.
    """
    suspects = changed(manifest)
    bad = tuple(known.path for known in suspects if not _has(manifest.base / known.path, known))
    if suspects and not bad:
        restamp(manifest)
    return bad


def restamp(manifest: Manifest) -> None:
    """Write the files' sizes and times as they are now; not on a read-only disk, where nothing is lost."""
    with contextlib.suppress(OSError):
        stamps = tuple(stamp(manifest.base, known.path, known.sha256) for known in manifest.stamps)
        write(replace(manifest, stamps=stamps))


def _differs(path: Path, known: Stamp) -> bool:
    try:
        status = path.stat()
    except OSError:
        return True
    return (status.st_size, status.st_mtime_ns) != (known.size, known.mtime_ns)


def _has(path: Path, known: Stamp) -> bool:
    try:
        return path.stat().st_size == known.size and sha256_of(path) == known.sha256
    except OSError:
        return False


def _to_json(manifest: Manifest) -> dict[str, Any]:
    model = manifest.model
    path = os.path.relpath(model.path, manifest.folder) if manifest.is_pulled else str(model.path)
    return {
        "schema": _SCHEMA,
        "name": model.name,
        "format": model.format.value,
        "path": path,
        "licence": model.licence,
        "prompt_format": model.prompt_format.value,
        "context": model.context,
        "source": source_to_json(model.source),
        "sha256": model.sha256,
        "size": model.size,
        "base": None if model.base is None else str(model.base),
        "files": [
            {"path": known.path, "size": known.size, "mtime_ns": known.mtime_ns, "sha256": known.sha256}
            for known in manifest.stamps
        ],
    }


def _from_json(folder: Path, table: Mapping[str, Any]) -> Manifest:
    if table["schema"] != _SCHEMA:
        raise ValueError(f"schema {table['schema']}")
    model = Model(
        name=table["name"],
        format=Format(table["format"]),
        # Joined with an absolute path, the absolute one stays: weights used in place.
        path=Path(os.path.normpath(folder / table["path"])),
        licence=table["licence"],
        prompt_format=PromptFormat(table["prompt_format"]),
        context=table["context"],
        source=source_from_json(table["source"]),
        sha256=table["sha256"],
        size=table["size"],
        base=Path(base) if (base := table.get("base")) else None,  # older manifests have none
    )
    return Manifest(folder, model, tuple(Stamp(**known) for known in table["files"]))

"""Which model to use when nobody named one: the best that the machine can run, rather one that is here."""

import importlib.util
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from models.catalogue import ENGINE_FORMATS, Catalogue, Entry, Format

_SHARE = 0.6  # of the machine's memory that a model may take: the rest is the user's
_PACKAGES = {"mlx": "mlx_lm", "llama": "llama_cpp"}


def default_model(
    catalogue: Catalogue,
    memory_bytes: int,
    platform: str,
    engines: Collection[str],
    installed: Collection[str] = (),
) -> Entry:
    """Return the entry to use by default; ``memory_bytes`` is the machine's, ``installed`` what is here.

    A smaller model that is here and writes OCaml comes before a better one that must be pulled first:
    nobody who pulled a model wants another download.
    """
    ranked = defaults(catalogue, memory_bytes, platform, engines)
    here = [entry for entry in ranked if entry.name in installed and entry.writes_ocaml]
    return (here or ranked)[0]


def defaults(
    catalogue: Catalogue, memory_bytes: int, platform: str, engines: Collection[str]
) -> tuple[Entry, ...]:
    """Return the entries that the machine can run, the best first; the smallest of all when none fits."""
    formats = loadable(engines, platform)
    known = [entry for entry in catalogue.entries if set(entry.formats) & set(formats)] or [
        *catalogue.entries
    ]
    fitting = tuple(entry for entry in known if entry.memory <= memory_bytes * _SHARE)
    return fitting or (min(known, key=lambda entry: entry.memory),)


def loadable(engines: Iterable[str], platform: str = sys.platform) -> tuple[Format, ...]:
    """Return the formats that these engines load, the preferred first; without any, llama.cpp's.

    MLX comes first on a Mac alone: its kernels for other processors are far too slow.
    """
    there = set(engines) or {"llama"}
    order = sorted(ENGINE_FORMATS, key=lambda engine: engine == "mlx" and platform != "darwin")
    formats = (form for engine in order if engine in there for form in ENGINE_FORMATS[engine])
    return tuple(dict.fromkeys(formats))


def engines_for(formats: Iterable[Format]) -> tuple[str, ...]:
    """Return the engines that load one of these formats."""
    wanted = set(formats)
    return tuple(engine for engine, forms in ENGINE_FORMATS.items() if wanted & set(forms))


def engines_here() -> tuple[str, ...]:
    """Return the engines whose package is installed; looks for it and does not import it."""
    return tuple(engine for engine, package in _PACKAGES.items() if importlib.util.find_spec(package))


def memory_here() -> int:
    """Return the machine's memory in bytes, or the container's when that is less."""
    import psutil

    machine = int(psutil.virtual_memory().total)
    limits = [limit for path in _CGROUP_LIMITS if (limit := _limit(path)) is not None]
    return min([machine, *limits])


# Only Linux has them; elsewhere nothing is there to read. The second is cgroup 1's.
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() else None  # "max" is none

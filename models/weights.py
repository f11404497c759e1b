"""What a file or folder of the user's is: GGUF, MLX or Hugging Face weights, and whether they are whole.

Only heads are read, never a weight, and nothing in the folder is run.
"""

import json
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.catalogue import Format, PromptFormat
from models.errors import DamagedFile, NotAModel
from models.gguf_header import GGUFHeader, read_gguf_header


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights as found; ``files`` are all of them, ``path`` is what an engine is given."""

    format: Format
    path: Path
    files: tuple[Path, ...]
    licence: str
    prompt_format: PromptFormat
    context: int
    has_chat_template: bool

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.files)


def recognise(path: Path) -> Weights:
    """Tell what ``path`` is; raise ``NotAModel`` or ``DamagedFile`` with one sentence."""
    # Not resolve(): in the hub's cache the names are links to nameless blobs.
    path = Path(os.path.abspath(path.expanduser()))
    if not path.exists():
        raise NotAModel(f"There is no file or folder {path}: check the path.")
    try:
        if path.is_dir():
            return _folder(path)
        if path.suffix == ".safetensors" and (path.parent / "config.json").is_file():
            raise NotAModel(f"{path.name} is one part of a model: name its folder, {path.parent}.")
        return _gguf(path)
    except PermissionError as error:
        raise NotAModel(f"{error.filename or path} may not be read: change its permissions.") from error


def memory_needed(form: Format, path: Path, context: int) -> int:
    """Bytes that loading the weights takes, about, with room for ``context`` tokens."""
    if form is Format.GGUF:
        header = read_gguf_header(path)
        return header.memory(context, sum(file.stat().st_size for file in _split_files(path, header)))
    weights = sum(file.stat().st_size for file in path.glob("*.safetensors"))
    config = _config(path)
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    heads = _whole_number(text, "num_attention_heads")
    width = _whole_number(text, "head_dim") or (_whole_number(text, "hidden_size") // heads if heads else 0)
    cached = _whole_number(text, "num_key_value_heads") or heads
    cache = _whole_number(text, "num_hidden_layers") * cached * width * 2 * 2 * context
    return int(weights * 1.1) + cache + (256 << 20)


_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def _gguf(path: Path) -> Weights:
    header = read_gguf_header(path)
    if header.kind != "model" or header.architecture == "clip":
        kind = "a LoRA adapter" if header.kind == "adapter" else f"of type {header.kind}"
        raise NotAModel(f"{path} is {kind}, not a whole model: name the model's own GGUF file.")
    files = _split_files(path, header)
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


def _split_files(path: Path, header: GGUFHeader) -> tuple[Path, ...]:
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
    template = _folder_template(path)
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    others = [
        file for file in path.iterdir() if file.is_file() and file.suffix in {".json", ".jinja", ".txt"}
    ]
    return Weights(
        # mlx-lm writes "quantization" when it converts; unquantized weights are the same in both worlds.
        format=Format.MLX if "quantization" in config else Format.HF,
        path=path,
        files=(*files, *sorted(others)),
        licence=_licence(path),
        prompt_format=_prompt_format(template),
        context=_whole_number(text, "max_position_embeddings"),
        has_chat_template=bool(template),
    )


def _without_config(path: Path) -> Weights:
    ggufs = sorted(path.glob("*.gguf"))
    if len(ggufs) == 1:
        return _gguf(ggufs[0])
    if ggufs:
        raise NotAModel(f"{path} holds {len(ggufs)} GGUF files: name one of them, such as {ggufs[0]}.")
    if (path / "adapter_config.json").is_file():
        raise NotAModel(f"{path} is a LoRA adapter, not a whole model: merge it into its base model first.")
    raise NotAModel(f"{path} holds neither a GGUF file nor a config.json with safetensors: check the path.")


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
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
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DamagedFile(f"{index} is not a readable index of weights: fetch it again.") from error
        missing = [name for name in names if not (path / name).is_file()]
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
        _check_safetensors(file)
    return files


def _check_safetensors(file: Path) -> None:
    """Check that a file reaches to where its last tensor ends: 8 bytes of length, a JSON head, the data."""
    size = file.stat().st_size
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
        ends = [tensor["data_offsets"][1] for name, tensor in head.items() if name != "__metadata__"]
    except (struct.error, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{file} is not a whole safetensors file: fetch it again.") from error
    end = 8 + length + max(ends, default=0)
    if size < end:
        raise DamagedFile(f"{file} is truncated: {end - size} bytes are missing at its end; fetch it again.")


def _folder_template(path: Path) -> str:
    jinja = path / "chat_template.jinja"
    if jinja.is_file():
        return jinja.read_text(encoding="utf-8", errors="replace")
    try:
        table = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
        template = table.get("chat_template", "")
    except (OSError, ValueError, AttributeError):
        return ""
    if isinstance(template, list):  # several named ones
        template = next((item.get("template") for item in template if item.get("name") == "default"), "")
    return template if isinstance(template, str) else ""


def _licence(path: Path) -> str:
    """Return the licence line of the model card's front matter, or empty."""
    try:
        head = (path / "README.md").read_text(encoding="utf-8", errors="replace")[:4000]
    except OSError:
        return ""
    match = re.search(r"^licen[sc]e:\s*(\S+)\s*$", head, re.MULTILINE) if head.startswith("---") else None
    return match[1] if match else ""


def _whole_number(table: Mapping[str, Any] | None, key: str) -> int:
    value = (table or {}).get(key)
    return value if isinstance(value, int) else 0

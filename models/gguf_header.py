"""What the head of a GGUF file tells without loading a weight: what it is, whether whole, its memory.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian).
"""

import mmap
import struct
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from models.errors import DamagedFile, NotAModel

MAGIC = b"GGUF"


class Absent(Enum):
    """What stands for an array whose items nobody needs."""

    SKIPPED = "skipped"


Scalar: TypeAlias = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the metadata: how many items, and the items when they are few numbers."""

    length: int
    items: tuple[Scalar, ...] | Absent


Value: TypeAlias = Scalar | Array


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """What the head of a GGUF file says. ``data_end`` is where the last tensor must end, in bytes.

    ``repacked_bytes`` are those of the weights that llama.cpp copies into another order for a CPU.
    """

    version: int
    metadata: dict[str, Value]
    tensor_count: int
    parameters: int
    repacked_bytes: int
    data_start: int
    data_end: int
    file_size: int

    @property
    def architecture(self) -> str:
        """``qwen2``, ``llama``, …; empty when the file does not say."""
        return self._text("general.architecture")

    @property
    def kind(self) -> str:
        """``model``, ``adapter``, ``mmproj``, …; older files do not say and are models."""
        return self._text("general.type") or "model"

    @property
    def title(self) -> str:
        """The name that its maker gave it."""
        return self._text("general.name")

    @property
    def licence(self) -> str:
        """The licence as its maker wrote it, or empty."""
        return self._text("general.license")

    @property
    def context_length(self) -> int:
        """The context it was trained for, in tokens; 0 when the file does not say."""
        return self._number("context_length")

    @property
    def chat_template(self) -> str:
        """The Jinja chat template, or empty."""
        return self._text("tokenizer.chat_template")

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, Array) else self._number("vocab_size")

    @property
    def split_count(self) -> int:
        """Into how many files the weights are cut; 0 or 1 when they are not."""
        count = self.metadata.get("split.count", 0)
        return count if isinstance(count, int) else 0

    @property
    def is_truncated(self) -> bool:
        """Whether the file ends before its last tensor does."""
        return self.file_size < self.data_end

    def cache_bytes(self, context: int) -> int:
        """Bytes of the key and value cache for ``context`` tokens at 16 bits."""
        heads = self._number("attention.head_count")
        width = self._number("embedding_length") // heads if heads else 0
        key = self._number("attention.key_length") or width
        value = self._number("attention.value_length") or width
        cached_heads = self._number("attention.head_count_kv") or heads
        return self._number("block_count") * cached_heads * (key + value) * 2 * context

    def _text(self, key: str) -> str:
        value = self.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def _number(self, key: str) -> int:
        value = self.metadata.get(f"{self.architecture}.{key}", 0)
        if isinstance(value, Array) and not isinstance(value.items, Absent):
            # Some architectures give one number a layer: the largest bounds them all.
            value = max((item for item in value.items if isinstance(item, int)), default=0)
        return max(0, value) if isinstance(value, int) else 0


def read_gguf_header(path: Path) -> GGUFHeader:
    """Read a file's head; raise ``NotAModel`` or ``DamagedFile`` with one sentence, never a traceback."""
    try:
        status = path.stat()
        return _read(path, status.st_size, (status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    except IsADirectoryError as error:
        raise NotAModel(f"{path} is a folder, not a GGUF file.") from error
    except OSError as error:
        raise NotAModel(f"{path} cannot be read ({error.strerror or error}): check the path.") from error
    except (struct.error, IndexError, OverflowError) as error:
        raise DamagedFile(
            f"{path} is a truncated or damaged GGUF file (its head breaks off): fetch it again."
        ) from error


@lru_cache(maxsize=8)
def _read(path: Path, size: int, _version: tuple[int, ...]) -> GGUFHeader:
    """Parse a file, once as long as it stays as it is: loading looks at it several times, for 30 ms each."""
    with path.open("rb") as file:
        start = file.read(64)
        _check_start(path, start, size)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return _parse(path, view, size)


class _Reader:
    """Walks over the mapped file; struct refuses to read past its end."""

    def __init__(self, view: mmap.mmap) -> None:
        self._view = view
        self.position = 0

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self._view, self.position)
        self.position += struct.calcsize("<" + form)
        return value

    def text(self) -> str:
        start, end = self._span()
        # Token texts may be any bytes; metadata that we show may not break us either.
        return self._view[start:end].decode("utf-8", errors="replace")

    def skip_texts(self, count: int) -> None:
        # A vocabulary has 300,000 of them: this loop is most of the time that reading a head takes.
        view, position, length_at = self._view, self.position, struct.Struct("<Q").unpack_from
        for _ in range(count):
            position += 8 + length_at(view, position)[0]
        self.skip(position - self.position)

    def skip(self, count: int) -> None:
        if self.position + count > len(self._view):
            raise IndexError("past the end")
        self.position += count

    def _span(self) -> tuple[int, int]:
        length = self.number("Q")
        start = self.position
        self.skip(length)
        return start, start + length


# Value types of the metadata, by number: struct's letters; 8 is a string, 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING = 8
_ARRAY = 9
_FEW = 4096  # items: per-layer numbers are kept, vocabularies are walked over

# ggml's tensor types: (weights in a block, bytes of a block). From ggml.c's type_traits.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip


# Q4_0, Q2_K, Q4_K and IQ4_NL: llama.cpp keeps a second copy of these, in an order that a CPU reads faster.
_REPACKED = {2, 10, 12, 20}
_LOOKED_UP = "token_embd.weight"  # rows are looked up in it, and those are never repacked


def _check_start(path: Path, start: bytes, size: int) -> None:
    if size == 0:
        raise NotAModel(f"{path} is empty: fetch it again.")
    if start.startswith(b"version https://git-lfs"):
        raise NotAModel(f"{path} is a Git LFS pointer, not the weights themselves: run `git lfs pull` there.")
    if not start.startswith(MAGIC):
        raise NotAModel(f"{path} is not a GGUF file (it does not begin with “GGUF”).")
    if len(start) < 24:
        raise DamagedFile(f"{path} is a truncated GGUF file: fetch it again.")
    (version,) = struct.unpack_from("<I", start, 4)
    if version & 0xFFFF == 0:
        raise NotAModel(f"{path} is a big-endian GGUF file, for another kind of machine.")
    if version not in (2, 3):
        raise NotAModel(f"{path} has GGUF version {version}, and versions 2 and 3 are read: convert it anew.")


def _parse(path: Path, view: mmap.mmap, size: int) -> GGUFHeader:
    reader = _Reader(view)
    reader.skip(len(MAGIC))
    version = reader.number("I")
    tensor_count = reader.number("Q")
    key_count = reader.number("Q")
    metadata = {reader.text(): _value(path, reader, reader.number("I")) for _ in range(key_count)}
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise DamagedFile(f"{path} is a damaged GGUF file (alignment {alignment}): fetch it again.")
    tensors = _tensors(path, reader, tensor_count)
    data_start = -(-reader.position // alignment) * alignment
    return GGUFHeader(
        version=version,
        metadata=metadata,
        tensor_count=tensor_count,
        parameters=tensors.parameters,
        repacked_bytes=tensors.repacked_bytes,
        data_start=data_start,
        data_end=data_start + tensors.data_bytes if tensor_count else reader.position,
        file_size=size,
    )


def _value(path: Path, reader: _Reader, kind: int) -> Value:
    if kind in _SCALARS:
        scalar: Scalar = reader.number(_SCALARS[kind])
        return scalar
    if kind == _STRING:
        return reader.text()
    if kind == _ARRAY:
        return _array(path, reader)
    raise DamagedFile(f"{path} is a damaged GGUF file (a value of unknown type {kind}): fetch it again.")


def _array(path: Path, reader: _Reader) -> Array:
    kind = reader.number("I")
    length = reader.number("Q")
    if kind in _SCALARS:
        letter = _SCALARS[kind]
        if length > _FEW:
            reader.skip(length * struct.calcsize("<" + letter))
            return Array(length, Absent.SKIPPED)
        return Array(length, tuple(reader.number(letter) for _ in range(length)))
    if kind == _STRING:
        reader.skip_texts(length)
        return Array(length, Absent.SKIPPED)
    raise DamagedFile(f"{path} is a damaged GGUF file (an array of unknown type {kind}): fetch it again.")


@dataclass(frozen=True, slots=True)
class _Tensors:
    """What the table of tensors adds up to."""

    parameters: int
    data_bytes: int
    repacked_bytes: int


def _tensors(path: Path, reader: _Reader, count: int) -> _Tensors:
    """Walk over the tensor table."""
    parameters = 0
    data_bytes = 0
    repacked_bytes = 0
    for _ in range(count):
        name = reader.text()
        dimensions = reader.number("I")
        if dimensions > 4:  # ggml's GGML_MAX_DIMS
            raise DamagedFile(f"{path} is a damaged GGUF file (a tensor of {dimensions} dimensions).")
        elements = 1
        for _ in range(dimensions):
            elements *= reader.number("Q")
        kind = reader.number("I")
        offset = reader.number("Q")
        # A type newer than our table: at least one byte must be there, which still finds most cuts.
        block, block_bytes = _BLOCKS.get(kind, (max(elements, 1), 1))
        size = -(-elements // block) * block_bytes
        parameters += elements
        data_bytes = max(data_bytes, offset + size)
        if kind in _REPACKED and dimensions > 1 and name != _LOOKED_UP:
            repacked_bytes += size
    return _Tensors(parameters, data_bytes, repacked_bytes)

"""llama.cpp's C interface, as much of it as we use: the library itself, and the weights in memory.

Not the high-level ``llama_cpp.Llama``: that one cannot be interrupted while it reads a prompt, turns a
missing chat template into llama-2's, and draws tokens without telling how undecided it was.
Everything here belongs to the one thread that loaded the model.
"""

import ctypes
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from models.engines.llama_bindings import native
from models.engines.llama_vocabulary import Vocabulary
from models.errors import EngineError

_ALL_LAYERS = 2**31 - 1
_WARNING, _ERROR = 3, 4  # ggml.h's levels: 1 debug, 2 info, 5 goes on with the line before


class Library:
    """The native library, initialised once a process, with its complaints kept."""

    def __init__(self) -> None:
        self.complaints: deque[str] = deque(maxlen=100)

        def note(level: int, text: bytes, _: Any) -> None:
            if level in (_WARNING, _ERROR):
                self.complaints.append(text.decode("utf-8", errors="replace").strip())
            if level == _ERROR:
                os.write(2, text)  # into the log, whose last line is quoted if we die

        self._note = native.llama_log_callback(note)  # kept: C code holds no reference
        native.llama_log_set(self._note, ctypes.c_void_p(0))
        native.llama_backend_init()
        self.has_gpu = bool(native.llama_supports_gpu_offload())

    def load(self, path: Path, gpu_layers: int) -> "Model":
        """Load the weights, mapped from the file."""
        self.complaints.clear()
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = _ALL_LAYERS if gpu_layers < 0 else gpu_layers
        handle = native.llama_model_load_from_file(os.fsencode(path), parameters)
        if not handle:
            raise EngineError(_why_not(path, self.complaints))
        return Model(handle)


class Model:
    """Weights in memory, their vocabulary and metadata."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.trained_context = int(native.llama_model_n_ctx_train(handle))
        self.vocabulary = Vocabulary(native.llama_model_get_vocab(handle))

    def metadata(self, key: str) -> str | None:
        """Return the text under ``key`` in the model file."""
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = native.llama_model_meta_val_str(self.handle, key.encode(), buffer, size)
            if length < 0:
                return None
            if length < size:
                return buffer.raw[:length].decode("utf-8", errors="replace")
            size = length + 1

    @property
    def goes_on_with_text(self) -> bool:
        """Whether it is a decoder: a translator has an encoder as well."""
        return not native.llama_model_has_encoder(self.handle)

    @property
    def remembers_every_token(self) -> bool:
        """Whether tokens can be forgotten from any position on, and their start shared.

        Not in a recurrent model, nor where attention slides: llama.cpp reuses what lies behind the window.
        """
        return not (
            native.llama_model_is_recurrent(self.handle)
            or native.llama_model_is_hybrid(self.handle)
            or native.llama_model_n_swa(self.handle) > 0
        )

    def free(self) -> None:
        """Give the memory back; contexts first."""
        native.llama_model_free(self.handle)


def _why_not(path: Path, complaints: Iterable[str]) -> str:
    said = "\n".join(complaints)
    if "unknown model architecture" in said:
        kind = said.partition("unknown model architecture:")[2].partition("\n")[0].strip(" '")
        return f"{path.name} holds a {kind} model, a kind this llama.cpp does not know: choose another."
    if "file bounds" in said or "failed to read" in said:
        return f"{path.name} is truncated or damaged: fetch it again."
    if "allocate" in said or "out of memory" in said:
        return f"{path.name} does not fit into memory: close other programs or choose a smaller model."
    reason = next(
        (
            line.partition("error loading model:")[2].strip()
            for line in complaints
            if "error loading model:" in line
        ),
        "it does not say why",
    )
    return f"{path.name} cannot be loaded by llama.cpp ({reason}): fetch it again or choose another model."

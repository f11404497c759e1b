"""llama.cpp's C interface, as much of it as we use: a vocabulary, and a context that reads tokens.

Not the high-level ``llama_cpp.Llama``: that one cannot be interrupted while it reads a prompt, turns a
missing chat template into llama-2's, and draws tokens without telling how undecided it was.
Everything here belongs to the one thread that loaded the model.
"""

import ctypes
import os
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as native

from models.engines.backend import Interrupt
from models.engines.draw import Logits
from models.errors import EngineError

_ALL_LAYERS = 2**31 - 1
_WARNING, _ERROR = 3, 4  # ggml.h's levels: 1 debug, 2 info, 5 goes on with the line before
_ABORTED = 2  # llama_decode: ended by the abort callback; the batches before stay in the memory

_STOP_TEXTS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")
"""Tokens that end a turn whatever the file's eos says: a fine-tuned Qwen may write either of two."""


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

    def free(self) -> None:
        """Give the memory back; contexts first."""
        native.llama_model_free(self.handle)


class Vocabulary:
    """Text to tokens and back."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.size = int(native.llama_vocab_n_tokens(handle))
        self.bos = int(native.llama_vocab_bos(handle))
        self.eos = int(native.llama_vocab_eos(handle))
        self.adds_bos = bool(native.llama_vocab_get_add_bos(handle))
        self._stops = {token for text in _STOP_TEXTS if (token := self._control_token(text)) is not None}
        self._pieces: dict[int, bytes] = {}

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of ``text``; with ``special``, control tokens spelled in it become themselves."""
        data = text.encode("utf-8", errors="replace")
        room = len(data) + 16
        tokens = (native.llama_token * room)()
        count = native.llama_tokenize(self._handle, data, len(data), tokens, room, False, special)
        if count < 0:
            raise EngineError("The model cannot read this text: its vocabulary lacks some of the characters.")
        return list(tokens[:count])

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token writes; a control token writes none."""
        if (known := self._pieces.get(token)) is None:
            known = self._pieces[token] = self._read_piece(token, special=False)
        return known

    def text(self, token: int) -> str:
        """Return a token's own text, a control token's too."""
        return "" if token < 0 else self._read_piece(token, special=True).decode("utf-8", errors="replace")

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model instead of writing text."""
        return bool(native.llama_vocab_is_control(self._handle, token))

    def ends_turn(self, token: int) -> bool:
        """Whether the model has finished its reply when it draws ``token``."""
        return token in self._stops or bool(native.llama_vocab_is_eog(self._handle, token))

    def _control_token(self, text: str) -> int | None:
        tokens = self.tokenize(text, special=True)
        return tokens[0] if len(tokens) == 1 and self.is_control(tokens[0]) else None

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = native.llama_token_to_piece(self._handle, token, buffer, size, 0, special)
            if length >= 0:
                return buffer.raw[:length]
            size = -length


class Context:
    """The model's memory of one sequence of tokens, and the logits after the last of them.

    The flag of ``interrupt`` ends reading between two operations of the network.
    """

    def __init__(self, model: Model, *, tokens: int, batch: int, threads: int, interrupt: Interrupt) -> None:
        parameters = native.llama_context_default_params()
        parameters.n_ctx = tokens
        parameters.n_batch = parameters.n_ubatch = self._batch_size = min(batch, tokens)
        parameters.n_threads = parameters.n_threads_batch = threads
        self._model = model.handle
        self._handle: Any = native.llama_init_from_model(model.handle, parameters)
        if not self._handle:
            raise EngineError(
                f"There is not enough memory for a context of {tokens} tokens: ask for a smaller one."
            )
        self.capacity = tokens
        self._memory: Any = native.llama_get_memory(self._handle)
        self._vocabulary_size = model.vocabulary.size
        self._batch = native.llama_batch_init(self._batch_size, 0, 1)
        self._read: list[int] = []
        self._interrupt = interrupt
        # ggml asks this before each operation, some thousand times a token: libc's strlen, over the flag,
        # answers in C what a Python function could only answer after it has waited for the interpreter.
        self._abort = ctypes.cast(ctypes.CDLL(None).strlen, native.ggml_abort_callback)
        native.llama_set_abort_callback(self._handle, self._abort, ctypes.c_void_p(interrupt.address))

    @property
    def can_write(self) -> bool:
        """Whether this model goes on with text: embedders have no memory, translators an encoder."""
        return bool(self._memory) and not native.llama_model_has_encoder(self._model)

    @property
    def is_full(self) -> bool:
        """Whether no token fits any more."""
        return len(self._read) >= self.capacity

    def rewind_to(self, tokens: Sequence[int]) -> int:
        """Forget all that is not the start of ``tokens``; return how many of them need not be read again.

        The last token always is read again, alone, for its logits: alone, because then a prompt gives the
        same numbers whether or not its start was remembered.
        """
        shared = 0
        for ours, theirs in zip(self._read, tokens[:-1], strict=False):
            if ours != theirs:
                break
            shared += 1
        self._forget_after(shared)
        return len(self._read)

    def read_prompt(self, tokens: Sequence[int]) -> bool:
        """Read tokens, the last one alone; return False when interrupted."""
        return self._read_in_batches(tokens[:-1]) and self.read(tokens[-1:])

    def read(self, tokens: Sequence[int]) -> bool:
        """Read at most a batch of tokens; return False when interrupted, with none of them read."""
        if self._interrupt.raised:
            return False
        self._fill_batch(tokens)
        answer = native.llama_decode(self._handle, self._batch)
        if answer == _ABORTED:
            self._forget_after(len(self._read))
            return False
        if answer != 0:
            self._forget_after(0)
            raise EngineError(
                f"The model could not read its prompt (llama_decode says {answer}): try a shorter one."
            )
        self._read.extend(tokens)
        return True

    def logits(self) -> Logits:
        """Return the logits after the last token read; good until the next one is."""
        pointer = native.llama_get_logits_ith(self._handle, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))

    def free(self) -> None:
        """Give the memory back."""
        native.llama_batch_free(self._batch)
        native.llama_free(self._handle)

    def _read_in_batches(self, tokens: Sequence[int]) -> bool:
        for start in range(0, len(tokens), self._batch_size):
            if not self.read(tokens[start : start + self._batch_size]):
                return False
            # A GPU queues work: wait, so that a cancel finds at most one batch to be finished.
            native.llama_synchronize(self._handle)
        return True

    def _fill_batch(self, tokens: Sequence[int]) -> None:
        batch, position = self._batch, len(self._read)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = False
        batch.logits[len(tokens) - 1] = True

    def _forget_after(self, length: int) -> None:
        if not native.llama_memory_seq_rm(self._memory, 0, length, -1):
            # Recurrent models remember no single tokens: all or nothing.
            native.llama_memory_clear(self._memory, True)
            length = 0
        del self._read[length:]


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

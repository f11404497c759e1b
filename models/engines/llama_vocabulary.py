"""A GGUF file's vocabulary through llama.cpp; fulfils ``Vocabulary``."""

import ctypes
from typing import Any

from models.engines.llama_bindings import native
from models.engines.vocabulary import STOP_TEXTS
from models.errors import EngineError


class Vocabulary:
    """Text to tokens and back."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.size = int(native.llama_vocab_n_tokens(handle))
        self.bos = int(native.llama_vocab_bos(handle))
        self.eos = int(native.llama_vocab_eos(handle))
        self.adds_bos = bool(native.llama_vocab_get_add_bos(handle))
        self._stops = {token for text in STOP_TEXTS if (token := self._control_token(text)) is not None}
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

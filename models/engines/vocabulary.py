"""What the engines need of a model's tokens, whichever library knows them."""

from typing import Protocol

STOP_TEXTS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")
"""Tokens that end a turn whatever the weights call their eos: a fine-tuned Qwen may write either of two."""


class Vocabulary(Protocol):
    """Text to tokens and back. ``bos`` and ``eos`` are -1 where there is none."""

    @property
    def size(self) -> int:
        """How many tokens there are; ids are below it."""

    @property
    def bos(self) -> int:
        """The token that begins a text."""

    @property
    def eos(self) -> int:
        """The token that ends one."""

    @property
    def adds_bos(self) -> bool:
        """Whether a text begins with ``bos`` also where the template does not write it."""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of ``text``; with ``special``, control tokens spelled in it become themselves."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token writes; a control token writes none."""

    def text(self, token: int) -> str:
        """Return a token's own text, a control token's too; empty for -1."""

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model instead of writing text."""

    def ends_turn(self, token: int) -> bool:
        """Whether the model has finished its reply when it draws ``token``."""

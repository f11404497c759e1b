"""A reply in the making: tokens come in, deltas that hold whole characters go out."""

from collections.abc import Sequence
from dataclasses import replace

from models.engines.protocol import Delta, Finish, Usage
from models.engines.utf8 import Utf8Assembler


class Reply:
    """The reply so far. ``tokens`` are all of it, the accepted beginning and half characters included."""

    def __init__(self, accepted: Sequence[int] = ()) -> None:
        self.tokens = list(accepted)
        self._text = Utf8Assembler()
        self._held: list[int] = []
        self._entropies: list[float] = []

    def add(self, token: int, entropy: float, piece: bytes) -> Delta | None:
        """Take a token and the bytes it writes; return a delta unless it ends within a character."""
        self.tokens.append(token)
        self._held.append(token)
        self._entropies.append(entropy)
        text = self._text.feed(piece)
        return None if text is None else self._delta(text)

    def end(self, finish: Finish, usage: Usage) -> Delta:
        """Return the last delta."""
        return replace(self._delta(self._text.end()), finish=finish, usage=usage)

    def _delta(self, text: str) -> Delta:
        entropies = tuple(self._entropies)
        delta = Delta(text, tuple(self._held), entropies[-1] if entropies else 0.0, entropies=entropies)
        self._held.clear()
        self._entropies.clear()
        return delta

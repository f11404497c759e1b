"""What a network has read: one row of tokens, or several side by side, and those remembered for later.

MLX's arrays are written to in place, unless they are shared: so a copy of a row costs nothing until one of
the two goes on, and then as much as it holds.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx

from models.engines.backend import Interrupt
from models.engines.mlx_library import caches
from models.engines.mlx_loading import Layers, Network

_MOST_KEPT = 16  # rows; a recurrent network's take as much memory for few tokens as for many
_MOST_ROWS = 8  # side by side


@dataclass(slots=True, eq=False)
class Row:
    """Tokens that were read, exactly those, and what the network remembers of them."""

    tokens: list[int]
    layers: Layers

    def copy(self) -> "Row":
        """Return another that goes its own way."""
        return Row(list(self.tokens), copy.deepcopy(self.layers))


class Memory:
    """Rows of earlier replies, as many as there is ``room`` for, in tokens; the oldest go first."""

    def __init__(self, network: Network, *, room: int, chunk: int, interrupt: Interrupt) -> None:
        self._network = network
        self._room = room
        self._chunk = chunk
        self._interrupt = interrupt
        self._rows: list[Row] = []

    def shared(self, tokens: Sequence[int]) -> int:
        """Return how many tokens at the start need not be read.

        Never the last: that one is always read again, alone, so that a prompt gives the same numbers whether
        or not its start was remembered.
        """
        return max((_shared(row, tokens) for row in self._rows), default=0)

    def start(self, tokens: Sequence[int]) -> Row:
        """Return a row with as much of the start of ``tokens`` as is remembered."""
        closest = max(self._rows, key=lambda row: _shared(row, tokens), default=None)
        length = _shared(closest, tokens) if closest else 0
        if closest is None or length == 0:
            return Row([], self._network.blank())
        self._rows.remove(closest)
        if length == len(closest.tokens):
            return closest
        self._rows.append(closest)  # used last
        return self._cut(closest, length)

    def keep(self, row: Row) -> None:
        """Remember a row, and no longer those that it can be cut back to."""
        if not row.tokens:
            return
        self._rows = [other for other in self._rows if _shared(row, [*other.tokens, -1]) < len(other.tokens)]
        self._rows = [*self._rows[1 - _MOST_KEPT :], row]
        self.make_room(0)

    def make_room(self, tokens: int) -> None:
        """Forget rows, oldest first, until there is room for so many tokens beside them."""
        held = sum(len(row.tokens) for row in self._rows)
        while self._rows and held + tokens > self._room:
            held -= len(self._rows.pop(0).tokens)

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()

    def read(self, row: Row, tokens: Sequence[int], stop: Callable[[], bool] = lambda: False) -> bool:
        """Read more in a row, chunk after chunk; return False when interrupted or stopped between two."""
        for start in range(0, len(tokens), self._chunk):
            if self._interrupt.raised or stop():
                return False
            part = tokens[start : start + self._chunk]
            self._network.compute(mx.array([part]), row.layers)
            mx.eval([layer.state for layer in row.layers])
            row.tokens.extend(part)
            mx.clear_cache()
        return True

    @cached_property
    def most_rows(self) -> int:
        """How many can be read side by side; some kinds of network cannot."""
        try:
            rows = Rows(self._network)
            for _ in range(2):
                alone = Rows(self._network)
                alone.join(Row([0], self._network.blank()))
                mx.eval(alone.read(mx.array([0])))
                rows.join(*alone.take_out([0]))
            mx.eval(rows.read(mx.array([0, 0])))
            rows.take_out([0])
        except Exception:  # whatever their programs make of it
            return 1
        return _MOST_ROWS

    def save(self, row: Row, path: Path) -> None:
        """Write what is remembered of a row into a file."""
        caches.save_prompt_cache(str(path), [_exact(layer) for layer in row.layers])

    def restore(self, path: Path, tokens: Sequence[int]) -> Row | None:
        """Return the row of ``tokens`` that ``save`` wrote; None where that fails."""
        try:
            layers = caches.load_prompt_cache(str(path))
            mx.eval([layer.state for layer in layers])
        except Exception:  # whatever a damaged file makes of the library
            return None
        if list(map(type, layers)) != list(map(type, self._network.blank())):
            return None
        if any(getattr(layer, "offset", len(tokens)) != len(tokens) for layer in layers):
            return None
        return Row(list(tokens), layers)

    def _cut(self, row: Row, length: int) -> Row:
        """Return a copy of a row that ends earlier."""
        start = row.copy()
        surplus = len(row.tokens) - length
        if caches.trim_prompt_cache(start.layers, surplus) != surplus:
            return Row([], self._network.blank())
        return Row(start.tokens[:length], [_exact(layer) for layer in start.layers])


class Rows:
    """Rows that are read together, one token of each at a time.

    A row alone lies as it was read: so it is computed as fast as can be.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._layers: Layers = []
        self.tokens: list[list[int]] = []

    def join(self, row: Row) -> None:
        """Take one more in."""
        if not self.tokens:
            self._layers = row.layers
        elif len(self.tokens) == 1:
            self._layers = [
                mine.merge([mine, new]) for mine, new in zip(self._layers, row.layers, strict=True)
            ]
        else:
            for mine, new in zip(self._layers, row.layers, strict=True):
                mine.extend(new.merge([new]))
        self.tokens.append(row.tokens)

    def read(self, following: mx.array) -> mx.array:
        """Read a token in each row; return the logits after it. The caller adds them to ``tokens``."""
        return self._network.compute(following[:, None], self._layers)

    def take_out(self, gone: Sequence[int]) -> list[Row]:
        """Let rows go, by their numbers; return them."""
        stay = [row for row in range(len(self.tokens)) if row not in gone]
        rows = [Row(self.tokens[row], self._only(row)) for row in gone]
        if len(stay) == 1 and gone:
            self._layers = self._only(stay[0])
        elif stay and gone:
            for layer in self._layers:
                layer.filter(stay)
        elif gone:
            self._layers = []
        self.tokens = [self.tokens[row] for row in stay]
        return rows

    def _only(self, row: int) -> Layers:
        if len(self.tokens) == 1:
            return self._layers
        return [layer.extract(row) for layer in self._layers]


def _shared(row: Row, tokens: Sequence[int]) -> int:
    length = min(len(row.tokens), len(tokens) - 1)
    if row.tokens[:length] != list(tokens[:length]):
        length = next(at for at in range(length) if row.tokens[at] != tokens[at])
    if length < len(row.tokens) and not caches.can_trim_prompt_cache(row.layers):
        return 0  # a state, or a window that has moved on: all or nothing
    return length


def _exact(layer: Any) -> Any:
    """Return a layer without the room that it has for more tokens."""
    if type(layer) is not caches.KVCache or layer.keys is None:
        return layer
    exact = caches.KVCache()
    exact.keys = layer.keys[..., : layer.offset, :]
    exact.values = layer.values[..., : layer.offset, :]
    exact.offset = layer.offset
    return exact

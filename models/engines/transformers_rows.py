"""What a network has read: rows of tokens side by side, and those remembered for later.

What attention remembers of a row is tensors that are only ever replaced, never written to. So rows share
the start they have in common for nothing, and a reading that is broken off leaves no trace.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
from transformers.modeling_layers import GradientCheckpointingLayer

from models.engines.draw import Logits

Past: TypeAlias = Any
"""Of a network that remembers every token a tuple with the keys and values of each layer, of shape (rows,
heads, tokens, width); of another its own cache, or None for nothing read."""

_SINGLY = 16  # a recurrent network reads one token in about the time of that many together


class Stopped(Exception):
    """The reading was broken off."""


@dataclass(slots=True, eq=False)
class Lane:
    """One row of tokens that was read, and what the network remembers of them."""

    tokens: list[int]
    past: Past


class Network:
    """A loaded network, and how its memory is taken apart; ``stop`` is asked before each of its parts."""

    def __init__(self, module: Any, device: str) -> None:
        self.stop: Callable[[], bool] = lambda: False
        self._module = module
        self._device = device
        self._takes = frozenset(inspect.signature(module.forward).parameters)
        self.config = module.config.get_text_config(decoder=True)
        kinds = {type(layer) for layer in DynamicCache(config=module.config).layers}
        self.keeps_every_token = kinds <= {DynamicLayer, DynamicSlidingWindowLayer}
        self.vocabulary = int(module.get_input_embeddings().weight.shape[0])
        for part in module.modules():
            if isinstance(part, torch.nn.Linear | GradientCheckpointingLayer):
                part.register_forward_pre_hook(self._heed)

    def compute(self, tokens: Sequence[Sequence[int]], past: Past, read: Sequence[int]) -> tuple[Any, Past]:
        """Read as many more tokens in each row, of which so many are in ``past``; return logits and past.

        The logits are those after each row's last token. Shorter rows are filled up at their start.
        """
        self._heed()
        cache = self._cache(past)
        width, count = max(read), len(tokens[0])
        pads = torch.tensor([[width - length] for length in read], device=self._device)
        columns = torch.arange(width + count, device=self._device)
        inputs = {
            "input_ids": torch.tensor(tokens, device=self._device),
            "cache": cache,
            "past_key_values": cache,  # as other releases of transformers call it
            "use_cache": True,
            "position_ids": columns[width:] - pads,
            "logits_to_keep": 1,
        }
        if "cache" in self._takes:
            del inputs["past_key_values"]
        if len(set(read)) > 1:
            inputs["attention_mask"] = (columns >= pads).long()
        with torch.inference_mode():
            output = self._module(**{name: value for name, value in inputs.items() if name in self._takes})
        return output.logits[:, -1, :], self._past(cache)

    def wait(self) -> None:
        """Let a GPU finish what it was given, so that a cancel finds little to be finished."""
        if self._device == "cuda":
            torch.cuda.synchronize()
        elif self._device == "mps":
            torch.mps.synchronize()

    def _heed(self, *_: object) -> None:
        if self.stop():
            raise Stopped

    def _cache(self, past: Past) -> Any:
        if not self.keeps_every_token:
            return past or DynamicCache(config=self._module.config)
        # Without the configuration layers of sliding attention too keep every token: masks hide the old.
        cache = DynamicCache()
        for keys, values in past or ():
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            cache.layers.append(layer)
        return cache

    def _past(self, cache: Any) -> Past:
        if not self.keeps_every_token:
            return cache
        return tuple((layer.keys, layer.values) for layer in cache.layers)


class Rows:
    """Rows of tokens that are read together, at first one that goes on from ``lane``."""

    def __init__(self, network: Network, lane: Lane, chunk: int) -> None:
        self._network = network
        self._chunk = chunk
        self._past = lane.past
        self.tokens = [list(lane.tokens)]

    def read(self, tokens: Sequence[int]) -> None:
        """Read more of the one row there is, chunk after chunk; raise ``Stopped`` with what was read kept."""
        chunk = self._chunk
        if not self._network.keeps_every_token:  # many go into a state only when it is empty
            chunk = 1 if self._past else len(tokens)
        for start in range(0, len(tokens), chunk):
            self._compute([tokens[start : start + chunk]])
            self._network.wait()

    def lane(self) -> Lane:
        """Return the one row there is."""
        return Lane(list(self.tokens[0]), self._past)

    def step(self, following: Sequence[int]) -> Logits:
        """Read one token a row; return the logits after each, a row of them a row."""
        logits: Logits = self._compute([[token] for token in following]).float().cpu().numpy()
        return logits

    def join(self, other: "Rows") -> None:
        """Take the rows of another in."""
        mine, theirs = self._past or (), other._past or ()
        if mine or theirs:
            width = max(map(len, self.tokens + other.tokens))
            mine = mine or _nothing(theirs, len(self.tokens))
            theirs = theirs or _nothing(mine, len(other.tokens))
            self._past = tuple(
                (_below(keys, more_keys, width), _below(values, more_values, width))
                for (keys, values), (more_keys, more_values) in zip(mine, theirs, strict=True)
            )
        self.tokens += other.tokens

    def take_out(self, gone: Sequence[int]) -> list[Lane]:
        """Let rows go, by their numbers; return them."""
        width = max(map(len, self.tokens))
        lanes = [Lane(self.tokens[row], self._only(row, width)) for row in gone]
        stay = [row for row in range(len(self.tokens)) if row not in gone]
        self.tokens = [self.tokens[row] for row in stay]
        if self._past and self._network.keeps_every_token:
            first = width - max(map(len, self.tokens), default=0)
            self._past = tuple(
                (keys[stay, :, first:], values[stay, :, first:]) for keys, values in self._past
            )
        return lanes

    def _compute(self, tokens: Sequence[Sequence[int]]) -> Any:
        try:
            logits, self._past = self._network.compute(tokens, self._past, [len(row) for row in self.tokens])
        except BaseException:
            if not self._network.keeps_every_token:  # a state half changed is of no use
                self.tokens, self._past = [[]], None
            raise
        for row, new in zip(self.tokens, tokens, strict=True):
            row.extend(new)
        return logits

    def _only(self, row: int, width: int) -> Past:
        """What is remembered of one row, without the memory of the others."""
        if len(self.tokens) == 1 or not self._past:
            return self._past
        first = width - len(self.tokens[row])
        return tuple(
            (keys[row : row + 1, :, first:].clone(), values[row : row + 1, :, first:].clone())
            for keys, values in self._past
        )


class Remembered:
    """Rows of earlier replies, as many as there is room for, in tokens; the oldest go first."""

    def __init__(self, network: Network, room: int) -> None:
        self._network = network
        self._room = room
        self._lanes: list[Lane] = []

    def shared(self, tokens: Sequence[int]) -> int:
        """Return how many tokens at the start need not be read; never the last, whose logits are wanted."""
        return max((self._shared(lane, tokens) for lane in self._lanes), default=0)

    def start(self, tokens: Sequence[int]) -> Lane:
        """Return as much of the start of ``tokens`` as is remembered."""
        lane = max(self._lanes, key=lambda lane: self._shared(lane, tokens), default=None)
        length = self._shared(lane, tokens) if lane else 0
        if lane is None or length == 0:
            return Lane([], None)
        self._lanes.remove(lane)
        if not self._network.keeps_every_token:
            return lane
        self._lanes.append(lane)  # used last
        past = tuple((keys[:, :, :length], values[:, :, :length]) for keys, values in lane.past)
        return Lane(lane.tokens[:length], past)

    def keep(self, lane: Lane) -> None:
        """Remember a row; of two that begin alike the longer one does for both, where tokens are kept."""
        if not lane.tokens:
            return
        if self._network.keeps_every_token:
            if any(_begins(other, lane) for other in self._lanes):
                return
            self._lanes = [other for other in self._lanes if not _begins(lane, other)]
        self._lanes.append(lane)
        self.make_room(0)

    def make_room(self, tokens: int) -> None:
        """Forget rows, oldest first, until there is room for so many tokens beside them."""
        held = sum(len(lane.tokens) for lane in self._lanes)
        while self._lanes and held + tokens > self._room:
            held -= len(self._lanes.pop(0).tokens)

    def clear(self) -> None:
        """Forget everything."""
        self._lanes.clear()

    def _shared(self, lane: Lane, tokens: Sequence[int]) -> int:
        length = min(len(lane.tokens), len(tokens) - 1)
        if lane.tokens[:length] != list(tokens[:length]):
            length = next(i for i in range(length) if lane.tokens[i] != tokens[i])
        if self._network.keeps_every_token:
            return length
        # All or nothing, and worth it only when little follows, which is read one by one.
        is_whole = length == len(lane.tokens)
        return length if is_whole and (len(tokens) - length) * _SINGLY < length + _SINGLY else 0


def _begins(lane: Lane, start: Lane) -> bool:
    return lane.tokens[: len(start.tokens)] == start.tokens


def _nothing(like: Past, rows: int) -> Past:
    """What is remembered of rows of no tokens."""
    return tuple((_empty(keys, rows), _empty(values, rows)) for keys, values in like)


def _empty(like: Any, rows: int) -> Any:
    return like.new_zeros(rows, like.shape[1], 0, like.shape[3])


def _below(upper: Any, lower: Any, width: int) -> Any:
    """Put rows below others, each filled up at its start with columns that a mask hides."""
    pad = torch.nn.functional.pad
    return torch.cat([pad(part, (0, 0, width - part.shape[2], 0)) for part in (upper, lower)])

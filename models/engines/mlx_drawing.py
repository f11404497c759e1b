"""How tokens are drawn on the device, so that it need not wait for us: what ``draw`` does, a row at a time.

In float32 and over all tokens; so a seed draws what it draws on the other engines, but for a number that
falls within a rounding of the border between two tokens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

import mlx.core as mx

from models.engines.draw import REACH_NATS, Drawer, unusable

_LARGEST = 1 - 2**-24  # the float32 before 1
_FAR = -1e4  # nats: stands for minus infinity where it would be multiplied with 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """A token and an entropy for each row, on the device: perhaps not computed yet."""

    tokens: mx.array
    entropies: mx.array

    def start(self) -> None:
        """Let the device compute them while we do something else."""
        mx.async_eval(self.tokens, self.entropies)

    def wait(self) -> list[tuple[int, float]]:
        """Return them; raise ``EngineError`` when the logits were of no use."""
        tokens = cast("list[int]", self.tokens.tolist())
        entropies = cast("list[float]", self.entropies.tolist())
        if any(map(math.isnan, entropies)):
            raise unusable()
        return list(zip(tokens, entropies, strict=True))

    def only(self, rows: Sequence[int]) -> "Drawn | None":
        """Return those of some rows; None for none."""
        if not rows:
            return None
        chosen = mx.array(rows)
        return Drawn(self.tokens[chosen], self.entropies[chosen])


def draw(logits: mx.array, drawers: Sequence[Drawer]) -> Drawn:
    """Draw a token a row from logits of shape (rows, tokens), each as its drawer says."""
    logits = logits.astype(mx.float32)
    for row, drawer in enumerate(drawers):
        if drawer.forbidden:
            logits[row, mx.array(drawer.forbidden)] = -mx.inf
            drawer.forbidden = []
    likeliest = mx.argmax(logits, axis=-1, keepdims=True)
    best = mx.take_along_axis(logits, likeliest, axis=-1)
    entropies = _measure()(logits, best)
    tokens = likeliest[:, 0]
    if any(drawer.temperature for drawer in drawers):
        is_cold = _column([not drawer.temperature for drawer in drawers])[:, 0]
        tokens = mx.where(is_cold, tokens, _sample(logits - best, drawers))
    return Drawn(tokens, entropies)


@cache
def _measure() -> Callable[[mx.array, mx.array], mx.array]:
    """Fused on a GPU; on a processor that gains nothing and takes a compiler at run time."""
    is_on_gpu = mx.default_device() == mx.gpu
    return cast(
        "Callable[[mx.array, mx.array], mx.array]", mx.compile(_entropies) if is_on_gpu else _entropies
    )


def _entropies(logits: mx.array, best: mx.array) -> mx.array:
    """Return entropies in nats; of unusable logits they are no numbers."""
    scores = logits - best
    weights = mx.exp(scores)
    total = mx.sum(weights, axis=-1)
    mean = mx.sum(weights * mx.maximum(scores, _FAR), axis=-1) / total
    return mx.maximum(mx.log(total) - mean, 0.0)


def _sample(scores: mx.array, drawers: Sequence[Drawer]) -> mx.array:
    """Temperature first, then the nucleus."""
    temperatures = _column([drawer.temperature or 1.0 for drawer in drawers])
    reach = _column([-REACH_NATS * max(1.0, drawer.temperature) for drawer in drawers])
    numbers = _column([min(drawer.number() if drawer.temperature else 0.0, _LARGEST) for drawer in drawers])
    weights = mx.where(scores > reach, mx.exp(scores / temperatures), 0.0)
    # `not <` also takes NaN for everything.
    is_open = [not drawer.top_p < 1.0 for drawer in drawers]
    if all(is_open):
        return _within(weights, numbers)
    narrow = _within_nucleus(weights, numbers, _column([drawer.top_p for drawer in drawers]))
    if not any(is_open):
        return narrow
    return mx.where(_column(is_open)[:, 0], _within(weights, numbers), narrow)


def _within(weights: mx.array, numbers: mx.array) -> mx.array:
    mass = mx.cumsum(weights, axis=-1)
    at = mx.sum(mass <= numbers * mass[:, -1:], axis=-1)
    return mx.minimum(at, weights.shape[-1] - 1).astype(mx.uint32)


def _within_nucleus(weights: mx.array, numbers: mx.array, top_p: mx.array) -> mx.array:
    order = mx.argsort(-weights, axis=-1)
    mass = mx.cumsum(mx.take_along_axis(weights, order, axis=-1), axis=-1)
    last = mx.sum(mass < top_p * mass[:, -1:], axis=-1, keepdims=True)
    last = mx.minimum(last, weights.shape[-1] - 1)
    inside = mx.take_along_axis(mass, last, axis=-1)
    at = mx.minimum(mx.sum(mass <= numbers * inside, axis=-1, keepdims=True), last)
    return mx.take_along_axis(order, at, axis=-1)[:, 0]


def _column(values: Sequence[float]) -> mx.array:
    return mx.array(list(values))[:, None]

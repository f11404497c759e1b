"""How the next token is drawn from a model's logits, and how undecided the model was.

Numpy alone, and cheap: exponentials of all 150,000 logits of a Qwen would cost 0.4 ms a token, so only
those that can matter are looked at.
"""

import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from models.engines.protocol import Sampling
from models.errors import EngineError

Logits: TypeAlias = NDArray[np.float32]
Tokens: TypeAlias = NDArray[np.intp]

_COLDEST = 1e-4  # below this a temperature is greedy in float32 anyway
REACH_NATS = 16.0  # below the best; what lies further down adds some 0.002 nats (measured, Qwen 0.5B)


class Drawer:
    """Draws one completion's tokens; the same seed draws the same ones from the same logits.

    ``temperature`` 0 is greedy; ``forbidden`` are the tokens that the next one must not be.
    """

    def __init__(self, sampling: Sampling, vocabulary: int, forbidden_first: Iterable[int] = ()) -> None:
        # `not >` also takes NaN for greedy.
        self.temperature = sampling.temperature if sampling.temperature > _COLDEST else 0.0
        self.top_p = sampling.top_p
        self.forbidden = sorted({token for token in forbidden_first if 0 <= token < vocabulary})
        self._random = np.random.default_rng(sampling.seed & 0xFFFF_FFFF_FFFF_FFFF)

    def number(self) -> float:
        """Return the next random number, at least 0 and below 1: one for each token not drawn greedily."""
        return float(self._random.random())

    def draw(self, logits: Logits) -> tuple[int, float]:
        """Return a token and the entropy, in nats at temperature 1, of the distribution it came from."""
        if self.forbidden:
            logits = logits.copy()
            logits[self.forbidden] = -np.inf
            self.forbidden = []
        best = int(logits.argmax())
        if not math.isfinite(logits[best]):
            raise unusable()
        tokens = np.flatnonzero(logits > logits[best] - REACH_NATS * max(1.0, self.temperature))
        scores = logits[tokens].astype(np.float64) - float(logits[best])
        chosen = best if self.temperature == 0.0 else self._sample(tokens, scores)
        return chosen, _entropy(scores)

    def _sample(self, tokens: Tokens, scores: NDArray[np.float64]) -> int:
        """Temperature first, then the nucleus, as Hugging Face and vLLM do."""
        weights = np.exp(scores / self.temperature)
        if self.top_p < 1.0:
            nucleus = _nucleus(weights, self.top_p * weights.sum())
            tokens, weights = tokens[nucleus], weights[nucleus]
        mass = np.cumsum(weights)
        at = int(np.searchsorted(mass, self.number() * mass[-1], side="right"))
        return int(tokens[min(at, tokens.size - 1)])


def unusable() -> EngineError:
    """Return what is raised where the best of the logits is no finite number."""
    return EngineError(
        "The model gives no usable numbers (all tokens are forbidden, or its weights are damaged): "
        "pull it again or choose another."
    )


def _nucleus(weights: NDArray[np.float64], wanted: float) -> Tokens:
    """Return the fewest of the heaviest that weigh ``wanted``, which at first are sought among a few."""
    heavy = np.flatnonzero(weights > 1e-3)
    if weights[heavy].sum() < wanted:
        heavy = np.arange(weights.size)
    heavy = heavy[np.argsort(-weights[heavy], kind="stable")]
    return heavy[: int(np.searchsorted(np.cumsum(weights[heavy]), wanted)) + 1]


def _entropy(scores: NDArray[np.float64]) -> float:
    weights = np.exp(scores)
    total = weights.sum()
    return max(0.0, float(math.log(total) - weights @ scores / total))

"""How tokens are drawn: greedy, by temperature and nucleus, without the forbidden, with their entropy."""

import math
from collections import Counter

import numpy as np
import pytest

from models.engines.draw import Drawer
from models.engines.protocol import Sampling
from models.errors import EngineError

VOCABULARY = 5000


def logits(*likely: float, rest: float = -20.0) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    values = np.full(VOCABULARY, rest, dtype=np.float32)
    values[: len(likely)] = likely
    return values


def draws(
    sampling: Sampling, values: "np.ndarray[tuple[int], np.dtype[np.float32]]", times: int
) -> Counter[int]:
    drawer = Drawer(sampling, VOCABULARY)
    return Counter(drawer.draw(values)[0] for _ in range(times))


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e-9, math.nan])
def test_a_temperature_of_nothing_takes_the_likeliest(temperature: float):
    assert draws(Sampling(temperature), logits(1, 3, 2.999), 20) == {1: 20}


def test_tokens_come_as_often_as_their_weights_say():
    probabilities = [0.5, 0.3, 0.2]
    found = draws(Sampling(1.0, 1.0), logits(*map(math.log, probabilities)), 4000)
    for token, probability in enumerate(probabilities):
        assert found[token] / 4000 == pytest.approx(probability, abs=0.03)


def test_a_high_temperature_evens_them_out_and_a_low_one_sharpens_them():
    values = logits(2, 0, rest=-math.inf)
    assert draws(Sampling(100.0, 1.0), values, 2000)[1] > 900
    assert draws(Sampling(0.2, 1.0), values, 2000)[1] < 10


@pytest.mark.parametrize(("top_p", "tokens"), [(0.5, {0}), (0.51, {0, 1}), (0.85, {0, 1, 2}), (0.0, {0})])
def test_the_nucleus_is_the_fewest_that_hold_top_p(top_p: float, tokens: set[int]):
    values = logits(*map(math.log, [0.5, 0.3, 0.15, 0.05]))
    assert set(draws(Sampling(1.0, top_p), values, 400)) == tokens


def test_a_flat_distribution_is_drawn_from_far_and_wide():
    found = draws(Sampling(1.0, 0.95), logits(rest=0.0), 1000)
    assert len(found) > 800


def test_the_forbidden_are_forbidden_once():
    drawer = Drawer(Sampling(), VOCABULARY, forbidden_first=[1, 2, -7, VOCABULARY, 10**12])
    values = logits(1, 3, 2.5)
    assert [drawer.draw(values)[0] for _ in range(3)] == [0, 1, 1]


def test_the_forbidden_are_forbidden_at_any_temperature():
    values = logits(9, 9, rest=8)
    tokens = {Drawer(Sampling(50.0, 1.0, seed=s), VOCABULARY, [0, 1]).draw(values)[0] for s in range(300)}
    assert not tokens & {0, 1}


@pytest.mark.parametrize("rest", [-math.inf, -80.0, -3.0, 0.0, 2.0])
def test_the_entropy_is_that_of_the_distribution_at_temperature_1(rest: float):
    values = logits(3, 1, 0.5, rest=rest)
    shifted = values[np.isfinite(values)].astype(float)
    probabilities = np.exp(shifted) / np.exp(shifted).sum()
    expected = -(probabilities * np.log(probabilities)).sum()
    for temperature in (0.0, 0.7, 1.0, 3.0):
        _, entropy = Drawer(Sampling(temperature), VOCABULARY).draw(values)
        assert entropy == pytest.approx(expected, abs=0.01)


def test_a_certain_token_has_no_entropy():
    assert Drawer(Sampling(), VOCABULARY).draw(logits(5, rest=-math.inf)) == (0, 0.0)


@pytest.mark.parametrize("rest", [math.nan, -math.inf, math.inf])
def test_numbers_that_are_none_are_one_sentence(rest: float):
    with pytest.raises(EngineError, match="no usable numbers"):
        Drawer(Sampling(), VOCABULARY).draw(logits(rest=rest))

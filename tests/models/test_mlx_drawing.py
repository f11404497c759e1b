"""Tokens drawn on the device are those that the other engines draw."""

import mlx.core as mx
import numpy as np
import pytest

from models.engines import Sampling
from models.engines.draw import Drawer
from models.engines.mlx_drawing import draw
from models.errors import EngineError


@pytest.mark.parametrize(
    ("temperature", "top_p"), [(0.0, 0.9), (0.3, 0.9), (1.0, 0.95), (1.0, 1.0), (2.0, 0.5), (5.0, 1.0)]
)
def test_the_device_draws_what_the_drawer_of_the_other_engines_draws(temperature: float, top_p: float):
    random = np.random.default_rng(0)
    same = 0
    for seed in range(200):
        logits = random.normal(0, 3, 500).astype(np.float32)
        sampling = Sampling(temperature, top_p, seed=seed - 100)
        token, entropy = Drawer(sampling, 500, [3, int(logits.argmax())]).draw(logits)
        drawn = draw(mx.array(logits)[None], [Drawer(sampling, 500, [3, int(logits.argmax())])])
        ((our_token, our_entropy),) = drawn.wait()
        same += token == our_token
        assert our_entropy == pytest.approx(entropy, abs=2e-3)
    assert same >= 199


def test_rows_of_all_ways_are_drawn_side_by_side_as_alone():
    ways = [
        Sampling(0.0),
        Sampling(0.7, 0.9, seed=1),
        Sampling(1.0, 1.0, seed=2),
        Sampling(1.0, float("nan"), seed=3),
    ]
    logits = mx.random.normal((4, 300), key=mx.random.key(1)) * 3
    together = draw(logits, [Drawer(way, 300, [row]) for row, way in enumerate(ways)]).wait()
    alone = [draw(logits[row : row + 1], [Drawer(way, 300, [row])]).wait()[0] for row, way in enumerate(ways)]
    assert [token for token, _ in together] == [token for token, _ in alone]


@pytest.mark.parametrize("worst", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_are_refused_as_by_the_drawer(worst: float):
    logits = mx.full((1, 50), worst)
    with pytest.raises(EngineError, match="no usable numbers"):
        draw(logits, [Drawer(Sampling(), 50)]).wait()


def test_tokens_that_a_model_rules_out_itself_do_no_harm():
    logits = mx.array([[1.0, float("-inf"), 0.0, float("-inf")]])
    ((token, entropy),) = draw(logits, [Drawer(Sampling(), 4)]).wait()
    assert token == 0
    assert entropy == pytest.approx(Drawer(Sampling(), 4).draw(np.array(logits[0]))[1], abs=1e-5)

"""What is told on stderr while a problem is solved."""

import io

import pytest

from app.bench_view import table
from app.plain import Plain
from models.bench import FirstToken, Memory, Row
from models.engines import Footprint
from models.events import Dropped


def told(face_does, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    face_does(Plain(verbose=verbose, stream=stream))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Dropped(1, 2, 345), "the 2 oldest messages (345 tokens) were left out: shorten"),
        (Dropped(1, 1, 345), "the oldest message (345 tokens) was left out"),
        (Dropped(1, 1, 0), "the oldest message was left out"),
    ],
)
def test_messages_that_did_not_fit_are_told_in_one_sentence(event, words) -> None:
    text = told(lambda face: face.show(event))
    assert words in text
    assert text.count("\n") == 1


def test_what_a_model_needs_is_told_to_those_who_watch() -> None:
    assert told(lambda face: face.loading("m", "needs about 1 GB")) == ""
    assert (
        told(lambda face: face.loading("m", "needs about 1 GB"), verbose=True)
        == "Loading m: needs about 1 GB.\n"
    )
    assert told(lambda face: face.loading("m"), verbose=True) == "Loading m …\n"


def test_what_it_took_is_told_to_those_who_asked_for_words() -> None:
    took = Footprint(8192, 1_960_000_000)
    assert told(lambda face: face.loaded(took)) == ""
    assert told(lambda face: face.loaded(took), verbose=True) == (
        "It takes 2.0 GB, with a context of 8192 tokens.\n"
    )
    assert told(lambda face: face.loaded(Footprint()), verbose=True) == ""


def test_measurements_are_a_table_with_a_dash_for_what_there_is_no_figure_of() -> None:
    row = Row(
        "m",
        "llama",
        "gguf",
        400,
        21.04,
        5.5,
        2.1,
        FirstToken(19, 0.5, 0.4, None),
        8192,
        Memory(1 << 30),
        None,
    )
    nothing = Row(
        "m", "mlx", "gguf", None, None, None, None, FirstToken(), None, Memory(), "It is not installed."
    )
    head, first, second, _ = table([row, nothing]).splitlines()
    assert head.split()[:5] == ["model", "engine", "prompt", "writes", "load"]
    assert first.split() == [
        "m",
        "llama",
        "21.0",
        "5.5",
        "2.10",
        "19.00",
        "0.50",
        "0.40",
        "–",
        "1.07",
        "–",
        "–",
    ]
    assert second.split(maxsplit=2) == ["m", "mlx", "It is not installed."]

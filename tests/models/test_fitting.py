"""What a conversation loses to fit into the context: which messages, how many, and at what cost."""

from collections.abc import Sequence

import pytest

from models.engines import Message, Prompt, Role, Sampling
from models.engines.fitting import Fitted, fit
from models.errors import EngineError

S, U, A = Role.SYSTEM, Role.USER, Role.ASSISTANT


class Cutter:
    """Cuts a conversation into a token a character, and one a message; remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[Sequence[Message]] = []

    def __call__(self, messages: Sequence[Message]) -> list[int]:
        self.given.append(list(messages))
        return [0] * sum(len(message.text) + 1 for message in messages)


def fitted(
    messages: Sequence[Message], capacity: int = 100, *, prefix: tuple[int, ...] = (), max_tokens: int = 768
) -> tuple[Fitted, list[str]]:
    """Return what ``fit`` gives, and the texts of the messages that stayed."""
    cutter = Cutter()
    prompt = Prompt(tuple(messages), prefix, sampling=Sampling(max_tokens=max_tokens))
    result = fit(prompt, lambda: list(prefix), cutter, capacity)
    return result, [message.text for message in cutter.given[-1]]


def said(*turns: tuple[Role, str]) -> list[Message]:
    return [Message(role, text.ljust(19)) for role, text in turns]


def test_what_fits_stays():
    result, stayed = fitted(said((S, "s"), (U, "1"), (A, "2"), (U, "3")), max_tokens=20)
    assert (result.dropped_messages, len(stayed)) == (0, 4)


@pytest.mark.parametrize(
    ("turns", "stay"),
    [
        ([(S, "s"), (U, "1"), (A, "2"), (U, "3"), (A, "4"), (U, "5")], "s 5"),
        ([(U, "1"), (A, "2"), (U, "3"), (A, "4"), (U, "5")], "3 4 5"),
        ([(U, "1"), (U, "2"), (U, "3"), (U, "4"), (U, "5")], "3 4 5"),
        ([(A, "1"), (U, "2"), (A, "3"), (U, "4"), (A, "5")], "4 5"),
        # No system's message goes, wherever it stands.
        ([(S, "s"), (S, "t"), (U, "1"), (A, "2"), (U, "3"), (A, "4"), (U, "5")], "s t 5"),
        ([(U, "1"), (A, "2"), (S, "s"), (U, "3"), (A, "4"), (U, "5")], "s 5"),
    ],
)
def test_the_oldest_exchanges_go_and_are_counted(turns: list[tuple[Role, str]], stay: str):
    result, stayed = fitted(said(*turns))
    assert [text.strip() for text in stayed] == stay.split()
    assert result.dropped_messages == len(turns) - len(stayed)
    assert result.dropped_tokens == 20 * result.dropped_messages


def test_a_chat_of_any_length_fits_as_long_as_its_end_does():
    turns = said(*[(role, "x" * 5000) for _ in range(200) for role in (U, A)], (U, "last"))
    result, stayed = fitted(turns)
    assert [text.strip() for text in stayed] == ["last"]
    assert result.dropped_messages == 400


def test_a_long_chat_is_not_cut_up_once_for_every_exchange():
    cutter = Cutter()
    turns = said(*[(role, "x") for _ in range(500) for role in (U, A)], (U, "last"))
    fit(Prompt(tuple(turns)), list, cutter, 100)
    assert len(cutter.given) < 15


@pytest.mark.parametrize(
    ("turns", "prefix"),
    [
        ([(S, "x" * 60), (U, "x" * 60)], ()),
        ([(U, "1")], (1,) * 100),
        ([(A, "x" * 50), (A, "x" * 50)], ()),
        ([(U, "x" * 30_000)], ()),
    ],
)
def test_what_cannot_go_and_is_too_long_is_refused(turns: list[tuple[Role, str]], prefix: tuple[int, ...]):
    with pytest.raises(EngineError, match="the context holds 100"):
        fitted(said(*turns), prefix=prefix)


def test_a_reply_of_less_than_nothing_needs_no_room():
    assert fitted(said((U, "1")), capacity=21, max_tokens=-5)[0].dropped_messages == 0

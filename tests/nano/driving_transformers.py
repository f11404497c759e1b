"""The transformers backend driven in the test's own process, where a test reads what it does with its prompts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from asking import QUESTION

from models.engines import Delta, EngineOptions, Finish, Message, Prompt, Role, Sampling
from models.engines.backend import Backend, Interrupt

MESSAGES = tuple(QUESTION)
GREEDY = Prompt(MESSAGES, sampling=Sampling(max_tokens=40))
OPTIONS = EngineOptions(context_tokens=2048, threads=1)
Damage = Callable[[Path], Any]
MakeNano = Callable[..., Path]


@pytest.fixture(scope="session")
def interrupt() -> Interrupt:
    return Interrupt()


@pytest.fixture(scope="session")
def backend(interrupt: Interrupt) -> Backend:
    """The one backend of these tests: PyTorch takes seconds to import."""
    from models.engines.transformers import TransformersBackend

    return TransformersBackend(interrupt)


def whole(deltas: Sequence[Delta]) -> tuple[str, tuple[int, ...], Finish | None]:
    tokens = tuple(token for delta in deltas for token in delta.tokens)
    return "".join(delta.text for delta in deltas), tokens, deltas[-1].finish


def reply(backend: Backend, prompt: Prompt = GREEDY) -> tuple[str, tuple[int, ...], Finish | None]:
    return whole(list(backend.generate(prompt)))


def cached(backend: Backend, prompt: Prompt) -> int:
    *_, last = backend.generate(prompt)
    assert last.usage is not None
    return last.usage.cached_tokens


def replies(backend: Backend, prompts: Sequence[Prompt]) -> list[tuple[str, tuple[int, ...], Finish | None]]:
    deltas: list[list[Delta]] = [[] for _ in prompts]
    for part in backend.batch(prompts):
        deltas[part.index].append(part.delta)
    return [whole(own) for own in deltas]


def many(count: int) -> list[Prompt]:
    """Prompts of several lengths, drawn in several ways."""
    return [
        Prompt(
            (Message(Role.USER, "word " * (n % 4)),) if n % 3 else MESSAGES,
            sampling=Sampling(temperature=n % 3 * 0.5, max_tokens=1 + n * 7 % 23, seed=n),
        )
        for n in range(count)
    ]

"""Asking an engine in a test: the questions, and a completion or all its deltas at once."""

from collections.abc import Sequence
from typing import Any

from models.engines import Completion, Delta, Engine, Message, Prompt, Role, Sampling, collect

QUESTION = [Message(Role.SYSTEM, "Write OCaml."), Message(Role.USER, "Say something.")]
GREEDY = Sampling(max_tokens=40)
ENDLESS = Sampling(max_tokens=1_000_000)


async def complete(
    engine: Engine, messages: Sequence[Message] = QUESTION, sampling: Sampling = GREEDY, **more: Any
) -> Completion:
    """Return the reply as one."""
    return await collect(engine.generate(messages, sampling=sampling, **more))


async def deltas_of(engine: Engine, sampling: Sampling = GREEDY, **more: Any) -> list[Delta]:
    """Return the deltas of the reply to the question."""
    return [delta async for delta in engine.generate(QUESTION, sampling=sampling, **more)]


async def complete_all(engine: Engine, prompts: Sequence[Prompt]) -> list[Completion]:
    """Return the replies of a batch, each as one."""
    deltas: list[list[Delta]] = [[] for _ in prompts]
    async for part in engine.batch(prompts):
        deltas[part.index].append(part.delta)
    return [await collect(_stream(own)) for own in deltas]


async def _stream(deltas: Sequence[Delta]) -> Any:
    for delta in deltas:
        yield delta

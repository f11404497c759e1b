"""How a generation is ended before its time, and that the engine is as good as new then."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from models.engines import Completion, Engine, Finish, Message, Role, Sampling, collect

QUESTION = [Message(Role.SYSTEM, "Write OCaml."), Message(Role.USER, "Say something.")]
ENDLESS = Sampling(max_tokens=1_000_000)
SLOW_PROMPT = [Message(Role.USER, "é" * 10_000)]  # 20,000 tokens: some ten seconds for a nano model


async def complete(engine: Engine, messages: Sequence[Message] = QUESTION) -> Completion:
    return await collect(engine.generate(messages, sampling=Sampling(max_tokens=40)))


async def test_cancel_ends_a_generation_within_half_a_second(engine_for, endless_nano: Path):
    engine = engine_for(endless_nano, context_tokens=32768)
    async with aclosing(engine.generate(QUESTION, sampling=ENDLESS)) as stream:
        await anext(stream)
        began = time.monotonic()
        await engine.cancel()
        rest = [delta async for delta in stream]
    assert time.monotonic() - began < 0.5
    assert rest[-1].finish is Finish.CANCELLED
    assert (await complete(engine)).tokens


async def test_cancel_ends_the_reading_of_a_long_prompt_within_half_a_second(engine: Engine):
    reading = asyncio.create_task(complete(engine, SLOW_PROMPT))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    await engine.cancel()
    completion = await reading
    assert time.monotonic() - began < 0.5
    assert (completion.text, completion.finish) == ("", Finish.CANCELLED)
    assert (await complete(engine)).tokens


async def test_what_was_read_before_a_cancel_is_not_read_again(engine: Engine):
    for _ in range(2):
        reading = asyncio.create_task(complete(engine, SLOW_PROMPT))
        await asyncio.sleep(0.5)
        await engine.cancel()
        completion = await reading
    assert completion.cached_tokens > 128


async def test_leaving_the_stream_cancels_it_and_the_next_caller_need_not_wait(
    engine_for, endless_nano: Path
):
    engine = engine_for(endless_nano, context_tokens=32768)
    async with aclosing(engine.generate(QUESTION, sampling=ENDLESS)) as stream:
        await anext(stream)
    began = time.monotonic()
    assert (await complete(engine)).tokens
    assert time.monotonic() - began < 1


async def test_cancelling_the_task_cancels_the_generation(engine: Engine):
    reading = asyncio.create_task(complete(engine, SLOW_PROMPT))
    await asyncio.sleep(0.3)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    began = time.monotonic()
    assert (await complete(engine)).tokens
    assert time.monotonic() - began < 2


async def test_a_cancel_with_nothing_running_does_nothing(engine: Engine):
    await engine.cancel()
    assert (await complete(engine)).finish is not Finish.CANCELLED

"""How a reply is ended before its time, or dies, and that the engine is as good as new then."""

import asyncio
import os
import signal
import time
from contextlib import aclosing

import pytest
from asking import ENDLESS, QUESTION, complete

from models.engines import Engine, Finish, Message, Role, Sampling
from models.engines.options import EngineOptions
from models.engines.remote import EngineProcess

SLOW_PROMPT = [Message(Role.USER, "é" * 10_000)]  # 20,000 tokens: seconds for a nano model
SONG = {"says": [b"ha ha", b" ho ho "], "ends": "ha ha"}


async def test_cancel_ends_a_generation_within_half_a_second(kit):
    engine = kit.open(kit.model(**SONG), context_tokens=32768)
    async with aclosing(engine.generate(QUESTION, sampling=ENDLESS)) as stream:
        await anext(stream)
        began = time.monotonic()
        await engine.cancel()
        rest = [delta async for delta in stream]
    assert time.monotonic() - began < 0.5
    assert rest[-1].finish is Finish.CANCELLED
    assert (await complete(engine)).tokens


async def test_cancel_ends_the_reading_of_a_long_prompt_within_half_a_second(babbler: Engine):
    await babbler.load()
    reading = asyncio.create_task(complete(babbler, SLOW_PROMPT))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    await babbler.cancel()
    completion = await reading
    assert time.monotonic() - began < 0.5
    assert (completion.text, completion.finish) == ("", Finish.CANCELLED)
    assert (await complete(babbler)).tokens


async def test_what_was_read_before_a_cancel_is_not_read_again(library_kit):
    engine = library_kit.open(context_tokens=32768)
    await engine.load()
    for _ in range(2):
        reading = asyncio.create_task(complete(engine, SLOW_PROMPT))
        await asyncio.sleep(0.6)
        await engine.cancel()
        completion = await reading
    assert completion.cached_tokens > 30


async def test_leaving_the_stream_cancels_it_and_the_next_caller_need_not_wait(kit):
    engine = kit.open(kit.model(**SONG), context_tokens=32768)
    async with aclosing(engine.generate(QUESTION, sampling=ENDLESS)) as stream:
        await anext(stream)
    began = time.monotonic()
    assert (await complete(engine)).tokens
    assert time.monotonic() - began < 2


async def test_cancelling_the_task_cancels_the_generation(babbler: Engine):
    await babbler.load()
    reading = asyncio.create_task(complete(babbler, SLOW_PROMPT))
    await asyncio.sleep(0.3)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (await complete(babbler)).tokens


async def test_a_cancel_with_nothing_running_does_nothing(babbler: Engine):
    await babbler.cancel()
    await babbler.cancel(0)
    assert (await complete(babbler)).finish is not Finish.CANCELLED


async def test_a_killed_process_is_reported_and_the_answer_goes_on_where_it_was(kit):
    notices: list[str] = []
    sampling = Sampling(max_tokens=120 if kit.name == "transformers" else 300)
    engine = _of_its_own(kit, notices)
    stream = engine.generate(QUESTION, sampling=sampling)
    text = (await anext(stream)).text
    _kill(kit, engine)
    text += "".join([delta.text async for delta in stream])
    await engine.close()
    assert text == "ha ha ho ho " * (sampling.max_tokens // 2)
    assert len(notices) == 1
    assert notices[0].endswith(".")


def _of_its_own(kit, notices: list[str]) -> Engine:
    if kit.name == "openai":
        from models.engines.openai import OpenAIEngine

        return OpenAIEngine(
            kit.server(kit.model(**SONG), context_tokens=4096).url, EngineOptions(), notice=notices.append
        )
    options = EngineOptions(context_tokens=4096)
    return EngineProcess(
        kit.model(**SONG), options, kit.name, start_child=kit.start_child, notice=notices.append
    )


def _kill(kit, engine: Engine) -> None:
    if isinstance(engine, EngineProcess):
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        return
    server = kit.server(kit.model(**SONG), context_tokens=4096)
    server.kill()
    server.start()

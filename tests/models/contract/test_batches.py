"""Several replies side by side: each as if it were alone."""

import time
from contextlib import aclosing

import pytest
from asking import ENDLESS, QUESTION, complete, complete_all

from models.engines import BatchDelta, Engine, Finish, Message, Prompt, Role, Sampling
from models.errors import EngineError

MESSAGES = tuple(QUESTION)


def alike(prompt: Prompt) -> dict[str, object]:
    return {"prefix": prompt.prefix, "forbidden_first": prompt.forbidden_first, "sampling": prompt.sampling}


async def test_a_batch_gives_what_one_by_one_gives(babbler: Engine):
    whole = await complete(babbler)
    prompts = [
        Prompt(MESSAGES, sampling=Sampling(max_tokens=20)),
        # Few: the size of the batch moves the last bits, and with them, one day, what is drawn.
        Prompt(MESSAGES, sampling=Sampling(temperature=0.9, max_tokens=6, seed=1)),
        Prompt(MESSAGES, sampling=Sampling(temperature=0.9, max_tokens=5, seed=2)),
        Prompt(MESSAGES, prefix=whole.tokens[:4], sampling=Sampling(max_tokens=10)),
        Prompt(MESSAGES, forbidden_first=whole.tokens[:1], sampling=Sampling(max_tokens=10)),
        Prompt((Message(Role.USER, "1 + 2"),), sampling=Sampling(temperature=0.5, max_tokens=6, seed=3)),
    ]
    together = await complete_all(babbler, prompts)
    for prompt, completion in zip(prompts, together, strict=True):
        alone = await complete(babbler, prompt.messages, **alike(prompt))
        assert completion.text == alone.text
        assert (completion.tokens, completion.finish) == (alone.tokens, alone.finish)
        assert completion.prompt_tokens == alone.prompt_tokens


async def test_more_prompts_than_run_at_a_time_are_all_answered(babbler: Engine):
    prompts = [
        Prompt(MESSAGES, sampling=Sampling(temperature=1.0, max_tokens=1 + seed % 5, seed=seed))
        for seed in range(20)
    ]
    together = await complete_all(babbler, prompts)
    assert [len(completion.tokens) for completion in together] == [1 + seed % 5 for seed in range(20)]


async def test_a_short_reply_is_told_while_a_long_one_goes_on(babbler: Engine):
    prompts = [
        Prompt(MESSAGES, sampling=Sampling(max_tokens=60, temperature=1.0, seed=1)),
        Prompt(MESSAGES, sampling=Sampling(max_tokens=2, temperature=1.0, seed=2)),
    ]
    ends = [part.index async for part in babbler.batch(prompts) if part.delta.finish]
    assert ends == [1, 0]


async def test_an_empty_batch_is_no_work(babbler: Engine):
    assert [part async for part in babbler.batch([])] == []


async def test_one_reply_of_a_batch_can_be_ended_alone(kit):
    engine = kit.open(kit.model(says=[b"ha ha", b" ho ho "], ends="ha ha"), context_tokens=32768)
    prompts = [Prompt(MESSAGES, sampling=ENDLESS), Prompt(MESSAGES, sampling=Sampling(max_tokens=80))]
    parts: list[BatchDelta] = []
    async for part in engine.batch(prompts):
        parts.append(part)
        if len(parts) == 5:
            await engine.cancel(0)
    finishes = {part.index: part.delta.finish for part in parts if part.delta.finish}
    assert finishes == {0: Finish.CANCELLED, 1: Finish.LENGTH}


async def test_cancel_ends_a_whole_batch_within_half_a_second(kit):
    engine = kit.open(kit.model(says=[b"ha ha", b" ho ho "], ends="ha ha"), context_tokens=32768)
    stream = engine.batch([Prompt(MESSAGES, sampling=ENDLESS)] * 3)
    async with aclosing(stream):
        await anext(stream)
        began = time.monotonic()
        await engine.cancel()
        rest = [part async for part in stream]
    assert time.monotonic() - began < 0.5
    assert {part.index: part.delta.finish for part in rest if part.delta.finish} == dict.fromkeys(
        range(3), Finish.CANCELLED
    )
    assert (await complete(engine)).tokens


async def test_leaving_a_batch_cancels_it(kit):
    engine = kit.open(kit.model(says=[b"ha ha", b" ho ho "], ends="ha ha"), context_tokens=32768)
    async with aclosing(engine.batch([Prompt(MESSAGES, sampling=ENDLESS)] * 2)) as stream:
        await anext(stream)
    assert (await complete(engine)).tokens


async def test_a_prompt_that_cannot_be_read_fails_the_batch_before_any_text(kit):
    engine = kit.open(context_tokens=64)
    long = Prompt((Message(Role.USER, "word " * 100),))
    with pytest.raises(EngineError, match="the context holds 64"):
        await anext(engine.batch([Prompt(MESSAGES), long]))
    assert (await complete(engine)).tokens


async def test_a_reply_of_a_batch_is_gone_on_from(babbler: Engine):
    sampled = [Sampling(temperature=1.0, max_tokens=30, seed=seed) for seed in range(4)]
    replies = await complete_all(babbler, [Prompt(MESSAGES, sampling=sampling) for sampling in sampled])
    for reply in replies:
        rest = await complete(babbler, prefix=reply.tokens[:20], sampling=Sampling(max_tokens=3))
        assert rest.prompt_tokens == reply.prompt_tokens + 20
        assert rest.text

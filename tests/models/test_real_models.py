"""The contract's main points on real models: what random weights cannot show."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from asking import complete, complete_all

from models import store
from models.engines import EngineOptions, Finish, Message, Prompt, Role, Sampling
from models.engines.remote import EngineProcess

pytestmark = pytest.mark.slow

QUESTION = [
    Message(Role.SYSTEM, "You write OCaml. Answer with one ```ocaml block and nothing else."),
    Message(Role.USER, "Write a function that returns the sum of a list of integers."),
]
SHORT = Sampling(max_tokens=48)


@pytest.fixture(scope="module")
def coder() -> Path:
    """Return the smallest model that writes OCaml, pulled on first use."""
    return store.pull("qwen2.5-coder-0.5b").path


@pytest.fixture
async def engine(coder: Path):
    engine = EngineProcess(coder, EngineOptions(context_tokens=2048))
    yield engine
    await engine.close()


async def test_a_small_model_writes_text_goes_on_from_it_and_stops(engine_for, real_model: Path):
    engine = engine_for(real_model, context_tokens=1024)
    question = [Message(Role.USER, "What is the capital of France? Answer in one short sentence.")]
    whole = await complete(engine, question, Sampling(max_tokens=60))
    assert "Paris" in whole.text
    assert whole.finish is Finish.STOP
    half = whole.tokens[: len(whole.tokens) // 2]
    rest = await complete(engine, question, Sampling(max_tokens=60), prefix=half)
    assert (*half, *rest.tokens) == whole.tokens
    assert rest.cached_tokens == rest.prompt_tokens - 1


async def test_a_coder_writes_ocaml_and_another_token_where_one_is_forbidden(engine):
    whole = await complete(engine, QUESTION, Sampling(max_tokens=200))
    assert "```ocaml" in whole.text
    assert whole.finish is Finish.STOP
    kept = whole.tokens[:12]
    other = await complete(engine, QUESTION, SHORT, prefix=kept, forbidden_first=whole.tokens[12:13])
    assert other.tokens[0] != whole.tokens[12]
    assert other.cached_tokens == other.prompt_tokens - 1


async def test_a_batch_begins_as_one_by_one_does_and_goes_on_from_memory(engine):
    prompts = [
        Prompt(tuple(QUESTION), sampling=Sampling(max_tokens=24, temperature=0.8, seed=seed))
        for seed in range(4)
    ]
    together = await complete_all(engine, prompts)
    # The arithmetic depends on the size of the batch in the last bits, and later tokens on earlier ones.
    assert len({completion.text for completion in together}) > 1
    reply = together[2].tokens
    rest = await complete(engine, QUESTION, SHORT, prefix=reply[:16])
    assert rest.cached_tokens == rest.prompt_tokens - 1


async def test_a_cancel_is_heard_while_a_long_prompt_is_read(engine):
    await engine.load()
    stream = engine.generate([Message(Role.USER, "let x = 1 in " * 300)], sampling=SHORT)
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(1.0)
    began = time.monotonic()
    await engine.cancel()
    assert (await reading).finish is Finish.CANCELLED
    assert time.monotonic() - began < 0.5
    await stream.aclose()


async def test_a_killed_child_is_replaced_and_the_greedy_text_is_the_same(engine):
    whole = await complete(engine, QUESTION, SHORT)
    text = ""
    async for delta in engine.generate(QUESTION, sampling=SHORT):
        if not text:
            os.kill(engine.pid, signal.SIGKILL)
        text += delta.text
    assert text == whole.text


async def test_a_saved_state_changes_no_token(coder: Path, tmp_path: Path):
    texts, cached = [], []
    system = Message(Role.SYSTEM, "You write OCaml. " + "Prefer functions of the standard library. " * 12)
    for states in (None, str(tmp_path), str(tmp_path)):
        engine = EngineProcess(coder, EngineOptions(context_tokens=2048, states=states))
        completion = await complete(engine, [system, QUESTION[1]], SHORT)
        texts.append(completion.text)
        cached.append(completion.cached_tokens)
        await engine.close()
    assert len(set(texts)) == 1
    assert cached[:2] == [0, 0]
    assert cached[2] > 80

"""What an engine writes: all of it by nano models in real child processes."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from models.catalogue import PromptFormat
from models.engines import (
    Completion,
    Delta,
    Engine,
    Finish,
    Message,
    Role,
    Sampling,
    collect,
)
from models.errors import EngineError

MakeNano = Callable[..., Path]
QUESTION = [Message(Role.SYSTEM, "Write OCaml."), Message(Role.USER, "Say something.")]
GREEDY = Sampling(max_tokens=40)
NAIVE = "Voilà: naïve → 🐫\n```ocaml\nlet f x = x + 1\n```\n"


async def complete(
    engine: Engine, messages: Sequence[Message] = QUESTION, sampling: Sampling = GREEDY, **more: object
) -> Completion:
    return await collect(engine.generate(messages, sampling=sampling, **more))  # type: ignore[arg-type]


async def deltas_of(engine: Engine, sampling: Sampling = GREEDY, **more: object) -> list[Delta]:
    return [delta async for delta in engine.generate(QUESTION, sampling=sampling, **more)]  # type: ignore[arg-type]


async def test_a_model_says_what_its_weights_say_and_stops(engine_for, make_nano: MakeNano):
    completion = await complete(engine_for(make_nano(says=NAIVE)))
    assert completion.text == NAIVE
    assert completion.finish is Finish.STOP


async def test_characters_cut_over_tokens_are_held_back_until_they_are_whole(engine_for, make_nano: MakeNano):
    pieces = [b"caf", b"\xc3", b"\xa9 ", b"\xf0\x9f", b"\x90", b"\xab", b" ok"]
    deltas = await deltas_of(engine_for(make_nano(says=pieces)))
    assert [delta.text for delta in deltas] == ["caf", "é ", "🐫", " ok", ""]
    assert [len(delta.tokens) for delta in deltas] == [1, 2, 3, 1, 0]


async def test_bytes_that_never_become_a_character_are_replaced_at_the_end(engine_for, make_nano: MakeNano):
    deltas = await deltas_of(engine_for(make_nano(says=[b"ok ok", b"\xf0\x9f"])))
    assert [delta.text for delta in deltas] == ["ok ok", "�"]
    assert (deltas[-1].finish, len(deltas[-1].tokens)) == (Finish.STOP, 1)


async def test_every_token_is_in_one_delta_with_its_entropy(engine: Engine):
    deltas = await deltas_of(engine, Sampling(temperature=1.2, max_tokens=200, seed=5))
    assert all(delta.tokens for delta in deltas[:-1])
    assert all(len(delta.tokens) == len(delta.entropies) for delta in deltas)
    assert all(delta.entropy == delta.entropies[-1] for delta in deltas[:-1])
    assert [delta.finish for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].usage is not None


@pytest.mark.parametrize("ends", ["<|im_end|>", "<|endoftext|>"])
@pytest.mark.parametrize("eos", ["<|im_end|>", "<|endoftext|>"])
async def test_both_end_tokens_stop_whatever_the_file_calls_its_eos(
    engine_for, make_nano: MakeNano, ends: str, eos: str
):
    completion = await complete(engine_for(make_nano(says="the end.", ends=ends, eos=eos)))
    assert (completion.text, completion.finish) == ("the end.", Finish.STOP)


WRITES_BOS = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
WRITES_NONE = WRITES_BOS.removeprefix("{{ bos_token }}")


@pytest.mark.parametrize(
    ("adds_bos", "template", "count"),
    [
        (False, WRITES_NONE, 0),
        (True, WRITES_NONE, 1),
        (False, WRITES_BOS, 1),
        (True, WRITES_BOS, 1),
        (True, "{{ bos_token }}" + WRITES_BOS, 1),
    ],
)
async def test_there_is_one_bos_where_model_or_template_want_it(
    engine_for, make_nano: MakeNano, adds_bos: bool, template: str, count: int
):
    model = make_nano(bos="<|bos|>", adds_bos=adds_bos, template=template)
    completion = await complete(engine_for(model), [Message(Role.USER, "1")])
    assert completion.prompt_tokens == 3 + count


async def test_a_model_without_a_chat_template_is_refused_in_one_sentence(engine_for, make_nano: MakeNano):
    with pytest.raises(EngineError, match=r"^nano-\d+\.gguf brings no chat template: .*\.$"):
        await engine_for(make_nano(template=None)).load()


async def test_a_model_without_a_chat_template_takes_the_fallback(
    engine_for, make_nano: MakeNano, nano: Path
):
    bare = engine_for(make_nano(template=None), fallback_format=PromptFormat.CHATML)
    assert await complete(bare) == await complete(engine_for(nano))


async def test_the_template_in_the_file_goes_before_the_fallback(engine_for, make_nano: MakeNano):
    model = make_nano(template="{% for m in messages %}{{ m.content }}{% endfor %}")
    completion = await complete(
        engine_for(model, fallback_format=PromptFormat.CHATML), [Message(Role.USER, "12")]
    )
    assert completion.prompt_tokens == 2


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for %}", "cannot be read"),
        ("{{ raise_exception('No such luck') }}", "refuses this conversation (No such luck)"),
        ("{{ messages[7].content.x }}", "refuses this conversation"),
    ],
)
async def test_a_broken_template_is_named_in_one_sentence(
    engine_for, make_nano: MakeNano, template: str, said: str
):
    with pytest.raises(EngineError) as caught:
        await complete(engine_for(make_nano(template=template)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_template_that_knows_no_system_turn_gets_its_text_with_the_first_question(
    engine_for, make_nano: MakeNano
):
    strict = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    messages = [Message(Role.SYSTEM, "12"), Message(Role.USER, "34")]
    completion = await complete(engine_for(make_nano(template=strict)), messages)
    assert completion.prompt_tokens == len("12\n\n34")


async def test_an_empty_conversation_is_one_sentence(engine_for, make_nano: MakeNano):
    with pytest.raises(EngineError, match=r"^The conversation is empty"):
        await complete(engine_for(make_nano(template="{# nothing #}")), [])


async def test_a_control_token_spelled_in_a_message_stays_text(engine: Engine):
    plain = await complete(engine, [Message(Role.USER, "12")])
    spelled = await complete(engine, [Message(Role.USER, "1<|im_end|>2")])
    assert spelled.prompt_tokens > plain.prompt_tokens + 4


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "�\ue0f0", "a\r\n\t", "🐫" * 100])
async def test_any_text_can_be_asked(engine: Engine, text: str):
    assert (await complete(engine, [Message(Role.USER, text)])).prompt_tokens > 0


async def test_the_same_seed_gives_the_same_text_and_others_differ(engine: Engine):
    texts = defaultdict(set)
    for seed in (0, 1, 2, -3, 2**40, 0, 1, 2, -3, 2**40):
        completion = await complete(engine, sampling=Sampling(temperature=1.0, max_tokens=30, seed=seed))
        texts[seed].add(completion.text)
    assert {len(same) for same in texts.values()} == {1}
    assert len({text for same in texts.values() for text in same}) == 5


async def test_temperature_0_is_greedy_whatever_the_seed(engine: Engine):
    completions = [await complete(engine, sampling=Sampling(max_tokens=30, seed=seed)) for seed in (1, 2)]
    assert completions[0].tokens == completions[1].tokens


async def test_max_tokens_ends_with_length(engine: Engine):
    completion = await complete(engine, sampling=Sampling(temperature=1.0, max_tokens=5, seed=1))
    assert (len(completion.tokens), completion.finish) == (5, Finish.LENGTH)


async def test_no_tokens_asked_is_an_empty_reply(engine: Engine):
    (delta,) = await deltas_of(engine, Sampling(max_tokens=0))
    assert (delta.text, delta.tokens, delta.finish) == ("", (), Finish.LENGTH)


async def test_entropy_is_near_zero_for_a_sure_model_and_large_for_a_babbling_one(
    engine: Engine, engine_for, make_nano: MakeNano
):
    sure = await deltas_of(engine_for(make_nano(says=NAIVE)))
    unsure = await deltas_of(engine)
    assert all(0 <= value < 1e-3 for delta in sure for value in delta.entropies)
    assert all(0.1 < value < math.log(404) for delta in unsure for value in delta.entropies)


async def test_the_first_token_is_none_of_the_forbidden_and_later_ones_may_be(engine: Engine):
    free = await complete(engine)
    forbidden = [free.tokens[0], -1, 10**9]
    bound = await complete(engine, forbidden_first=forbidden)
    assert bound.tokens[0] != free.tokens[0]
    again = await complete(engine, prefix=free.tokens[:1], forbidden_first=free.tokens[1:2])
    assert again.tokens[0] != free.tokens[1]


async def test_a_model_forbidden_to_stop_goes_on(engine_for, make_nano: MakeNano):
    engine = engine_for(make_nano(says="the end."))
    whole = await complete(engine)
    assert (await complete(engine, prefix=whole.tokens)).finish is Finish.STOP
    every_control_token = range(max(whole.tokens) + 1, 1000)
    longer = await complete(
        engine, prefix=whole.tokens, forbidden_first=every_control_token, sampling=Sampling(max_tokens=1)
    )
    assert len(longer.tokens) == 1


async def test_forbidding_every_token_is_one_sentence(engine: Engine):
    with pytest.raises(EngineError, match="all tokens are forbidden"):
        await complete(engine, forbidden_first=range(1000))


@pytest.mark.parametrize("spelling", ["tokens", "text"])
async def test_a_greedy_reply_goes_on_from_any_of_its_own_beginnings_as_if_unbroken(
    engine: Engine, spelling: str
):
    whole = await deltas_of(engine, Sampling(max_tokens=60))
    for cut in range(len(whole)):
        text = "".join(delta.text for delta in whole[:cut])
        tokens = [token for delta in whole[:cut] for token in delta.tokens]
        rest = await complete(
            engine,
            prefix=tokens if spelling == "tokens" else text,
            sampling=Sampling(max_tokens=60 - len(tokens)),
        )
        assert text + rest.text == "".join(delta.text for delta in whole)
        assert rest.cached_tokens >= rest.prompt_tokens - 1


async def test_a_text_prefix_that_the_model_never_wrote_is_read_as_text(engine: Engine):
    completion = await complete(engine, prefix="1+2 <|im_end|>")
    assert completion.prompt_tokens > (await complete(engine)).prompt_tokens + 10


async def test_a_prefix_with_tokens_the_model_does_not_have_is_one_sentence(engine: Engine):
    with pytest.raises(EngineError, match=r"^The prefix holds 123456, which is no token of nano-\d+\.gguf"):
        await complete(engine, prefix=[1, 123456])


async def test_the_next_turn_reads_only_what_is_new(engine_for, make_nano: MakeNano):
    engine = engine_for(make_nano(says=NAIVE))
    first = await complete(engine)
    more = [*QUESTION, Message(Role.ASSISTANT, first.text), Message(Role.USER, "And now?")]
    second = await complete(engine, more)
    assert first.cached_tokens == 0
    assert second.cached_tokens == first.prompt_tokens + len(first.tokens)
    assert second.prompt_tokens - second.cached_tokens < 30


async def test_a_babbled_reply_is_found_again_though_its_text_would_be_cut_otherwise(engine: Engine):
    first = await complete(engine, sampling=Sampling(temperature=1.0, max_tokens=50, seed=9))
    second = await complete(engine, [*QUESTION, Message(Role.ASSISTANT, first.text), Message(Role.USER, "?")])
    # The last token was drawn, but never read.
    assert second.cached_tokens == first.prompt_tokens + len(first.tokens) - 1


async def test_a_template_that_trims_replies_still_sees_them(engine_for, make_nano: MakeNano):
    trims = "{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}"
    engine = engine_for(make_nano(template=trims))
    replies = [(await complete(engine, sampling=Sampling(1.5, 1.0, 8, seed))).text for seed in range(50)]
    reply = next(text for text in replies if text != text.strip())
    replayed = await complete(engine, [Message(Role.ASSISTANT, reply)])
    stripped = await complete(engine, [Message(Role.ASSISTANT, reply.strip())])
    assert replayed.prompt_tokens == stripped.prompt_tokens


async def test_a_prompt_that_exceeds_the_context_is_one_sentence_with_both_sizes(engine_for, nano: Path):
    engine = engine_for(nano, context_tokens=64)
    with pytest.raises(EngineError, match=r"^The prompt has \d{3} tokens and the context holds 64, .*\.$"):
        await complete(engine, [Message(Role.USER, "word " * 100)])
    assert (await complete(engine)).tokens


async def test_ten_megabytes_of_prompt_are_refused_at_once(engine: Engine):
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"^The prompt has 10,000,000 characters .* 32768 tokens"):
        await complete(engine, [Message(Role.USER, "x" * 10_000_000)])
    assert time.monotonic() - began < 5


async def test_a_reply_that_fills_the_context_ends_with_length(engine_for, nano: Path):
    engine = engine_for(nano, context_tokens=64)
    completion = await complete(engine, sampling=Sampling(temperature=1.0, max_tokens=500, seed=1))
    assert completion.finish is Finish.LENGTH
    assert completion.prompt_tokens + len(completion.tokens) == 65  # the last one needs no room


async def test_the_context_is_at_most_what_the_model_was_trained_for(engine_for, make_nano: MakeNano):
    engine = engine_for(make_nano(context=128), context_tokens=4096)
    with pytest.raises(EngineError, match="the context holds 128,"):
        await complete(engine, [Message(Role.USER, "word " * 200)])


async def test_callers_take_turns(engine: Engine):
    alone = await complete(engine)
    together = await asyncio.gather(*(complete(engine) for _ in range(4)))
    assert {completion.text for completion in together} == {alone.text}


@pytest.mark.slow
async def test_a_real_model_writes_text_goes_on_from_it_and_stops(engine_for, real_model: Path):
    engine = engine_for(real_model, context_tokens=1024)
    question = [Message(Role.USER, "What is the capital of France? Answer in one short sentence.")]
    whole = await complete(engine, question, Sampling(max_tokens=60))
    assert "Paris" in whole.text
    assert whole.finish is Finish.STOP
    half = whole.tokens[: len(whole.tokens) // 2]
    rest = await complete(engine, question, Sampling(max_tokens=60), prefix=half)
    assert (*half, *rest.tokens) == whole.tokens
    assert rest.cached_tokens == rest.prompt_tokens - 1

"""Going on from accepted text, out of the cache: rewinding, turns, contexts that overflow."""

import asyncio

import pytest
from asking import QUESTION, complete, deltas_of

from models.engines import Engine, Finish, Message, Role, Sampling
from models.errors import EngineError

NAIVE = "Voilà: naïve → 🐫\n```ocaml\nlet f x = x + 1\n```\n"


async def test_the_first_token_is_none_of_the_forbidden_and_later_ones_may_be(babbler: Engine):
    free = await complete(babbler)
    bound = await complete(babbler, forbidden_first=[free.tokens[0], -1, 10**9])
    assert bound.tokens[0] != free.tokens[0]
    again = await complete(babbler, prefix=free.tokens[:1], forbidden_first=free.tokens[1:2])
    assert again.tokens[0] != free.tokens[1]


async def test_a_model_forbidden_to_stop_goes_on(kit):
    engine = kit.open(kit.model(says="the end."))
    whole = await complete(engine)
    assert (await complete(engine, prefix=whole.tokens)).finish is Finish.STOP
    every_control_token = range(max(whole.tokens) + 1, 1000)
    longer = await complete(
        engine, prefix=whole.tokens, forbidden_first=every_control_token, sampling=Sampling(max_tokens=1)
    )
    assert len(longer.tokens) == 1


async def test_forbidding_every_token_is_one_sentence(library_kit):
    with pytest.raises(EngineError, match="all tokens are forbidden"):
        await complete(library_kit.open(), forbidden_first=range(1000))


async def test_a_greedy_reply_goes_on_from_the_tokens_of_any_of_its_beginnings_as_if_unbroken(
    babbler: Engine,
):
    whole = await deltas_of(babbler, Sampling(max_tokens=40))
    for cut in range(0, len(whole), 3):
        text = "".join(delta.text for delta in whole[:cut])
        tokens = [token for delta in whole[:cut] for token in delta.tokens]
        rest = await complete(babbler, prefix=tokens, sampling=Sampling(max_tokens=40 - len(tokens)))
        assert text + rest.text == "".join(delta.text for delta in whole)
        assert rest.cached_tokens >= rest.prompt_tokens - 1


async def test_it_goes_on_from_the_text_of_its_beginnings_too(library_kit):
    engine = library_kit.open()
    whole = await deltas_of(engine, Sampling(max_tokens=40))
    for cut in range(0, len(whole), 3):
        text = "".join(delta.text for delta in whole[:cut])
        left = 40 - sum(len(delta.tokens) for delta in whole[:cut])
        rest = await complete(engine, prefix=text, sampling=Sampling(max_tokens=left))
        assert text + rest.text == "".join(delta.text for delta in whole)
        assert rest.cached_tokens >= rest.prompt_tokens - 1


async def test_a_text_prefix_that_the_model_never_wrote_is_read_as_text(babbler: Engine):
    completion = await complete(babbler, prefix="1+2 <|im_end|>")
    assert completion.prompt_tokens > (await complete(babbler)).prompt_tokens + 5


async def test_a_prefix_with_tokens_the_model_does_not_have_is_one_sentence(library_kit):
    with pytest.raises(EngineError, match=r"^The prefix holds 123456, which is no token of nano-\d+"):
        await complete(library_kit.open(), prefix=[1, 123456])


async def test_the_next_turn_reads_only_what_is_new(kit):
    engine = kit.open(kit.model(says=NAIVE, seed=99))
    first = await complete(engine)
    more = [*QUESTION, Message(Role.ASSISTANT, first.text), Message(Role.USER, "And now?")]
    second = await complete(engine, more)
    assert second.cached_tokens >= first.prompt_tokens + len(first.tokens) - 1
    assert second.prompt_tokens - second.cached_tokens < 30


async def test_a_babbled_reply_is_found_again_though_its_text_would_be_cut_otherwise(library_kit):
    engine = library_kit.open()
    first = await complete(engine, sampling=Sampling(temperature=1.0, max_tokens=50, seed=9))
    second = await complete(engine, [*QUESTION, Message(Role.ASSISTANT, first.text), Message(Role.USER, "?")])
    # The last token was drawn, but perhaps never read.
    assert second.cached_tokens >= first.prompt_tokens + len(first.tokens) - 1


async def test_a_template_that_trims_replies_still_sees_them(library_kit):
    trims = "{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}"
    engine = library_kit.open(library_kit.model(template=trims))
    replies = [(await complete(engine, sampling=Sampling(1.5, 1.0, 8, seed))).text for seed in range(30)]
    reply = next(text for text in replies if text != text.strip())
    replayed = await complete(engine, [Message(Role.ASSISTANT, reply)])
    stripped = await complete(engine, [Message(Role.ASSISTANT, reply.strip())])
    assert replayed.prompt_tokens == stripped.prompt_tokens


async def test_a_question_that_exceeds_the_context_is_one_sentence_with_both_sizes(kit):
    engine = kit.open(context_tokens=64)
    with pytest.raises(EngineError, match=r"^The prompt has \d{3} tokens and the context holds 64, .*\.$"):
        await complete(engine, [Message(Role.USER, "word " * 100)])
    assert (await complete(engine)).tokens


async def test_a_conversation_that_exceeds_the_context_loses_its_oldest_turns_and_says_so(kit):
    engine = kit.open(context_tokens=100)
    old = [Message(Role.USER, "old " * 20), Message(Role.ASSISTANT, "answer " * 10)]
    deltas = [
        delta async for delta in engine.generate([*old, *QUESTION[1:]], sampling=Sampling(max_tokens=4))
    ]
    usage = deltas[-1].usage
    assert usage is not None
    assert usage.dropped_messages == 2
    assert usage.dropped_tokens > 50
    assert usage.prompt_tokens == (await complete(engine, QUESTION[1:])).prompt_tokens


async def test_ten_megabytes_of_prompt_are_refused_at_once(library_kit):
    engine = library_kit.open(context_tokens=32768)
    with pytest.raises(EngineError, match=r"^The prompt has 10,000,000 characters .* 32768 tokens"):
        await complete(engine, [Message(Role.USER, "x" * 10_000_000)])


async def test_a_reply_that_fills_the_context_ends_with_length(kit):
    engine = kit.open(context_tokens=64)
    completion = await complete(engine, sampling=Sampling(temperature=1.0, max_tokens=500, seed=1))
    assert completion.finish is Finish.LENGTH
    assert 64 <= completion.prompt_tokens + len(completion.tokens) <= 65  # the last one needs no room


async def test_the_context_is_at_most_what_the_model_was_trained_for(library_kit):
    engine = library_kit.open(library_kit.model(context=128), context_tokens=4096)
    assert (await engine.load()).context_tokens == 128
    with pytest.raises(EngineError, match="the context holds 128,"):
        await complete(engine, [Message(Role.USER, "word " * 200)])


async def test_loading_tells_what_it_took(library_kit):
    footprint = await library_kit.open(context_tokens=512).load()
    assert footprint.context_tokens == 512
    assert footprint.memory_bytes > 10_000_000


async def test_callers_take_turns(babbler: Engine):
    alone = await complete(babbler)
    together = await asyncio.gather(*(complete(babbler) for _ in range(3)))
    assert {completion.text for completion in together} == {alone.text}

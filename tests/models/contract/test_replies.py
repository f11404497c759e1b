"""What an engine writes and how it is told: the same on every engine."""

import math
from collections import defaultdict

import pytest
from asking import GREEDY, QUESTION, complete, deltas_of

from models.catalogue import PromptFormat
from models.engines import Engine, EngineOptions, Finish, Message, Role, Sampling
from models.engines.remote import EngineProcess
from models.errors import EngineError

NAIVE = "Voilà: naïve → 🐫\n```ocaml\nlet f x = x + 1\n```\n"


async def test_a_model_says_what_its_weights_say_and_stops(kit):
    completion = await complete(kit.open(kit.model(says=NAIVE)))
    assert completion.text == NAIVE
    assert completion.finish is Finish.STOP


async def test_characters_cut_over_tokens_are_held_back_until_they_are_whole(kit):
    pieces = [b"caf", b"\xc3", b"\xa9 ", b"\xf0\x9f", b"\x90", b"\xab", b" ok"]
    deltas = await deltas_of(kit.open(kit.model(says=pieces)))
    told = [(delta.text, len(delta.tokens)) for delta in deltas if delta.text or delta.tokens]
    assert told == [("caf", 1), ("é ", 2), ("🐫", 3), (" ok", 1)]


async def test_bytes_that_never_become_a_character_are_replaced_at_the_end(kit):
    deltas = await deltas_of(kit.open(kit.model(says=[b"ok ok", b"\xf0\x9f"])))
    assert "".join(delta.text for delta in deltas) == "ok ok�"
    assert sum(len(delta.tokens) for delta in deltas) == 2
    assert deltas[-1].finish is Finish.STOP


async def test_every_token_is_in_one_delta_with_its_entropy(babbler: Engine):
    deltas = await deltas_of(babbler, Sampling(temperature=1.2, max_tokens=100, seed=5))
    assert all(len(delta.tokens) == len(delta.entropies) for delta in deltas)
    assert all(delta.entropy == delta.entropies[-1] for delta in deltas if delta.tokens)
    assert [delta.finish for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].usage is not None


async def test_entropy_is_near_zero_for_a_sure_model_and_large_for_a_babbling_one(kit, babbler: Engine):
    sure = await deltas_of(kit.open(kit.model(says=NAIVE)))
    unsure = await deltas_of(babbler)
    assert all(0 <= value < 1e-2 for delta in sure for value in delta.entropies)
    assert all(0.1 < value < math.log(404) for delta in unsure for value in delta.entropies)


@pytest.mark.parametrize("ends", ["<|im_end|>", "<|endoftext|>"])
@pytest.mark.parametrize("eos", ["<|im_end|>", "<|endoftext|>"])
async def test_both_end_tokens_stop_whatever_the_weights_call_their_eos(kit, ends: str, eos: str):
    completion = await complete(kit.open(kit.model(says="the end.", ends=ends, eos=eos)))
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
    kit, adds_bos: bool, template: str, count: int
):
    model = kit.model(bos="<|bos|>", adds_bos=adds_bos, template=template)
    completion = await complete(kit.open(model), [Message(Role.USER, "1")])
    assert completion.prompt_tokens == 3 + count


async def test_a_model_without_a_chat_template_takes_the_fallback(kit, babbler: Engine):
    bare = kit.open(kit.model(template=None), fallback_format=PromptFormat.CHATML)
    assert (await complete(bare)).tokens == (await complete(babbler)).tokens


async def test_the_template_of_the_weights_goes_before_the_fallback(kit):
    model = kit.model(template="{% for m in messages %}{{ m.content }}{% endfor %}")
    engine = kit.open(model, fallback_format=PromptFormat.CHATML)
    assert (await complete(engine, [Message(Role.USER, "12")])).prompt_tokens == 2


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for %}", "cannot be read"),
        ("{{ raise_exception('No such luck') }}", "refuses this conversation (No such luck)"),
        ("{{ messages[7].content.x }}", "refuses this conversation"),
    ],
)
async def test_a_broken_template_is_named_in_one_sentence(library_kit, template: str, said: str):
    with pytest.raises(EngineError) as caught:
        await complete(library_kit.open(library_kit.model(template=template)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_model_without_a_chat_template_is_refused_in_one_sentence(library_kit):
    with pytest.raises(EngineError, match=r"^nano-\d+(\.gguf)? brings no chat template: .*\.$"):
        await library_kit.open(library_kit.model(template=None)).load()


async def test_a_template_that_knows_no_system_turn_gets_its_text_with_the_first_question(kit):
    strict = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    messages = [Message(Role.SYSTEM, "12"), Message(Role.USER, "34")]
    completion = await complete(kit.open(kit.model(template=strict)), messages)
    assert completion.prompt_tokens == len("12\n\n34")


async def test_an_empty_conversation_is_one_sentence(library_kit):
    with pytest.raises(EngineError, match=r"^The conversation is empty"):
        await complete(library_kit.open(library_kit.model(template="{# nothing #}")), [])


async def test_a_control_token_spelled_in_a_message_stays_text(library_kit):
    engine = library_kit.open()
    plain = await complete(engine, [Message(Role.USER, "12")])
    spelled = await complete(engine, [Message(Role.USER, "1<|im_end|>2")])
    assert spelled.prompt_tokens > plain.prompt_tokens + 4


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "�\ue0f0", "a\r\n\t", "🐫" * 100])
async def test_any_text_can_be_asked(babbler: Engine, text: str):
    assert (await complete(babbler, [Message(Role.USER, text)])).prompt_tokens > 0


async def test_the_same_seed_gives_the_same_text_and_others_differ(babbler: Engine):
    texts = defaultdict(set)
    for seed in (0, 1, 2, -3, 2**40, 0, 1, 2, -3, 2**40):
        completion = await complete(babbler, sampling=Sampling(temperature=1.0, max_tokens=8, seed=seed))
        texts[seed].add(completion.text)
    assert {len(same) for same in texts.values()} == {1}
    assert len({text for same in texts.values() for text in same}) == 5


async def test_temperature_0_is_greedy_whatever_the_seed(babbler: Engine):
    completions = [await complete(babbler, sampling=Sampling(max_tokens=30, seed=seed)) for seed in (1, 2)]
    assert completions[0].tokens == completions[1].tokens


async def test_a_narrow_nucleus_is_greedy(babbler: Engine):
    narrow = Sampling(temperature=0.7, top_p=1e-6, max_tokens=30, seed=3)
    assert (await complete(babbler, sampling=narrow)).text == (
        await complete(babbler, sampling=Sampling(max_tokens=30))
    ).text


async def test_max_tokens_ends_with_length(babbler: Engine):
    completion = await complete(babbler, sampling=Sampling(temperature=1.0, max_tokens=5, seed=1))
    assert (len(completion.tokens), completion.finish) == (5, Finish.LENGTH)


async def test_no_tokens_asked_is_an_empty_reply(babbler: Engine):
    (delta,) = await deltas_of(babbler, Sampling(max_tokens=0))
    assert (delta.text, delta.tokens, delta.finish) == ("", (), Finish.LENGTH)


async def test_a_babbler_says_the_same_greedily_on_every_engine(kit, make_nano):
    for seed in range(3):
        reference = EngineProcess(make_nano(seed=seed), EngineOptions())
        expected = await complete(reference, QUESTION, GREEDY)
        await reference.close()
        assert (await complete(kit.open(kit.model(seed=seed)), QUESTION, GREEDY)).text == expected.text

"""Replies side by side on one llama.cpp context: the same as alone, remembered, ended one by one or all."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from models.engines.backend import Interrupt
from models.engines.llama import LlamaBackend
from models.engines.options import EngineOptions
from models.engines.protocol import BatchDelta, Delta, Finish, Message, Prompt, Role, Sampling, Usage
from models.errors import EngineError

NAIVE = "Voilà: naïve → 🐫\n```ocaml\nlet f x = x + 1\n```\n"
SYSTEM = Message(Role.SYSTEM, "You write OCaml, and you think before you do. " * 4)


class Reply:
    """The deltas of one reply, put together."""

    def __init__(self, deltas: Sequence[Delta]) -> None:
        self.text = "".join(delta.text for delta in deltas)
        self.tokens = tuple(token for delta in deltas for token in delta.tokens)
        self.finish = deltas[-1].finish
        self.usage = deltas[-1].usage or Usage()


class Bench:
    """A backend and its interrupt, as the child process would drive them."""

    def __init__(self, path: Path, **options: int) -> None:
        self.interrupt = Interrupt()
        self.backend = LlamaBackend(self.interrupt)
        # One thread: threads of a busy machine spin at their barriers.
        self.backend.load(path, EngineOptions(**{"context_tokens": 4096, "threads": 1, **options}))  # type: ignore[arg-type]

    def alone(self, prompt: Prompt) -> Reply:
        return Reply(list(self.backend.generate(prompt)))

    def together(self, prompts: Sequence[Prompt]) -> list[Reply]:
        return self.replies(list(self.backend.batch(prompts)), len(prompts))

    @staticmethod
    def replies(pieces: Sequence[BatchDelta], count: int) -> list[Reply]:
        return [Reply([piece.delta for piece in pieces if piece.index == index]) for index in range(count)]


@pytest.fixture
def bench(nano: Path) -> Bench:
    return Bench(nano)


def prompt(text: str = "Say something.", **fields: object) -> Prompt:
    sampling = Sampling(**{"max_tokens": 40, **fields})  # type: ignore[arg-type]
    return Prompt((SYSTEM, Message(Role.USER, text)), sampling=sampling)


def endless(count: int) -> list[Prompt]:
    return [prompt(str(number), max_tokens=100_000) for number in range(count)]


def until(pieces: Iterator[BatchDelta], count: int) -> list[BatchDelta]:
    return [next(pieces) for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 19])
def test_greedy_replies_are_those_of_prompts_asked_one_by_one(nano: Path, bench: Bench, count: int):
    prompts = [prompt("Same" if number % 2 else f"No. {number}") for number in range(count)]
    one_by_one = Bench(nano)
    wanted = [one_by_one.alone(each).text for each in prompts]
    assert [reply.text for reply in bench.together(prompts)] == wanted


def test_seeded_replies_of_a_sure_model_are_those_of_prompts_asked_one_by_one(make_nano: Callable[..., Path]):
    model = make_nano(says=NAIVE)
    prompts = [prompt(temperature=0.8, seed=seed, max_tokens=10 * seed + 5) for seed in range(10)]
    one_by_one = Bench(model)
    wanted = [one_by_one.alone(each).text for each in prompts]
    replies = Bench(model).together(prompts)
    assert [reply.text for reply in replies] == wanted
    assert {reply.finish for reply in replies} == {Finish.LENGTH, Finish.STOP}


def test_every_reply_has_its_own_seed_and_two_with_the_same_are_the_same(bench: Bench):
    seeds = [1, 2, 3, 1, 2]
    texts = [reply.text for reply in bench.together([prompt(temperature=1.0, seed=seed) for seed in seeds])]
    assert (texts[0], texts[1]) == (texts[3], texts[4])
    assert len(set(texts)) == 3


def test_every_reply_has_its_own_length_prefix_and_forbidden_tokens(bench: Bench):
    free = bench.alone(prompt())
    prompts = [
        prompt(max_tokens=0),
        prompt(max_tokens=3),
        Prompt(prompt().messages, prefix=free.tokens[:5], sampling=Sampling(max_tokens=35)),
        Prompt(prompt().messages, forbidden_first=free.tokens[:1], sampling=Sampling(max_tokens=5)),
    ]
    nothing, short, rest, other = bench.together(prompts)
    assert (nothing.tokens, nothing.finish) == ((), Finish.LENGTH)
    assert (short.tokens, short.finish) == (free.tokens[:3], Finish.LENGTH)
    assert rest.tokens == free.tokens[5:]
    assert other.tokens[0] != free.tokens[0]


def test_their_common_start_is_read_once(bench: Bench):
    first, *others = bench.together([prompt(f"{number}") for number in range(6)])
    assert first.usage.cached_tokens == 0
    assert all(reply.usage.cached_tokens > 100 for reply in others)


def test_one_that_ends_early_is_told_before_the_others_end(bench: Bench):
    pieces = list(bench.backend.batch([prompt(), prompt(max_tokens=2), prompt()]))
    ends = [piece.index for piece in pieces if piece.delta.finish]
    assert ends[0] == 1
    assert pieces[[piece.delta.finish is not None for piece in pieces].index(True) + 1].index != 1


def test_those_for_which_there_is_no_lane_begin_when_others_have_ended(bench: Bench):
    pieces = list(bench.backend.batch([prompt(max_tokens=number + 1) for number in range(12)]))
    first_end = next(at for at, piece in enumerate(pieces) if piece.delta.finish)
    assert {piece.index for piece in pieces[:first_end]} == set(range(8))
    assert {piece.index for piece in pieces} == set(range(12))


def test_those_that_do_not_fit_beside_others_wait_for_their_cells(endless_nano: Path):
    bench = Bench(endless_nano, context_tokens=600)
    prompts = [prompt(str(number), max_tokens=250) for number in range(5)]
    pieces = list(bench.backend.batch(prompts))
    first_end = next(at for at, piece in enumerate(pieces) if piece.delta.finish)
    assert len({piece.index for piece in pieces[:first_end]}) == 1
    assert all(reply.finish is Finish.LENGTH for reply in bench.replies(pieces, 5))


def test_each_may_fill_the_context_to_its_last_cell(endless_nano: Path):
    bench = Bench(endless_nano, context_tokens=512)
    for reply in bench.together(endless(3)):
        assert reply.usage.prompt_tokens + len(reply.tokens) == 513


def test_one_prompt_too_long_is_one_sentence_and_the_next_batch_is_well(nano: Path):
    bench = Bench(nano, context_tokens=512)
    with pytest.raises(EngineError, match=r"^The prompt has \d+ tokens and the context holds 512"):
        bench.together([prompt(), prompt("word " * 500)])
    assert all(reply.tokens for reply in bench.together([prompt(), prompt("2")]))


def test_a_reply_goes_on_out_of_the_cache_after_the_batch(bench: Bench):
    prompts = [prompt(temperature=1.0, seed=seed) for seed in range(5)]
    for reply in bench.together(prompts):
        rest = bench.alone(Prompt(prompts[0].messages, prefix=reply.tokens[:20], sampling=Sampling()))
        assert rest.usage.cached_tokens == rest.usage.prompt_tokens - 1


def test_so_does_a_batch_of_its_replies(bench: Bench):
    replies = bench.together([prompt(temperature=1.0, seed=seed) for seed in range(8)])
    rewound = [Prompt(prompt().messages, reply.tokens[:20], sampling=Sampling()) for reply in replies]
    for reply in bench.together(rewound):
        assert reply.usage.cached_tokens == reply.usage.prompt_tokens - 1


def test_the_next_turn_finds_its_reply_in_memory(bench: Bench):
    replies = bench.together([prompt(temperature=1.0, seed=seed) for seed in range(4)])
    turns = (*prompt().messages, Message(Role.ASSISTANT, replies[2].text), Message(Role.USER, "And?"))
    after = bench.alone(Prompt(turns, sampling=Sampling(max_tokens=5)))
    assert after.usage.cached_tokens >= replies[2].usage.prompt_tokens + len(replies[2].tokens) - 1


def test_what_is_remembered_makes_room_when_a_prompt_needs_it(nano: Path):
    bench = Bench(nano, context_tokens=1024)
    bench.together([prompt(f"{number}", max_tokens=100) for number in range(4)])
    long = bench.alone(prompt("word " * 150, max_tokens=100_000))
    assert long.usage.prompt_tokens + len(long.tokens) == 1025 or long.finish is Finish.STOP
    assert all(reply.tokens for reply in bench.together([prompt(str(number)) for number in range(4)]))


def test_an_interrupt_ends_all_of_them(endless_nano: Path):
    bench = Bench(endless_nano)
    bench.interrupt.begin("batch")
    pieces = bench.backend.batch(endless(10))
    begun = until(pieces, 30)
    bench.interrupt.cancel("batch")
    replies = bench.replies([*begun, *pieces], 10)
    assert {reply.finish for reply in replies} == {Finish.CANCELLED}
    bench.interrupt.begin("next")
    assert bench.together([prompt(max_tokens=5)])[0].finish is Finish.LENGTH


def test_an_interrupt_is_heard_while_a_prompt_is_read(endless_nano: Path):
    bench = Bench(endless_nano, batch_tokens=16)
    bench.interrupt.begin("batch")
    bench.interrupt.cancel("batch")
    (reply,) = bench.together([prompt("word " * 300)])
    assert (reply.finish, reply.tokens) == (Finish.CANCELLED, ())


def test_one_reply_can_be_dropped_and_the_others_go_on(endless_nano: Path):
    bench = Bench(endless_nano)
    bench.interrupt.begin("batch")
    pieces = bench.backend.batch([prompt(str(number), max_tokens=60) for number in range(3)])
    begun = until(pieces, 9)
    bench.interrupt.drop("batch", 1)
    rest = list(pieces)
    replies = bench.replies([*begun, *rest], 3)
    assert [reply.finish for reply in replies] == [Finish.LENGTH, Finish.CANCELLED, Finish.LENGTH]
    assert len(replies[1].tokens) < 6
    assert [len(replies[index].tokens) for index in (0, 2)] == [60, 60]


def test_one_that_waits_can_be_dropped_too(endless_nano: Path):
    bench = Bench(endless_nano)
    bench.interrupt.begin("batch")
    pieces = bench.backend.batch([prompt(str(number), max_tokens=20) for number in range(9)])
    begun = until(pieces, 3)
    bench.interrupt.drop("batch", 8)
    replies = bench.replies([*begun, *pieces], 9)
    assert (replies[8].finish, replies[8].tokens) == (Finish.CANCELLED, ())
    assert replies[8].usage.prompt_tokens > 0


def test_leaving_a_batch_in_the_middle_frees_its_lanes(endless_nano: Path):
    bench = Bench(endless_nano)
    for _ in range(3):
        pieces = bench.backend.batch(endless(8))
        until(pieces, 10)
        pieces.close()  # type: ignore[attr-defined]
    assert all(reply.tokens for reply in bench.together([prompt(max_tokens=5)] * 8))


def test_forbidding_every_token_of_one_is_one_sentence_and_the_next_batch_is_well(bench: Bench):
    impossible = Prompt(prompt().messages, forbidden_first=tuple(range(1000)))
    with pytest.raises(EngineError, match="all tokens are forbidden"):
        bench.together([prompt(), impossible, prompt("2")])
    assert all(len(reply.tokens) == 40 for reply in bench.together([prompt()] * 8))


def test_a_context_of_one_token_a_batch_has_one_lane_and_still_answers_all(nano: Path):
    replies = Bench(nano, batch_tokens=1).together([prompt(max_tokens=3), prompt("2", max_tokens=3)])
    assert [len(reply.tokens) for reply in replies] == [3, 3]


@pytest.fixture(scope="module")
def mamba(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recurrent model: it cannot forget its last tokens, nor share its first."""
    from nano_mamba import write_mamba  # numpy and gguf, for this test alone

    path = tmp_path_factory.mktemp("mamba") / "mamba.gguf"
    write_mamba(path)
    return path


def test_a_recurrent_model_replies_to_one_after_the_other(mamba: Path):
    prompts = [prompt(f"{number}", max_tokens=number + 1) for number in range(3)]
    pieces = list(Bench(mamba).backend.batch(prompts))
    assert [piece.index for piece in pieces if piece.delta.finish] == [0, 1, 2]
    wanted = [Bench(mamba).alone(each).tokens for each in prompts]
    assert [reply.tokens for reply in Bench.replies(pieces, 3)] == wanted


def test_a_recurrent_model_is_as_good_as_new_after_an_interrupt(mamba: Path):
    bench = Bench(mamba)
    bench.interrupt.begin(1)
    stream = bench.backend.generate(prompt())
    next(stream)
    bench.interrupt.cancel(1)
    assert list(stream)[-1].finish is Finish.CANCELLED
    bench.interrupt.begin(2)
    assert bench.alone(prompt("2")).tokens == Bench(mamba).alone(prompt("2")).tokens


def test_a_thousand_requests_take_no_more_memory_than_two_hundred(nano: Path):
    bench = Bench(nano, context_tokens=1024)
    at_200 = 0
    for number in range(1000):
        if number == 200:
            at_200 = psutil.Process().memory_info().rss
        bench.interrupt.begin(number)
        question = prompt(f"{number}", max_tokens=2, temperature=1.0, seed=number)
        if number % 25 == 0:
            bench.together([question, prompt("2", max_tokens=3), question])
        elif number % 25 == 1:
            stream = bench.backend.generate(question)
            next(stream)
            bench.interrupt.cancel(number)
            list(stream)
        else:
            bench.alone(question)
    # What is remembered of the last 64 replies is bounded; allocators keep a page or two.
    assert psutil.Process().memory_info().rss - at_200 < 2_000_000

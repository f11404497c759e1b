"""What the MLX engine remembers: exactly what was read, whatever kind of network it is."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from driving_mlx import (
    ASK,
    LONG,
    CountingInterrupt,
    complete,
    complete_all,
    of_kind,
    opened,
)

from models.engines import EngineOptions, Finish, Message, Prompt, Role, Sampling
from models.engines.mlx import MlxBackend
from models.engines.mlx_library import caches
from models.engines.mlx_loading import is_out_of_memory, plan


@pytest.fixture
def interrupt() -> CountingInterrupt:
    return CountingInterrupt()


@pytest.fixture
def backend(nano_folder: Path, interrupt: CountingInterrupt) -> MlxBackend:
    return opened(nano_folder, interrupt)


@pytest.fixture(scope="session")
def mamba(nano_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Remembers one state, not every token."""
    return of_kind(
        nano_folder,
        tmp_path_factory.mktemp("mlx") / "mamba",
        model_type="mamba",
        state_size=16,
        conv_kernel=4,
        use_bias=False,
        use_conv_bias=True,
        time_step_rank=4,
        tie_word_embeddings=True,
    )


@pytest.fixture(scope="session")
def sliding(nano_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has a layer that sees the last 48 tokens alone."""
    return of_kind(
        nano_folder,
        tmp_path_factory.mktemp("mlx") / "sliding",
        model_type="llama",
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=48,
    )


def test_after_anything_that_happened_a_reply_is_the_one_of_a_fresh_start(
    nano_folder: Path, interrupt: CountingInterrupt
):
    fresh = complete(opened(nano_folder))
    backend = opened(nano_folder, interrupt)
    for count in range(1, 12):
        started = backend.generate(Prompt(ASK, sampling=Sampling(1.0, 1.0, 40, seed=count)))
        for _ in range(count):
            next(started)
        started.close()
        assert complete(backend).tokens == fresh.tokens
        interrupt.looks_left = 3 * count
        sampled = [Prompt(ASK, sampling=Sampling(1.0, 1.0, 5 + seed, seed=seed)) for seed in range(3)]
        assert len(complete_all(backend, sampled)) == 3
        interrupt.looks_left = None
        assert complete(backend, prefix=fresh.tokens[:count]).tokens == fresh.tokens[count:]


@pytest.mark.parametrize("cut", [1, 9, 17])
def test_a_rewind_gives_what_a_fresh_start_from_there_gives(nano_folder: Path, backend: MlxBackend, cut: int):
    reply = complete(backend, sampling=Sampling(1.0, 1.0, 20, seed=4))
    more = {"prefix": reply.tokens[:cut], "forbidden_first": reply.tokens[cut : cut + 1]}
    again = complete(backend, **more)
    assert again.tokens == complete(opened(nano_folder), **more).tokens
    assert again.cached_tokens == again.prompt_tokens - 1


def test_a_reply_of_a_batch_is_gone_on_from_out_of_the_cache(backend: MlxBackend):
    prompts = [Prompt(ASK, sampling=Sampling(1.0, 1.0, 30, seed=seed)) for seed in range(4)]
    for reply in complete_all(backend, prompts):
        rest = complete(backend, prefix=reply.tokens[:20], sampling=Sampling(max_tokens=3))
        assert rest.cached_tokens == rest.prompt_tokens - 1


def test_prompts_of_a_batch_that_begin_alike_are_read_once(backend: MlxBackend):
    replies = complete_all(backend, [Prompt(LONG, sampling=Sampling(max_tokens=3))] * 5)
    assert [reply.cached_tokens for reply in replies] == [0] + [replies[0].prompt_tokens - 1] * 4


def test_another_conversation_does_not_cost_the_first_one_its_place(backend: MlxBackend):
    complete(backend, LONG)
    complete(backend, (LONG[0], Message(Role.USER, "Something else.")))
    again = complete(backend, LONG)
    assert again.cached_tokens == again.prompt_tokens - 1


def test_what_was_read_before_a_cancel_is_not_read_again(nano_folder: Path, interrupt: CountingInterrupt):
    backend = opened(nano_folder, interrupt, batch_tokens=10)
    interrupt.looks_left = 8
    cancelled = complete(backend, LONG)
    interrupt.looks_left = None
    assert (cancelled.tokens, cancelled.finish) == ((), Finish.CANCELLED)
    whole = complete(backend, LONG)
    assert 20 <= whole.cached_tokens < whole.prompt_tokens - 1
    assert whole.cached_tokens % 10 == 0
    assert whole.tokens == complete(opened(nano_folder, batch_tokens=10), LONG).tokens


def test_a_cancel_at_any_moment_leaves_a_clean_end(nano_folder: Path, interrupt: CountingInterrupt):
    backend = opened(nano_folder, interrupt)
    whole = complete(backend, sampling=Sampling(1.0, 1.0, 12, seed=1))
    for looks in range(16):
        interrupt.looks_left = looks
        part = complete(backend, sampling=Sampling(1.0, 1.0, 12, seed=1))
        assert part.tokens == whole.tokens[: len(part.tokens)]
        assert part.finish is (Finish.CANCELLED if len(part.tokens) < 12 else Finish.LENGTH)


def test_a_turn_goes_on_from_the_last_one_also_where_there_is_room_for_one_context_alone(nano_folder: Path):
    options = EngineOptions(context_tokens=256)
    backend = opened(
        nano_folder, context_tokens=256, memory_bytes=plan(nano_folder, options).memory.needed_bytes
    )
    assert backend._require_loaded().room == 256
    endless = Sampling(1.0, max_tokens=1000, seed=3)
    first = complete(backend, sampling=Sampling(1.0, max_tokens=20, seed=3))
    second = complete(backend, (*ASK, Message(Role.ASSISTANT, first.text), Message(Role.USER, "?")), endless)
    assert second.cached_tokens >= first.prompt_tokens + len(first.tokens) - 1
    prompts = [Prompt(ASK, sampling=endless)] * 3
    assert [reply.tokens for reply in complete_all(backend, prompts)] == [
        complete(backend, sampling=endless).tokens
    ] * 3


def test_no_more_is_remembered_than_there_is_room_for(nano_folder: Path):
    backend = opened(nano_folder, context_tokens=256)
    for question in range(40):
        complete(backend, (Message(Role.USER, f"{question} " * 20),), Sampling(max_tokens=4))
    before = mx.get_active_memory()
    for question in range(40, 80):
        complete(backend, (Message(Role.USER, f"{question} " * 20),), Sampling(max_tokens=4))
    assert mx.get_active_memory() <= before * 1.05


def test_hundreds_of_requests_take_no_more_memory_than_a_few(backend: MlxBackend):
    sizes = []
    for request in range(240):
        complete(backend, sampling=Sampling(1.0, 1.0, 4, seed=request))
        if request % 60 == 59:
            sizes.append(mx.get_active_memory() + mx.get_cache_memory())
    assert sizes[-1] <= sizes[0] * 1.02


@pytest.mark.parametrize("kind", ["mamba", "sliding"])
def test_other_kinds_of_memory_give_the_replies_of_a_fresh_start(request: pytest.FixtureRequest, kind: str):
    folder = request.getfixturevalue(kind)
    long = Sampling(max_tokens=60)
    fresh = complete(opened(folder), sampling=long)
    backend = opened(folder)
    for _ in range(2):
        assert complete(backend, sampling=long).tokens == fresh.tokens
    for cut in (1, 7, 30):
        assert (
            complete(backend, sampling=Sampling(max_tokens=60 - cut), prefix=fresh.tokens[:cut]).tokens
            == fresh.tokens[cut:]
        )
    turn = (*ASK, Message(Role.ASSISTANT, fresh.text), Message(Role.USER, "More."))
    goes_on = complete(backend, turn)
    backend._require_loaded().memory.clear()
    anew = complete(backend, turn)
    assert goes_on.cached_tokens > anew.cached_tokens == 0
    assert goes_on.tokens == anew.tokens


@pytest.mark.parametrize("kind", ["mamba", "sliding"])
def test_other_kinds_of_memory_are_batched_as_one_by_one(request: pytest.FixtureRequest, kind: str):
    backend = opened(request.getfixturevalue(kind))
    prompts = [Prompt(ASK, sampling=Sampling(0.8, 1.0, 10 * seed, seed=seed)) for seed in range(1, 6)]
    prompts.append(Prompt(LONG, sampling=Sampling(max_tokens=9)))
    together = complete_all(backend, prompts)
    for prompt, completion in zip(prompts, together, strict=True):
        alone = complete(opened(request.getfixturevalue(kind)), prompt.messages, prompt.sampling)
        assert (completion.text, completion.finish) == (alone.text, alone.finish)


@pytest.mark.parametrize("kind", ["mamba", "sliding"])
def test_the_same_question_again_goes_on_where_its_prompt_ended(request: pytest.FixtureRequest, kind: str):
    backend = opened(request.getfixturevalue(kind))
    first = complete(backend, LONG)
    assert complete(backend, LONG).cached_tokens == first.prompt_tokens - 1


def test_a_network_that_cannot_be_batched_writes_one_by_one(nano_folder: Path, tmp_path: Path):
    stretched = {"type": "dynamic", "factor": 2.0}  # its angles are reckoned from one length
    backend = opened(of_kind(nano_folder, tmp_path / "dynamic", model_type="llama", rope_scaling=stretched))
    replies = complete_all(
        backend, [Prompt(ASK, sampling=Sampling(1.0, max_tokens=9, seed=seed)) for seed in range(3)]
    )
    assert backend._require_loaded().memory.most_rows == 1
    for seed, reply in enumerate(replies):
        assert reply.tokens == complete(backend, sampling=Sampling(1.0, max_tokens=9, seed=seed)).tokens


@pytest.mark.parametrize(
    "said",
    [
        "[metal::malloc] Attempting to allocate 9 bytes which is greater than the maximum allowed buffer size.",
        "[malloc] Unable to allocate 9 bytes.",
        "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallback)",
    ],
)
def test_a_lack_of_memory_is_known_by_the_librarys_words(said: str):
    assert is_out_of_memory(RuntimeError(said))
    assert not is_out_of_memory(RuntimeError("[matmul] Last dimension of first input is not the second's"))


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


@pytest.mark.parametrize("kind", ["nano_folder", "mamba", "sliding"])
def test_a_system_prompt_is_not_read_again_by_the_next_process(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
):
    folder = request.getfixturevalue(kind)
    first = complete(opened(folder, states=str(tmp_path / "states")), LONG)
    assert len(files_in(tmp_path / "states")) == 1
    again = complete(opened(folder, states=str(tmp_path / "states")), LONG)
    assert again.cached_tokens > 100
    assert (again.text, again.tokens) == (first.text, first.tokens)
    assert again.text == complete(opened(folder), LONG).text


def test_a_short_system_prompt_is_not_worth_a_file(nano_folder: Path, tmp_path: Path):
    complete(opened(nano_folder, states=str(tmp_path)))
    assert files_in(tmp_path) == []


def test_a_state_takes_the_room_of_its_tokens_alone(nano_folder: Path, tmp_path: Path):
    complete(opened(nano_folder, states=str(tmp_path)), LONG)
    assert files_in(tmp_path)[0].stat().st_size < 256 * (2 * 2 * 2 * 16 * 4)


@pytest.mark.parametrize("rotten", [b"", b"\0" * 5000, b'\x10\0\0\0\0\0\0\0{"a": "bcdefgh"}'])
def test_a_damaged_state_is_read_as_usual(nano_folder: Path, tmp_path: Path, rotten: bytes):
    expected = complete(opened(nano_folder, states=str(tmp_path)), LONG)
    files_in(tmp_path)[0].write_bytes(rotten)
    again = complete(opened(nano_folder, states=str(tmp_path)), LONG)
    assert (again.cached_tokens, again.text) == (0, expected.text)


def test_a_state_that_says_something_else_than_its_name_is_read_as_usual(
    nano_folder: Path, mamba: Path, tmp_path: Path, backend: MlxBackend
):
    memory = backend._require_loaded().memory
    of_another_kind = caches.ArraysCache(2)
    of_another_kind.cache = [mx.zeros((1, 2, 3))] * 2
    for layers in ([of_another_kind], [caches.KVCache()], [of_another_kind] * 2):
        if layers[0].empty():
            layers[0].update_and_fetch(mx.zeros((1, 2, 3, 16)), mx.zeros((1, 2, 3, 16)))
        caches.save_prompt_cache(str(tmp_path / "x.safetensors"), layers)
        assert memory.restore(tmp_path / "x.safetensors", [1, 2, 3, 4]) is None
    assert memory.restore(tmp_path / "none.safetensors", [1]) is None


def test_other_weights_have_states_of_their_own(make_nano_folder: Callable[..., Path], tmp_path: Path):
    for seed in (0, 1):
        assert complete(opened(make_nano_folder(seed=seed), states=str(tmp_path)), LONG).cached_tokens == 0
    assert len(files_in(tmp_path)) == 2


def test_transformers_is_not_imported_to_load_and_to_generate(nano_folder: Path, tmp_path: Path):
    import subprocess

    script = (
        "import sys; from pathlib import Path\n"
        "from models.engines.backend import Interrupt\n"
        "from models.engines.mlx import MlxBackend\n"
        "from models.engines import *\n"
        "backend = MlxBackend(Interrupt())\n"
        "backend.load(Path(sys.argv[1]), EngineOptions())\n"
        "list(backend.generate(Prompt((Message(Role.USER, 'x'),), sampling=Sampling(max_tokens=3))))\n"
        "sys.exit(bool({'transformers', 'torch'} & sys.modules.keys()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", script, str(nano_folder)], check=True, env=environment)

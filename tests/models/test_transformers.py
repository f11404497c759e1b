"""What is particular to how the transformers engine computes: numbers, networks, what is remembered."""

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driving_transformers import (
    GREEDY,
    MESSAGES,
    OPTIONS,
    MakeNano,
    backend,
    cached,
    interrupt,
    many,
    replies,
    reply,
    whole,
)

from models.engines import EngineOptions, Finish, Message, Prompt, Role, Sampling
from models.engines.backend import Backend, Interrupt

__all__ = ["backend", "interrupt"]  # fixtures


# The numbers


@pytest.mark.parametrize("seed", range(4))
def test_the_numbers_are_those_of_llama_cpp(
    backend: Backend, make_nano: MakeNano, make_nano_folder: MakeNano, seed: int
):
    from models.engines.llama import LlamaBackend

    reference = LlamaBackend(Interrupt())
    reference.load(make_nano(seed=seed), OPTIONS)
    backend.load(make_nano_folder(seed=seed), OPTIONS)
    expected, found = (list(one.generate(GREEDY)) for one in (reference, backend))
    assert whole(found) == whole(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.entropies == pytest.approx(theirs.entropies, abs=1e-2)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_batch_of_any_size_gives_what_one_by_one_gives(backend: Backend, nano_folder: Path, count: int):
    backend.load(nano_folder, OPTIONS)
    together = replies(backend, many(count))
    assert together == [reply(backend, prompt) for prompt in many(count)]


def test_a_batch_in_a_context_for_one_waits_its_turn(backend: Backend, nano_folder: Path):
    backend.load(nano_folder, OPTIONS)
    expected = replies(backend, many(9))
    from models.engines.transformers_loading import Device, plan

    tight = EngineOptions(context_tokens=96)
    needed = plan(nano_folder, tight, Device("cpu", 10**10, 10**10)).memory.needed_bytes
    backend.load(nano_folder, replace(tight, memory_bytes=needed))
    assert replies(backend, many(9)) == expected


def test_a_prompt_of_one_token_can_be_batched_with_others(backend: Backend, make_nano_folder: MakeNano):
    bare = "{% for m in messages %}{{ m.content }}{% endfor %}"
    backend.load(make_nano_folder(template=bare), OPTIONS)
    prompts = [Prompt((Message(Role.USER, text),), sampling=Sampling(max_tokens=9)) for text in "a1bb2"]
    prompts.insert(2, Prompt(MESSAGES, sampling=Sampling(max_tokens=9)))
    assert replies(backend, prompts) == [reply(backend, prompt) for prompt in prompts]


def test_a_long_prompt_gives_the_same_in_pieces_of_any_size(backend: Backend, nano_folder: Path):
    long = replace(GREEDY, messages=(Message(Role.USER, "word and word " * 40),))
    found = set()
    for batch_tokens in (7, 64, None):
        backend.load(nano_folder, replace(OPTIONS, batch_tokens=batch_tokens))
        found.add(reply(backend, long))
    assert len(found) == 1


# Other kinds of networks


def variant(folder: Path, copy: Path, **config: Any) -> Path:
    """Copy a folder with some of its configuration changed."""
    shutil.copytree(folder, copy)
    table = json.loads((copy / "config.json").read_text()) | config
    (copy / "config.json").write_text(json.dumps(table))
    return copy


SLIDING = {
    "use_sliding_window": True,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
}


def test_attention_that_slides_gives_what_the_library_gives_and_can_be_rewound(
    backend: Backend, nano_folder: Path, tmp_path: Path
):
    sliding = variant(nano_folder, tmp_path / "sliding", **SLIDING)
    backend.load(sliding, OPTIONS)
    text, tokens, _ = reply(backend)
    assert tokens == generated_by_the_library(sliding, 40)
    backend.load(nano_folder, OPTIONS)
    assert reply(backend)[0] != text
    backend.load(sliding, OPTIONS)
    assert replies(backend, many(5)) == [reply(backend, prompt) for prompt in many(5)]
    reply(backend)
    rest = replace(GREEDY, prefix=tokens[:9], sampling=Sampling(max_tokens=31))
    assert cached(backend, rest) > 40
    assert reply(backend, rest)[1] == tokens[9:]


def generated_by_the_library(folder: Path, count: int) -> tuple[int, ...]:
    import torch
    from transformers import AutoModelForCausalLM

    from models.engines.chat import Chat
    from models.engines.hf_folder import FolderVocabulary
    from models.weights import folder_template

    asked = Chat(FolderVocabulary(folder), folder_template(folder), None, "").tokens(MESSAGES)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = network.generate(torch.tensor([asked]), max_new_tokens=count, do_sample=False)
    return tuple(found[0, len(asked) :].tolist())


@pytest.fixture(scope="module")
def mamba(nano_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network without attention: it remembers a state, not every token."""
    import torch
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.MambaConfig(
            vocab_size=404, hidden_size=64, num_hidden_layers=2, bos_token_id=None, eos_token_id=402
        )
        network = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in network.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter.data, std=parameter.shape[1] ** -0.5)
    folder = tmp_path_factory.mktemp("mamba") / "mamba"
    network.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(nano_folder / name, folder)
    return folder


def test_a_network_that_remembers_a_state_alone_goes_on_from_all_of_it_or_nothing(
    backend: Backend, mamba: Path
):
    backend.load(mamba, OPTIONS)
    _, tokens, _ = reply(backend)
    assert tokens == generated_by_the_library(mamba, 40)
    assert cached(backend, GREEDY) == 0
    further = replace(GREEDY, prefix=tokens, sampling=Sampling(max_tokens=5))
    assert cached(backend, further) > 40
    assert replies(backend, many(5)) == [reply(backend, prompt) for prompt in many(5)]


# What is remembered


def test_a_reply_of_a_batch_is_gone_on_from_without_reading_it_again(backend: Backend, nano_folder: Path):
    backend.load(nano_folder, OPTIONS)
    prompts = [
        replace(GREEDY, sampling=Sampling(temperature=1.0, max_tokens=20, seed=seed)) for seed in range(3)
    ]
    for _, tokens, _ in replies(backend, prompts):
        asked = cached(backend, replace(GREEDY, sampling=Sampling(max_tokens=1)))
        assert cached(backend, replace(GREEDY, prefix=tokens[:15])) == asked + 15


def test_replies_of_the_same_prompt_read_it_once(backend: Backend, make_nano_folder: MakeNano):
    backend.load(make_nano_folder(seed=31), OPTIONS)
    usages = [part.delta.usage for part in backend.batch([GREEDY] * 4) if part.delta.usage]
    assert sorted(usage.cached_tokens for usage in usages) == [0, *[usages[0].prompt_tokens - 1] * 3]


def test_what_is_remembered_has_an_end(backend: Backend, make_nano_folder: MakeNano):
    from models.engines.transformers_loading import Device, plan

    folder, options = make_nano_folder(seed=32), EngineOptions(context_tokens=100)
    needed = plan(folder, options, Device("cpu", 10**10, 10**10)).memory.needed_bytes
    backend.load(folder, replace(options, memory_bytes=needed))
    first, *others = [
        Prompt((Message(Role.USER, f"{n} " * 20),), sampling=Sampling(max_tokens=2)) for n in range(3)
    ]
    assert cached(backend, first) == 0
    assert cached(backend, first) > 40
    for other in others:
        reply(backend, other)
    assert cached(backend, first) < 10


# The interrupt


def test_a_request_cancelled_before_it_began_is_empty(
    backend: Backend, interrupt: Interrupt, nano_folder: Path
):
    backend.load(nano_folder, OPTIONS)
    interrupt.cancel("early")
    interrupt.begin("early")
    assert reply(backend) == ("", (), Finish.CANCELLED)
    assert replies(backend, [GREEDY] * 2) == [("", (), Finish.CANCELLED)] * 2
    interrupt.begin("later")
    assert reply(backend)[2] is not Finish.CANCELLED


def test_a_cancel_is_heard_while_a_piece_of_a_prompt_is_computed(
    backend: Backend, interrupt: Interrupt, nano_folder: Path
):
    backend.load(nano_folder, EngineOptions(context_tokens=32768, threads=1, batch_tokens=32768))
    long = Prompt((Message(Role.USER, "é" * 8_000),))
    interrupt.begin("long")
    threading.Timer(0.3, lambda: interrupt.cancel("long")).start()
    began = time.monotonic()
    assert reply(backend, long) == ("", (), Finish.CANCELLED)
    assert time.monotonic() - began < 3
    interrupt.begin("after")
    assert reply(backend)[0]


def test_a_reply_is_ended_while_its_prompt_waits_and_the_others_go_on(
    backend: Backend, interrupt: Interrupt, nano_folder: Path
):
    backend.load(nano_folder, OPTIONS)
    interrupt.begin("batch")
    interrupt.drop("batch", 1)
    ended = replies(backend, [GREEDY] * 3)
    assert ended[1] == ("", (), Finish.CANCELLED)
    assert ended[0] == ended[2] == reply(backend)
    interrupt.begin("after")


def test_a_stream_left_alone_harms_nothing(backend: Backend, nano_folder: Path):
    backend.load(nano_folder, OPTIONS)
    expected = replies(backend, many(4))
    stream = backend.batch(many(4))
    next(iter(stream))
    stream.close()  # type: ignore[attr-defined]
    assert replies(backend, many(4)) == expected

"""What the transformers engine loads: folders as training leaves them, adapters, and what it refuses."""

import gc
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving_transformers import (
    GREEDY,
    OPTIONS,
    Damage,
    MakeNano,
    backend,
    interrupt,
    reply,
    whole,
)
from safetensors.numpy import load_file, save_file

from models.catalogue import PromptFormat
from models.engines import EngineOptions, Message, Prompt, Role
from models.engines.backend import Backend, Interrupt
from models.errors import EngineError

__all__ = ["backend", "interrupt"]  # fixtures


# Adapters


@pytest.fixture
def adapter(nano_folder: Path, tmp_path: Path) -> Path:
    """A LoRA checkpoint, and beside it its base and ``merged``, what both together are."""
    shutil.copytree(nano_folder, tmp_path / "base")
    folder = tmp_path / "checkpoint-20"
    folder.mkdir()
    random = np.random.default_rng(5)
    tensors = load_file(nano_folder / "model.safetensors")
    added = {}
    for name in [name for name in tensors if name.endswith(("v_proj.weight", "down_proj.weight"))]:
        rows, columns = tensors[name].shape
        down, up = random.normal(0, 0.3, (4, columns)), random.normal(0, 0.3, (rows, 4))
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        added[f"{stem}.lora_A.weight"] = down.astype(np.float32)
        added[f"{stem}.lora_B.weight"] = up.astype(np.float32)
        tensors[name] = tensors[name].astype(np.float32) + 2 * (up @ down).astype(np.float32)
    save_file(added, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "../base",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["v_proj", "down_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    shutil.copytree(nano_folder, tmp_path / "merged")
    save_file(tensors, tmp_path / "merged" / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_an_adapter_says_what_it_and_its_base_merged_say(
    backend: Backend, adapter: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    backend.load(tmp_path / "base", OPTIONS)
    untuned = reply(backend)
    backend.load(tmp_path / "merged", OPTIONS)
    expected = list(backend.generate(GREEDY))
    backend.load(adapter, OPTIONS)
    found = list(backend.generate(GREEDY))
    assert whole(found) == whole(expected) != untuned
    assert [delta.entropy for delta in found] == pytest.approx(
        [delta.entropy for delta in expected], abs=1e-3
    )
    assert capfd.readouterr().err == ""  # what a child says last would be told when it dies


def test_an_adapter_may_bring_its_own_tokenizer_and_template(backend: Backend, adapter: Path, tmp_path: Path):
    (tmp_path / "base" / "chat_template.jinja").unlink()
    with pytest.raises(EngineError, match="brings no chat template"):
        backend.load(adapter, OPTIONS)
    shutil.copy(tmp_path / "base" / "tokenizer.json", adapter)
    (tmp_path / "base" / "tokenizer.json").write_text("{}")
    (adapter / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    backend.load(adapter, OPTIONS)
    *_, last = backend.generate(Prompt((Message(Role.USER, "12"),)))
    assert last.usage is not None
    assert last.usage.prompt_tokens == 2


def test_an_adapter_of_a_base_with_tokens_added_is_loaded(backend: Backend, adapter: Path, tmp_path: Path):
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    for name in ("model.embed_tokens", "lm_head"):
        rows = load_file(tmp_path / "base" / "model.safetensors")[f"{name}.weight"].astype(np.float32)
        tensors[f"base_model.model.{name}.weight"] = np.concatenate([rows, rows[:3]])
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["modules_to_save"] = ["embed_tokens", "lm_head"]
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    backend.load(tmp_path / "merged", OPTIONS)
    expected = reply(backend)
    backend.load(adapter, OPTIONS)
    assert reply(backend) == expected


def test_an_adapter_stays_beside_weights_of_half_the_digits(backend: Backend, adapter: Path, tmp_path: Path):
    import torch

    from models.engines.transformers import TransformersBackend
    from models.engines.transformers_loading import Device, load_network, plan

    roomy = Device("cpu", 10**10, 10**10)
    tight = Device("cpu", plan(adapter, OPTIONS, roomy).memory.needed_bytes - 1, 10**10)
    known = plan(adapter, OPTIONS, tight)
    assert known.dtype is None
    network = load_network(known)
    assert network.dtype == torch.float16
    assert any("lora_A" in name for name, _ in network.named_parameters())
    halved = TransformersBackend(Interrupt(), tight)
    halved.load(adapter, OPTIONS)
    backend.load(adapter, OPTIONS)
    assert reply(halved)[0][:8] == reply(backend)[0][:8]


def strange_shapes(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    save_file({name: tensor[:, :1] for name, tensor in load_file(path).items()}, path)


def half_of_it(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    save_file(dict(list(load_file(path).items())[:3]), path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: shutil.rmtree(folder.parent / "base"), "is a LoRA adapter of"),
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "without adapter_model.safetensors"),
        (lambda folder: os.truncate(folder / "adapter_model.safetensors", 5000), "truncated"),
        (lambda folder: (folder / "adapter_config.json").write_text("{"), "not a readable JSON object"),
        (strange_shapes, "cannot be loaded by transformers (Error(s) in loading state_dict"),
        (half_of_it, "is not its base"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_is_one_sentence(
    backend: Backend, adapter: Path, damage: Damage, said: str
):
    damage(adapter)
    assert said in why_not(backend, adapter)


# What does not load


def why_not(backend: Backend, path: Path, options: EngineOptions = OPTIONS) -> str:
    """The sentence with which a model is refused, twice the same."""
    said = set()
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            backend.load(path, options)
        said.add(str(caught.value))
    (sentence,) = said
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def configured(**config: Any) -> Damage:
    def change(folder: Path) -> None:
        table = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(table))

    return change


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def sharded(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {name: f"model-0000{name}-of-00002.safetensors" for name in "12"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def without_head(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({name: tensor for name, tensor in tensors.items() if "lm_head" not in name}, folder / "m")
    os.replace(folder / "m", folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shutil.rmtree, "There is no file or folder"),
        (lambda folder: (folder / "config.json").unlink(), "nor a config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "not readable JSON"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no safetensors"),
        (pickled, "are pickles, which can run code"),
        (lambda folder: os.truncate(folder / "model.safetensors", 100_000), "truncated"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"<html>404</html>"), "not a whole"),
        (sharded, "lacks model-00002-of-00002.safetensors"),
        (without_head, "lacks 1 of its weights, such as lm_head.weight"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "The tokenizer of broken cannot be"),
        (configured(model_type="abacus3"), "holds a abacus3 model, a kind this transformers does not know"),
        (configured(model_type="abacus3", auto_map={"AutoConfig": "a.A"}), "run a program that it brings"),
        (configured(model_type="t5"), "cannot go on with a conversation"),
        (configured(intermediate_size=99), "cannot be loaded by transformers"),
        (configured(quantization={"bits": 4}), "use the mlx engine"),
    ],
)
def test_a_folder_that_is_no_model_is_one_sentence(
    backend: Backend, nano_folder: Path, tmp_path: Path, damage: Damage, said: str
):
    folder = tmp_path / "broken"
    shutil.copytree(nano_folder, folder)
    damage(folder)
    sentence = why_not(backend, folder)
    assert said in sentence
    assert "broken" in sentence


def test_a_file_of_another_engine_is_sent_there(backend: Backend, nano: Path):
    assert "use the llama engine" in why_not(backend, nano)


def test_a_model_too_big_for_memory_is_refused_before_it_is_loaded(backend: Backend, nano_folder: Path):
    sentence = why_not(backend, nano_folder, replace(OPTIONS, memory_bytes=1_000_000))
    assert " and 1.0 MB are free: close other programs, or choose a smaller model or context." in sentence


def test_after_a_model_that_does_not_load_another_one_does(backend: Backend, nano_folder: Path, nano: Path):
    why_not(backend, nano)
    with pytest.raises(EngineError, match="No model is loaded"):
        backend.generate(GREEDY)
    backend.load(nano_folder, OPTIONS)
    assert reply(backend)[0]


def test_the_fallback_serves_a_folder_without_a_template(backend: Backend, make_nano_folder: MakeNano):
    backend.load(make_nano_folder(template=None), replace(OPTIONS, fallback_format=PromptFormat.CHATML))
    bare = reply(backend)
    backend.load(make_nano_folder(), OPTIONS)
    assert reply(backend) == bare


def test_no_memory_is_recognised_whatever_torch_calls_it():
    import torch

    from models.engines.transformers_loading import is_out_of_memory

    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**16)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."))
    assert is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 9 GiB)."))
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))


def test_a_model_is_gone_before_the_next_one_is_loaded(backend: Backend, make_nano_folder: MakeNano):
    def networks() -> int:
        return sum(type(thing).__name__ == "Qwen2ForCausalLM" for thing in gc.get_objects())

    backend.load(make_nano_folder(), OPTIONS)
    reply(backend)
    before = networks()
    for seed in range(3):
        backend.load(make_nano_folder(seed=seed), OPTIONS)
        reply(backend)
    assert networks() <= before


# Tokens of tokenizer and weights


def test_rows_that_only_fill_up_the_logits_are_never_drawn(
    backend: Backend, nano_folder: Path, tmp_path: Path
):
    folder = tmp_path / "padded"
    shutil.copytree(nano_folder, folder)
    tensors = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        rows = tensors[name]
        tensors[name] = np.concatenate([rows, rows[:60] * 30])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    configured(vocab_size=464)(folder)
    backend.load(nano_folder, OPTIONS)
    expected = reply(backend)
    backend.load(folder, OPTIONS)
    assert reply(backend) == expected


def test_a_tokenizer_of_another_model_is_one_sentence(
    backend: Backend, make_nano_folder: MakeNano, tmp_path: Path
):
    folder = tmp_path / "mixed"
    shutil.copytree(make_nano_folder(), folder)
    shutil.copy(make_nano_folder(says="something of " * 9) / "tokenizer.json", folder)
    backend.load(folder, OPTIONS)
    with pytest.raises(EngineError, match=r"^The tokenizer of mixed has a token \d+, .* copy the tokenizer"):
        reply(backend)

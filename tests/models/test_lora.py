"""A LoRA adapter's folder: its base is found, or one sentence says how to get it."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from models.catalogue import Format, HubSource, Model, PromptFormat
from models.errors import DamagedFile, NotAModel, NotConverted
from models.lora import base_of, is_adapter
from models.manifest import Manifest, write
from models.store import Store
from models.weights import recognise


def write_tensors(path: Path, length: int = 128) -> None:
    head = json.dumps({"a": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(length))


def named(adapter: Path, base: object, **more: object) -> Path:
    config = {"peft_type": "LORA", "base_model_name_or_path": base, **more}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    return adapter


@pytest.fixture
def base(tmp_path) -> Path:
    path = tmp_path / "base model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    (path / "tokenizer.json").write_text("{}")
    (path / "chat_template.jinja").write_text("<|im_start|>")
    (path / "README.md").write_text("---\nlicense: mit\n---\n")
    write_tensors(path / "model.safetensors")
    return path


@pytest.fixture
def adapter(tmp_path, base) -> Path:
    path = tmp_path / "checkpoint-100"
    path.mkdir()
    write_tensors(path / "adapter_model.safetensors", 64)
    (path / "trainer_state.json").write_text("{}")
    return named(path, str(base))


@pytest.fixture
def lora_store(tmp_path) -> Store:
    return Store(home=tmp_path / "home", engines=("transformers",))


def test_an_adapter_is_known_with_its_base(adapter, base) -> None:
    weights = recognise(adapter)
    assert (weights.format, weights.path, weights.base) == (Format.LORA, adapter, base)
    assert (weights.context, weights.licence, weights.has_chat_template) == (4096, "mit", True)
    assert "adapter_model.safetensors" in {file.name for file in weights.files}
    assert weights.prompt_format is PromptFormat.CHATML


def test_an_adapters_own_template_comes_before_its_bases(adapter) -> None:
    (adapter / "chat_template.jinja").write_text("[INST]")
    assert recognise(adapter).prompt_format is PromptFormat.OWN


def test_the_base_may_be_named_from_the_adapters_folder(adapter, base, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir("/")
    assert base_of(named(adapter, "../base model"), tmp_path) == base
    assert base_of(named(adapter, "../base model/"), tmp_path) == base


def test_the_base_may_be_a_model_of_the_store(adapter, base, lora_store) -> None:
    lora_store.add(base, "mine")
    for name in ("mine", "Mine", "somebody/Mine"):
        assert recognise(named(adapter, name), lora_store.home).base == base


def test_the_base_may_be_pulled_under_another_name_than_the_hubs(adapter, base, tmp_path) -> None:
    home = tmp_path / "home"
    folder = home / "models" / "short-name" / "hf"
    shutil.copytree(base, folder)
    source = HubSource(Format.HF, "Some/Long-Name", "main", ("*",), 1, {})
    model = Model("short-name", Format.HF, folder, "mit", PromptFormat.OWN, 1, source, None, 1)
    write(Manifest(folder, model, ()))
    assert base_of(named(adapter, "some/long-name"), home) == folder


def test_a_base_that_is_nowhere_says_how_to_get_it(adapter, tmp_path) -> None:
    with pytest.raises(NotAModel, match="which is not on this machine") as caught:
        recognise(named(adapter, "Nobody/Qwen-9"), tmp_path / "home")
    assert "`ocamler models add FOLDER --name qwen-9`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("base", ["ocamler-1.5b", "nilenso/Qwen2.5-OCamler-1.5B-Instruct"])
def test_a_base_that_the_catalogue_knows_can_be_pulled(adapter, tmp_path, base) -> None:
    with pytest.raises(NotAModel, match=r"`ocamler models pull ocamler-1\.5b --format hf`"):
        base_of(named(adapter, base), tmp_path / "home")


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda a: (a / "adapter_config.json").write_text("{"), DamagedFile, "not a readable JSON object"),
        (lambda a: (a / "adapter_config.json").write_text("[]"), DamagedFile, "not a readable JSON object"),
        (lambda a: named(a, None), NotAModel, "names no base model"),
        (lambda a: named(a, " "), NotAModel, "names no base model"),
        (lambda a: named(a, 7), NotAModel, "names no base model"),
        (lambda a: named(a, "."), NotAModel, "no whole Hugging Face model"),
        (lambda a: named(a, str(a)), NotAModel, "no whole Hugging Face model"),
        (lambda a: named(a, "../x", peft_type="IA3"), NotAModel, "kind IA3"),
        (lambda a: (a / "adapter_model.safetensors").unlink(), NotAModel, "without adapter_model"),
        (
            lambda a: (a / "adapter_model.safetensors").rename(a / "adapter_model.bin"),
            NotAModel,
            "pickle, which can run code",
        ),
        (lambda a: os.truncate(a / "adapter_model.safetensors", 90), DamagedFile, "truncated|not a whole"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_one_sentence(adapter, tmp_path, spoil, error, words) -> None:
    spoil(adapter)
    with pytest.raises(error, match=words) as caught:
        recognise(adapter, tmp_path)
    assert "\n" not in str(caught.value)


def test_an_adapter_of_quantized_weights_is_refused(adapter, base) -> None:
    (base / "config.json").write_text(json.dumps({"quantization": {"bits": 4}}))
    with pytest.raises(NotAModel, match="is mlx weights"):
        recognise(adapter)


def test_adapters_that_are_each_others_base_are_refused(adapter, tmp_path) -> None:
    other = Path(shutil.copytree(adapter, tmp_path / "other"))
    for one, base in ((adapter, other), (other, adapter)):
        (one / "config.json").write_text("{}")
        named(one, str(base))
    with pytest.raises(NotAModel, match="is another: merge that one"):
        recognise(adapter)


def test_weights_beside_an_adapter_are_the_model(base) -> None:
    named(base, "anything")
    assert not is_adapter(base)
    assert recognise(base).format is Format.HF


def test_an_adapter_that_brings_its_bases_config_is_still_one(adapter) -> None:
    (adapter / "config.json").write_text("{}")
    assert recognise(adapter).format is Format.LORA


def test_the_store_takes_an_adapter_and_remembers_its_base(adapter, base, lora_store) -> None:
    added = lora_store.add(adapter, "tuned")
    assert lora_store.resolve("tuned") == added
    assert (added.format, added.path, added.base) == (Format.LORA, adapter, base)
    assert lora_store.resolve(str(adapter)).base == base


def test_a_base_that_has_gone_is_missed_before_it_is_loaded(adapter, base, lora_store) -> None:
    lora_store.add(adapter, "tuned")
    base.rename(base.with_name("elsewhere"))
    with pytest.raises(NotAModel, match="which is not on this machine"):
        lora_store.resolve("tuned")
    named(adapter, "../elsewhere")
    assert lora_store.resolve("tuned").base == base.with_name("elsewhere")


def test_an_engine_that_loads_no_adapters_says_which_does(adapter, lora_store) -> None:
    with pytest.raises(NotConverted, match="with its `transformers` extra"):
        lora_store.resolve(str(adapter), [Format.GGUF])

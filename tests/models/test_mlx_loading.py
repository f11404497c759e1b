"""What MLX makes of folders: those that mlx-lm misreads, and those that are refused in one sentence."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from driving_mlx import (
    ASK,
    changed,
    complete,
    opened,
    tensors_of,
    with_tensors,
)
from mlx import nn
from mlx.utils import tree_flatten

from models.engines import EngineOptions, Prompt, Sampling
from models.engines.backend import Interrupt
from models.engines.mlx import MlxBackend
from models.engines.mlx_library import classes_of
from models.errors import EngineError


@pytest.mark.parametrize(
    "spelled",
    [
        {"rope_parameters": {"rope_theta": 77.0, "rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 77.0}, "rope_scaling": {"rope_type": "default"}},
        {
            "rope_parameters": {
                "full_attention": {"rope_theta": 77.0},
                "sliding_attention": {"rope_theta": 5.0},
            }
        },
    ],
)
def test_the_angles_that_transformers_5_writes_are_read(
    nano_folder: Path, tmp_path: Path, spelled: dict[str, Any]
):
    old = complete(opened(changed(nano_folder, tmp_path / "old", rope_theta=77.0)))
    new = complete(opened(changed(nano_folder, tmp_path / "new", rope_theta=None, **spelled)))
    assert new.text == old.text
    assert new.text != complete(opened(changed(nano_folder, tmp_path / "none", rope_theta=None))).text


def test_stretched_angles_that_transformers_5_writes_are_read(nano_folder: Path, tmp_path: Path):
    linear = {"rope_type": "linear", "factor": 4.0}
    old = complete(opened(changed(nano_folder, tmp_path / "old", rope_scaling=linear)))
    new = complete(
        opened(
            changed(
                nano_folder,
                tmp_path / "new",
                rope_theta=None,
                rope_parameters={**linear, "rope_theta": 10000.0},
            )
        )
    )
    assert new.text == old.text != complete(opened(nano_folder)).text


@pytest.mark.parametrize("tied", [True, None])
def test_a_head_of_its_own_is_kept_though_the_configuration_ties_it(
    nano_folder: Path, tmp_path: Path, tied: bool | None
):
    folder = changed(nano_folder, tmp_path / "tied", tie_word_embeddings=tied)
    assert complete(opened(folder)).text == complete(opened(nano_folder)).text


def test_a_head_that_is_the_embeddings_twin_stays_tied(nano_folder: Path, tmp_path: Path):
    tensors = tensors_of(nano_folder)
    twin = tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"]}
    none = {name: tensor for name, tensor in tensors.items() if name != "lm_head.weight"}
    texts = []
    for name, weights in (("twin", twin), ("none", none)):
        folder = with_tensors(changed(nano_folder, tmp_path / name, tie_word_embeddings=True), weights)
        texts.append(complete(opened(folder)).text)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantized_folder_is_loaded_as_it_is(
    make_nano_folder: Callable[..., Path], tmp_path: Path, bits: int
):
    plain = make_nano_folder(says="let f x = x + 1;;")
    config = json.loads((plain / "config.json").read_text())
    network, arguments = classes_of(config)
    network = network(arguments.from_dict(config))
    network.load_weights(list(tensors_of(plain).items()))
    nn.quantize(network, group_size=32, bits=bits)
    quantization = {"group_size": 32, "bits": bits}
    folder = changed(plain, tmp_path / f"{bits}bit", quantization=quantization)
    with_tensors(folder, dict(tree_flatten(network.parameters())))
    assert complete(opened(folder)).text == "let f x = x + 1;;"


def test_weights_in_parts_are_joined(nano_folder: Path, tmp_path: Path):
    folder = changed(nano_folder, tmp_path / "parts")
    tensors = tensors_of(nano_folder)
    mx.eval(tensors)
    (folder / "model.safetensors").unlink()
    names = {}
    for part, start in enumerate((0, 13), 1):
        file = f"model-{part:05}-of-00002.safetensors"
        own = dict(list(tensors.items())[start : 13 if start == 0 else None])
        mx.save_safetensors(str(folder / file), own)
        names |= dict.fromkeys(own, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    assert complete(opened(folder)).text == complete(opened(nano_folder)).text


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def config_with(**config: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        table = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps({k: v for k, v in table.items() if v is not None}))

    return change


def cut_to(share: float) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        file = folder / "model.safetensors"
        os.truncate(file, int(file.stat().st_size * share))

    return cut


def lacking_a_tensor(folder: Path) -> None:
    tensors = tensors_of(folder)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    with_tensors(folder, tensors)


def named_otherwise(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "weights.safetensors")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shutil.rmtree, "There is no file or folder"),
        (without("config.json"), "config.json"),
        (without("model.safetensors"), "holds no safetensors"),
        (without("tokenizer.json"), "tokenizer"),
        (lambda folder: (folder / "config.json").write_text("{"), "not readable JSON"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "tokenizer of weights cannot be read"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "not a whole safetensors file"),
        (cut_to(0.5), "truncated"),
        (cut_to(0.999), "truncated"),
        (config_with(model_type="abacus3"), "holds a abacus3 model, a kind this mlx-lm does not know"),
        (config_with(model_type=None), "model_type"),
        (config_with(hidden_size=128), "cannot be loaded by mlx-lm ("),
        (config_with(num_hidden_layers=3), "cannot be loaded by mlx-lm ("),
        (config_with(num_attention_heads=None), "cannot be loaded by mlx-lm ("),
        (config_with(num_key_value_heads=3), "cannot be loaded by mlx-lm ("),
        (config_with(hidden_size="wide"), "cannot be loaded by mlx-lm ("),
        (config_with(model_file="run_me.py"), "wants to run a program that it brings along"),
        (lacking_a_tensor, "up_proj"),
        (named_otherwise, "No safetensors found"),
    ],
)
def test_a_folder_that_is_no_model_is_one_sentence_and_the_next_is_loaded(
    nano_folder: Path, tmp_path: Path, damage: Callable[[Path], Any], said: str
):
    folder = tmp_path / "weights"
    shutil.copytree(nano_folder, folder)
    damage(folder)
    backend = MlxBackend(Interrupt())
    with pytest.raises(EngineError) as caught:
        backend.load(folder, EngineOptions())
    sentence = str(caught.value)
    assert said in sentence
    assert "weights" in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")
    backend.load(nano_folder, EngineOptions())
    assert complete(backend).tokens


def test_other_formats_are_sent_to_their_engines(nano: Path):
    with pytest.raises(EngineError, match="which mlx-lm does not load: use the llama engine"):
        MlxBackend(Interrupt()).load(nano, EngineOptions())


def test_a_model_too_big_for_memory_is_refused_before_it_is_loaded(nano_folder: Path):
    with pytest.raises(EngineError, match=r" needs about .* and 1\.0 MB are free: close other programs"):
        MlxBackend(Interrupt()).load(nano_folder, EngineOptions(memory_bytes=1_000_000))


def test_asking_before_loading_is_one_sentence():
    with pytest.raises(EngineError, match="No model is loaded"):
        MlxBackend(Interrupt()).generate(Prompt(ASK))


def test_a_token_that_the_weights_do_not_have_is_one_sentence(nano_folder: Path, tmp_path: Path):
    folder = changed(nano_folder, tmp_path / "small", vocab_size=300)
    tensors = tensors_of(nano_folder)
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        tensors[name] = tensors[name][:300]
    with pytest.raises(
        EngineError, match=r"^The tokenizer of small has a token \d+, and its weights have 300: "
    ):
        complete(opened(with_tensors(folder, tensors)))


def test_weights_that_are_no_numbers_are_one_sentence(nano_folder: Path, tmp_path: Path):
    tensors = tensors_of(nano_folder)
    tensors["model.norm.weight"] = tensors["model.norm.weight"] * float("nan")
    backend = opened(with_tensors(changed(nano_folder, tmp_path / "nan"), tensors))
    for temperature in (0.0, 1.0):
        with pytest.raises(EngineError, match="no usable numbers"):
            complete(backend, sampling=Sampling(temperature, max_tokens=5))


def test_padded_rows_of_the_head_are_never_drawn(nano_folder: Path, tmp_path: Path):
    tensors = tensors_of(nano_folder)
    size = tensors["lm_head.weight"].shape[0]
    rows = mx.ones((28, 64), mx.float16) * 50
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        tensors[name] = mx.concatenate([tensors[name], rows])
    folder = with_tensors(changed(nano_folder, tmp_path / "padded", vocab_size=size + 28), tensors)
    assert complete(opened(folder)) == complete(opened(nano_folder))

"""Telling what a file or folder of the user's is, and refusing in one sentence what is no whole model."""

import json
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from models.catalogue import Format, PromptFormat
from models.errors import DamagedFile, NotAModel
from models.weights import folder_template, recognise, weight_files, whole_number


def write_gguf(path: Path, *, kind: str = "", tensors: int = 1, template: str = "", split: int = 0) -> Path:
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(1024)
    if kind:
        writer.add_type(kind)
    if template:
        writer.add_chat_template(template)
    if split:
        writer.add_uint16("split.count", split)
    for n in range(tensors):
        writer.add_tensor(f"{n}.weight", np.ones((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_safetensors(path: Path, length: int = 128) -> Path:
    head = json.dumps({"a": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(length))
    return path


CONFIG = {
    "max_position_embeddings": 4096,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
}


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "tokenizer.json").write_text("{}")
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "<|im_start|>"}))
    (path / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Card\n")
    write_safetensors(path / "model.safetensors")
    return path


def test_a_gguf_file_is_known_by_its_head_and_not_by_its_name(tmp_path) -> None:
    weights = recognise(write_gguf(tmp_path / "blob", template="<|im_start|>"))
    assert (weights.format, weights.context, weights.has_chat_template) == (Format.GGUF, 1024, True)


@pytest.mark.parametrize(
    ("template", "expected"),
    [("", PromptFormat.CHATML), ("<|im_start|>{{ x }}", PromptFormat.CHATML), ("[INST]", PromptFormat.OWN)],
)
def test_a_template_of_another_kind_is_the_models_own(tmp_path, template, expected) -> None:
    assert recognise(write_gguf(tmp_path / "m.gguf", template=template)).prompt_format is expected


def test_a_folder_with_one_gguf_file_is_that_file(tmp_path) -> None:
    path = write_gguf(tmp_path / "only.gguf")
    assert recognise(tmp_path).path == path


def test_weights_in_several_files_are_one_model_named_by_the_first(tmp_path) -> None:
    names = [f"big-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    paths = [write_gguf(tmp_path / name, split=3, tensors=int(n != 0)) for n, name in enumerate(names)]
    weights = recognise(paths[1])
    assert weights.path == paths[0]
    assert weights.files == tuple(paths)
    assert weights.size == sum(path.stat().st_size for path in paths)
    assert weight_files(paths[0]) == tuple(paths)
    paths[2].unlink()
    with pytest.raises(NotAModel, match=r"big-00003-of-00003\.gguf is not beside it"):
        recognise(paths[0])


def test_a_hugging_face_folder_is_recognised(folder) -> None:
    weights = recognise(folder)
    assert (weights.format, weights.path, weights.context) == (Format.HF, folder, 4096)
    assert (weights.licence, weights.prompt_format) == ("apache-2.0", PromptFormat.CHATML)
    assert {file.name for file in weights.files} >= {"model.safetensors", "config.json", "tokenizer.json"}


def test_a_quantized_folder_is_mlx(folder) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "quantization": {"bits": 8, "group_size": 64}}))
    assert recognise(folder).format is Format.MLX


def test_a_template_may_lie_in_a_file_of_its_own(folder) -> None:
    (folder / "tokenizer_config.json").unlink()
    assert not recognise(folder).has_chat_template
    (folder / "chat_template.jinja").write_text("[INST]")
    assert recognise(folder).prompt_format is PromptFormat.OWN


@pytest.mark.parametrize(
    ("table", "template"),
    [
        ({"chat_template": [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]}, "d"),
        ({"chat_template": [{"name": "tools", "template": "t"}]}, ""),
        ({"chat_template": ["d"]}, ""),
        ({"chat_template": 7}, ""),
        (["d"], ""),
    ],
)
def test_a_template_may_be_one_of_several_or_none(folder, table, template) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(table))
    assert folder_template(folder) == template


def test_a_mark_at_the_start_of_a_text_file_is_no_part_of_it(folder) -> None:
    table = folder / "tokenizer_config.json"
    table.write_text(table.read_text(), encoding="utf-8-sig")
    assert folder_template(folder) == "<|im_start|>"
    (folder / "chat_template.jinja").write_text("own", encoding="utf-8-sig")
    assert folder_template(folder) == "own"


@pytest.mark.parametrize("number", [-4, "4", 4.0, True, None, [4]])
def test_what_is_no_count_is_unknown(number) -> None:
    assert whole_number({"num_attention_heads": number}, "num_attention_heads") == 0


def test_shards_are_found_by_their_index(folder) -> None:
    (folder / "model.safetensors").unlink()
    write_safetensors(folder / "model-1.safetensors")
    write_safetensors(folder / "unrelated.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DamagedFile, match=r"lacks model-2\.safetensors"):
        recognise(folder)
    write_safetensors(folder / "model-2.safetensors")
    names = [file.name for file in recognise(folder).files if file.suffix == ".safetensors"]
    assert names == ["model-1.safetensors", "model-2.safetensors"]


def cut(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:-count])


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda f: (f / "config.json").write_text("{"), DamagedFile, "not readable JSON"),
        (lambda f: (f / "config.json").write_text("[1]"), DamagedFile, "not a JSON object"),
        (lambda f: (f / "config.json").write_text("[" * 99_999), DamagedFile, "not readable JSON"),
        (lambda f: (f / "tokenizer.json").unlink(), NotAModel, "no tokenizer"),
        (lambda f: cut(f / "model.safetensors", 3), DamagedFile, "truncated: 3 bytes"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x"), DamagedFile, "not a whole safetensors file"),
        (
            lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 99),
            DamagedFile,
            "not a whole safetensors",
        ),
        (
            lambda f: (f / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n"),
            NotAModel,
            "git lfs pull",
        ),
        (lambda f: (f / "model.safetensors").unlink(), NotAModel, "holds no safetensors"),
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), NotAModel, "pickles"),
        (lambda f: (f / "model.safetensors.index.json").write_text("{}"), DamagedFile, "index of weights"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": 1}}'),
            DamagedFile,
            "index of weights",
        ),
        (lambda f: (f / "config.json").unlink(), NotAModel, "neither a GGUF file nor a config.json"),
        (lambda f: (f / "config.json").rename(f / "adapter_config.json"), NotAModel, "LoRA adapter"),
    ],
)
def test_a_folder_that_is_no_whole_model_is_refused_in_one_sentence(folder, spoil, error, words) -> None:
    spoil(folder)
    with pytest.raises(error, match=words) as caught:
        recognise(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda d: write_gguf(d / "m.gguf", kind="adapter"), NotAModel, "LoRA adapter"),
        (lambda d: write_gguf(d / "m.gguf", kind="mmproj"), NotAModel, "mmproj"),
        (lambda d: write_gguf(d / "m.gguf", tensors=0), NotAModel, "vocabulary"),
        (lambda d: cut(write_gguf(d / "m.gguf"), 33) or d / "m.gguf", DamagedFile, "truncated"),
        (lambda d: d / "none.gguf", NotAModel, "There is no file or folder"),
        (lambda d: [write_gguf(d / n) for n in ("a.gguf", "b.gguf")] and d, NotAModel, "holds 2 GGUF files"),
        (lambda d: d, NotAModel, "neither a GGUF file"),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused_in_one_sentence(tmp_path, make, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        recognise(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_one_file_of_a_folder_is_refused_with_the_folder(folder) -> None:
    with pytest.raises(NotAModel, match=f"name its folder, {folder}"):
        recognise(folder / "model.safetensors")

"""What a model will take, said before it is loaded, on machines of all sizes."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest

from models.catalogue import Format, load
from models.engines import EngineOptions
from models.engines.plan import MemoryPlan, describe, plan_here, plan_memory, refuse_too_big
from models.errors import EngineError

GB = 10**9


def sparse(path: Path, size: int) -> None:
    """Make a file as long as weights are; on disk it takes nothing."""
    with path.open("r+b") as file:
        file.truncate(size)


def write_gguf(
    path: Path, *, layers: int, kv_heads: int, vocabulary: int, trained: int, quantized: int
) -> Path:
    """A head like that of Qwen2.5 with heads of 128; ``quantized`` bytes of it are repacked for a CPU."""
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(trained)
    writer.add_block_count(layers)
    writer.add_embedding_length(12 * 128)
    writer.add_head_count(12)
    writer.add_head_count_kv(kv_heads)
    writer.add_vocab_size(vocabulary)
    blocks = quantized // 144
    writer.add_tensor_info("blk.0.ffn_up.weight", [1, blocks * 144], np.dtype(np.uint8), blocks * 144,
                           raw_dtype=gguf.GGMLQuantizationType.Q4_K)  # fmt: skip
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """Heads of real sizes: Qwen2.5-Coder in Q4_K_M, without the weights."""
    folder = tmp_path_factory.mktemp("heads")
    table = {
        "1.5b": (28, 2, 151936, 32768, 625_000_000, 1_117_000_000),
        "7b": (28, 4, 152064, 32768, 2_900_000_000, 4_680_000_000),
        "short": (28, 2, 151936, 3000, 0, 100_000_000),
        "shorter": (28, 2, 151936, 512, 0, 100_000_000),
        "unknown": (28, 2, 151936, 0, 0, 100_000_000),
    }
    paths = {}
    for name, (layers, heads, vocabulary, trained, quantized, size) in table.items():
        paths[name] = write_gguf(
            folder / f"{name}.gguf", layers=layers, kv_heads=heads, vocabulary=vocabulary, trained=trained,
            quantized=quantized,
        )  # fmt: skip
        sparse(paths[name], size)
    return paths


def planned(
    path: Path, *, free: float, total: float = 16, on_gpu: bool = False, **options: int
) -> MemoryPlan:
    return plan_memory(
        path,
        Format.GGUF,
        EngineOptions(**options),
        free=int(free * GB),
        total=int(total * GB),
        on_gpu=on_gpu,
    )


@pytest.mark.parametrize(
    ("model", "total", "free", "on_gpu", "expected"),
    [
        ("1.5b", 16, 12.0, True, 8192),
        ("1.5b", 16, 6.0, True, 8192),  # a browser is open
        ("1.5b", 16, 4.0, False, 8192),
        ("1.5b", 16, 3.6, False, 4096),
        ("1.5b", 8, 2.8, False, 4096),
        ("1.5b", 8, 1.0, False, 1024),  # refused, with the least that could be meant
        ("7b", 16, 12.0, True, 8192),
        ("7b", 16, 6.8, True, 4096),
        ("7b", 16, 6.7, True, 2048),
        ("7b", 16, 12.0, False, 8192),
        ("7b", 16, 9.5, False, 2048),
        ("7b", 8, 4.0, True, 1024),
        ("7b", 64, 60.0, False, 8192),
        ("short", 16, 12.0, True, 2048),
        ("shorter", 16, 12.0, True, 512),
        ("unknown", 16, 12.0, True, 8192),
    ],
)
def test_the_context_is_the_largest_usual_one_that_leaves_the_machine_some_air(
    models, model, total, free, on_gpu, expected
) -> None:
    assert planned(models[model], free=free, total=total, on_gpu=on_gpu).context_tokens == expected


@pytest.mark.parametrize(("asked", "kept"), [(1, 1), (5000, 5000), (32768, 32768), (100_000, 32768)])
def test_a_context_that_was_chosen_is_kept_as_far_as_the_model_was_trained(models, asked, kept) -> None:
    assert planned(models["1.5b"], free=1, context_tokens=asked).context_tokens == kept


@pytest.mark.parametrize("tokens", [0, -5])
def test_a_context_that_holds_nothing_is_refused(models, tokens) -> None:
    with pytest.raises(EngineError, match="holds nothing"):
        planned(models["1.5b"], free=9, context_tokens=tokens)


def test_the_cache_grows_with_the_context_and_nothing_else_does(models) -> None:
    small = planned(models["1.5b"], free=9, context_tokens=2048)
    large = planned(models["1.5b"], free=9, context_tokens=8192)
    assert large.cache_bytes == 4 * small.cache_bytes == 8192 * 28 * 2 * 256 * 2
    assert (large.weights_bytes, large.work_bytes) == (small.weights_bytes, small.work_bytes)
    assert large.needed_bytes == large.weights_bytes + large.cache_bytes + large.work_bytes


def test_a_cpu_keeps_what_it_repacks_twice_and_a_gpu_does_not(models) -> None:
    on_cpu, on_gpu = (planned(models["1.5b"], free=9, on_gpu=on_gpu) for on_gpu in (False, True))
    assert on_gpu.weights_bytes == 1_117_000_000
    assert on_cpu.weights_bytes == pytest.approx(1_742_000_000, rel=0.01)


def test_what_the_user_allows_counts_instead_of_what_is_free(models) -> None:
    plan = planned(models["1.5b"], free=0.1, memory_bytes=3 * GB)
    assert (plan.fits, plan.free_bytes, plan.context_tokens) == (True, 3 * GB, 8192)
    assert not planned(models["1.5b"], free=9, memory_bytes=GB).fits


def test_too_big_is_told_with_what_is_needed_what_is_free_and_what_would_fit(models) -> None:
    plan = planned(models["7b"], free=8.5, context_tokens=32768)
    with pytest.raises(EngineError, match=r"needs about 9\.6 GB of memory with a context of 32768") as caught:
        refuse_too_big(plan, "big")
    words = str(caught.value)
    assert "8.5 GB are free: close other programs" in words
    assert "one of 13824 tokens would fit." in words
    fitting = planned(models["7b"], free=8.5, context_tokens=13824)
    assert fitting.fits
    assert not planned(models["7b"], free=8.5, context_tokens=13824 + 256).fits
    refuse_too_big(fitting, "big")


def test_too_big_with_any_context_names_none(models) -> None:
    with pytest.raises(EngineError) as caught:
        refuse_too_big(planned(models["7b"], free=3), "big")
    assert "would fit" not in str(caught.value)
    assert str(caught.value).endswith("choose a smaller model or context.")


def test_the_plan_is_told_in_words(models) -> None:
    words = describe(planned(models["1.5b"], free=9.1, context_tokens=8192))
    assert words == "needs about 2.1 GB (1.7 GB weights, 0.2 GB for 8192 tokens); 9.1 GB are free"


def test_weights_that_are_damaged_are_an_engines_error(tmp_path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 100)
    with pytest.raises(EngineError, match="damaged"):
        planned(tmp_path / "m.gguf", free=9)


# Folders


def write_folder(
    path: Path, config: dict[str, object], tensors: Sequence[tuple[str, str, list[int], int]]
) -> Path:
    """A Hugging Face folder whose tensors are (name, dtype, shape, bytes of an item)."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text("{}")
    write_tensors(path / "model.safetensors", tensors)
    return path


def write_tensors(path: Path, tensors: Sequence[tuple[str, str, list[int], int]]) -> None:
    head, end = {}, 0
    for name, dtype, shape, item in tensors:
        start, end = end, end + int(np.prod(shape)) * item
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    sparse(path, 8 + len(text) + end)


CONFIG = {
    "max_position_embeddings": 32768,
    "hidden_size": 1536,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "num_hidden_layers": 28,
    "vocab_size": 151936,
}
BF16 = [("a", "BF16", [1000, 1_500_000], 2)]
QUANTIZED = [("a", "U32", [1000, 200_000], 4), ("scales", "BF16", [1000, 25_000], 2)]


def of_folder(path: Path, form: Format, engine: str, dtype_bytes: int | None = None) -> MemoryPlan:
    return plan_memory(
        path, form, EngineOptions(context_tokens=8192), free=9 * GB, total=16 * GB, engine=engine,
        dtype_bytes=dtype_bytes,
    )  # fmt: skip


def test_a_folder_takes_what_its_files_do_in_mlx(tmp_path) -> None:
    plan = of_folder(write_folder(tmp_path / "m", CONFIG, BF16), Format.HF, "mlx")
    assert plan.weights_bytes == pytest.approx(3 * GB, rel=0.001)
    assert plan.cache_bytes == 8192 * 28 * 2 * 128 * 2 * 2


def test_float32_takes_twice_as_much_as_sixteen_bits(tmp_path) -> None:
    path = write_folder(tmp_path / "m", CONFIG, BF16)
    half, whole = (of_folder(path, Format.HF, "transformers", size) for size in (None, 4))
    assert whole.weights_bytes == pytest.approx(2 * half.weights_bytes, rel=0.001)
    assert whole.cache_bytes == 2 * half.cache_bytes
    assert whole.work_bytes == half.work_bytes


def test_quantized_weights_take_what_they_do_and_their_cache_sixteen_bits(tmp_path) -> None:
    config = {**CONFIG, "quantization": {"bits": 4, "group_size": 64}}
    plan = of_folder(write_folder(tmp_path / "m", config, QUANTIZED), Format.MLX, "mlx")
    assert plan.weights_bytes == pytest.approx(0.85 * GB, rel=0.001)
    assert plan.cache_bytes == 8192 * 28 * 2 * 128 * 2 * 2


def test_a_model_that_also_sees_is_reckoned_by_its_part_about_text(tmp_path) -> None:
    path = write_folder(tmp_path / "m", {"text_config": CONFIG, "vision_config": {}}, BF16)
    assert of_folder(path, Format.HF, "mlx").cache_bytes == 8192 * 28 * 2 * 128 * 2 * 2


def test_an_adapter_takes_what_its_base_does_and_its_own_weights(tmp_path) -> None:
    base = of_folder(write_folder(tmp_path / "m", CONFIG, BF16), Format.HF, "transformers", 4)
    (tmp_path / "lora").mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": "../m"}
    (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps(config))
    write_tensors(tmp_path / "lora" / "adapter_model.safetensors", [("x", "F32", [1000, 20_000], 4)])
    whole = of_folder(tmp_path / "lora", Format.LORA, "transformers", 4)
    assert whole.weights_bytes - base.weights_bytes == pytest.approx(80_000_000, rel=0.001)
    assert whole.cache_bytes == base.cache_bytes


def test_this_machine_is_asked_for_what_it_has(nano) -> None:
    plan = plan_here(nano, Format.GGUF, "llama", EngineOptions(context_tokens=2048))
    assert plan.fits
    assert plan.free_bytes > 0


def test_what_does_not_fit_in_float32_is_reckoned_as_its_files_have_it(tmp_path) -> None:
    path = write_folder(tmp_path / "m", CONFIG, BF16)
    plan = plan_here(path, Format.HF, "transformers", EngineOptions(memory_bytes=4 * GB))
    assert plan.fits
    assert plan.weights_bytes == pytest.approx(3 * GB, rel=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("context", [2048, 8192])
async def test_a_real_model_takes_what_was_said(real_model, engine_for, context) -> None:
    plan = plan_here(real_model, Format.GGUF, "llama", EngineOptions(context_tokens=context))
    footprint = await engine_for(real_model, context_tokens=context).load()
    assert footprint.context_tokens == context
    assert footprint.memory_bytes == pytest.approx(plan.needed_bytes, rel=0.2)


@pytest.mark.slow
def test_the_catalogue_tells_the_same(real_model) -> None:
    plan = plan_here(real_model, Format.GGUF, "llama", EngineOptions(context_tokens=4096))
    assert load().get("smollm2-135m").memory == pytest.approx(plan.needed_bytes, rel=0.2)

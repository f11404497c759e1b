"""The head of a GGUF file: read as the reference library wrote it, and never trusted."""

import struct
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import DamagedFile, ModelError, NotAModel
from models.gguf_header import read_gguf_header

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory) -> Path:
    """A small GGUF file from the reference writer: two tensors, one quantized, a vocabulary of 300."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_name("Tiny")
    writer.add_license("apache-2.0")
    writer.add_context_length(2048)
    writer.add_block_count(4)
    writer.add_embedding_length(64)
    writer.add_head_count(8)
    writer.add_head_count_kv(2)
    writer.add_chat_template(TEMPLATE)
    writer.add_token_list([f"tökén{n}" for n in range(300)])
    writer.add_token_scores([0.5] * 5000)
    writer.add_tensor("output.weight", np.ones((6, 64), dtype=np.float16))
    quantized = gguf.quantize(np.ones((8, 64), dtype=np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.weight", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def whole(whole_file) -> bytes:
    return whole_file.read_bytes()


@pytest.fixture
def written(tmp_path):
    def write(data: bytes) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        return path

    return write


def test_the_head_tells_what_the_model_is(whole, written) -> None:
    header = read_gguf_header(written(whole))
    assert (header.architecture, header.title, header.licence) == ("qwen2", "Tiny", "apache-2.0")
    assert header.kind == "model"
    assert header.context_length == 2048
    assert header.chat_template == TEMPLATE
    assert header.vocabulary == 300
    assert header.tensor_count == 2
    assert header.parameters == 6 * 64 + 8 * 64


def test_a_whole_file_is_not_truncated(whole, written) -> None:
    header = read_gguf_header(written(whole))
    assert not header.is_truncated
    assert header.data_end <= len(whole)


def test_a_file_without_its_last_byte_of_weights_is_truncated(whole, written) -> None:
    end = read_gguf_header(written(whole)).data_end
    header = read_gguf_header(written(whole[: end - 1]))
    assert header.is_truncated


def test_the_cache_grows_with_the_context(whole, written) -> None:
    header = read_gguf_header(written(whole))
    assert header.cache_bytes(1024) == 4 * 2 * (8 + 8) * 2 * 1024


@pytest.mark.parametrize(
    ("name", "kind", "repacked"),
    [
        ("blk.0.attn_q.weight", gguf.GGMLQuantizationType.Q4_0, 8 * 64 // 32 * 18),
        ("blk.0.attn_q.weight", gguf.GGMLQuantizationType.Q8_0, 0),
        ("token_embd.weight", gguf.GGMLQuantizationType.Q4_0, 0),
    ],
)
def test_what_llama_cpp_copies_for_a_cpu_is_counted(tmp_path, name, kind, repacked) -> None:
    path = tmp_path / "quantized.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tensor(name, gguf.quantize(np.ones((8, 64), dtype=np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_gguf_header(path).repacked_bytes == repacked


def test_numbers_given_a_layer_each_are_bounded_by_the_largest(tmp_path) -> None:
    path = tmp_path / "layers.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_head_count([4, 8])
    writer.add_head_count_kv([1, 4])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_gguf_header(path).cache_bytes(10) == 2 * 4 * (8 + 8) * 2 * 10


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", NotAModel, "is empty"),
        (b"GG", NotAModel, "not a GGUF file"),
        (b"PK\x03\x04 a zip file" * 10, NotAModel, "not a GGUF file"),
        (b"<html>404 Not Found</html>", NotAModel, "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\n", NotAModel, "git lfs pull"),
        (b"GGUF", DamagedFile, "truncated"),
        (b"GGUF" + struct.pack("<I", 3), DamagedFile, "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0) + bytes(40), NotAModel, "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0) + bytes(40), NotAModel, "version 99"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(40), NotAModel, "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60) + bytes(40), DamagedFile, "damaged"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + bytes(40), DamagedFile, "damaged"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77) + bytes(40), DamagedFile, "unknown type 77"),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**62) + bytes(40),
            DamagedFile,
            "damaged",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 4, 2**62) + bytes(40),
            DamagedFile,
            "damaged",
        ),
    ],
)
def test_what_is_no_gguf_file_is_refused_in_one_sentence(data, error, words, written) -> None:
    with pytest.raises(error, match=words) as caught:
        read_gguf_header(written(data))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused_in_one_sentence(tmp_path) -> None:
    with pytest.raises(NotAModel, match="cannot be read"):
        read_gguf_header(tmp_path / "none.gguf")


def test_a_folder_is_refused_in_one_sentence(tmp_path) -> None:
    with pytest.raises(NotAModel, match="is a folder"):
        read_gguf_header(tmp_path)


def test_a_file_cut_anywhere_is_either_refused_or_known_to_be_truncated(whole, written) -> None:
    end = read_gguf_header(written(whole)).data_end
    for length in [*range(0, 400, 7), *range(400, end, 997), end - 1]:
        with suppress(ModelError):
            assert read_gguf_header(written(whole[:length])).is_truncated


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 1200), byte=st.integers(0, 255))
def test_a_changed_byte_never_brings_a_traceback(at, byte, whole_file, written) -> None:
    data = bytearray(whole_file.read_bytes())
    data[at % len(data)] = byte
    with suppress(ModelError):
        read_gguf_header(written(bytes(data))).cache_bytes(4096)

"""The catalogue: real entries, names, sources, and which model is the default."""

import re
from importlib.util import find_spec

import pytest

from models.catalogue import (
    FileSource,
    Format,
    HubSource,
    PromptFormat,
    PyPISource,
    load,
    source_from_json,
    source_to_json,
)
from models.choice import default_model, defaults, engine_for, engines_here, loadable
from models.errors import NotConverted, UnknownModel

CATALOGUE = load()
GB = 1_000_000_000


def wheels(name: str) -> PyPISource:
    (source,) = [source for source in CATALOGUE.get(name).sources if isinstance(source, PyPISource)]
    return source


def test_the_best_model_stands_first() -> None:
    names = [entry.name for entry in CATALOGUE.entries]
    assert names == ["ocamler-1.5b", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m"]


@pytest.mark.parametrize("name", ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m"])
def test_the_parts_of_a_file_make_up_its_size(name: str) -> None:
    source = wheels(name)
    assert sum(part.size for part in source.parts) == source.size


@pytest.mark.parametrize("name", ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m"])
def test_every_part_is_pinned_by_version_and_hash(name: str) -> None:
    source = wheels(name)
    for part in source.parts:
        assert re.fullmatch(r"[a-z0-9-]+==\d+\.\d+\.\d+", part.requirement)
        assert re.fullmatch(r"[0-9a-f]{64}", part.sha256)
    assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
    assert len({part.sha256 for part in source.parts}) == len(source.parts)


def test_parts_are_joined_in_the_order_of_their_numbers() -> None:
    numbers = [int(part.package.rpartition("part")[2]) for part in wheels("qwen2.5-coder-1.5b").parts]
    assert numbers == list(range(1, 23))


@pytest.mark.parametrize("entry", CATALOGUE.entries, ids=lambda entry: entry.name)
def test_an_entry_says_all_that_a_user_asks(entry) -> None:
    assert entry.licence
    assert entry.description
    assert entry.parameters > 100_000_000
    assert entry.context >= 8192
    assert entry.memory > 100_000_000
    assert entry.prompt_format is PromptFormat.CHATML
    for source in entry.sources:
        assert source.size > 10_000_000
        assert not isinstance(source, HubSource) or source.revision


def test_the_hub_is_tried_before_the_copy_on_pypi() -> None:
    kinds = [type(source) for source in CATALOGUE.get("qwen2.5-coder-1.5b").sources_in([Format.GGUF])]
    assert kinds == [HubSource, PyPISource]


def test_the_preferred_format_comes_first() -> None:
    sources = CATALOGUE.get("qwen2.5-coder-0.5b").sources_in([Format.MLX, Format.HF, Format.GGUF])
    assert [source.format for source in sources] == [Format.MLX, Format.GGUF, Format.GGUF]


def test_safetensors_wait_for_conversion_where_only_llama_cpp_is() -> None:
    with pytest.raises(NotConverted, match=r"ocamler convert") as caught:
        CATALOGUE.get("ocamler-1.5b").sources_in([Format.GGUF])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("qwen2.5-coder-1.5", "qwen2.5-coder-1.5b"),
        ("qwen-coder-0.5b", "qwen2.5-coder-0.5b"),
        ("ocamler", "ocamler-1.5b"),
        ("SmolLM2", "smollm2-135m"),
    ],
)
def test_an_unknown_name_brings_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UnknownModel, match=rf"did you mean {re.escape(meant)}\?"):
        CATALOGUE.get(typed)


def test_a_name_like_no_other_brings_the_command_that_lists_them() -> None:
    with pytest.raises(UnknownModel, match="ocamler models list") as caught:
        CATALOGUE.get("gpt-9")
    assert "did you mean" not in str(caught.value)


def test_the_case_of_a_name_does_not_matter() -> None:
    assert CATALOGUE.get("Qwen2.5-Coder-0.5B").name == "qwen2.5-coder-0.5b"


@pytest.mark.parametrize(
    "source",
    [source for entry in CATALOGUE.entries for source in entry.sources],
    ids=lambda s: type(s).__name__,
)
def test_a_source_survives_a_manifest(source) -> None:
    assert source_from_json(source_to_json(source)) == source


def test_a_file_survives_a_manifest(tmp_path) -> None:
    assert source_from_json(source_to_json(FileSource(tmp_path))) == FileSource(tmp_path)


def test_chatml_is_there_for_weights_that_bring_no_template() -> None:
    from jinja2 import Template

    template = PromptFormat.CHATML.fallback_template
    assert template is not None
    text = Template(template).render(
        messages=[{"role": "user", "content": "Hello"}], add_generation_prompt=True
    )
    assert text == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert PromptFormat.OWN.fallback_template is None


@pytest.mark.parametrize(
    ("memory", "platform", "engines", "expected"),
    [
        (16 * GB, "darwin", ["mlx", "llama"], "ocamler-1.5b"),
        (16 * GB, "darwin", ["llama"], "qwen2.5-coder-1.5b"),
        (16 * GB, "linux", ["llama"], "qwen2.5-coder-1.5b"),
        (4 * GB, "linux", ["llama"], "qwen2.5-coder-1.5b"),
        (4 * GB, "darwin", ["mlx"], "qwen2.5-coder-1.5b"),
        (2 * GB, "linux", ["llama"], "qwen2.5-coder-0.5b"),
        (1 * GB, "linux", ["llama"], "smollm2-135m"),
        (0, "linux", ["llama"], "smollm2-135m"),
        (16 * GB, "linux", [], "qwen2.5-coder-1.5b"),
        (16 * GB, "linux", ["mlx", "llama", "transformers"], "qwen2.5-coder-1.5b"),
        (16 * GB, "darwin", ["llama", "transformers"], "qwen2.5-coder-1.5b"),
        (16 * GB, "linux", ["transformers"], "ocamler-1.5b"),
    ],
)
def test_the_default_is_the_best_that_the_machine_can_run(memory, platform, engines, expected) -> None:
    assert default_model(CATALOGUE, memory, platform, engines).name == expected


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"qwen2.5-coder-0.5b"}, "qwen2.5-coder-0.5b"),
        ({"qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}, "qwen2.5-coder-1.5b"),
        ({"smollm2-135m"}, "qwen2.5-coder-1.5b"),
        ({"a-model-of-mine"}, "qwen2.5-coder-1.5b"),
    ],
)
def test_a_model_that_is_here_and_writes_ocaml_spares_a_download(installed, expected) -> None:
    assert default_model(CATALOGUE, 16 * GB, "linux", ["llama"], installed).name == expected


def test_a_model_that_is_here_but_too_big_is_not_the_default() -> None:
    assert default_model(CATALOGUE, 2 * GB, "linux", ["llama"], {"qwen2.5-coder-1.5b"}).name == (
        "qwen2.5-coder-0.5b"
    )


def test_what_cannot_be_reached_has_a_next_best() -> None:
    names = [entry.name for entry in defaults(CATALOGUE, 16 * GB, "darwin", ["mlx", "llama"])]
    assert names[:2] == ["ocamler-1.5b", "qwen2.5-coder-1.5b"]


@pytest.mark.parametrize(
    ("engines", "platform", "expected"),
    [
        (["llama", "mlx"], "darwin", (Format.MLX, Format.HF, Format.GGUF)),
        (["llama", "mlx"], "linux", (Format.GGUF, Format.MLX, Format.HF)),
        (["llama"], "darwin", (Format.GGUF,)),
        ([], "linux", (Format.GGUF,)),
        (["mlx", "llama", "transformers"], "darwin", (Format.MLX, Format.HF, Format.GGUF, Format.LORA)),
        (["mlx", "llama", "transformers"], "linux", (Format.GGUF, Format.HF, Format.LORA, Format.MLX)),
        (["transformers"], "linux", (Format.HF, Format.LORA)),
    ],
)
def test_mlx_comes_first_on_a_mac_alone(engines, platform, expected) -> None:
    assert loadable(engines, platform) == expected


ALL = ("mlx", "llama", "transformers")


@pytest.mark.parametrize(
    ("form", "engines", "platform", "expected"),
    [
        (Format.HF, ALL, "darwin", "mlx"),
        (Format.HF, ALL, "linux", "transformers"),
        (Format.HF, ["mlx", "llama"], "linux", "mlx"),
        (Format.HF, ["transformers"], "darwin", "transformers"),
        (Format.HF, ["llama"], "darwin", "mlx"),
        (Format.HF, [], "linux", "transformers"),
        (Format.MLX, ALL, "linux", "mlx"),
        (Format.GGUF, ALL, "darwin", "llama"),
        (Format.GGUF, [], "linux", "llama"),
        (Format.LORA, ALL, "darwin", "transformers"),
    ],
)
def test_weights_are_loaded_by_the_engine_that_is_best_here(form, engines, platform, expected) -> None:
    assert engine_for(form, engines, platform) == expected


def test_the_engines_here_are_those_whose_packages_are_installed() -> None:
    found = engines_here()
    assert "llama" in found
    assert ("transformers" in found) == bool(find_spec("torch") and find_spec("transformers"))

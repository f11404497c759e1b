"""An MLX or Hugging Face folder to a network in memory, with what mlx-lm misreads in it mended."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import mlx.core as mx
from mlx.utils import tree_flatten

from models.catalogue import Format
from models.choice import memory_here
from models.engines import machine
from models.engines.mlx_library import caches, classes_of, load_config, load_model
from models.engines.options import EngineOptions
from models.engines.plan import MemoryPlan, plan_memory, refuse_too_big
from models.errors import EngineError, ModelError
from models.weights import Weights, recognise, weight_files

Layers: TypeAlias = list[Any]
"""What a network remembers of the tokens it read, layer by layer, in mlx-lm's caches."""

_Config: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Network:
    """Weights in memory. ``size`` is how many tokens it tells apart, ``numbers`` names its type of float."""

    module: Any
    size: int
    numbers: str
    is_on_gpu: bool

    def compute(self, tokens: mx.array, layers: Layers) -> mx.array:
        """Read tokens, of shape (rows, count); return the logits after the last of each row."""
        return cast("mx.array", self.module(tokens, cache=layers)[:, -1, :])

    def blank(self) -> Layers:
        """Return what it remembers of no tokens."""
        return cast("Layers", caches.make_prompt_cache(self.module))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is loaded, and what that takes; ``converts`` to float32, in which alone a processor is quick."""

    weights: Weights
    memory: MemoryPlan
    converts: bool
    is_on_gpu: bool


def plan(path: Path, options: EngineOptions) -> Plan:
    """Say what loading ``path`` will take; raise ``EngineError`` when it is no model or does not fit.

    Sets the device: it is the thread's, as everything of MLX's is.
    """
    try:
        weights = recognise(path)
    except ModelError as error:
        raise EngineError(str(error)) from error
    if weights.format not in (Format.MLX, Format.HF):
        engine = "llama" if weights.format is Format.GGUF else "transformers"
        raise EngineError(
            f"{path.name} is {weights.format.value} weights, which mlx-lm does not load: "
            f"use the {engine} engine."
        )
    is_on_gpu = options.gpu_layers != 0 and mx.is_available(mx.gpu)
    mx.set_default_device(mx.gpu if is_on_gpu else mx.cpu)

    def reckon(dtype_bytes: int | None) -> MemoryPlan:
        return plan_memory(
            path,
            weights.format,
            options,
            free=machine.free_memory_bytes(),
            total=memory_here(),
            engine="mlx",
            on_gpu=is_on_gpu,
            dtype_bytes=dtype_bytes,
        )

    if not is_on_gpu and (exact := reckon(mx.float32.size)).fits:
        return Plan(weights, exact, True, is_on_gpu)
    own = reckon(None)
    refuse_too_big(own, path.name)
    return Plan(weights, own, False, is_on_gpu)


def load_network(known: Plan) -> Network:
    """Return the network, ready to compute; raise ``EngineError`` with one sentence."""
    path = known.weights.path
    try:
        return _load(path, known)
    except (EngineError, MemoryError):
        raise
    except Exception as error:  # files of others, and programs for a hundred kinds: whatever they raise
        raise EngineError(_why_not(path, error)) from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether MLX found no memory, for which it has no exception of its own."""
    said = str(error).lower()
    return any(sign in said for sign in ("allocate", "out of memory", "insufficient memory"))


def _load(path: Path, known: Plan) -> Network:
    own_head = _differing_head(weight_files(path), load_config(path))
    # Lazily, so that what is converted is never in memory twice.
    module, _ = load_model(path, lazy=True, get_model_classes=partial(_classes, own_head))
    if own_head and not any("lm_head" in name for name, _ in tree_flatten(module.parameters())):
        raise EngineError(
            f"{path.name} has a head of its own, which mlx-lm drops for models of this kind: "
            "use the transformers engine."
        )
    if known.converts:
        module.set_dtype(mx.float32)
    mx.eval(module.parameters())
    network = Network(module, 0, "", known.is_on_gpu)
    logits = network.compute(mx.array([[0]]), network.blank())  # finds what does not fit together
    mx.eval(logits)
    mx.clear_cache()
    return Network(module, logits.shape[-1], str(logits.dtype), known.is_on_gpu)


def _classes(own_head: bool, config: _Config) -> tuple[Any, Any]:
    """Return mlx-lm's classes for a configuration, once that says what they understand."""
    network, arguments = classes_of(config)
    parts = [config, config["text_config"]] if isinstance(config.get("text_config"), dict) else [config]
    for part in parts:
        if "rope_parameters" not in inspect.signature(arguments).parameters:
            _lift_rope(part)
        if own_head:
            part["tie_word_embeddings"] = False
    return network, arguments


def _lift_rope(config: _Config) -> None:
    """Write the angles of positions as transformers 4 did: those of 5 mlx-lm passes over in silence."""
    angles = config.get("rope_parameters")
    if not isinstance(angles, dict):
        return
    if isinstance(local := angles.get("sliding_attention"), dict):  # layers of two kinds
        _set_missing(config, "rope_local_base_freq", local.get("rope_theta"))
        angles = angles.get("full_attention") or {}
    for name in ("rope_theta", "partial_rotary_factor"):
        _set_missing(config, name, angles.get(name))
    if angles.get("rope_type", "default") != "default":
        _set_missing(config, "rope_scaling", angles)


def _set_missing(config: _Config, name: str, value: Any) -> None:
    if value is not None and config.get(name) is None:
        config[name] = value


def _differing_head(files: Sequence[Path], config: _Config) -> bool:
    """Whether there is a head that is not the embedding's twin, though mlx-lm would take it for one.

    It does so where the configuration says that they are tied, or for some kinds says nothing.
    """
    text = config.get("text_config") or {}
    if config.get("tie_word_embeddings", text.get("tie_word_embeddings")) is False:
        return False
    found: dict[str, mx.array] = {}
    for file in files:
        for name, tensor in mx.load(str(file)).items():  # lazily: costs a look at the file's head
            if name.endswith(("lm_head.weight", "embed_tokens.weight")):
                found[name.split(".")[-2]] = tensor
    if len(found) < 2:
        return False
    head, embedding = found["lm_head"], found["embed_tokens"]
    return head.shape != embedding.shape or not mx.array_equal(head, embedding).item()


def _why_not(path: Path, error: Exception) -> str:
    said = str(error)
    if said.startswith("Model type "):
        kind = said.split()[2]
        return f"{path.name} holds a {kind} model, a kind this mlx-lm does not know: choose another."
    if "trust_remote_code" in said:
        return f"{path.name} wants to run a program that it brings along: choose another model."
    if is_out_of_memory(error):
        return f"{path.name} does not fit into memory: close other programs or choose a smaller model."
    if isinstance(error, KeyError):
        said = f"{error} is missing"
    reason = " ".join(said.split())[:300].rstrip(" .:") or type(error).__name__
    return f"{path.name} cannot be loaded by mlx-lm ({reason}): fetch it again or choose another model."

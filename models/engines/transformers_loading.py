"""A Hugging Face folder, or a LoRA adapter on its base, to a network on the device that computes best."""

import gc
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from models import lora
from models.catalogue import Format
from models.choice import memory_here
from models.engines import machine
from models.engines.options import EngineOptions
from models.engines.plan import MemoryPlan, plan_memory, refuse_too_big
from models.errors import EngineError, ModelError
from models.weights import Weights, read_config, recognise


@dataclass(frozen=True, slots=True)
class Device:
    """Where the network computes: its name as torch has it, and its memory in bytes.

    ``substitute`` is the type that takes the place of bfloat16 where the device has none.
    """

    name: str
    free: int
    total: int
    substitute: torch.dtype | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether it is anything but the processor."""
        return self.name != "cpu"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is loaded, where and as what numbers, and what that takes; ``dtype`` None is the files' own."""

    weights: Weights
    device: Device
    dtype: torch.dtype | None
    memory: MemoryPlan

    @property
    def name(self) -> str:
        """The model's, in sentences."""
        return self.weights.path.name

    @property
    def base(self) -> Path:
        """The folder of the whole model: of an adapter its base's."""
        return self.weights.base or self.weights.path


def device_here(*, use_gpu: bool = True) -> Device:
    """Return the best device of this machine."""
    if use_gpu and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return Device("cuda", free, total, None if torch.cuda.is_bf16_supported() else torch.float16)
    free, total = machine.free_memory_bytes(), memory_here()
    if use_gpu and torch.backends.mps.is_available():
        has_bfloat16 = torch.backends.mps.is_macos_or_newer(14, 0)
        return Device("mps", free, total, None if has_bfloat16 else torch.float16)
    return Device("cpu", free, total)


def plan(path: Path, options: EngineOptions, device: Device) -> Plan:
    """Say what loading ``path`` will take; raise ``EngineError`` when it is no model or does not fit."""
    try:
        weights = recognise(path, Path(options.home) if options.home else None)
    except ModelError as error:
        raise EngineError(str(error)) from error
    if weights.format not in (Format.HF, Format.LORA):
        raise EngineError(
            f"{path.name} is {weights.format.value} weights, which transformers does not load: "
            f"use the {'llama' if weights.format is Format.GGUF else 'mlx'} engine."
        )

    def reckon(dtype_bytes: int | None) -> MemoryPlan:
        return plan_memory(
            weights.path,
            weights.format,
            options,
            free=device.free,
            total=device.total,
            engine="transformers",
            on_gpu=device.is_gpu,
            dtype_bytes=dtype_bytes,
            base=weights.base,
        )

    # Few processors multiply numbers of two bytes as such: those only where there is no room for four.
    exact = None if device.is_gpu else reckon(torch.float32.itemsize)
    if exact and exact.fits:
        return Plan(weights, device, torch.float32, exact)
    own = reckon(None)
    refuse_too_big(own, path.name)
    return Plan(weights, device, None, own)


def load_network(known: Plan) -> Any:
    """Return the network, ready to compute; raise ``EngineError`` with one sentence."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    network = _guarded(known, lambda: _load_whole(known))
    if known.weights.format is Format.LORA:
        network = _guarded(known, lambda: _with_adapter(network, known))
    return network.eval().requires_grad_(False)


def _guarded(known: Plan, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (EngineError, MemoryError):
        raise
    except Exception as error:  # files of others, through two libraries: whatever they raise is a refusal
        raise EngineError(_why_not(known, error)) from error


def _load_whole(known: Plan) -> Any:
    network, found = AutoModelForCausalLM.from_pretrained(
        known.base,
        dtype=known.dtype or _own_dtype(known),
        device_map={"": known.device.name} if known.device.is_gpu else None,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    if missing := sorted(found["missing_keys"]):
        raise EngineError(
            f"{known.base.name} lacks {len(missing)} of its weights, such as {missing[0]}: fetch it again."
        )
    if not getattr(network.config, "is_decoder", True):  # one that fills gaps in texts
        raise EngineError(_cannot_go_on(known.name))
    return network


def _own_dtype(known: Plan) -> Any:
    if known.device.substitute is None:
        return "auto"
    config = transformers.AutoConfig.from_pretrained(
        known.base, local_files_only=True, trust_remote_code=False
    )
    return known.device.substitute if config.dtype in (None, torch.bfloat16) else config.dtype


def _with_adapter(network: Any, known: Plan) -> Any:
    """Return the network changed by its adapter.

    In float32 the two are added up, once: what is added loses nothing, and every token saves two products a
    layer. Half the digits would round most of the small changes away, so there the adapter stays beside the
    weights, as it was trained.
    """
    from peft import PeftModel

    folder = known.weights.path
    if (rows := _rows(folder)) not in (None, network.get_input_embeddings().weight.shape[0]):
        network.resize_token_embeddings(rows, mean_resizing=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tuned = PeftModel.from_pretrained(
            network, str(folder), is_trainable=False, torch_device=known.device.name
        )
        is_exact = network.dtype == torch.float32 and not _changes_tied_weights(tuned)
        changed = tuned.merge_and_unload() if is_exact else tuned.get_base_model()
    if any("missing adapter keys" in str(warning.message) for warning in told):
        raise EngineError(
            f"{folder.name} lacks weights that its {lora.CONFIG} promises, "
            f"or {known.base.name} is not its base: copy it anew."
        )
    return changed


def _rows(folder: Path) -> int | None:
    """Return how many tokens the embedding has that an adapter brings whole, as after tokens were added."""
    from safetensors import safe_open

    with safe_open(folder / lora.WEIGHTS, "pt") as tensors:
        whole = (name for name in tensors.keys() if _WHOLE_EMBEDDING.search(name))  # noqa: SIM118
        return next((int(tensors.get_slice(name).get_shape()[0]) for name in whole), None)


_WHOLE_EMBEDDING = re.compile(r"\b(embed_tokens|lm_head)\.(base_layer\.)?weight$")


def _changes_tied_weights(tuned: Any) -> bool:
    """Whether what is added to the head would be added to the embedding too, which are one tensor."""
    changed = {name.rpartition(".")[2] for name in tuned.base_model.targeted_module_names}
    config = tuned.get_base_model().config.get_text_config()
    return bool(config.tie_word_embeddings) and bool(changed & {"lm_head", "embed_tokens"})


def release_memory(device: Device) -> None:
    """Give what nothing refers to any more back to the device."""
    gc.collect()  # networks refer to themselves in circles
    if device.name == "cuda":
        torch.cuda.empty_cache()
    elif device.name == "mps":
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch found no memory; only CUDA has an exception of its own for that."""
    said = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("can't allocate memory" in said or "out of memory" in said)
    )


def _why_not(known: Plan, error: Exception) -> str:
    said = str(error)
    if is_out_of_memory(error):
        return f"{known.name} does not fit into memory: close other programs or choose a smaller model."
    if "for this kind of AutoModel" in said:
        return _cannot_go_on(known.name)
    if "does not recognize this architecture" in said or "Unrecognized" in said:
        kind = read_config(known.base).get("model_type", "nameless")
        return f"{known.name} holds a {kind} model, a kind this transformers does not know: choose another."
    if "trust_remote_code" in said:
        return f"{known.name} wants to run a program that it brings along: choose another model."
    reason = " ".join(said.split())[:300].rstrip(" .:") or type(error).__name__
    if isinstance(error, ImportError):
        return f"{known.name} needs a package that is not here ({reason}): install it, or choose another."
    return (
        f"{known.name} cannot be loaded by transformers ({reason}): fetch it again or choose another model."
    )


def _cannot_go_on(name: str) -> str:
    return f"{name} cannot go on with a conversation: choose a chat model."

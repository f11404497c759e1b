"""What loading a model will take, before a weight is read: the context that fits, and whether it fits at all.

The one place where memory is reckoned; what a file's head says is read by ``gguf_header`` and ``weights``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from models import lora, weights
from models.catalogue import Format
from models.engines.options import EngineOptions
from models.errors import EngineError, ModelError
from models.gguf_header import read_gguf_header

_CONTEXTS = (8192, 4096, 2048, 1024)  # tokens, the preferred first; an answer alone may have 768
_STEP = 256  # tokens; a context that is named as fitting is a multiple of it

# Bytes that the process has before any weights: Python, the library and its threads. Measured on Linux.
_PROCESS_BYTES = {"llama": 50_000_000, "mlx": 300_000_000, "transformers": 400_000_000}
_TOKEN_BYTES = 300  # of a vocabulary, a token: 45 MB for Qwen's 152,000
_LOGIT_ROWS_ON_CPU = 32  # what is touched of the space for a batch's logits; a GPU holds all of it
_LOGIT_ROWS_ON_GPU = 256


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a model is expected to take with a context of ``context_tokens``, and what is free, in bytes.

    ``work_bytes`` is what neither grows with the weights nor with the context; ``largest_context`` is how
    many tokens there would be room for, 0 if none.
    """

    context_tokens: int
    weights_bytes: int
    cache_bytes: int
    work_bytes: int
    free_bytes: int
    largest_context: int = 0

    @property
    def needed_bytes(self) -> int:
        """Everything together."""
        return self.weights_bytes + self.cache_bytes + self.work_bytes

    @property
    def fits(self) -> bool:
        """Whether it can be loaded without swapping."""
        return self.needed_bytes <= self.free_bytes


@dataclass(frozen=True, slots=True)
class _Costs:
    """What a model takes whatever the context, and a token of it; ``trained_context`` 0 is unknown."""

    weights_bytes: int
    token_bytes: int
    work_bytes: int
    trained_context: int

    def needed(self, context: int) -> int:
        """Bytes that it takes with a context of that many tokens."""
        return self.weights_bytes + self.work_bytes + self.token_bytes * context

    def largest_context(self, free: int) -> int:
        """How many tokens there would be room for in ``free`` bytes."""
        room = free - self.weights_bytes - self.work_bytes
        tokens = room // self.token_bytes if self.token_bytes else _CONTEXTS[0]
        return max(0, min(tokens // _STEP * _STEP, self.trained_context or tokens))


def plan_memory(
    path: Path,
    form: Format,
    options: EngineOptions,
    *,
    free: int,
    total: int,
    engine: str | None = None,
    on_gpu: bool = False,
    dtype_bytes: int | None = None,
    base: Path | None = None,
) -> MemoryPlan:
    """Say what loading weights takes, on a machine of ``total`` bytes of which so many are free.

    A context that nobody chose is the largest usual one that leaves the machine some air; a chosen one is
    kept, as far as the model was trained for it. ``dtype_bytes`` is what a weight of a folder takes once
    loaded, by default what it takes in its file; ``base`` is that of an adapter, where it is known.
    Raises ``EngineError`` when the weights cannot be read.
    """
    asked = options.context_tokens
    if asked is not None and asked < 1:
        raise EngineError(f"A context of {asked} tokens holds nothing: ask for 4096, say.")
    try:
        known = _costs(path, form, engine, on_gpu, dtype_bytes, base)
    except ModelError as error:
        raise EngineError(str(error)) from error
    if options.memory_bytes is not None:
        free, reserve = options.memory_bytes, 0
    else:
        reserve = _reserve(total)
    tokens = _chosen(known, free - reserve) if asked is None else min(asked, known.trained_context or asked)
    return MemoryPlan(
        context_tokens=tokens,
        weights_bytes=known.weights_bytes,
        cache_bytes=known.token_bytes * tokens,
        work_bytes=known.work_bytes,
        free_bytes=free,
        largest_context=known.largest_context(free),
    )


def plan_here(
    path: Path, form: Format, engine: str, options: EngineOptions, *, base: Path | None = None
) -> MemoryPlan:
    """Say what it takes on this machine, as far as that is known before the engine's library is loaded."""
    from models.choice import memory_here
    from models.engines import machine

    on_gpu = machine.is_apple_silicon()
    free, total = machine.free_memory_bytes(), memory_here()

    def reckon(dtype_bytes: int | None) -> MemoryPlan:
        return plan_memory(
            path,
            form,
            options,
            free=free,
            total=total,
            engine=engine,
            on_gpu=on_gpu,
            dtype_bytes=dtype_bytes,
            base=base,
        )

    # On a CPU folders are computed in float32 where that fits, and else in the type of the files.
    exact = reckon(4) if engine != "llama" and not on_gpu else None
    return exact if exact and exact.fits else reckon(None)


def refuse_too_big(plan: MemoryPlan, name: str) -> None:
    """Raise ``EngineError`` unless it fits: swapping, or the kernel's killer, tells the user nothing."""
    if plan.fits:
        return
    needed = (
        f"{name} needs about {gigabytes(plan.needed_bytes)} of memory with a context of "
        f"{plan.context_tokens} tokens and {gigabytes(plan.free_bytes)} are free"
    )
    if 0 < plan.largest_context < plan.context_tokens:
        raise EngineError(
            f"{needed}: close other programs, or choose a smaller model or context; "
            f"one of {plan.largest_context} tokens would fit."
        )
    raise EngineError(f"{needed}: close other programs, or choose a smaller model or context.")


def describe(plan: MemoryPlan) -> str:
    """Return the plan as words that follow the model's name."""
    return (
        f"needs about {gigabytes(plan.needed_bytes)} ({gigabytes(plan.weights_bytes)} weights, "
        f"{gigabytes(plan.cache_bytes)} for {plan.context_tokens} tokens); "
        f"{gigabytes(plan.free_bytes)} are free"
    )


def gigabytes(count: int) -> str:
    """Return a number of bytes of memory as it is told."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _costs(
    path: Path, form: Format, engine: str | None, on_gpu: bool, dtype_bytes: int | None, base: Path | None
) -> _Costs:
    """Read from the heads of the files what they will take."""
    match form:
        case Format.GGUF:
            return _gguf_costs(path, on_gpu)
        case Format.MLX:
            return _folder_costs(path, "mlx", dtype_bytes)
        case Format.HF:
            return _folder_costs(path, engine or "transformers", dtype_bytes)
        case Format.LORA:
            whole = _folder_costs(base or lora.base_of(path), engine or "transformers", dtype_bytes)
            adapter, _ = _loaded([path / lora.WEIGHTS], dtype_bytes)
            return replace(whole, weights_bytes=whole.weights_bytes + adapter)


def _chosen(known: _Costs, free: int) -> int:
    """Return the largest usual context that fits, else the smallest of them: that one may still be free."""
    trained = known.trained_context or _CONTEXTS[0]
    usual = [tokens for tokens in _CONTEXTS if tokens <= trained] or [trained]
    return next((tokens for tokens in usual if known.needed(tokens) <= free), usual[-1])


def _reserve(total: int) -> int:
    """Bytes that stay free when nobody chose the context: other programs grow too."""
    return min(total // 10, 2_000_000_000)


def _gguf_costs(path: Path, on_gpu: bool) -> _Costs:
    """Measured with llama.cpp on a CPU: within 4 % of what Qwen2.5-Coder takes in 0.5B and 1.5B, Q4_K_M."""
    header = read_gguf_header(path)
    files = weights.split_files(path, header)
    heads = [header if file == path else read_gguf_header(file) for file in files]
    size = sum(head.file_size + (0 if on_gpu else head.repacked_bytes) for head in heads)
    first = heads[0]
    return _Costs(
        weights_bytes=size,
        token_bytes=first.cache_bytes(1),
        work_bytes=_work("llama", first.vocabulary, on_gpu),
        trained_context=first.context_length,
    )


def _folder_costs(path: Path, engine: str, dtype_bytes: int | None) -> _Costs:
    config = weights.read_config(path)
    size, item = _loaded(weights.weight_files(path), dtype_bytes)
    heads = weights.whole_number(config, "num_attention_heads")
    hidden = weights.whole_number(config, "hidden_size")
    width = weights.whole_number(config, "head_dim") or (hidden // heads if heads else 0)
    cached_heads = weights.whole_number(config, "num_key_value_heads") or heads
    layers = weights.whole_number(config, "num_hidden_layers")
    return _Costs(
        weights_bytes=size,
        token_bytes=layers * cached_heads * width * 2 * item,  # keys and values
        work_bytes=_work(engine, weights.whole_number(config, "vocab_size"), on_gpu=False),
        trained_context=weights.whole_number(config, "max_position_embeddings"),
    )


def _loaded(files: Sequence[Path], dtype_bytes: int | None) -> tuple[int, int]:
    """Return what the weights take once loaded, and what one number of the cache takes."""
    size = 0
    floats: Counter[str] = Counter()
    for file in files:
        tensors = weights.read_safetensors(file)
        size += tensors.size
        floats.update(tensors.floats)
    if dtype_bytes is not None:
        size += sum(count * (dtype_bytes - weights.FLOAT_BYTES[kind]) for kind, count in floats.items())
        return size, dtype_bytes
    most = floats.most_common(1)
    return size, weights.FLOAT_BYTES[most[0][0]] if most else 2


def _work(engine: str, vocabulary: int, on_gpu: bool) -> int:
    rows = _LOGIT_ROWS_ON_GPU if on_gpu else _LOGIT_ROWS_ON_CPU
    return _PROCESS_BYTES[engine] + vocabulary * (_TOKEN_BYTES + rows * 4)

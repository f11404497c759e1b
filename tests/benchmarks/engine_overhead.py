"""What the engine process costs: tokens a second through it against the bare library, in one run.

    python tests/benchmarks/engine_overhead.py MODEL.gguf

Both generate greedily on the same prompt, by turns, so that a busy machine is busy for both. The bare
library runs twice a round, as ``Llama.generate`` and as streaming ``create_completion``, and the faster
of the two counts. Prints one JSON line. ``ratio`` compares the speeds at the median time between two
tokens, which other programs' bursts hardly move, and should be at least 0.97; ``ratio_of_totals``
compares whole runs and means something on a quiet machine only. ``resident_bytes`` is the most that either
process held at the end of a round: the engine's child, and this one, which has the bare library in it.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# Before llama_cpp is imported, as the engine does for its child: the race should be a fair one.
os.environ |= {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_NUM_THREADS": "1"}

import psutil

from models.engines import Engine, EngineOptions, Message, Role, Sampling
from models.engines.machine import compute_threads, gpu_layers
from models.engines.remote import EngineProcess

CONTEXT_TOKENS = 2048
MESSAGES = (
    Message(Role.SYSTEM, "You write OCaml."),
    Message(Role.USER, "Explain List.fold_left with three long examples, then write a tokenizer for OCaml."),
)
PROMPT = "".join(f"<|im_start|>{m.role}\n{m.text}<|im_end|>\n" for m in MESSAGES) + "<|im_start|>assistant\n"


def main() -> None:
    """Run the race and print its outcome."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(race(arguments.model, arguments.tokens, arguments.rounds))))


async def race(model: Path, tokens: int, rounds: int) -> dict[str, Any]:
    """Alternate between the three ways; a first round warms up and does not count."""
    threads = compute_threads()
    engine = EngineProcess(model.absolute(), EngineOptions(context_tokens=CONTEXT_TOKENS, threads=threads))
    bare = load_bare(model, threads)
    gaps: dict[str, list[list[float]]] = {"engine": [], "generate": [], "create_completion": []}
    resident = {"engine": 0, "bare": 0}
    try:
        for _ in range(rounds + 1):
            gaps["engine"].append(await gaps_of_engine(engine, tokens))
            gaps["generate"].append(gaps_between(times_of_generate(bare, tokens)))
            gaps["create_completion"].append(gaps_between(times_of_completion(bare, tokens)))
            for name, pid in (("engine", engine.pid), ("bare", os.getpid())):
                resident[name] = max(resident[name], psutil.Process(pid).memory_info().rss)
    finally:
        await engine.close()
    typical = {
        way: 1 / statistics.median([gap for run in runs[1:] for gap in run]) for way, runs in gaps.items()
    }
    total = {
        way: statistics.median(1 / statistics.mean(run) for run in runs[1:]) for way, runs in gaps.items()
    }
    return {
        "ratio": round(against_bare(typical), 4),
        "ratio_of_totals": round(against_bare(total), 4),
        "tokens_per_second": {way: round(speed, 2) for way, speed in typical.items()},
        "tokens_per_second_of_totals": {way: round(speed, 2) for way, speed in total.items()},
        "resident_bytes": resident,
        "tokens": tokens,
        "rounds": rounds,
        "threads": threads,
        "model": model.name,
    }


def against_bare(speeds: dict[str, float]) -> float:
    """Return the engine's speed as a share of the faster of the library's ways."""
    return speeds["engine"] / max(speeds["generate"], speeds["create_completion"])


def load_bare(model: Path, threads: int) -> Any:
    """Load the library's own class with the engine's settings."""
    from llama_cpp import Llama

    return Llama(
        str(model),
        n_ctx=CONTEXT_TOKENS,
        n_threads=threads,
        n_threads_batch=threads,
        n_gpu_layers=gpu_layers(),
        flash_attn=True,
        verbose=False,
    )


async def gaps_of_engine(engine: Engine, tokens: int) -> list[float]:
    """Return the seconds between tokens; those of one delta share its time."""
    gaps: list[float] = []
    last = None
    async for delta in engine.generate(MESSAGES, sampling=Sampling(max_tokens=tokens)):
        now = time.perf_counter()
        if last is not None and delta.tokens:
            gaps += [(now - last) / len(delta.tokens)] * len(delta.tokens)
        if delta.tokens:
            last = now
    return gaps


def gaps_between(times: Iterator[float]) -> list[float]:
    """Return the seconds between the times."""
    return [later - earlier for earlier, later in pairwise(times)]


def times_of_generate(bare: Any, tokens: int) -> Iterator[float]:
    """Yield when each token of ``Llama.generate`` came, its text taken as any user of it must."""
    prompt = bare.tokenize(PROMPT.encode(), add_bos=False, special=True)
    for count, token in enumerate(bare.generate(prompt, temp=0.0), 1):
        bare.detokenize([token])
        yield time.perf_counter()
        if count == tokens:
            return


def times_of_completion(bare: Any, tokens: int) -> Iterator[float]:
    """Yield when each chunk of ``create_completion`` came."""
    for chunk in bare.create_completion(PROMPT, max_tokens=tokens, temperature=0.0, stream=True):
        if chunk["choices"][0]["finish_reason"] is None:
            yield time.perf_counter()


if __name__ == "__main__":
    main()

"""What the mlx engine costs: tokens a second through its process against bare mlx-lm, in one run.

    python tests/benchmarks/mlx_overhead.py [FOLDER]

Both generate on the same prompt, by turns, so that a busy machine is busy for both; the bare library with
``stream_generate``, and in float32 on a processor, as the engine does there. Without a folder, a random model
with a real one's vocabulary is made. Prints a JSON line for greedy and one for sampled replies; ``ratio``
compares the speeds at the median time between two tokens and should be at least 0.97.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# Before mlx is imported, as the engine does for its child: the race should be a fair one.
os.environ |= {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_NUM_THREADS": "1"}

from models.engines import Engine, EngineOptions, Message, Role, Sampling
from models.engines.remote import EngineProcess

VOCABULARY = 151_936  # Qwen's: to draw from it is a part of what is measured
MESSAGES = (
    Message(Role.SYSTEM, "You write OCaml."),
    Message(Role.USER, "Explain List.fold_left with three long examples, then write a tokenizer for OCaml."),
)
WAYS = {"greedy": Sampling(), "sampled": Sampling(temperature=0.7, top_p=0.95, seed=1)}


def main() -> None:
    """Run the races and print their outcome."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or make_folder(Path(made, "random"))
        for way, sampling in WAYS.items():
            outcome = asyncio.run(race(folder, sampling, arguments.tokens, arguments.rounds))
            print(json.dumps({"way": way, **outcome, "model": folder.name}))


async def race(folder: Path, sampling: Sampling, tokens: int, rounds: int) -> dict[str, Any]:
    """Alternate between the two; a first round warms up and does not count."""
    engine = EngineProcess(folder, EngineOptions(context_tokens=2048), "mlx")
    bare = Bare(folder)
    gaps: dict[str, list[float]] = {"engine": [], "bare": []}
    try:
        for number in range(rounds + 1):
            ours = await gaps_of_engine(engine, sampling, tokens)
            theirs = bare.gaps(sampling, tokens)
            if number > 0:
                gaps["engine"] += ours
                gaps["bare"] += theirs
    finally:
        await engine.close()
    typical = {who: 1 / statistics.median(own) for who, own in gaps.items()}
    mean = {who: 1 / statistics.mean(own) for who, own in gaps.items()}
    return {
        "ratio": round(typical["engine"] / typical["bare"], 4),
        "ratio_of_totals": round(mean["engine"] / mean["bare"], 4),
        "tokens_per_second": {who: round(speed, 2) for who, speed in typical.items()},
        "tokens": tokens,
        "rounds": rounds,
    }


async def gaps_of_engine(engine: Engine, sampling: Sampling, tokens: int) -> list[float]:
    """Return the seconds between tokens; those of one delta share its time."""
    gaps: list[float] = []
    last = None
    wanted = Sampling(sampling.temperature, sampling.top_p, tokens, sampling.seed)
    async for delta in engine.generate(MESSAGES, sampling=wanted):
        now = time.perf_counter()
        if last is not None and delta.tokens:
            gaps += [(now - last) / len(delta.tokens)] * len(delta.tokens)
        if delta.tokens:
            last = now
    return gaps


class Bare:
    """The library by itself."""

    def __init__(self, folder: Path) -> None:
        import mlx.core as mx
        from mlx_lm.utils import load

        self._model, self._tokenizer = load(str(folder))[:2]
        if mx.default_device() == mx.cpu:
            self._model.set_dtype(mx.float32)

    def gaps(self, sampling: Sampling, tokens: int) -> list[float]:
        """Return the seconds between tokens."""
        return [later - earlier for earlier, later in pairwise(self._times(sampling, tokens))]

    def _times(self, sampling: Sampling, tokens: int) -> Iterator[float]:
        from mlx_lm import stream_generate
        from mlx_lm.sample_utils import make_sampler

        turns = [{"role": message.role.value, "content": message.text} for message in MESSAGES]
        prompt = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True)
        sampler = make_sampler(sampling.temperature, sampling.top_p)
        for _ in stream_generate(self._model, self._tokenizer, prompt, tokens, sampler=sampler):
            yield time.perf_counter()


def make_folder(folder: Path) -> Path:
    """Write a random model of 12 narrow layers, and a tokenizer as large as a real one."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "nano"))
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.models.qwen2 import Model, ModelArgs
    from nano import Nano
    from nano_folder import write_folder

    write_folder(Nano(), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "hidden_size": 256,
        "num_hidden_layers": 12,
        "intermediate_size": 1024,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    model = Model(ModelArgs.from_dict(config))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    known = tokenizer["model"]["vocab"]
    known |= {f"filler {token}": token for token in range(len(known), VOCABULARY)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


if __name__ == "__main__":
    main()

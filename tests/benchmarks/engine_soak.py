"""Whether an engine grows: a thousand requests in a row through its process, and what both processes hold.

    python tests/benchmarks/engine_soak.py [--engines llama,mlx,transformers] [--requests 1000]

On nano models, so that only what leaks is seen: replies, sampled ones, batches, cancels and conversations that
never come again. Prints one JSON line an engine: resident bytes of the child and of this process after a fifth
of the requests and after all, and the growth between the two as a share.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil

from models.engines import EngineOptions, Message, Prompt, Role, Sampling
from models.engines.remote import EngineProcess

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "nano"))


def main() -> None:
    """Soak each engine and print what it held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", default="llama,mlx,transformers")
    parser.add_argument("--requests", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for engine in arguments.engines.split(","):
            print(json.dumps(asyncio.run(soak(engine, nano(engine, Path(folder)), arguments.requests))))


def nano(engine: str, folder: Path) -> Path:
    """Write the nano model that an engine loads."""
    from nano import Nano
    from nano_folder import write_folder
    from nano_gguf import write_gguf

    path = folder / f"{engine}.gguf" if engine == "llama" else folder / engine
    (write_gguf if engine == "llama" else write_folder)(Nano(), path)
    return path


async def soak(name: str, model: Path, requests: int) -> dict[str, Any]:
    """Send the requests; return what the processes held."""
    engine = EngineProcess(model, EngineOptions(context_tokens=2048), name)
    held: dict[int, tuple[int, int]] = {}
    began = time.perf_counter()
    try:
        for number in range(1, requests + 1):
            await one_request(engine, number)
            if number in (requests // 5, requests):
                pids = (engine.pid, os.getpid())
                held[number] = tuple(psutil.Process(pid).memory_info().rss for pid in pids)  # type: ignore[assignment]
    finally:
        await engine.close()
    early, late = held[requests // 5], held[requests]
    return {
        "engine": name,
        "requests": requests,
        "seconds": round(time.perf_counter() - began, 1),
        "child_bytes": [early[0], late[0]],
        "our_bytes": [early[1], late[1]],
        "child_growth": round(late[0] / early[0] - 1, 4),
        "our_growth": round(late[1] / early[1] - 1, 4),
    }


async def one_request(engine: EngineProcess, number: int) -> None:
    """Ask something new; every tenth is a batch, every tenth is left in the middle."""
    messages = (Message(Role.SYSTEM, "Write OCaml."), Message(Role.USER, f"Say number {number}."))
    sampling = Sampling(temperature=0.8, max_tokens=12, seed=number)
    if number % 10 == 0:
        async with aclosing(engine.batch([Prompt(messages, sampling=sampling)] * 3)) as parts:
            async for _ in parts:
                pass
        return
    async with aclosing(engine.generate(messages, sampling=sampling)) as deltas:
        async for _ in deltas:
            if number % 10 == 5:
                return


if __name__ == "__main__":
    main()

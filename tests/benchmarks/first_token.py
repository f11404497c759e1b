"""What the saved state of a system prompt is worth: the first token of a new process with it and without.

    python -P tests/benchmarks/first_token.py MODEL.gguf

Each time starts a child process, loads the model in it, and waits for the first token of a reply to a
system prompt of some 380 tokens and a short question. With and without take turns, so that a busy machine
is busy for both; a first round warms the file cache and writes the state. Prints one JSON line: ``ratio``
is the median with a state by the median without, and should be at most 0.2.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from models.engines import Engine, EngineOptions, Message, Role, Sampling, open_engine

CONTEXT_TOKENS = 2048
SYSTEM = (
    "You write OCaml for people who learn it. Answer with one block of code that compiles, without any "
    "other text around it. Prefer functions of the standard library to loops of your own, pattern matching "
    "to nested conditions, and recursion with an accumulator to mutable state. "
)
QUESTION = "Write a function that reverses a list."


def main() -> None:
    """Run the race and print its outcome."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--system-tokens", type=int, default=380)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(race(arguments.model, arguments.rounds, arguments.system_tokens))))


async def race(model: Path, rounds: int, system_tokens: int) -> dict[str, Any]:
    """Alternate between a folder with the state and none."""
    seconds: dict[str, list[float]] = {"without": [], "with": [], "load": []}
    with tempfile.TemporaryDirectory() as folder:
        system = await prompt_of(model, system_tokens)
        await first_token(model, system, folder)
        for _ in range(rounds):
            for way, states in (("without", None), ("with", folder)):
                loaded, first, cached = await first_token(model, system, states)
                if (cached > 0) != (way == "with"):
                    raise SystemExit(f"The run {way} a state found {cached} tokens in memory.")
                seconds[way].append(first)
                seconds["load"].append(loaded)
    median = {way: statistics.median(times) for way, times in seconds.items()}
    return {
        "ratio": round(median["with"] / median["without"], 4),
        "seconds": {way: round(time, 3) for way, time in median.items()},
        "rounds": rounds,
        "system_tokens": system_tokens,
        "model": model.name,
    }


async def prompt_of(model: Path, tokens: int) -> str:
    """Return a system prompt of about so many tokens, template included."""
    words = (SYSTEM * 20).split()
    engine = open_engine(model, EngineOptions(context_tokens=CONTEXT_TOKENS))
    try:
        # The smallest reply there is: reading the prompt is what takes the time, so a few sizes must do.
        few = await prompt_tokens(engine, " ".join(words[:20]))
        many = await prompt_tokens(engine, " ".join(words[:60]))
    finally:
        await engine.close()
    return " ".join(words[: round(20 + (tokens - few) * 40 / (many - few))])


async def prompt_tokens(engine: Engine, system: str) -> int:
    """Return how long a prompt of this system message alone is."""
    messages = (Message(Role.SYSTEM, system), Message(Role.USER, "?"))
    async for delta in engine.generate(messages, sampling=Sampling(max_tokens=0)):
        if delta.usage:
            return delta.usage.prompt_tokens
    raise SystemExit("The engine says nothing of the prompt.")


async def first_token(model: Path, system: str, states: str | None) -> tuple[float, float, int]:
    """Return the seconds from the start to the loaded model and to the first token, and the tokens cached."""
    began = time.perf_counter()
    engine = open_engine(model, EngineOptions(context_tokens=CONTEXT_TOKENS, states=states))
    try:
        await engine.load()
        loaded = time.perf_counter() - began
        messages = (Message(Role.SYSTEM, system), Message(Role.USER, QUESTION))
        first = cached = 0.0
        async for delta in engine.generate(messages, sampling=Sampling(max_tokens=2)):
            first = first or time.perf_counter() - began
            cached = delta.usage.cached_tokens if delta.usage else cached
    finally:
        await engine.close()
    return loaded, first, int(cached)


if __name__ == "__main__":
    main()

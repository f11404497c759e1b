"""The MLX backend driven in the test's own thread, and folders that differ from the nano model's."""

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from asking import QUESTION
from mlx.utils import tree_flatten

from models.engines import Completion, EngineOptions, Finish, Message, Prompt, Role, Sampling
from models.engines.backend import Interrupt
from models.engines.mlx import MlxBackend
from models.engines.mlx_library import classes_of
from models.engines.protocol import Delta

ASK = tuple(QUESTION)
LONG = (Message(Role.SYSTEM, "Write OCaml. " * 20), Message(Role.USER, "Say something."))
GREEDY = Sampling(max_tokens=30)


class CountingInterrupt(Interrupt):
    """Is raised from when it was looked at so many times."""

    def __init__(self) -> None:
        super().__init__()
        self.looks_left: int | None = None

    @property
    def raised(self) -> bool:
        if self.looks_left is None:
            return False
        self.looks_left -= 1
        return self.looks_left < 0


def opened(folder: Path, interrupt: Interrupt | None = None, **options: Any) -> MlxBackend:
    backend = MlxBackend(interrupt or Interrupt())
    backend.load(folder, EngineOptions(**{"context_tokens": 4096, **options}))
    return backend


def joined(deltas: list[Delta]) -> Completion:
    usage = deltas[-1].usage
    assert usage is not None
    return Completion(
        "".join(delta.text for delta in deltas),
        tuple(token for delta in deltas for token in delta.tokens),
        deltas[-1].finish or Finish.CANCELLED,
        usage.prompt_tokens,
        usage.cached_tokens,
    )


def complete(
    backend: MlxBackend, messages: tuple[Message, ...] = ASK, sampling: Sampling = GREEDY, **more: Any
) -> Completion:
    return joined(list(backend.generate(Prompt(messages, sampling=sampling, **more))))


def complete_all(backend: MlxBackend, prompts: list[Prompt]) -> list[Completion]:
    deltas: list[list[Delta]] = [[] for _ in prompts]
    for part in backend.batch(prompts):
        deltas[part.index].append(part.delta)
    return [joined(own) for own in deltas]


def changed(folder: Path, to: Path, **config: Any) -> Path:
    """Copy a folder with another configuration; what is None is left out of it."""
    shutil.copytree(folder, to)
    table = json.loads((to / "config.json").read_text()) | config
    (to / "config.json").write_text(json.dumps({k: v for k, v in table.items() if v is not None}))
    return to


def tensors_of(folder: Path) -> dict[str, mx.array]:
    return dict(mx.load(str(folder / "model.safetensors")).items())


def with_tensors(folder: Path, tensors: dict[str, mx.array]) -> Path:
    mx.eval(tensors)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "pt"})
    return folder


def of_kind(folder: Path, to: Path, **config: Any) -> Path:
    """A folder with random weights of another kind of network, and the nano model's tokens."""
    changed(folder, to, **config)
    table = json.loads((to / "config.json").read_text())
    network, arguments = classes_of(table)
    mx.random.seed(0)
    network = network(arguments.from_dict(table))
    spread = [
        (name, 3 * tensor if tensor.ndim == 2 else tensor)
        for name, tensor in tree_flatten(network.parameters())
    ]
    return with_tensors(to, dict(spread))

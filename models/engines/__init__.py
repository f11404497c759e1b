"""Engines: a model that is loaded in a process of its own and goes on with conversations."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from models.catalogue import PromptFormat
from models.engines.options import EngineOptions
from models.engines.protocol import (
    Completion,
    Delta,
    Engine,
    Finish,
    Message,
    Role,
    Sampling,
    Usage,
    collect,
)

__all__ = [
    "Completion",
    "Delta",
    "Engine",
    "EngineOptions",
    "Finish",
    "Message",
    "Role",
    "Sampling",
    "Usage",
    "Weights",
    "collect",
    "open_engine",
]


class Weights(Protocol):
    """What an engine must know of a model; the store's ``Model`` is one."""

    @property
    def path(self) -> Path:
        """Where the weights lie."""

    @property
    def prompt_format(self) -> PromptFormat:
        """How they want to be addressed when they bring no template."""


def open_engine(model: Weights | Path | str, options: EngineOptions | None = None) -> Engine:
    """Return the engine for a model, not loaded yet; whatever is wrong with the model, ``load`` says."""
    from models.engines.remote import EngineProcess  # asyncio costs 60 ms that `--help` should not pay

    options = options or EngineOptions()
    if isinstance(model, Path | str):
        path = Path(model)
    else:
        path = model.path
        options = replace(options, fallback_format=options.fallback_format or model.prompt_format)
    return EngineProcess(path.expanduser().absolute(), options)

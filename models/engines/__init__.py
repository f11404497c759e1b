"""Engines: a model that is loaded in a process of its own and goes on with conversations."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from models.catalogue import PromptFormat
from models.engines.options import EngineOptions
from models.engines.protocol import (
    BatchDelta,
    Completion,
    Delta,
    Engine,
    Finish,
    Footprint,
    Message,
    Prompt,
    Role,
    Sampling,
    Usage,
    collect,
)

if TYPE_CHECKING:
    from models.engines.warm import Warmth

__all__ = [
    "BatchDelta",
    "Completion",
    "Delta",
    "Engine",
    "EngineOptions",
    "Finish",
    "Footprint",
    "Message",
    "Prompt",
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


def open_engine(
    model: Weights | Path | str,
    options: EngineOptions | None = None,
    *,
    engine: str | None = None,
    warmth: "Warmth | None" = None,
    notice: Callable[[str], None] = lambda _: None,
) -> Engine:
    """Return the engine for a model, not loaded yet; whatever is wrong with the model, ``load`` says.

    ``model`` is weights, a path or a server's address (``http://…``). ``engine`` is its name, by default the
    best of those here that load such weights. ``warmth`` says whether the model is kept warm when we are
    done, and ``notice`` is told, in a sentence, what the user should know though the answer goes on.
    """
    options = options or EngineOptions()
    if isinstance(model, str) and model.startswith(("http://", "https://")):
        from models.engines.openai import OpenAIEngine  # httpx costs what other engines need not pay

        return OpenAIEngine(model, options, notice=notice)
    from models.engines.remote import EngineProcess  # asyncio costs 60 ms that `--help` should not pay

    if isinstance(model, Path | str):
        path = Path(model).expanduser().absolute()
    else:
        path = model.path.expanduser().absolute()
        options = replace(options, fallback_format=options.fallback_format or model.prompt_format)
    engine = engine or _engine_for(path, options.home)
    return EngineProcess(path, options, engine, warmth=warmth, notice=notice)


def _engine_for(path: Path, home: str | None) -> str:
    """Return the engine for what lies at a path; for what is no model any of them tells why."""
    if path.is_file():
        return "llama"  # all others load folders; to look into the file would take 30 ms

    from models.choice import engine_for
    from models.errors import ModelError
    from models.weights import recognise

    try:
        return engine_for(recognise(path, Path(home) if home else None).format)
    except ModelError:
        return "transformers" if path.is_dir() else "llama"

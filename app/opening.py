"""A model as the user's settings want it: found, told what it needs, opened, and kept warm when asked."""

import sys
from typing import TYPE_CHECKING

from app.cache import cache_folder
from app.streams import tell

if TYPE_CHECKING:
    from app.settings import Settings
    from models.address import Server
    from models.catalogue import Model
    from models.engines import Engine, EngineOptions


def find_model(settings: "Settings") -> "Model | Server":
    """Find the model, pulling it the first time; a server's address is one as it stands."""
    from models.address import Server, is_address
    from models.progress import progress_on
    from models.store import Store

    if is_address(settings.model):
        return Server(settings.model)
    store = Store(home=settings.home_path, progress=progress_on(sys.stderr))
    return store.obtain(settings.model or None)


def open_model(model: "Model | Server", settings: "Settings") -> "Engine":
    """Return the model's engine, not loaded yet.

    One that was kept warm before is used in any case; ``keep_warm`` 0 as a flag ends it when we are done.
    """
    from app.settings import Layer
    from models.address import Server
    from models.engines import open_engine
    from models.engines.warm import Warmth, runtime_folder

    if isinstance(model, Server):
        return open_engine(model.address, _options(settings), notice=tell)
    is_told = settings.keep_warm > 0 or settings.origin("keep_warm").layer is Layer.FLAG
    warmth = Warmth(runtime_folder(), settings.keep_warm * 60 if is_told else None)
    return open_engine(model, _options(settings), warmth=warmth, notice=tell)


def memory_told(model: "Model | Server", settings: "Settings") -> str:
    """Say what loading the model will take; when that cannot be told, its engine will say why."""
    from models.address import Server
    from models.choice import engine_for
    from models.engines.plan import describe, plan_here
    from models.errors import ModelError

    if isinstance(model, Server):
        return ""
    try:
        engine = engine_for(model.format)
        return describe(plan_here(model.path, model.format, engine, _options(settings), base=model.base))
    except ModelError:
        return ""


def _options(settings: "Settings") -> "EngineOptions":
    from models.engines import EngineOptions

    return EngineOptions(
        context_tokens=settings.context or None,
        threads=settings.threads or None,
        home=str(settings.home_path),
        states=str(cache_folder() / "states"),
    )

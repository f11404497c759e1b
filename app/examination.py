"""What ``doctor`` looks at: each finding says what is there, or what is missing and how to mend it."""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.exits import Exit
from app.judging import open_judge, servers_folder
from app.settings import Settings, SettingsError, load_settings, settings_path
from app.streams import tell
from models.errors import ModelError
from ocaml.containment.layers import layers, strength
from ocaml.errors import OCamlError, ServerUnavailable
from ocaml.judge import Source
from ocaml.server.build import built
from ocaml.toolchain import Toolchain, find
from ocaml.verdict import Limit, Stage

if TYPE_CHECKING:
    from models.store import Store

_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination; ``code`` is what the command exits with when it is not well.

    ``found`` is an error's own sentence where there is one, which ends in what to do; else ``mend`` says it.
    """

    subject: str
    ok: bool
    found: str
    mend: str = ""
    code: Exit | None = None

    def to_json(self) -> dict[str, Any]:
        """Return ``{"subject", "ok", "found", "mend"}``."""
        return {"subject": self.subject, "ok": self.ok, "found": self.found, "mend": self.mend or None}


def examine() -> list[Finding]:
    """Look at everything; one part being ill hides no other."""
    settings, finding = _settings()
    return [*_ocaml(settings), *_engines(), *_models(settings), _memory(), finding, _python()]


def _ocaml(settings: Settings) -> Iterator[Finding]:
    try:
        toolchain = find()
    except OCamlError as error:
        yield Finding("OCaml", False, str(error), code=Exit.TOOLCHAIN)
        return
    yield Finding("OCaml", True, f"{toolchain.version}, {toolchain.ocamlc}")
    yield _server(toolchain)
    yield from asyncio.run(_judge(settings))
    yield from _sandbox()


def _server(toolchain: Toolchain) -> Finding:
    try:
        server = built(toolchain, servers_folder(), say=tell)
    except ServerUnavailable as unavailable:
        return Finding("check server", False, str(unavailable), "judging works without it, only slower")
    return Finding("check server", True, f"answers for OCaml {toolchain.version}, {server.folder}")


def _sandbox() -> Iterator[Finding]:
    """Each means to shut a program in; where the others are enough, one that is missing is no fault."""
    found = layers()
    enough = strength(found)
    for layer in found:
        words = layer.does if layer.holds else f"not here: {layer.missing}"
        yield Finding(f"sandbox, {layer.name}", layer.holds or enough, words)


async def _judge(settings: Settings) -> list[Finding]:
    """Have a right program, an endless and a talkative one judged: limits are believed when seen."""
    quick = open_judge(settings, seconds=1.0)
    right = await quick.run(Source("right.ml", b'let () = print_string "ok"'))
    endless = await quick.run(Source("endless.ml", b"let () = while true do () done"))
    flood = await quick.run(
        Source("flood.ml", b"let () = while true do print_string (String.make 4096 'x') done")
    )
    hungry = await open_judge(settings, seconds=10.0, memory_mb=128).run(
        Source(
            "hungry.ml",
            b"let () = let all = ref [] in while true do all := Bytes.make 1000000 'x' :: !all done",
        )
    )
    held = {
        "time": endless.limit is Limit.TIME,
        "output": flood.limit is Limit.OUTPUT,
        "memory": hungry.limit is Limit.MEMORY,
    }
    failing = [name for name, holds in held.items() if not holds]
    works = right.stage is Stage.PASS and right.stdout == "ok"
    judge = Finding("judge", True, "compiles and runs a program")
    if not works:
        mend = "run `ocamler run` on a small program to see why"
        judge = Finding("judge", False, f"a right program stops at {right.stage.label}", mend, Exit.TOOLCHAIN)
    limits = Finding("limits", True, "time, memory and output hold")
    if failing:
        mend = "please report this with your system's version"
        limits = Finding("limits", False, f"{', '.join(failing)} does not hold", mend)
    return [judge, limits]


# What an engine is made of, as pip knows it.
_PACKAGES = {
    "llama": ("llama-cpp-python",),
    "mlx": ("mlx-lm",),
    "transformers": ("torch", "transformers", "peft"),
}


def _engines() -> Iterator[Finding]:
    """Each engine, and what would bring it; where one is here, another that is missing is no fault."""
    from models.choice import engines_here, loadable
    from models.engines.machine import is_apple_silicon

    here = engines_here()
    if here:
        formats = ", ".join(loadable(here))
        yield Finding("engine", True, f"{', '.join(here)}: {formats} weights can be loaded")
    else:
        mend = "run `make setup` in the checkout, or install ocamler with its `llama` extra"
        yield Finding("engine", False, "no engine is installed", mend, Exit.MODEL)
    for engine, packages in _PACKAGES.items():
        if engine != "mlx" or engine in here or is_apple_silicon():
            yield _packages(f"engine, {engine}", packages, is_needed=not here)
    yield _packages("servers", ("httpx",), is_needed=False)


def _packages(subject: str, packages: tuple[str, ...], *, is_needed: bool) -> Finding:
    versions = {package: _version(package) for package in packages}
    missing = [package for package, found in versions.items() if not found]
    if not missing:
        return Finding(subject, True, ", ".join(f"{package} {found}" for package, found in versions.items()))
    verb = "is" if len(missing) == 1 else "are"
    mend = f"if you want it, run `{sys.executable} -m pip install {' '.join(missing)}`"
    return Finding(subject, not is_needed, f"{' and '.join(missing)} {verb} not installed", mend)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _models(settings: Settings) -> Iterator[Finding]:
    from models.store import Store

    store = Store(home=settings.home_path)
    here = store.installed()
    yield Finding("weights", True, f"{store.home} ({len(here)} models, {_free(store.home)} free)")
    try:
        yield Finding("model", True, _model(settings, store))
    except ModelError as error:
        yield Finding("model", False, str(error), code=Exit.MODEL)


def _model(settings: Settings, store: "Store") -> str:
    """Say what model is used, and what it will take; raises ``ModelError`` when there is none."""
    from models.address import Server, is_address
    from models.choice import engine_for
    from models.engines.openai_address import parse_address
    from models.engines.options import EngineOptions
    from models.engines.plan import describe, plan_here, refuse_too_big

    if is_address(settings.model):
        parse_address(settings.model)
        return f"a server, {Server(settings.model).name}"
    model = store.resolve(settings.model or None)
    engine = engine_for(model.format, store.engines)
    options = EngineOptions(context_tokens=settings.context or None)
    plan = plan_here(model.path, model.format, engine, options, base=model.base)
    refuse_too_big(plan, model.name)
    return f"{model.name}, {model.size / _GIB:.1f} GiB, {model.licence}, by {engine}; {describe(plan)}"


def _memory() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    return Finding("memory", True, f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB free")


def _settings() -> tuple[Settings, Finding]:
    try:
        settings = load_settings()
    except SettingsError as error:
        return Settings(), Finding("settings", False, str(error), f"edit {settings_path()}", Exit.USAGE)
    path = settings_path()
    return settings, Finding(
        "settings", True, str(path) if path.exists() else f"defaults ({path} does not exist)"
    )


def _python() -> Finding:
    return Finding("Python", True, f"{sys.version.split()[0]}, {sys.executable}")


def _free(path: Path) -> str:
    place = next((p for p in (path, *path.parents) if p.exists()), path)
    return f"{shutil.disk_usage(place).free / _GIB:.0f} GiB"

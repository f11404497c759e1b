"""``ocamler completion``: the script that a shell reads."""

import click


@click.command(short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    bash: eval "$(ocamler completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc.
    fish: ocamler completion fish > ~/.config/fish/completions/ocamler.fish
    """
    from click.shell_completion import get_completion_class

    from app.cli import cli

    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    click.echo(complete(cli, {}, "ocamler", "_OCAMLER_COMPLETE").source())

"""``ocamler run``: run a program in the sandbox, errors beside the code. No model."""

from pathlib import Path

import click


@click.command(short_help="Run a program under limits.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Time limit, wall seconds.")
@click.option("--memory", type=click.IntRange(min=16), metavar="MB", help="Memory limit.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
def run(file: Path, seconds: float | None, memory: int | None, as_json: bool) -> int:
    """Compile FILE and run it under limits, in an empty folder of its own. `-` is stdin."""
    import asyncio
    import json
    import subprocess
    import sys

    from app.exits import exit_for
    from app.files import read_file
    from app.judging import open_judge
    from app.show import show_output, show_verdict
    from ocaml.judge import Source

    source = Source("stdin.ml" if str(file) == "-" else file.name, read_file(file))
    # A background session cannot read a terminal; a pipe or a file goes through as it is.
    passed_on = str(file) != "-" and sys.stdin is not None and not sys.stdin.isatty()
    stdin = sys.stdin.fileno() if passed_on else subprocess.DEVNULL
    verdict = asyncio.run(open_judge(seconds=seconds, memory_mb=memory).run(source, stdin=stdin))
    if as_json:
        click.echo(json.dumps({"id": str(file), **verdict.to_json()}))
    else:
        show_output(verdict)
        show_verdict(verdict, {source.name: source.text}, {source.name: str(file)})
    return exit_for(verdict)

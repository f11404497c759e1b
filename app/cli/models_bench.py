"""``ocamler models bench``: how fast each engine is with a model, side by side."""

import click


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--engine", type=click.Choice(["llama", "mlx", "transformers", "openai"]), help="Only this one."
)
@click.option(
    "--tokens", type=click.IntRange(2), default=64, show_default=True, help="Length of the answers."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(names: tuple[str, ...], engine: str | None, tokens: int, as_json: bool) -> int:
    """Measure models with every engine here that loads them; without NAME the default model.

    NAME is a model, the path of weights or a server's address. Speeds of reading and writing, the time to the
    first token of a new process, with its system prompt's state saved, warm and exact, and memory, each the
    median of several runs. Ctrl-C prints what there is. Exits 6 when no engine ran.
    """
    import asyncio
    import json

    from app.bench_view import table
    from app.exits import Exit
    from app.settings import load_settings
    from models.bench import ROUNDS, Record, contenders, measure, to_json
    from models.engines import EngineOptions
    from models.store import Store

    settings = load_settings()
    store = Store(home=settings.home_path)
    wanted = names or (settings.model or store.default().name,)
    records = [Record(contender) for contender in contenders(store, wanted, engine)]
    options = EngineOptions(context_tokens=settings.context or None, threads=settings.threads or None)

    async def measure_all() -> None:
        for record in records:
            await measure(record, options, tokens=tokens, rounds=ROUNDS, say=_tell)
            if record.error:
                _tell(record.error)

    interrupted = False
    try:
        asyncio.run(measure_all())
    except KeyboardInterrupt:
        interrupted = True
    if as_json:
        whole = to_json(records, tokens=tokens, rounds=ROUNDS, interrupted=interrupted)
        click.echo(json.dumps(whole, indent=2))
    else:
        click.echo(table([record.row() for record in records]))
    if interrupted:
        raise KeyboardInterrupt
    return Exit.DONE if any(record.row().ran for record in records) else Exit.MODEL


def _tell(sentence: str) -> None:
    click.echo(sentence, err=True)

"""``ocamler grade``: the judge's verdict on answers. No model."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ocaml.judge import Judge
    from ocaml.problem import Signature
    from ocaml.verdict import Verdict


@dataclass(frozen=True, slots=True)
class _Row:
    """An answer to grade, as it was given."""

    id: str | int
    code: str
    tests: str
    asked: "Signature | None"


@click.command(short_help="Judge answers by assertions.")
@click.argument(
    "answer", required=False, metavar="ANSWER.ml", type=click.Path(path_type=Path, allow_dash=True)
)
@click.option("--tests", type=click.Path(path_type=Path), help="OCaml assertions that ANSWER.ml must pass.")
@click.option(
    "--problem", type=click.Path(path_type=Path), help="A problem: its signature and examples are used too."
)
@click.option(
    "--jsonl", type=click.Path(path_type=Path, allow_dash=True), help='Rows of {"id", "code", "tests"}.'
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=None, help="Answers judged at a time (default: cores)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
def grade(
    answer: Path | None,
    tests: Path | None,
    problem: Path | None,
    jsonl: Path | None,
    workers: int | None,
    as_json: bool,
) -> int:
    """Grade ANSWER.ml by the assertions of TESTS.ml, or many answers from a JSONL file.

    With --jsonl one JSON line an answer is printed, in the order given; rows may also have "prompt" or
    "signature", which say what was asked for.
    """
    if (answer is None) == (jsonl is None):
        raise click.UsageError("give either ANSWER.ml or --jsonl FILE")
    if jsonl is not None:
        if tests or problem:
            raise click.UsageError("--tests and --problem go with ANSWER.ml: rows of --jsonl bring their own")
        return _grade_rows(jsonl, workers)
    assert answer is not None
    if tests is None and problem is None:
        raise click.UsageError("give --tests TESTS.ml, or --problem with examples")
    return _grade_file(answer, tests, problem, as_json=as_json)


def _grade_file(answer: Path, tests: Path | None, problem: Path | None, *, as_json: bool) -> int:
    import asyncio
    import json

    from app.exits import exit_for
    from app.judging import open_judge, tests_of
    from app.show import show_verdict
    from ocaml.grading.scope import ANSWER_FILE, TESTS_FILE

    code, source, asked = _read_text(answer), _read_text(tests) if tests else "", None
    if problem is not None:
        from ocaml.problem import read_problem

        given = read_problem(problem)
        source, asked = f"{source}\n{tests_of(given)}", given.signature
    if not source.strip():
        raise click.UsageError(
            "there is nothing to grade by: give assertions in --tests or examples in --problem"
        )
    verdict = asyncio.run(open_judge().grade(code, source, asked=asked))
    if as_json:
        click.echo(json.dumps({"id": str(answer), **verdict.to_json()}))
    else:
        names = {ANSWER_FILE: str(answer), TESTS_FILE: str(tests or problem)}
        show_verdict(verdict, {ANSWER_FILE: code, TESTS_FILE: source}, names)
    return exit_for(verdict)


def _grade_rows(path: Path, workers: int | None) -> int:
    import asyncio
    import os

    from app.exits import Exit
    from app.judging import open_judge
    from app.streams import tell

    rows = list(_rows(_read_text(path)))
    refused = asyncio.run(_print_verdicts(open_judge(), rows, workers or os.cpu_count() or 1))
    if refused:
        tell(
            f'{refused} of {len(rows)} rows could not be judged, their tests being wrong: see their "error".'
        )
    return Exit.USAGE if refused else Exit.DONE


async def _print_verdicts(judge: "Judge", rows: list[_Row], workers: int) -> int:
    """Print a JSON line a row; return how many could not be judged."""
    import json

    refused = 0
    async with aclosing(_in_order(judge, rows, workers)) as graded:
        async for row, outcome in graded:
            if isinstance(outcome, str):
                refused += 1
                click.echo(json.dumps({"id": row.id, "error": outcome}))
            else:
                click.echo(json.dumps({"id": row.id, **outcome.to_json()}))
    return refused


async def _in_order(
    judge: "Judge", rows: list[_Row], workers: int
) -> "AsyncGenerator[tuple[_Row, Verdict | str], None]":
    """Judge ``workers`` rows at a time; give each, in order, with its verdict or why there is none."""
    import asyncio

    free = asyncio.Semaphore(workers)

    async def one(row: _Row) -> "Verdict | str":
        async with free:
            return await _verdict(judge, row)

    tasks = [asyncio.create_task(one(row)) for row in rows]
    try:
        for row, task in zip(rows, tasks, strict=True):
            yield row, await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _verdict(judge: "Judge", row: _Row) -> "Verdict | str":
    from ocaml.errors import UnsoundTests

    if not row.tests.strip():
        return "The row has no tests: give assertions."
    try:
        return await judge.grade(row.code, row.tests, asked=row.asked)
    except UnsoundTests as error:
        return str(error)


def _rows(text: str) -> Iterator[_Row]:
    """Read the rows; the first that is wrong ends it with its line number."""
    import json

    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"line {number} is not JSON ({error})") from error
        yield _row(row, number)


def _row(row: object, number: int) -> _Row:
    from ocaml.problem import parse_row

    if not isinstance(row, dict):
        raise click.UsageError(f"line {number} is not a JSON object")
    for key in ("code", "tests"):
        if not isinstance(row.get(key), str):
            raise click.UsageError(f'line {number} needs a text under "{key}"')
    name = row.get("id", number)
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise click.UsageError(f'line {number} needs a text or a whole number under "id"')
    asked = parse_row({**row, "id": str(name)}).signature if {"prompt", "signature"} & row.keys() else None
    return _Row(name, _without_mark(row["code"]), _without_mark(row["tests"]), asked)


def _without_mark(text: str) -> str:
    """Take off the byte order mark that some editors put in front."""
    return text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _read_text(path: Path) -> str:
    from app.files import read_file

    return _without_mark(read_file(path).decode(errors="surrogateescape"))

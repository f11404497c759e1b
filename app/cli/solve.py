"""``ocamler solve``: from a problem to code that OCaml has judged."""

from pathlib import Path

import click


@click.command(short_help="Write OCaml for a problem, judged by OCaml.")
@click.argument("problem", metavar="PROBLEM.md", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--attempts", type=click.IntRange(1, 100), help="Answers to try: the first, then repairs.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens an answer may have.")
@click.option(
    "--max-seconds", type=click.FloatRange(min=1), help="Time for everything but loading the model."
)
@click.option(
    "--model",
    help="A model's name (see `ocamler models list`), the path of its weights, or a server's address.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same answers.")
@click.option(
    "--keep-warm",
    type=click.FloatRange(min=0),
    metavar="MINUTES",
    help="Leave the model in memory for the next solve; 0 ends it after this one.",
)
@click.option(
    "--tests", type=click.Path(path_type=Path), help="OCaml assertions that the answer must pass too."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the code to this file, whole or not at all.",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell what is tried and why.")
def solve(
    problem: Path,
    attempts: int | None,
    max_tokens: int | None,
    max_seconds: float | None,
    model: str | None,
    seed: int,
    keep_warm: float | None,
    tests: Path | None,
    as_json: bool,
    output: Path | None,
    verbose: bool,
) -> int:
    """Write OCaml for PROBLEM.md and print it once OCaml has judged it. `-` is stdin.

    The code goes to stdout, everything else to stderr. When no answer passes, the best one is printed, marked
    as such, and the exit code says how far it came.
    """
    from app.solving import Request, solve_request

    request: Request = Request(
        problem=problem,
        tests=tests,
        output=output,
        attempts=attempts,
        max_tokens=max_tokens,
        max_seconds=max_seconds,
        model=model,
        seed=seed,
        keep_warm=keep_warm,
        as_json=as_json,
        verbose=verbose,
    )
    return solve_request(request)

"""``ocamler check``: type-check files, errors beside the code. No model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ocaml.judge import Checked, Judge, Source


@click.command(short_help="Type-check files, errors beside the code.")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path, allow_dash=True)
)
@click.option(
    "-w", "warnings", multiple=True, metavar="SPEC", help="Warnings, in the compiler's own form (+27, +a-4)."
)
@click.option(
    "--warn-error", "as_errors", multiple=True, metavar="SPEC", help="Warnings that count as errors (+8)."
)
@click.option("--signature", is_flag=True, help="Print the inferred signature of each file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def check(
    files: tuple[Path, ...],
    warnings: tuple[str, ...],
    as_errors: tuple[str, ...],
    signature: bool,
    as_json: bool,
) -> int:
    """Type-check OCaml files and show what the compiler says beside the code.

    Files of one folder may depend on each other; a .mli beside a .ml is taken into account. `-` is stdin.
    """
    import asyncio

    from app.judging import open_judge

    flags = [flag for spec in warnings for flag in ("-w", spec)]
    flags += [flag for spec in as_errors for flag in ("-warn-error", spec)]
    groups = _read(files)
    results = asyncio.run(_check(open_judge(), groups, flags))
    if as_json:
        _print_json(results)
    else:
        _print_text(results, groups, signature=signature)
    return _exit_code([checked for _, checked in results])


def _read(files: Sequence[Path]) -> dict[Path, dict[Path, "Source"]]:
    """Read the files, by folder: files of one folder are checked together, under their own names."""
    from app.files import read_file
    from ocaml.judge import Source

    groups: dict[Path, dict[Path, Source]] = {}
    for path in dict.fromkeys(files):
        name = "stdin.ml" if str(path) == "-" else path.name
        groups.setdefault(path.parent, {})[path] = Source(name, read_file(path))
    return groups


async def _check(
    judge: "Judge", groups: dict[Path, dict[Path, "Source"]], flags: Sequence[str]
) -> list[tuple[Path, "Checked"]]:
    found: dict[Path, Checked] = {}
    for folder, sources in groups.items():
        given = list(sources.values())
        extra = _interfaces(folder, {source.name for source in given})
        results = {checked.name: checked for checked in await judge.check([*extra, *given], warnings=flags)}
        found |= {path: results[source.name] for path, source in sources.items()}
        found |= {folder / s.name: results[s.name] for s in extra if results[s.name].diagnostics}
    return list(found.items())


def _interfaces(folder: Path, names: set[str]) -> list["Source"]:
    """The ``.mli`` files that belong to given ``.ml`` files and were not given."""
    from app.files import read_file
    from ocaml.judge import Source

    wanted = [
        name + "i"
        for name in names
        if name.endswith(".ml") and name + "i" not in names and name != "stdin.ml"
    ]
    return [Source(name, read_file(folder / name)) for name in wanted if (folder / name).is_file()]


def _print_json(results: Sequence[tuple[Path, "Checked"]]) -> None:
    import json

    files = [
        {
            "path": str(path),
            "diagnostics": [diagnostic.to_json() for diagnostic in checked.diagnostics],
            "signature": checked.signature,
        }
        for path, checked in results
    ]
    click.echo(json.dumps({"ok": all(checked.ok for _, checked in results), "files": files}))


def _print_text(
    results: Sequence[tuple[Path, "Checked"]], groups: dict[Path, dict[Path, "Source"]], *, signature: bool
) -> None:
    from app.show import show_diagnostics
    from app.streams import to_stderr

    for path, checked in results:
        siblings = groups.get(path.parent, {})
        texts = {source.name: source.text for source in siblings.values()}
        show_diagnostics(checked.diagnostics, texts, {checked.name: str(path)})
        if signature and checked.signature is not None:
            click.echo(checked.signature, nl=False)
    if all(checked.ok and not checked.diagnostics for _, checked in results):
        count = len(results)
        what = f"{results[0][0]} type-checks" if count == 1 else f"{count} files type-check"
        to_stderr(f"✓ {what}\n")


def _exit_code(results: Sequence["Checked"]) -> int:
    from app.exits import Exit

    if any(checked.limit is not None for checked in results):
        return Exit.LIMIT
    return Exit.DONE if all(checked.ok for checked in results) else Exit.REFUSED

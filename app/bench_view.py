"""The figures of ``models bench`` as a table: a line a contender, and “–” for what there is no figure of."""

from collections.abc import Sequence

from models.bench import Row

_HEAD = ("model", "engine", "prompt", "writes", "load", "cold", "saved", "warm", "exact", "planned", "loaded",
         "peak")  # fmt: skip
_LEGEND = (
    "prompt and writes: tokens a second; load: seconds; cold, saved, warm and exact: seconds to the first "
    "token; planned, loaded and peak: GB of memory"
)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned columns, the units below; an error stands in place of figures."""
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = [_line(line, widths) for line in cells]
    for place, row in enumerate(rows, start=1):
        if row.error and not row.ran:
            lines[place] = _line([*cells[place][:2], row.error], [*widths[:2], 0])
        elif row.error:
            lines[place] += f"  {row.error}"
    return "\n".join([*lines, _LEGEND])


def _cells(row: Row) -> tuple[str, ...]:
    first, memory = row.first_token_seconds, row.memory
    return (
        row.model,
        row.engine,
        _number(row.prompt_tokens_per_second),
        _number(row.generation_tokens_per_second),
        *(_seconds(value) for value in (row.load_seconds, first.cold, first.saved, first.warm, first.exact)),
        *(_gigabytes(value) for value in (memory.planned_bytes, memory.loaded_bytes, memory.peak_bytes)),
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    padded = (
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
    return "  ".join(padded).rstrip()


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _gigabytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 1e9:.2f}"

"""Prints what `ocamler --help` costs, as a multiple of `python -c "import click"` on the same machine.

The two run in turn, many times, so that both see the same load; medians are compared. Exits 1 past the limit.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 25
LIMIT = 3.0  # times the import of click
CLICK = (sys.executable, "-c", "import click")
HELP = (str(Path(sys.executable).with_name("ocamler")), "--help")


def main() -> int:
    """Measure and print; return the exit code."""
    measured = [(_seconds(CLICK), _seconds(HELP)) for _ in range(ROUNDS)]
    click, ocamler = (statistics.median(column) for column in zip(*measured, strict=True))
    print(f"import click    {click * 1000:6.0f} ms (median of {ROUNDS})")
    print(f"ocamler --help  {ocamler * 1000:6.0f} ms")
    print(f"ratio           {ocamler / click:6.2f}    (limit {LIMIT:.0f})")
    return 0 if ocamler <= LIMIT * click else 1


def _seconds(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())

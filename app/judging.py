"""The judge as the settings want it, and what a problem is judged by."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.settings import Settings
    from ocaml.judge import Judge
    from ocaml.problem import Example, Problem


def open_judge(
    settings: "Settings | None" = None, *, seconds: float | None = None, memory_mb: int | None = None
) -> "Judge":
    """Find the toolchain and return a judge with the limits of the settings, flags first.

    Raises ToolchainMissing, SettingsError.
    """
    from app.settings import load_settings
    from app.streams import tell
    from ocaml import served
    from ocaml.sandbox import MIB, Limits
    from ocaml.toolchain import find

    settings = settings or load_settings()
    limits = Limits(
        seconds=seconds or settings.run_seconds,
        memory_bytes=(memory_mb or settings.run_memory_mb) * MIB,
        output_bytes=settings.run_output_kb * 1024,
    )
    return served.open_judge(find(), limits, servers_folder(), say=tell)


def servers_folder() -> Path:
    """Where check servers are kept once they are built."""
    from app.cache import cache_folder

    return cache_folder() / "servers"


def example_tests(examples: "tuple[Example, ...]") -> str:
    """Return examples as OCaml assertions, one a line."""
    return "".join(f"let () = assert ({example.assertion})\n" for example in examples)


def tests_of(problem: "Problem") -> str:
    """Return all that an answer is judged by: tests first, so that their lines are those of their file."""
    return f"{problem.tests}\n{example_tests(problem.examples)}"


def answers_folder() -> Path:
    """Where answers are kept that found no other place."""
    from models.shelf import default_home

    return default_home() / "kept"

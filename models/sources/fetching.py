"""What every source needs while it fetches: environment, somebody to tell, free space, a child process."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.errors import NoSpace
from models.progress import Progress, human_bytes

_POLL_SECONDS = 0.2
_SPARE_BYTES = 32 << 20  # left free beside what we write


@dataclass(frozen=True, slots=True)
class Fetching:
    """The world as a source sees it; tests inject their own."""

    environment: Mapping[str, str]
    progress: Progress
    free_bytes: Callable[[Path], int]

    def require_space(self, label: str, folder: Path, needed: int) -> None:
        """Raise ``NoSpace`` unless ``needed`` more bytes fit into ``folder``."""
        free = self.free_bytes(folder)
        if needed + _SPARE_BYTES > free:
            raise NoSpace(
                f"{label} needs {human_bytes(needed + _SPARE_BYTES)} more in {folder}, where "
                f"{human_bytes(free)} are free: free some space, or set OCAMLER_HOME to another disk."
            )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child process ended; ``code`` is None when it was ended because it took too long."""

    code: int | None
    stdout: str
    stderr: str


def run_child(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    watch: Callable[[], None] = lambda: None,
    limit_seconds: float | None = None,
) -> Outcome:
    """Run a program to its end, calling ``watch`` five times a second; it dies when we are interrupted.

    Its stdin is a pipe that closes when this process dies, however it dies: a child that must not live on
    alone reads it.
    """
    ours, theirs = _alive_pipe()
    try:
        try:
            process = subprocess.Popen(
                arguments,
                env=dict(environment),
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        finally:
            os.close(theirs)
        try:
            return _attend(process, watch, limit_seconds)
        finally:
            _end(process)
    finally:
        os.close(ours)


def _alive_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    return writing, reading


def _attend(
    process: "subprocess.Popen[str]", watch: Callable[[], None], limit_seconds: float | None
) -> Outcome:
    started = time.monotonic()
    while True:
        try:
            stdout, stderr = process.communicate(timeout=_POLL_SECONDS)
            return Outcome(process.returncode, stdout, stderr)
        except subprocess.TimeoutExpired:
            if limit_seconds is not None and time.monotonic() - started >= limit_seconds:
                return Outcome(None, "", "")
            watch()


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()

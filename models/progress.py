"""How a long job tells how far it is: a bar on a terminal, a line every 10 % otherwise. Always on stderr."""

import sys
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """Somebody who is told."""

    def say(self, sentence: str) -> None:
        """Tell one thing."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Begin a job of ``total`` bytes, of which ``done`` are there already."""

    def at(self, done: int) -> None:
        """So many bytes are there now; may go back when something must be fetched again."""

    def stop(self) -> None:
        """End the job, done or not. Safe to call twice."""


class Silent:
    """Tells nobody."""

    def say(self, sentence: str) -> None:
        """Drop it."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Drop it."""

    def at(self, done: int) -> None:
        """Drop it."""

    def stop(self) -> None:
        """Drop it."""


class Lines:
    """A line at the start, at every tenth, and for each sentence."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._label = ""
        self._total = 0
        self._tenth = 0

    def say(self, sentence: str) -> None:
        """Print it."""
        print(sentence, file=self._stream, flush=True)

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Print where the job begins."""
        self._label, self._total = label, max(total, 1)
        self._tenth = done * 10 // self._total
        self._print()

    def at(self, done: int) -> None:
        """Print when a tenth is passed."""
        tenth = min(done * 10 // self._total, 10)
        if tenth > self._tenth:
            self._tenth = tenth
            self._print()

    def stop(self) -> None:
        """Nothing is left open."""

    def _print(self) -> None:
        self.say(f"{self._label}: {self._tenth * 10} % of {human_bytes(self._total)}")


class Bar:
    """tqdm's bar, made when a job starts: importing tqdm costs 60 ms."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Any = None

    def say(self, sentence: str) -> None:
        """Print it above the bar."""
        if self._bar is None:
            print(sentence, file=self._stream, flush=True)
        else:
            self._bar.write(sentence, file=self._stream)

    def start(self, label: str, total: int, done: int = 0) -> None:
        """Draw the bar."""
        from tqdm import tqdm

        self.stop()
        self._bar = tqdm(
            desc=label,
            total=total,
            initial=done,
            unit="B",
            unit_scale=True,
            file=self._stream,
            dynamic_ncols=True,
        )

    def at(self, done: int) -> None:
        """Move the bar, backwards too."""
        if self._bar is not None:
            self._bar.update(min(done, self._bar.total) - self._bar.n)

    def stop(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def progress_on(stream: TextIO | None = None) -> Progress:
    """Return a bar where ``stream`` (stderr by default) is a terminal, else lines."""
    target = stream or sys.stderr
    return Bar(target) if target.isatty() else Lines(target)


def human_bytes(count: int) -> str:
    """Bytes as people read them, in powers of ten as disks are sold: ``1.12 GB``, ``491 MB``."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"

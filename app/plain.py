"""Plain text for what happens while a problem is solved: a consumer of the events that writes to stderr."""

import sys
from dataclasses import dataclass, field
from typing import TextIO

from app.show import show_verdict
from app.solve import SolveEvent
from app.streams import to_stderr
from app.style import Style, style_for
from app.verdict_lines import render_verdict_line
from models.events import CodeReady, Finished, Judged, Repairing, Started, Token
from ocaml.grading.scope import ANSWER_FILE

_DIM, _RESET = "\x1b[2m", "\x1b[0m"


@dataclass(slots=True)
class Plain:
    """Shows events on ``stream``. Text that streams is dimmed and announced as not judged yet."""

    verbose: bool = False
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _latest: str = ""

    def loading(self, model: str) -> None:
        """Say that a model is being loaded, to those who watch."""
        if self._live or self.verbose:
            self._say(f"loading {model} …")

    def show(self, event: SolveEvent) -> None:
        """Write one event."""
        match event:
            case Started(attempt, how):
                if self._live or self.verbose:
                    self._say(f"── attempt {attempt} ({how}), not judged yet ──")
            case Token(_, text):
                if self._live:
                    self._write(f"{_DIM}{_visible(text)}{_RESET}")
            case CodeReady():
                if self._live:
                    self._write("\n")
            case Judged(number, attempt):
                if self.verbose:
                    names = {ANSWER_FILE: f"attempt {number}"}
                    show_verdict(attempt.verdict, {ANSWER_FILE: attempt.code}, names)
                self._latest = render_verdict_line(attempt.verdict, style=self._style)
            case Repairing(number, because):
                if self.verbose:
                    self._say(f"asking again: {because}")
                else:
                    self._say(f"attempt {number}: {self._latest}; asking again")
            case Finished():
                pass

    @property
    def _live(self) -> bool:
        return self.stream.isatty()

    @property
    def _style(self) -> Style:
        return style_for(self.stream)

    def _say(self, text: str) -> None:
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        if self.stream is sys.stderr:
            to_stderr(text)
        else:
            self.stream.write(text)
            self.stream.flush()


def _visible(text: str) -> str:
    """Keep a model from driving the terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)

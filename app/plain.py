"""Plain text for what happens while a problem is solved: a consumer of the events that writes to stderr."""

import sys
from dataclasses import dataclass, field
from typing import TextIO

from app.show import show_verdict
from app.solve import SolveEvent
from app.streams import to_stderr
from app.style import Style, style_for
from app.verdict_lines import render_verdict_line
from models.engines.plan import gigabytes
from models.engines.protocol import Footprint
from models.events import CodeReady, Dropped, Finished, Judged, Repairing, Started, Token
from ocaml.grading.scope import ANSWER_FILE

_DIM, _RESET = "\x1b[2m", "\x1b[0m"


@dataclass(slots=True)
class Plain:
    """Shows events on ``stream``. Text that streams is dimmed and announced as not judged yet."""

    verbose: bool = False
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _latest: str = ""

    @property
    def is_watched(self) -> bool:
        """Whether somebody wants to know what goes on."""
        return self._live or self.verbose

    def loading(self, model: str, needs: str = "") -> None:
        """Say that a model is being loaded and what it needs, to those who watch."""
        if self.is_watched:
            self._say(f"Loading {model}: {needs}." if needs else f"Loading {model} …")

    def loaded(self, footprint: Footprint) -> None:
        """Say what the model took, to those who asked for words."""
        if self.verbose and footprint.memory_bytes:
            taken = gigabytes(footprint.memory_bytes)
            self._say(f"It takes {taken}, with a context of {footprint.context_tokens} tokens.")

    def show(self, event: SolveEvent) -> None:
        """Write one event."""
        match event:
            case Started(attempt, how):
                if self.is_watched:
                    self._say(f"── attempt {attempt} ({how}), not judged yet ──")
            case Token(_, text):
                if self._live:
                    self._write(f"{_DIM}{_visible(text)}{_RESET}")
            case Dropped(_, messages, tokens):
                self._say(_dropped(messages, tokens))
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


def _dropped(messages: int, tokens: int) -> str:
    """Say what the model has not read, and what can be done about it."""
    what = "the oldest message" if messages == 1 else f"the {messages} oldest messages"
    size = f" ({tokens} tokens)" if tokens else ""
    verb = "was" if messages == 1 else "were"
    return (
        f"The conversation did not fit into the context, and {what}{size} {verb} left out: "
        "shorten the problem or set a larger `context`."
    )


def _visible(text: str) -> str:
    """Keep a model from driving the terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)

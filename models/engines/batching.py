"""Replies side by side, whichever library computes them: prompts wait, join, are written and leave."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from models.engines.backend import Interrupt
from models.engines.protocol import BatchDelta, Delta, Finish
from models.engines.writer import Writer

W = TypeVar("W", bound=Writer)


class Batch(ABC, Generic[W]):
    """The replies of one batch; ``write`` is called once.

    ``live`` are those under way, of which each step draws a token, and ``waiting`` those for which there is
    no room yet. ``remember`` is handed the tokens of each reply at its end.
    """

    def __init__(
        self, writers: Iterable[W], interrupt: Interrupt, remember: Callable[[Sequence[int]], None]
    ) -> None:
        self.waiting = list(writers)
        self.live: list[W] = []
        self.interrupt = interrupt
        self._remember = remember

    def write(self) -> Iterator[BatchDelta]:
        """Yield the deltas of all of them, as they come."""
        try:
            while self.waiting or self.live:
                yield from self._ended()
                while self.waiting and self.fits(self.waiting[0]):
                    self.begin(self.waiting.pop(0))
                    yield from self._ended()
                if self.live:
                    yield from self.step()
        finally:
            self.let_go(list(self.live))

    @abstractmethod
    def fits(self, writer: W) -> bool:
        """Whether there is room for one more."""

    @abstractmethod
    def begin(self, writer: W) -> None:
        """Read all of its prompt but the last token, and let it join ``live``.

        One that is stopped meanwhile gets its ``finish``, in ``live`` or put back into ``waiting``.
        """

    @abstractmethod
    def step(self) -> Iterator[BatchDelta]:
        """Read one token of each that is live, draw the next, and yield what that made."""

    @abstractmethod
    def let_go(self, writers: Sequence[W]) -> None:
        """Take writers out of ``live``, and remember what was read for them."""

    def told(self, deltas: Iterable[tuple[W, Delta | None]]) -> Iterator[BatchDelta]:
        """Yield what was drawn; all of it is, before the first is told: who hears of it may take its time."""
        for writer, delta in list(deltas):
            if delta:
                yield BatchDelta(writer.index, delta)

    def _ended(self) -> Iterator[BatchDelta]:
        """End those that are done or not wanted any more, and yield their last deltas."""
        dropped = self.interrupt.dropped
        for writer in [*self.live, *self.waiting]:
            if self.interrupt.raised or writer.index in dropped:
                writer.finish = writer.finish or Finish.CANCELLED
        ended = [writer for writer in [*self.live, *self.waiting] if writer.finish]
        if not ended:
            return
        self.let_go([writer for writer in self.live if writer.finish])
        self.waiting = [writer for writer in self.waiting if not writer.finish]
        for writer in ended:
            yield BatchDelta(writer.index, writer.end(self._remember))

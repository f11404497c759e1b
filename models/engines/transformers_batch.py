"""Replies in the making side by side: each step reads one token of every one that is under way."""

from collections.abc import Callable, Iterator, Sequence

from models.engines.backend import Interrupt
from models.engines.protocol import BatchDelta, Finish
from models.engines.transformers_rows import Network, Remembered, Rows, Stopped
from models.engines.writer import Writer

_ROWS = 8


class Batch:
    """Writes replies; those for which there is no room begin when others have ended.

    ``room`` is in tokens, each row as long as the longest.
    """

    def __init__(
        self,
        network: Network,
        remembered: Remembered,
        interrupt: Interrupt,
        writers: Sequence[Writer],
        *,
        room: int,
        chunk: int,
        remember: Callable[[Sequence[int]], None],
    ) -> None:
        self._network = network
        self._remembered = remembered
        self._interrupt = interrupt
        self._room = room
        self._chunk = chunk
        self._remember = remember
        # Those first that go on from what is remembered.
        self._waiting = sorted(writers, key=lambda writer: -remembered.shared(writer.tokens))
        self._lengths = {writer.index: len(writer.tokens) + writer.left for writer in writers}
        self._live: list[Writer] = []
        self._rows: Rows | None = None
        self._most = _ROWS if network.keeps_every_token else 1

    def write(self) -> Iterator[BatchDelta]:
        """Yield the deltas of all of them, as they come."""
        try:
            while self._waiting or self._live:
                yield from self._ended()
                while self._waiting and self._fits(self._waiting[0]):
                    self._begin(self._waiting.pop(0))
                    yield from self._ended()
                if self._live:
                    yield from self._step()
        finally:
            self._let_go(self._live)

    def _fits(self, writer: Writer) -> bool:
        count = len(self._live) + 1
        return count == 1 or (count <= self._most and self._needed(writer) <= self._room)

    def _needed(self, writer: Writer) -> int:
        """How many tokens the rows may have at their longest when that one has joined them."""
        lengths = [self._lengths[one.index] for one in (*self._live, writer)]
        return len(lengths) * max(lengths)

    def _begin(self, writer: Writer) -> None:
        """Read all of a prompt but its last token, which is read with those of the others."""
        lane = self._remembered.start(writer.tokens)
        self._remembered.make_room(self._needed(writer))
        row = Rows(self._network, lane, self._chunk)
        writer.begin(len(lane.tokens))
        self._network.stop = lambda: self._interrupt.raised or writer.index in self._interrupt.dropped
        try:
            row.read(writer.tokens[len(lane.tokens) : -1])
        except Stopped:
            writer.finish = Finish.CANCELLED
            self._remembered.keep(*row.take_out([0]))
            self._waiting.insert(0, writer)  # it has no row, and is ended there
            return
        if self._waiting and self._network.keeps_every_token:  # the next prompt may begin alike
            self._remembered.keep(row.lane())
        self._live.append(writer)
        if self._rows is None:
            self._rows = row
        else:
            self._rows.join(row)

    def _step(self) -> Iterator[BatchDelta]:
        assert self._rows is not None, "a writer has its row"
        self._network.stop = lambda: self._interrupt.raised
        try:
            logits = self._rows.step([writer.following for writer in self._live])
        except Stopped:
            return  # those that are ended are found so
        # All are drawn before the first is told: whoever hears of it may take its time.
        deltas = [writer.draw(row) for writer, row in zip(self._live, logits, strict=True)]
        for writer, delta in zip(self._live, deltas, strict=True):
            if delta:
                yield BatchDelta(writer.index, delta)

    def _ended(self) -> Iterator[BatchDelta]:
        """End those that are done or not wanted any more, and yield their last deltas."""
        dropped = self._interrupt.dropped
        for writer in [*self._live, *self._waiting]:
            if self._interrupt.raised or writer.index in dropped:
                writer.finish = writer.finish or Finish.CANCELLED
        ended = [writer for writer in [*self._live, *self._waiting] if writer.finish]
        self._let_go([writer for writer in self._live if writer.finish])
        self._waiting = [writer for writer in self._waiting if not writer.finish]
        for writer in ended:
            yield BatchDelta(writer.index, writer.end(self._remember))

    def _let_go(self, writers: Sequence[Writer]) -> None:
        if not writers or self._rows is None:
            return
        gone = [row for row, writer in enumerate(self._live) if writer in writers]
        self._live = [writer for writer in self._live if writer not in writers]
        for lane in self._rows.take_out(gone):
            self._remembered.keep(lane)
        if not self._live:
            self._rows = None

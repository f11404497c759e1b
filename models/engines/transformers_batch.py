"""Replies in the making side by side: each step reads one token of every one that is under way."""

from collections.abc import Callable, Iterator, Sequence

from models.engines.backend import Interrupt
from models.engines.batching import Batch
from models.engines.protocol import BatchDelta, Finish
from models.engines.transformers_rows import Network, Remembered, Rows, Stopped
from models.engines.writer import Writer

_ROWS = 8


class RowsBatch(Batch[Writer]):
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
        # Those first that go on from what is remembered.
        in_order = sorted(writers, key=lambda writer: -remembered.shared(writer.tokens))
        super().__init__(in_order, interrupt, remember)
        self._network = network
        self._remembered = remembered
        self._room = room
        self._chunk = chunk
        self._rows: Rows | None = None
        self._most = _ROWS if network.keeps_every_token else 1

    def fits(self, writer: Writer) -> bool:
        """Whether one more row fits beside the others, all as long as the longest may become."""
        count = len(self.live) + 1
        return count == 1 or (count <= self._most and self._needed(writer) <= self._room)

    def begin(self, writer: Writer) -> None:
        """Read all of a prompt but its last token, which is read with those of the others."""
        lane = self._remembered.start(writer.tokens)
        self._remembered.make_room(self._needed(writer))
        row = Rows(self._network, lane, self._chunk)
        writer.begin(len(lane.tokens))
        self._network.stop = lambda: self.interrupt.raised or writer.index in self.interrupt.dropped
        try:
            row.read(writer.tokens[len(lane.tokens) : -1])
        except Stopped:
            writer.finish = Finish.CANCELLED
            self._remembered.keep(*row.take_out([0]))
            self.waiting.insert(0, writer)  # it has no row, and is ended there
            return
        if self.waiting and self._network.keeps_every_token:  # the next prompt may begin alike
            self._remembered.keep(row.lane())
        self.live.append(writer)
        if self._rows is None:
            self._rows = row
        else:
            self._rows.join(row)

    def step(self) -> Iterator[BatchDelta]:
        """Read and draw a token in each row."""
        assert self._rows is not None, "a writer has its row"
        self._network.stop = lambda: self.interrupt.raised
        try:
            logits = self._rows.step([writer.following for writer in self.live])
        except Stopped:
            return  # those that are ended are found so
        yield from self.told(
            (writer, writer.draw(row)) for writer, row in zip(self.live, logits, strict=True)
        )

    def let_go(self, writers: Sequence[Writer]) -> None:
        """Take their rows out, and keep what those have read."""
        if not writers or self._rows is None:
            return
        gone = [row for row, writer in enumerate(self.live) if writer in writers]
        self.live = [writer for writer in self.live if writer not in writers]
        for lane in self._rows.take_out(gone):
            self._remembered.keep(lane)
        if not self.live:
            self._rows = None

    def _needed(self, writer: Writer) -> int:
        """How many tokens the rows may have at their longest when that one has joined them."""
        lengths = [one.longest for one in (*self.live, writer)]
        return len(lengths) * max(lengths)

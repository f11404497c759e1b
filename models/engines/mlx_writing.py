"""Replies in the making side by side, computed ahead: the next tokens while the last ones are told."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import mlx.core as mx

from models.engines.backend import Interrupt
from models.engines.batching import Batch
from models.engines.mlx_drawing import Drawn, draw
from models.engines.mlx_library import caches, maybe_set_recommended_wired_limit
from models.engines.mlx_loading import Network
from models.engines.mlx_memory import Memory, Row, Rows
from models.engines.protocol import BatchDelta, Finish
from models.engines.writer import Writer

Read: TypeAlias = Callable[[Writer, Row, Callable[[], bool]], tuple[Row, bool]]
"""Goes on with a row until it holds a writer's prompt but for the last token; returns it, or another that
does, and False when interrupted."""

_STEPS_PER_CLEARING = 256  # as often as mlx-lm gives back the buffers that no longer fit


class AheadBatch(Batch[Writer]):
    """Writes replies; those for which there is no room begin when others have ended.

    ``room`` is in tokens, each row as long as the longest. Alone, a reply is computed as by mlx-lm.
    """

    def __init__(
        self,
        network: Network,
        memory: Memory,
        interrupt: Interrupt,
        writers: Sequence[Writer],
        read: Read,
        *,
        room: int,
        remember: Callable[[Sequence[int]], None],
    ) -> None:
        # Those first that go on from what is remembered.
        in_order = sorted(writers, key=lambda writer: -memory.shared(writer.tokens))
        super().__init__(in_order, interrupt, remember)
        self._network = network
        self._memory = memory
        self._read = read
        self._room = room
        self._rows = Rows(network)
        self._drawn: Drawn | None = None  # for the first of the rows: those that have joined since have none
        self._drawn_rows = 0
        self._is_exact = True  # the rows' tokens are what the network has read
        self._steps = 0

    def write(self) -> Iterator[BatchDelta]:
        """Yield the deltas of all of them, with the weights held in memory meanwhile."""
        try:
            with _wired():
                yield from super().write()
        finally:
            mx.clear_cache()

    def fits(self, writer: Writer) -> bool:
        """Whether one more row fits beside the others, all as long as the longest may become."""
        rows = [*self.live, writer]
        return len(rows) == 1 or (
            len(rows) <= self._memory.most_rows and len(rows) * _longest(rows) <= self._room
        )

    def begin(self, writer: Writer) -> None:
        """Read all of a prompt but its last token, which is read with those of the others."""
        rows = [*self.live, writer]
        row = self._memory.start(writer.tokens)
        self._memory.make_room(len(rows) * _longest(rows))
        row, is_read = self._read(writer, row, lambda: writer.index in self.interrupt.dropped)
        if not is_read or writer.left == 0:
            writer.finish = Finish.LENGTH if is_read else Finish.CANCELLED
            self._memory.keep(row)
            self.waiting.insert(0, writer)  # it has no row, and is ended there
            return
        # The next prompt may begin alike, or go back to here what cannot be cut.
        if self.waiting or not caches.can_trim_prompt_cache(row.layers):
            self._memory.keep(row.copy())
        self.live.append(writer)
        self._rows.join(row)

    def step(self) -> Iterator[BatchDelta]:
        """Start to read a token in each row, then tell those that were drawn before it."""
        self._is_exact = False
        drawn, count = self._drawn, self._drawn_rows
        last = count == len(self.live) and all(writer.left == 1 for writer in self.live)
        if not last:  # the very last tokens need not be read
            self._start_reading()
        deltas = []
        for row, (token, entropy) in enumerate(drawn.wait() if drawn else ()):
            if not last:
                self._rows.tokens[row].append(token)
            deltas.append((self.live[row], self.live[row].take(token, entropy)))
        self._is_exact = True
        yield from self.told(deltas)

    def let_go(self, writers: Sequence[Writer]) -> None:
        """Take their rows out, and keep what those have read, unless that is uncertain."""
        if not writers or not self._is_exact:
            return
        gone = [row for row, writer in enumerate(self.live) if writer in writers]
        stay = [row for row in range(len(self.live)) if row not in gone]
        for row in self._rows.take_out(gone):
            self._memory.keep(row)
        self.live = [self.live[row] for row in stay]
        if self._drawn:
            drawn = [row for row in stay if row < self._drawn_rows]
            self._drawn, self._drawn_rows = self._drawn.only(drawn), len(drawn)

    def _start_reading(self) -> None:
        new = self.live[self._drawn_rows :]
        following = [self._drawn.tokens] if self._drawn else []
        if new:
            following.append(mx.array([writer.following for writer in new], mx.uint32))
        logits = self._rows.read(following[0] if len(following) == 1 else mx.concatenate(following))
        size = self.live[0].size
        self._drawn = draw(
            logits if logits.shape[-1] == size else logits[:, :size],
            [writer.drawer for writer in self.live],
        )
        self._drawn.start()
        for row, writer in enumerate(new, self._drawn_rows):
            self._rows.tokens[row].append(writer.following)
        self._drawn_rows = len(self.live)
        self._steps += 1
        if self._steps % _STEPS_PER_CLEARING == 0:
            mx.clear_cache()


@contextmanager
def _wired() -> Iterator[None]:
    """Keep the weights in memory while we compute, where there is a GPU that shares it with others."""
    limit = maybe_set_recommended_wired_limit()
    try:
        yield
    finally:
        if limit is not None:
            mx.synchronize()
            mx.set_wired_limit(limit)


def _longest(writers: Sequence[Writer]) -> int:
    return max(writer.longest for writer in writers)

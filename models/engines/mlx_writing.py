"""Replies in the making side by side, computed ahead: the next tokens while the last ones are told."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import mlx.core as mx

from models.engines.backend import Interrupt
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


class Batch:
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
        self._network = network
        self._memory = memory
        self._interrupt = interrupt
        self._read = read
        self._room = room
        self._remember = remember
        # Those first that go on from what is remembered.
        self._waiting = sorted(writers, key=lambda writer: -memory.shared(writer.tokens))
        self._live: list[Writer] = []
        self._rows = Rows(network)
        self._drawn: Drawn | None = None  # for the first of the rows: those that have joined since have none
        self._drawn_rows = 0
        self._is_exact = True  # the rows' tokens are what the network has read
        self._steps = 0

    def write(self) -> Iterator[BatchDelta]:
        """Yield the deltas of all of them, as they come."""
        try:
            with _wired():
                while self._waiting or self._live:
                    yield from self._ended()
                    while self._waiting and self._fits(self._waiting[0]):
                        self._begin(self._waiting.pop(0))
                        yield from self._ended()
                    if self._live:
                        yield from self._step()
        finally:
            self._let_go(self._live)
            mx.clear_cache()

    def _fits(self, writer: Writer) -> bool:
        rows = [*self._live, writer]
        return len(rows) == 1 or (
            len(rows) <= self._memory.most_rows and len(rows) * _longest(rows) <= self._room
        )

    def _begin(self, writer: Writer) -> None:
        """Read all of a prompt but its last token, which is read with those of the others."""
        rows = [*self._live, writer]
        row = self._memory.start(writer.tokens)
        self._memory.make_room(len(rows) * _longest(rows))
        row, is_read = self._read(writer, row, lambda: writer.index in self._interrupt.dropped)
        if not is_read or writer.left == 0:
            writer.finish = Finish.LENGTH if is_read else Finish.CANCELLED
            self._memory.keep(row)
            self._waiting.insert(0, writer)  # it has no row, and is ended there
            return
        # The next prompt may begin alike, or go back to here what cannot be cut.
        if self._waiting or not caches.can_trim_prompt_cache(row.layers):
            self._memory.keep(row.copy())
        self._live.append(writer)
        self._rows.join(row)

    def _step(self) -> Iterator[BatchDelta]:
        """Start to read a token in each row, then tell those that were drawn before it."""
        self._is_exact = False
        drawn, count = self._drawn, self._drawn_rows
        last = count == len(self._live) and all(writer.left == 1 for writer in self._live)
        if not last:  # the very last tokens need not be read
            self._start_reading()
        deltas = []
        for row, (token, entropy) in enumerate(drawn.wait() if drawn else ()):
            if not last:
                self._rows.tokens[row].append(token)
            deltas.append((self._live[row], self._live[row].take(token, entropy)))
        self._is_exact = True
        for writer, delta in deltas:
            if delta:
                yield BatchDelta(writer.index, delta)

    def _start_reading(self) -> None:
        new = self._live[self._drawn_rows :]
        following = [self._drawn.tokens] if self._drawn else []
        if new:
            following.append(mx.array([writer.following for writer in new], mx.uint32))
        logits = self._rows.read(following[0] if len(following) == 1 else mx.concatenate(following))
        size = self._live[0].size
        self._drawn = draw(
            logits if logits.shape[-1] == size else logits[:, :size],
            [writer.drawer for writer in self._live],
        )
        self._drawn.start()
        for row, writer in enumerate(new, self._drawn_rows):
            self._rows.tokens[row].append(writer.following)
        self._drawn_rows = len(self._live)
        self._steps += 1
        if self._steps % _STEPS_PER_CLEARING == 0:
            mx.clear_cache()

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
        if not writers or not self._is_exact:
            return
        gone = [row for row, writer in enumerate(self._live) if writer in writers]
        stay = [row for row in range(len(self._live)) if row not in gone]
        for row in self._rows.take_out(gone):
            self._memory.keep(row)
        self._live = [self._live[row] for row in stay]
        if self._drawn:
            drawn = [row for row in stay if row < self._drawn_rows]
            self._drawn, self._drawn_rows = self._drawn.only(drawn), len(drawn)


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
    return max(len(writer.tokens) + writer.left for writer in writers)

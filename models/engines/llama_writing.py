"""Replies in the making on lanes of llama.cpp's memory: one alone, or several side by side."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from models.engines.backend import Interrupt
from models.engines.batching import Batch
from models.engines.fitting import Fitted
from models.engines.llama_context import Context, Lane
from models.engines.protocol import BatchDelta, Delta, Finish, Prompt
from models.engines.vocabulary import Vocabulary
from models.engines.writer import Writer

Read: TypeAlias = Callable[["LaneWriter", Callable[[], bool]], bool]
"""Takes a lane for a writer and reads its prompt there but for the last token; False when interrupted."""


class LaneWriter(Writer):
    """A reply on a lane, once it has one; ``prompt`` is what was asked."""

    def __init__(
        self, index: int, prompt: Prompt, fitted: Fitted, vocabulary: Vocabulary, capacity: int
    ) -> None:
        super().__init__(index, prompt, fitted, vocabulary, capacity=capacity, size=vocabulary.size)
        self.prompt = prompt
        self.lane: Lane | None = None

    def begin_on(self, lane: Lane) -> None:
        """Note the lane, and that what it holds need not be read."""
        self.lane = lane
        self.begin(len(lane.tokens))


def write_alone(
    context: Context, writer: LaneWriter, read: Read, remember: Callable[[Sequence[int]], None]
) -> Iterator[Delta]:
    """Yield the deltas of one reply."""
    held: Delta | None = None
    is_first = True
    try:
        if not read(writer, lambda: False):
            writer.finish = Finish.CANCELLED
        while writer.finish is None:
            # Read first, tell then: so the parent wakes while one core draws the next token and the others
            # idle, and not when all of them compute (on two cores 0.98 of the bare library's speed, now 1.0).
            is_read = context.step([(_lane(writer), writer.following)])
            if held:
                yield held
                held = None
            if not is_read:
                writer.finish = Finish.CANCELLED
                break
            delta = writer.draw(context.logits(0))
            if is_first and delta:  # somebody waits for it
                yield delta
                is_first = False
            else:
                held = delta
        if held:
            yield held
        yield writer.end(remember)
    finally:
        _give_back(context, [writer])


class LlamaBatch(Batch[LaneWriter]):
    """Replies side by side, each in a lane; ``read`` reads a prompt into one."""

    def __init__(
        self,
        context: Context,
        interrupt: Interrupt,
        writers: Sequence[LaneWriter],
        read: Read,
        remember: Callable[[Sequence[int]], None],
    ) -> None:
        # Those first that go on from what is remembered, before others take the lanes.
        in_order = sorted(writers, key=lambda writer: -context.remembered(writer.tokens))
        super().__init__(in_order, interrupt, remember)
        self._context = context
        self._read = read
        self._may_fit = True  # the first that waits: since something has ended

    def fits(self, writer: LaneWriter) -> bool:
        """Whether there is a lane, and cells for all that it and the others may write."""
        if self._may_fit:
            self._may_fit = self._has_room(writer)
        return self._may_fit

    def begin(self, writer: LaneWriter) -> None:
        """Read its prompt."""
        self.live.append(writer)
        if not self._read(writer, lambda: writer.index in self.interrupt.dropped):
            writer.finish = Finish.CANCELLED

    def step(self) -> Iterator[BatchDelta]:
        """Read and draw a token in each lane."""
        if self._context.step([(_lane(writer), writer.following) for writer in self.live]):
            logits = (self._context.logits(index) for index in range(len(self.live)))
            yield from self.told(
                (writer, writer.draw(row)) for writer, row in zip(self.live, logits, strict=True)
            )
        else:
            for writer in self.live:
                writer.finish = Finish.CANCELLED

    def let_go(self, writers: Sequence[LaneWriter]) -> None:
        """Give the lanes back, which keep what they read."""
        self._may_fit = True
        _give_back(self._context, writers)
        self.live = [writer for writer in self.live if writer not in writers]

    def _has_room(self, writer: LaneWriter) -> bool:
        if not self.live:
            return True
        if not self._context.has_free_lane:
            return False
        promised = sum(_cells_left(other) for other in self.live)
        needed = self._context.cells_for(writer.tokens) + max(0, writer.left - 1)
        return needed + promised <= self._context.free_cells


def _cells_left(writer: LaneWriter) -> int:
    """The cells that a reply under way may still take: for what it draws, and the token to be read next."""
    return max(1, writer.left)


def _lane(writer: LaneWriter) -> Lane:
    assert writer.lane is not None, "a writer reads its prompt before it draws"
    return writer.lane


def _give_back(context: Context, writers: Sequence[LaneWriter]) -> None:
    for writer in writers:
        if writer.lane:
            context.give_back(writer.lane)
            writer.lane = None

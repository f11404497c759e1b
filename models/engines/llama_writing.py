"""Replies in the making on lanes of llama.cpp's memory: one alone, or several side by side."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from models.engines.backend import Interrupt
from models.engines.draw import Drawer, Logits
from models.engines.fitting import Fitted
from models.engines.llama_context import Context, Lane
from models.engines.protocol import BatchDelta, Delta, Finish, Prompt, Usage
from models.engines.reply import Reply
from models.engines.vocabulary import Vocabulary

Read: TypeAlias = Callable[["Writer", Callable[[], bool]], bool]
"""Takes a lane for a writer and reads its prompt there but for the last token; False when interrupted."""


class Writer:
    """One reply: what it goes on from, what is drawn, and ``following``, the token to be read next.

    ``left`` is how many tokens may still be drawn; the last one needs no cell.
    """

    def __init__(
        self, index: int, prompt: Prompt, fitted: Fitted, vocabulary: Vocabulary, capacity: int
    ) -> None:
        self.index = index
        self.prompt = prompt
        self.tokens = fitted.tokens
        self.following = self.tokens[-1]
        self.left = max(0, min(prompt.sampling.max_tokens, capacity - len(self.tokens) + 1))
        self.lane: Lane | None = None
        self.usage: Usage = fitted.usage(0)
        self.finish: Finish | None = None
        self._fitted = fitted
        self._vocabulary = vocabulary
        self._drawer = Drawer(prompt.sampling, vocabulary.size, prompt.forbidden_first)
        self._reply = Reply(fitted.accepted)

    def begin(self, lane: Lane) -> None:
        """Note the lane, and that what it holds need not be read."""
        self.lane = lane
        self.usage = self._fitted.usage(len(lane.tokens))

    def draw(self, logits: Logits) -> Delta | None:
        """Draw a token; return a delta where that makes whole characters. Sets ``finish`` at the end."""
        if self.left == 0:
            self.finish = Finish.LENGTH
            return None
        token, entropy = self._drawer.draw(logits)
        if self._vocabulary.ends_turn(token):
            self.finish = Finish.STOP
            return None
        self.following = token
        self.left -= 1
        if self.left == 0:
            self.finish = Finish.LENGTH
        return self._reply.add(token, entropy, self._vocabulary.piece(token))

    def end(self, remember: Callable[[Sequence[int]], None]) -> Delta:
        """Return the last delta, and hand over the tokens of the whole reply."""
        remember(self._reply.tokens)
        return self._reply.end(self.finish or Finish.CANCELLED, self.usage)


def write_alone(
    context: Context, writer: Writer, read: Read, remember: Callable[[Sequence[int]], None]
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


class Batch:
    """Replies side by side: each step reads one token of every one that is under way.

    Those for which there is no lane, or no room for all that they may write, begin when others have ended.
    """

    def __init__(
        self,
        context: Context,
        interrupt: Interrupt,
        writers: Sequence[Writer],
        read: Read,
        remember: Callable[[Sequence[int]], None],
    ) -> None:
        self._context = context
        self._interrupt = interrupt
        self._read = read
        self._remember = remember
        # Those first that go on from what is remembered, before others take the lanes.
        self._waiting = sorted(writers, key=lambda writer: -context.remembered(writer.tokens))
        self._live: list[Writer] = []
        self._may_begin = True  # another one perhaps: since something has ended

    def write(self) -> Iterator[BatchDelta]:
        """Yield the deltas of all of them, as they come."""
        try:
            while self._waiting or self._live:
                yield from self._ended()
                while self._waiting and self._may_begin:
                    if self._fits(self._waiting[0]):
                        self._begin(self._waiting.pop(0))
                        yield from self._ended()
                    else:
                        self._may_begin = False
                if self._live:
                    yield from self._step()
        finally:
            _give_back(self._context, self._live)

    def _fits(self, writer: Writer) -> bool:
        if not self._live:
            return True
        if not self._context.has_free_lane:
            return False
        promised = sum(_cells_left(other) for other in self._live)
        needed = self._context.cells_for(writer.tokens) + max(0, writer.left - 1)
        return needed + promised <= self._context.free_cells

    def _begin(self, writer: Writer) -> None:
        self._live.append(writer)
        if not self._read(writer, lambda: writer.index in self._interrupt.dropped):
            writer.finish = Finish.CANCELLED

    def _step(self) -> Iterator[BatchDelta]:
        if not self._context.step([(_lane(writer), writer.following) for writer in self._live]):
            for writer in self._live:
                writer.finish = Finish.CANCELLED
            return
        # All are drawn before the first is told: whoever hears of it may take its time.
        deltas = [writer.draw(self._context.logits(i)) for i, writer in enumerate(self._live)]
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
        if not ended:
            return
        self._may_begin = True
        _give_back(self._context, [writer for writer in self._live if writer.finish])
        self._live = [writer for writer in self._live if not writer.finish]
        self._waiting = [writer for writer in self._waiting if not writer.finish]
        for writer in ended:
            yield BatchDelta(writer.index, writer.end(self._remember))


def _cells_left(writer: Writer) -> int:
    """The cells that a reply under way may still take: for what it draws, and the token to be read next."""
    return max(1, writer.left)


def _lane(writer: Writer) -> Lane:
    assert writer.lane is not None, "a writer reads its prompt before it draws"
    return writer.lane


def _give_back(context: Context, writers: Sequence[Writer]) -> None:
    for writer in writers:
        if writer.lane:
            context.give_back(writer.lane)
            writer.lane = None

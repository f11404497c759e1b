"""An engine in a process of its own: the parent's half of the protocol.

The model's crash, its appetite for memory and its deafness stay in the child; what reaches the caller is a
delta or one ``EngineError``. A child that dies while it replies is started again, once, and the replies go on
where they were.
"""

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from models.engines.connection import Connection, Exchange, StartChild
from models.engines.options import EngineOptions
from models.engines.process import Child, ChildProcess, Death
from models.engines.protocol import CANCELLED, BatchDelta, Delta, Footprint, Message, Prompt, Sampling
from models.engines.warm import Warmth, connect, socket_path
from models.engines.wire import Failed, Generate, Load, Loaded, Piece, Response
from models.errors import EngineError


class EngineProcess:
    """One model in a child process that runs the backend called ``engine``; fulfils ``Engine``.

    Callers take turns: requests are served one after the other, in the order they came. A child that is
    deaf to a cancel for ``patience_seconds`` is killed: loading anew costs about as much. ``notice`` is told
    in a sentence when a child died and another takes over. ``start_child`` stands in for how one is started.
    """

    def __init__(
        self,
        path: Path,
        options: EngineOptions,
        engine: str = "llama",
        *,
        warmth: Warmth | None = None,
        start_child: StartChild | None = None,
        notice: Callable[[str], None] = lambda _: None,
        patience_seconds: float = 3.0,
    ) -> None:
        self._path = path
        self._options = options
        self._engine = engine
        self._warmth = warmth
        self._start_child = start_child or self._child
        self._notice = notice
        self._patience_seconds = patience_seconds
        self._numbers = itertools.count(1)
        self._connecting = threading.Lock()
        self._connection: Connection | None = None
        self._running: _Running | None = None
        self._closed = False
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives."""
        connection = self._connection
        return connection.child.pid if connection and not connection.is_dead else None

    async def load(self) -> Footprint:
        """Start the child if need be and load the model in it."""
        async with self._turn():
            return (await self._ready()).footprint or Footprint()

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        prefix: str | Sequence[int] = "",
        forbidden_first: Sequence[int] = (),
        sampling: Sampling,
    ) -> AsyncGenerator[Delta, None]:
        """Stream the reply, as ``Engine`` says."""
        accepted = prefix if isinstance(prefix, str) else tuple(prefix)
        prompt = Prompt(tuple(messages), accepted, tuple(forbidden_first), sampling)
        async with aclosing(self._replies([prompt], is_batch=False)) as parts:
            async for part in parts:
                yield part.delta

    async def batch(self, prompts: Sequence[Prompt]) -> AsyncGenerator[BatchDelta, None]:
        """Stream the replies side by side, as ``Engine`` says."""
        async with aclosing(self._replies(prompts, is_batch=True)) as parts:
            async for part in parts:
                yield part

    async def cancel(self, index: int | None = None) -> None:
        """End the running generation, or one reply of the running batch, if there is one."""
        if running := self._running:
            running.cancel(index)

    async def close(self) -> None:
        """End the child; whoever still waits for it gets an ``EngineError``."""
        await asyncio.to_thread(self._close)

    async def _replies(
        self, prompts: Sequence[Prompt], *, is_batch: bool
    ) -> AsyncGenerator[BatchDelta, None]:
        """Yield all replies; after the child's first death they go on in another."""
        async with self._turn():
            progress = [_Progress(prompt) for prompt in prompts]
            running = self._running = _Running()
            has_died = False
            try:
                while any(not reply.is_finished for reply in progress):
                    connection = await self._ready_unless_cancelled(running)
                    for part in _cancelled(progress, running):
                        yield part
                    if connection is None:
                        return
                    try:
                        async for part in self._ask(connection, progress, running, is_batch=is_batch):
                            yield part
                    except _Died as died:
                        if running.cancelled.is_set():
                            continue
                        if has_died:
                            raise EngineError(died.death.sentence) from None
                        has_died = True
                        self._notice(f"{died.death.reason}: it is started again, and the answer goes on.")
            finally:
                self._running = None

    async def _ready_unless_cancelled(self, running: "_Running") -> Connection | None:
        """Return a live child that has the model loaded, or nothing as soon as nobody wants it any more.

        What was begun is not undone: whoever asks next finds the model loaded, or being loaded.
        """
        ready = asyncio.ensure_future(self._ready())
        cancelled = asyncio.ensure_future(running.cancelled.wait())
        try:
            await asyncio.wait((ready, cancelled), return_when=asyncio.FIRST_COMPLETED)
            return await ready if ready.done() else None
        finally:
            ready.cancel()
            cancelled.cancel()

    async def _ask(
        self,
        connection: Connection,
        progress: Sequence["_Progress"],
        running: "_Running",
        *,
        is_batch: bool,
    ) -> AsyncGenerator[BatchDelta, None]:
        """Ask for what is missing of the replies, and yield it."""
        order = [index for index, reply in enumerate(progress) if not reply.is_finished]
        if not order:
            return
        rest = tuple(progress[index].rest() for index in order)
        exchange = connection.ask(Generate(next(self._numbers), rest, is_batch), len(order))
        running.begin(exchange, order)
        try:
            while any(not reply.is_finished for reply in progress):
                piece = await self._next(exchange)
                if isinstance(piece, Piece) and not progress[order[piece.index]].is_finished:
                    index = order[piece.index]
                    yield BatchDelta(index, progress[index].note(piece.delta))
        finally:
            running.end()
            exchange.abandon()

    def _turn(self) -> asyncio.Lock:
        """Return the lock of the running loop: a lock belongs to one, and the engine may outlive it."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Lock()
        return self._turns[1]

    async def _ready(self) -> Connection:
        """Return a live child that has the model loaded."""
        connection = await asyncio.to_thread(self._connect)
        if connection.footprint is None:
            load = connection.ask(Load(next(self._numbers), str(self._path), self._options))
            try:
                answer = await self._next(load)
            except _Died as died:
                # Not tried again: what killed it, most likely a lack of memory, would kill the next one too.
                raise EngineError(died.death.sentence) from None
            if isinstance(answer, Loaded):
                connection.footprint = answer.footprint
        return connection

    def _connect(self) -> Connection:
        """Return the living connection, or a new one; waits for a cancelled request to end."""
        with self._connecting:
            if self._connection:
                self._connection.settle()
            if self._closed:
                raise EngineError("The engine is closed: open it again.")
            if self._connection is None or self._connection.is_dead:
                self._connection = self._start()
            return self._connection

    def _start(self) -> Connection:
        try:
            return Connection(self._start_child, self._patience_seconds)
        except OSError as error:
            raise EngineError(
                f"The model's process cannot be started ({error.strerror or error}): "
                "close other programs and try again."
            ) from error

    def _child(self, on_response: Callable[[Response], None], on_death: Callable[[Death], None]) -> Child:
        """Connect to a child that is kept warm where there is one or should be one, else start our own."""
        path = self._socket_path()
        if (
            self._warmth
            and path
            and (child := connect(path, self._engine, self._warmth.seconds, on_response, on_death))
        ):
            return child
        return ChildProcess(self._engine, on_response, on_death)

    def _socket_path(self) -> Path | None:
        if self._warmth is None:
            return None
        try:
            return socket_path(self._warmth.folder, self._engine, self._path, self._options)
        except OSError:
            return None  # weights that cannot be read: a child of our own says why

    async def _next(self, exchange: Exchange) -> Loaded | Piece:
        answer = await exchange.next()
        match answer:
            case Failed(_, message):
                raise EngineError(message)
            case Death() if self._closed:
                raise EngineError("The engine was closed before it had answered: open it again.")
            case Death():
                raise _Died(answer)
            case Loaded() | Piece():
                return answer
            case _:
                raise EngineError(
                    f"The model's process answered strangely ({type(answer).__name__}): try again."
                )

    def _close(self) -> None:
        self._closed = True
        if self._connection:
            self._connection.child.close()
        with self._connecting:  # one may have been starting
            if self._connection:
                self._connection.child.close()


class _Died(Exception):
    """The child's death, on its way to whoever decides whether another takes over."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.sentence)
        self.death = death


class _Progress:
    """A prompt and what has come of the reply to it."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._text = ""
        self._tokens: tuple[int, ...] = ()
        self._asked = 0  # tokens of the reply that were in the prompt of the last asking
        self.is_finished = False

    def rest(self) -> Prompt:
        """Return the prompt that goes on where the reply is."""
        prompt, done = self._prompt, self._tokens
        if not done:
            return prompt
        self._asked = len(done)
        exact = prompt.prefix + done if isinstance(prompt.prefix, tuple) else done
        prefix = prompt.prefix + self._text if isinstance(prompt.prefix, str) and prompt.prefix else exact
        sampling = replace(prompt.sampling, max_tokens=prompt.sampling.max_tokens - len(done))
        return replace(prompt, prefix=prefix, forbidden_first=(), sampling=sampling)

    def note(self, delta: Delta) -> Delta:
        """Remember a delta, and return it as the caller should see it."""
        self._text += delta.text
        self._tokens += delta.tokens
        self.is_finished = delta.finish is not None
        if delta.usage and self._asked:
            usage = replace(delta.usage, prompt_tokens=max(0, delta.usage.prompt_tokens - self._asked))
            return replace(delta, usage=usage)
        return delta


class _Running:
    """The replies that a caller has asked for, also while a child is started or loads the model for them."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.dropped: set[int] = set()
        self._exchange: Exchange | None = None
        self._order: Sequence[int] = ()

    def begin(self, exchange: Exchange, order: Sequence[int]) -> None:
        """A child is asked; ``order`` says which reply of the caller's each one of the child's is."""
        self._exchange, self._order = exchange, order

    def end(self) -> None:
        """No child is asked."""
        self._exchange = None

    def cancel(self, index: int | None) -> None:
        """Cancel all of it, or one reply."""
        if index is None:
            self.cancelled.set()
            if self._exchange:
                self._exchange.abandon()
        else:
            self.dropped.add(index)
            if self._exchange and index in self._order:
                self._exchange.drop(self._order.index(index))


def _cancelled(progress: Sequence[_Progress], running: _Running) -> Iterator[BatchDelta]:
    """End the replies that were cancelled while no child was asked."""
    for index, reply in enumerate(progress):
        if not reply.is_finished and (running.cancelled.is_set() or index in running.dropped):
            yield BatchDelta(index, reply.note(CANCELLED))

"""An engine in a process of its own: the parent's half of the protocol.

The model's crash, its appetite for memory and its deafness stay in the child; what reaches the
caller is a delta or one ``EngineError``. A dead child is started again by the next request.
"""

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TypeAlias

from models.engines.options import EngineOptions
from models.engines.process import ChildProcess, Death
from models.engines.protocol import Delta, Finish, Message, Sampling
from models.engines.wire import Cancel, Failed, Generate, Load, Loaded, Piece, Response
from models.errors import EngineError

_CANCEL_SECONDS = 0.4  # then the caller is told that it has ended, whatever the child does

Answer: TypeAlias = Response | Death


class EngineProcess:
    """One model in a child process that runs the backend called ``engine``; fulfils ``Engine``.

    Callers take turns: requests are served one after the other, in the order they came. A child that is
    deaf to a cancel for ``patience_seconds`` is killed: loading anew costs about as much.
    """

    def __init__(
        self, path: Path, options: EngineOptions, engine: str = "llama", patience_seconds: float = 3.0
    ) -> None:
        self._path = path
        self._options = options
        self._engine = engine
        self._patience_seconds = patience_seconds
        self._numbers = itertools.count(1)
        self._connecting = threading.Lock()
        self._connection: _Connection | None = None
        self._running: _Exchange | None = None
        self._closed = False
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives."""
        connection = self._connection
        return connection.child.pid if connection and not connection.is_dead else None

    async def load(self) -> None:
        """Start the child if need be and load the model in it."""
        async with self._turn():
            await self._ready()

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        prefix: str | Sequence[int] = "",
        forbidden_first: Sequence[int] = (),
        sampling: Sampling,
    ) -> AsyncGenerator[Delta, None]:
        """Stream the reply, as ``Engine`` says."""
        async with self._turn():
            connection = await self._ready()
            request = Generate(
                id=next(self._numbers),
                messages=tuple(messages),
                prefix=prefix if isinstance(prefix, str) else tuple(prefix),
                forbidden_first=tuple(forbidden_first),
                sampling=sampling,
            )
            self._running = exchange = connection.ask(request)
            try:
                finish = None
                while finish is None:
                    piece = await self._next(exchange)
                    if isinstance(piece, Piece):
                        yield piece.delta
                        finish = piece.delta.finish
            finally:
                self._running = None
                exchange.abandon()

    async def cancel(self) -> None:
        """End the running generation, if there is one."""
        if exchange := self._running:
            exchange.abandon()

    async def close(self) -> None:
        """End the child; whoever still waits for it gets an ``EngineError``."""
        await asyncio.to_thread(self._close)

    def _turn(self) -> asyncio.Lock:
        """Return the lock of the running loop: a lock belongs to one, and the engine may outlive it."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Lock()
        return self._turns[1]

    async def _ready(self) -> "_Connection":
        """Return a live child that has the model loaded."""
        connection = await asyncio.to_thread(self._connect)
        if not connection.has_model:
            load = connection.ask(Load(next(self._numbers), str(self._path), self._options))
            await self._next(load)
            connection.has_model = True
        return connection

    def _connect(self) -> "_Connection":
        """Return the living connection, or a new one; waits for a cancelled request to end."""
        with self._connecting:
            if self._connection:
                self._connection.settle()
            if self._closed:
                raise EngineError("The engine is closed: open it again.")
            if self._connection is None or self._connection.is_dead:
                self._connection = self._start()
            return self._connection

    def _start(self) -> "_Connection":
        try:
            return _Connection(self._engine, self._patience_seconds)
        except OSError as error:
            raise EngineError(
                f"The model's process cannot be started ({error.strerror or error}): "
                "close other programs and try again."
            ) from error

    async def _next(self, exchange: "_Exchange") -> Loaded | Piece:
        answer = await exchange.next()
        match answer:
            case Failed(_, message):
                raise EngineError(message)
            case Death() if self._closed:
                raise EngineError("The engine was closed before it had answered: open it again.")
            case Death():
                raise EngineError(answer.sentence)
            case Loaded() | Piece():
                return answer

    def _close(self) -> None:
        self._closed = True
        if self._connection:
            self._connection.child.close()
        with self._connecting:  # one may have been starting
            if self._connection:
                self._connection.child.close()


class _Connection:
    """A child and the requests that it has not answered to the end."""

    def __init__(self, engine: str, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self.has_model = False
        self._lock = threading.Lock()
        self._open: dict[int, _Exchange] = {}
        self._death: Death | None = None
        self.child = ChildProcess(engine, self._receive, self._bury)

    @property
    def is_dead(self) -> bool:
        """Whether the child has ended."""
        return self._death is not None

    def ask(self, request: Load | Generate) -> "_Exchange":
        """Send a request; its answers come through the exchange, and be it the child's death."""
        exchange = _Exchange(request.id, self.child, self._patience_seconds)
        with self._lock:
            if self._death:
                exchange.receive(self._death)
            else:
                self._open[request.id] = exchange
        self.child.send(request)
        return exchange

    def settle(self) -> None:
        """Wait until no cancelled request runs any more; it ends, or the child is killed."""
        with self._lock:
            waiting = [exchange for exchange in self._open.values() if exchange.abandoned]
        for exchange in waiting:
            exchange.ended.wait()

    def _receive(self, response: Response) -> None:
        is_last = not isinstance(response, Piece) or response.delta.finish is not None
        with self._lock:
            exchange = self._open.pop(response.id, None) if is_last else self._open.get(response.id)
        if exchange:
            exchange.receive(response)

    def _bury(self, death: Death) -> None:
        with self._lock:
            self._death = death
            bereaved = list(self._open.values())
            self._open.clear()
        for exchange in bereaved:
            exchange.receive(death)


class _Exchange:
    """A request and the answers to it, handed from the child's thread to the loop that asked."""

    def __init__(self, number: int, child: ChildProcess, patience_seconds: float) -> None:
        self.abandoned = False
        self.ended = threading.Event()
        self._number = number
        self._child = child
        self._patience_seconds = patience_seconds
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    async def next(self) -> Answer:
        """Wait for the next answer."""
        return await self._answers.get()

    def receive(self, answer: Answer) -> None:
        """Take an answer, on any thread."""
        if not isinstance(answer, Piece) or answer.delta.finish is not None:
            self.ended.set()
        self._post(answer)

    def abandon(self) -> None:
        """Cancel the request, unless it has ended."""
        if self.abandoned or self.ended.is_set():
            return
        self.abandoned = True
        self._child.send(Cancel(self._number))
        threading.Thread(target=self._insist, name="engine cancel", daemon=True).start()

    def _insist(self) -> None:
        if self.ended.wait(_CANCEL_SECONDS):
            return
        self._post(Piece(self._number, Delta("", finish=Finish.CANCELLED)))
        if not self.ended.wait(self._patience_seconds):
            self._child.kill()

    def _post(self, answer: Answer) -> None:
        try:
            self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)
        except RuntimeError:
            return  # the loop that asked is closed: nobody waits any more

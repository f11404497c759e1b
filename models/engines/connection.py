"""A child and the requests that it has not answered to the end: its answers go to the loops that asked."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias

from models.engines.process import Child, Death
from models.engines.protocol import CANCELLED, Footprint
from models.engines.wire import Cancel, Generate, Load, Piece, Response

_CANCEL_SECONDS = 0.4  # then the caller is told that it has ended, whatever the child does

Answer: TypeAlias = Response | Death
StartChild: TypeAlias = Callable[[Callable[[Response], None], Callable[[Death], None]], Child]


class Connection:
    """A child and the requests that it has not answered to the end."""

    def __init__(
        self,
        start: StartChild,
        patience_seconds: float,
    ) -> None:
        self._patience_seconds = patience_seconds
        self.footprint: Footprint | None = None  # until the model is loaded
        self._lock = threading.Lock()
        self._open: dict[int, Exchange] = {}
        self._death: Death | None = None
        self.child = start(self._receive, self._bury)

    @property
    def is_dead(self) -> bool:
        """Whether the child has ended."""
        return self._death is not None

    def ask(self, request: Load | Generate, replies: int = 1) -> "Exchange":
        """Send a request; its answers come through the exchange, and be it the child's death."""
        exchange = Exchange(request.id, self.child, self._patience_seconds, replies)
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
        with self._lock:
            exchange = self._open.get(response.id)
            if exchange and exchange.is_last(response):
                del self._open[response.id]
        if exchange:
            exchange.receive(response)

    def _bury(self, death: Death) -> None:
        with self._lock:
            self._death = death
            bereaved = list(self._open.values())
            self._open.clear()
        for exchange in bereaved:
            exchange.receive(death)


class Exchange:
    """A request and the answers to it, handed from the child's thread to the loop that asked."""

    def __init__(self, number: int, child: Child, patience_seconds: float, replies: int) -> None:
        self._replies = replies
        self._missing = replies
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

    def is_last(self, response: Response) -> bool:
        """Whether nothing comes after ``response``, the next one that came; called once for each."""
        if isinstance(response, Piece):
            self._missing -= response.delta.finish is not None
            return self._missing == 0
        return True

    def receive(self, answer: Answer) -> None:
        """Take an answer, on any thread."""
        if not isinstance(answer, Piece) or self._missing == 0:
            self.ended.set()
        self._post(answer)

    def drop(self, index: int) -> None:
        """Cancel one reply of a batch."""
        self._child.send(Cancel(self._number, index))
        threading.Thread(target=self._insist_on, args=(index,), name="engine drop", daemon=True).start()

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
        for index in range(self._replies):
            self._post(Piece(self._number, CANCELLED, index))
        if not self.ended.wait(self._patience_seconds):
            self._child.kill()

    def _insist_on(self, index: int) -> None:
        """Tell the caller that a reply has ended; one that did end in time has been told already."""
        if not self.ended.wait(_CANCEL_SECONDS):
            self._post(Piece(self._number, CANCELLED, index))

    def _post(self, answer: Answer) -> None:
        try:
            self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)
        except RuntimeError:
            return  # the loop that asked is closed: nobody waits any more

"""Check servers kept warm: as many as the machine has processors, each given to one caller at a time.

A server that died, met a limit, was given up by its caller or has served long enough is replaced.
"""

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ocaml.server.worker import Worker

MOST_REQUESTS = 20_000  # of one server, whatever state it thinks it is in
PATIENCE_SECONDS = 0.25  # how long a caller's unfinished work may go on after he has gone

T = TypeVar("T")


class Pool:
    """Servers, started when they are wanted by ``start``; belongs to no event loop."""

    def __init__(self, start: Callable[[], Worker], size: int | None = None) -> None:
        self.size = size or os.cpu_count() or 1
        self._start = start
        self._idle: deque[Worker] = deque()
        # Given-up work may still hold a thread while the next caller is served.
        self._threads = ThreadPoolExecutor(2 * self.size, thread_name_prefix="ocamler-server")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(self.size)
        self._closed = False
        self._finalizer = weakref.finalize(self, _end_all, self._idle, self._threads)

    async def lend(self, work: Callable[[Worker], Coroutine[Any, Any, T]]) -> T:
        """Have ``work`` done in a thread with a server that is its own. Raises OSError when none starts.

        ``work`` asks the server and waits for nothing else: its coroutine runs to its end in one go.
        Cancelling lets it go on for a moment, then the server is ended.
        """
        async with self._gate():
            if self._closed:
                raise OSError("The judge is closed.")
            loan = _Loan()
            ended = asyncio.wrap_future(self._threads.submit(self._work, work, loan))
            ended.add_done_callback(_heed)
            try:
                return await asyncio.shield(ended)
            except BaseException:
                if not ended.done():
                    loan.give_up()
                raise

    def close(self) -> None:
        """End all servers; done at the end of the program where it was forgotten."""
        self._closed = True
        self._finalizer()

    def _gate(self) -> asyncio.Semaphore:
        """A semaphore belongs to one event loop; the servers do not."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._places = loop, asyncio.Semaphore(self.size)
        return self._places

    def _work(self, work: Callable[[Worker], Coroutine[Any, Any, T]], loan: "_Loan") -> T:
        # A server dies with the thread that starts it: these threads last.
        worker = self._take()
        loan.worker = worker
        try:
            return _to_its_end(work, worker)
        finally:
            loan.over()
            self._put(worker)

    def _take(self) -> Worker:
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:
                return self._start()
            if worker.alive:
                return worker
            worker.end()

    def _put(self, worker: Worker) -> None:
        is_one_too_many = len(self._idle) >= self.size
        if (
            self._closed
            or is_one_too_many
            or worker.spent
            or worker.asked > MOST_REQUESTS
            or not worker.alive
        ):
            worker.end()
        else:
            self._idle.append(worker)


class _Loan:
    """A server lent out; its borrower may give it up before the work is over."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self._timer: threading.Timer | None = None

    def give_up(self) -> None:
        """Leave the work a moment to end by itself."""
        self._timer = threading.Timer(PATIENCE_SECONDS, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def over(self) -> None:
        """The work has ended; nobody is to be killed any more."""
        self.worker = None
        if self._timer is not None:
            self._timer.cancel()

    def _kill(self) -> None:
        worker = self.worker
        if worker is not None:
            worker.kill()


def _heed(ended: "asyncio.Future[Any]") -> None:
    """What became of work whose caller has gone interests nobody, and need not be complained of."""
    if not ended.cancelled():
        ended.exception()


def _end_all(idle: deque[Worker], threads: ThreadPoolExecutor) -> None:
    while idle:
        idle.pop().end()
    threads.shutdown(wait=False)


def _to_its_end(work: Callable[[Worker], Coroutine[Any, Any, T]], worker: Worker) -> T:
    coroutine = work(worker)
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("The work waits for an event loop, which its thread does not have.")

"""Check servers kept warm: as many as the machine has processors, each given to one caller at a time.

A server that died, met a limit, was given up by its caller or has served long enough is replaced.
"""

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
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
            worker = self._take()
            future = self._threads.submit(_to_its_end, work, worker)
            ended = asyncio.wrap_future(future)
            ended.add_done_callback(_heed)
            try:
                result = await asyncio.shield(ended)
            except asyncio.CancelledError:
                self._abandon(worker, future)
                raise
            except BaseException:
                self._put(worker)
                raise
            self._put(worker)
            return result

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

    def _take(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            worker.end()
        return self._start()

    def _put(self, worker: Worker) -> None:
        if self._closed or worker.spent or worker.asked > MOST_REQUESTS or not worker.alive:
            worker.end()
        else:
            self._idle.append(worker)

    def _abandon(self, worker: Worker, future: "Future[T]") -> None:
        timer = threading.Timer(PATIENCE_SECONDS, worker.kill)
        timer.daemon = True
        timer.start()

        def finished(_: "Future[T]") -> None:
            timer.cancel()
            self._put(worker)

        future.add_done_callback(finished)


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

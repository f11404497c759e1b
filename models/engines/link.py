"""A wire to an engine's process: requests go out, responses come in, each on a thread of its own.

Threads rather than asyncio's streams: those belong to one event loop, while a loaded model should outlive
the loop (a prompt that runs each turn in a loop of its own, a test).
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import IO

from models.engines.wire import Request, Response, WireError, decode_response, encode


class Link:
    """An open wire. ``on_end`` is told once, on the reading thread, when no response can come any more.

    Its text is what was unreadable, and empty when the wire was simply closed.
    """

    def __init__(
        self,
        requests: IO[bytes],
        responses: IO[bytes],
        on_response: Callable[[Response], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._requests = requests
        self._responses = responses
        self._on_response = on_response
        self._on_end = on_end
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="engine write", daemon=True)
        self._reader = threading.Thread(target=self._read, name="engine read", daemon=True)

    def open(self) -> None:
        """Begin to read and write."""
        self._writer.start()
        self._reader.start()

    def send(self, request: Request) -> None:
        """Send a request; never blocks, and says nothing when nobody reads it any more."""
        self._outbox.put(encode(request))

    def hang_up(self) -> None:
        """Send nothing more: the other side sees the end of its requests."""
        self._outbox.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        self._reader.join(seconds)
        self._writer.join(seconds if not self._reader.is_alive() else 0)
        return not self._reader.is_alive()

    def _write(self) -> None:
        with suppress(OSError), self._requests as pipe:
            while (line := self._outbox.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _read(self) -> None:
        unreadable = ""
        with suppress(OSError), self._responses as pipe:
            try:
                for line in pipe:
                    self._on_response(decode_response(line))
            except WireError as error:
                unreadable = f"unreadable answer: {error}"
        self._outbox.put(None)  # the writer may wait for work
        self._on_end(unreadable)

"""One running check server: a process that is asked over pipes, one request after another.

Blocking, and bound to no event loop: ``ocaml.server.pool`` has it asked from threads.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GRACE_SECONDS = 5.0  # how long a killed server may take to be reaped
READ_BYTES = 1 << 16

Request = Sequence[bytes]


class WorkerDied(Exception):
    """The server ended before it answered."""


class TooSlow(Exception):
    """The server took longer over a request than it may, and was ended."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answers: an object, and the fields that are no JSON."""

    said: Mapping[str, Any]
    fields: tuple[bytes, ...]


class Worker:
    """A server process. Once it has died it stays dead."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Start ``command`` in ``folder``; ``ended`` is called once it is gone. Raises OSError."""
        self._ended = ended
        self.asked = 0
        self.spent = False
        self._ending = threading.Lock()
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)  # the server may be busy, or stuck

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def ask(self, request: Request, *, seconds: float) -> Reply:
        """Send ``request`` and wait for the reply. Raises WorkerDied, and TooSlow after ``seconds``."""
        self.asked += 1
        deadline = time.monotonic() + seconds
        try:
            self._send(_frame(request), deadline)
            (total,) = struct.unpack(">I", self._receive(4, deadline))
            fields = _fields(self._receive(total, deadline))
        except (OSError, ValueError) as error:
            raise WorkerDied from error
        except TooSlow:
            self.kill()
            raise
        said = json.loads(fields[0])
        self.spent = self.spent or said.get("spent", False)
        return Reply(said, tuple(fields[1:]))

    def kill(self) -> None:
        """End the server with all that it started; who waits for its reply gets WorkerDied."""
        with self._ending:
            if self._process.poll() is None:  # not reaped, so the number is still the server's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it, reap it and clear up behind it; for the one who has it, and once it is over for no one."""
        self.kill()
        with self._ending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    if pipe is not None:
                        pipe.close()
        ended, self._ended = self._ended, lambda: None
        ended()

    def _send(self, data: bytes, deadline: float) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        left = memoryview(data)
        while left:
            _wait(descriptor, select.POLLOUT, deadline)
            left = left[os.write(descriptor, left) :]

    def _receive(self, count: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        parts: list[bytes] = []
        while count:
            _wait(descriptor, select.POLLIN, deadline)
            part = os.read(descriptor, min(count, READ_BYTES))
            if not part:
                raise WorkerDied
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _wait(descriptor: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TooSlow


def _frame(fields: Request) -> bytes:
    """Lengths are 32 bits, big-endian: of all that follows, then of each field."""
    body = b"".join(struct.pack(">I", len(field)) + field for field in fields)
    return struct.pack(">I", len(body)) + body


def _fields(body: bytes) -> list[bytes]:
    fields, at = [], 0
    while at < len(body):
        (length,) = struct.unpack_from(">I", body, at)
        fields.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    return fields

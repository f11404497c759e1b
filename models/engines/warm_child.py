"""The child's half of a model kept warm: clients come by a socket, and without any it ends after a time."""

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NoReturn

from models.engines.serving import Client, Server, start
from models.engines.wire import KeepWarm, Welcome, WireError, decode_request

_CHECK_SECONDS = 1.0
_DEAF_SECONDS = 5  # a client that reads nothing for so long, as one put to sleep, is let go: others wait


def serve_socket(server: Server, path: Path, seconds: float) -> NoReturn:
    """Serve whoever connects to ``path``, until nobody has been connected for ``seconds``.

    Its folder is the user's alone, so nobody else comes. The process that started this one only waits until
    the socket is there.
    """
    listener = _bind(path)
    if os.fork():
        os._exit(0)  # what started us need not wait for us, nor leave a zombie
    idle = _Idle(path, seconds)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            start(partial(_serve, server, connection, idle), "client")

    start(accept, "accept")
    start(idle.end_when_due, "idle")
    server.run()


class _Idle:
    """Counts who is connected, and ends the process when nobody has been for long enough."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._inode = path.stat().st_ino
        self._seconds = seconds
        self._lock = threading.Lock()
        self._connected = 0
        self._since = time.monotonic()

    def keep(self, seconds: float) -> None:
        """Stay for so long after the last client; 0 is not at all."""
        self._seconds = seconds

    def enter(self) -> None:
        """A client has come."""
        with self._lock:
            self._connected += 1

    def leave(self) -> None:
        """A client has gone."""
        with self._lock:
            self._connected -= 1
            self._since = time.monotonic()
        self._end_if_due()

    def end_when_due(self) -> None:
        """Look now and then, for ever."""
        while True:
            time.sleep(min(_CHECK_SECONDS, max(0.05, self._seconds)))
            self._end_if_due()

    def _end_if_due(self) -> None:
        with self._lock:
            if self._connected:
                return
            if time.monotonic() - self._since < self._seconds and self._is_reachable():
                return
            if self._is_reachable():
                self._path.unlink(missing_ok=True)
            os._exit(0)

    def _is_reachable(self) -> bool:
        """Whether the socket is still ours: a swept or replaced one can bring nobody any more."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    hidden = path.with_suffix(".new")
    hidden.unlink(missing_ok=True)
    mask = os.umask(0o177)
    try:
        listener.bind(str(hidden))
    finally:
        os.umask(mask)
    listener.listen()
    os.replace(hidden, path)  # whoever sees it can connect
    return listener


def _serve(server: Server, connection: socket.socket, idle: _Idle) -> None:
    idle.enter()

    def hang_up() -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    with suppress(OSError):
        # A struct timeval; not settimeout, which would bound the waiting for requests too.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _DEAF_SECONDS, 0))
    try:
        with connection, connection.makefile("rb") as requests, connection.makefile("wb") as answers:
            client = Client(answers, hang_up)
            client.send(Welcome(0, os.getpid()))
            server.listen(client, _without_keeping(requests, idle))
    except (OSError, WireError):
        return  # the client is gone or speaks otherwise: the others stay
    finally:
        if server.is_broken:
            idle.keep(0)
        idle.leave()


def _without_keeping(lines: BinaryIO, idle: _Idle) -> Iterator[bytes]:
    """Take out what is said about staying, which is not for the model."""
    for line in lines:
        match decode_request(line):
            case KeepWarm(_, seconds):
                idle.keep(seconds)
            case _:
                yield line

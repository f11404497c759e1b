"""A server that answers as it was told to, for the tests of those who must bear whatever listens at a port."""

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

Answer: TypeAlias = bytes | list[bytes] | Callable[[bytes], bytes]


class Stranger:
    """Answers each path with bytes, with one after the other, or with those for a request; remembers what was asked.

    ``packet`` is how many bytes it sends at a time, ``delay`` the seconds before each answer.
    """

    def __init__(
        self,
        answers: dict[str, Answer],
        *,
        packet: int = 0,
        delay: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answers = answers
        self.asked: list[bytes] = []
        self._packet = packet
        self._delay = delay
        self._tls = tls
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def bodies(self) -> list[dict[str, object]]:
        """Return the JSON of what was asked with any."""
        bodies = [request.partition(b"\r\n\r\n")[2] for request in self.asked]
        return [json.loads(body) for body in bodies if body]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                data = _request(connection)
                self.asked.append(data)
                time.sleep(self._delay)
                answer = self._next(data)
                size = self._packet or len(answer) or 1
                for start in range(0, len(answer), size):
                    connection.sendall(answer[start : start + size])
                    time.sleep(0.0005 if self._packet else 0)
        except OSError:
            return

    def _next(self, request: bytes) -> bytes:
        path = request.split(b" ")[1].decode(errors="replace") if b" " in request else ""
        answer = self.answers.get(path, refused(404, "no"))
        if isinstance(answer, bytes):
            return answer
        if callable(answer):
            return answer(request)
        return answer.pop(0) if len(answer) > 1 else answer[0]


def refused(status: int, words: str, more: str = "") -> bytes:
    """Return a refusal."""
    return answered(json.dumps({"error": {"message": words}}), status=status, more=more)


def answered(body: str | bytes, kind: str = "application/json", status: int = 200, more: str = "") -> bytes:
    """Return an answer with its head."""
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}Connection: close\r\n\r\n"
    return head.encode() + data


def streamed(*events: object) -> bytes:
    """Return a stream of events: JSON, or text as it is."""
    text = "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)
    return answered(text, "text/event-stream")


def said(text: object, finish: str | None = None, ids: Sequence[int] | None = None) -> object:
    """Return a part of a reply."""
    told = {} if ids is None else {"token_ids": list(ids)}
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish, **told}]}


def _request(connection: socket.socket) -> bytes:
    """Read a whole request: a connection that closes before loses what was written to it."""
    data = b""
    while part := connection.recv(1 << 16):
        data += part
        head, blank, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if data[:1] not in b"GP":  # TLS, say
            break
        if blank and len(body) >= (int(length[1]) if length else 0):
            break
    return data

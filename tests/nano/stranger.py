"""A server that answers as it was told to, for the tests of those who must bear whatever listens at a port."""

import json
import re
import socket
import threading
import time


class Scripted:
    """Answers each path with bytes, whoever asks; remembers what was asked."""

    def __init__(self, answers: dict[str, bytes | list[bytes]]) -> None:
        self.answers = answers
        self.asked: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                data = _request(connection)
                self.asked.append(data)
                path = data.split(b" ")[1].decode(errors="replace") if b" " in data else ""
                answer = self.answers.get(path, refused(404, "no"))
                for part in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(part)
                    time.sleep(0.001 if len(part) < len(answer) else 0)
            except OSError:
                return


def refused(status: int, words: str) -> bytes:
    return answered(json.dumps({"error": {"message": words}}), status=status)


def answered(body: str | bytes, kind: str = "application/json", status: int = 200, more: str = "") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}Connection: close\r\n\r\n"
    return head.encode() + data


def streamed(*events: object) -> bytes:
    text = "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)
    return answered(text, "text/event-stream")


def said(text: object, finish: str | None = None) -> object:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


def _request(connection: socket.socket) -> bytes:
    """Read a whole request: a connection closed before loses what was written to it."""
    data = b""
    while part := connection.recv(1 << 16):
        data += part
        head, blank, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if blank and len(body) >= (int(length[1]) if length else 0):
            break
        if data[:1] not in b"GP":  # TLS, say
            break
    return data

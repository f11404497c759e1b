"""A server that speaks as llama-server does, over our own llama.cpp, for the tests of its client.

Run as ``python -P llama_server.py MODEL --port PORT``; the first line it prints is its port. It keeps to the
real one's habits, the odd ones too: within a stream, of tokens that end within a character only the last is
told, with what all of them write. ``--plain`` leaves it OpenAI's interface alone.
"""

import argparse
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from models.catalogue import PromptFormat
from models.engines.backend import Interrupt
from models.engines.draw import Drawer
from models.engines.llama_context import Context
from models.engines.llama_native import Library
from models.engines.protocol import Message, Role, Sampling
from models.engines.template import compile_template

Json = dict[str, Any]
_BATCH = 128


class Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": status, "message": message, "type": kind, **more}}


@dataclass
class Step:
    """A token that was drawn, after the characters that are whole with it; none while one is not."""

    token: int
    ends: bool
    is_whole: bool
    content: str
    data: bytes
    likeliest: list[Json]
    predicted: int


class Llama:
    """The model. One thread at a time is in it; each request has a lane of its own."""

    def __init__(self, path: Path, context: int) -> None:
        self._library = Library()  # kept: it hears what llama.cpp logs
        model = self._library.load(path, 0)
        self.name = path.name
        self.vocabulary = model.vocabulary
        self.capacity = min(context, model.trained_context or context)
        self.context = Context(model, tokens=self.capacity, batch=_BATCH, threads=1, interrupt=Interrupt())
        source = model.metadata("tokenizer.chat_template") or PromptFormat.CHATML.fallback_template
        bos, eos = self.vocabulary.text(self.vocabulary.bos), self.vocabulary.text(self.vocabulary.eos)
        self.template = source
        self._render = compile_template(source, bos=bos, eos=eos, name=self.name)
        self._lock = threading.Lock()

    def render(self, turns: Sequence[Json]) -> str:
        messages = [Message(Role(turn["role"]), turn["content"]) for turn in turns]
        last = messages.pop().text if messages and messages[-1].role is Role.ASSISTANT else ""
        try:
            return self._render(messages) + last
        except Exception as error:
            raise Refusal(400, "invalid_request_error", str(error)) from error

    def tokenize(self, content: Any, *, special: bool, whole: bool) -> list[int]:
        if isinstance(content, list):
            return content
        with self._lock:
            tokens = self.vocabulary.tokenize(content, special=special)
        bos = [self.vocabulary.bos] if whole and self.vocabulary.adds_bos else []
        return bos + tokens

    def whole_piece(self, token: int) -> Any:
        data = self.vocabulary.piece(token) or self.vocabulary.text(token).encode()
        try:
            return data.decode()
        except UnicodeDecodeError:
            return list(data)

    def draw(self, tokens: list[int], body: Json, connection: socket.socket) -> Iterator[tuple[int, Step]]:
        """Yield how many tokens were in memory, and each token drawn; ends with the client's connection."""
        if len(tokens) >= self.capacity:
            raise Refusal(
                400,
                "exceed_context_size_error",
                f"request ({len(tokens)} tokens) exceeds the available context size ({self.capacity} tokens)",
                n_prompt_tokens=len(tokens),
                n_ctx=self.capacity,
            )
        with self._lock:
            lane = self.context.take(tokens)
            cached = len(lane.tokens)
        try:
            rest = tokens[cached:-1]
            for start in range(0, len(rest), _BATCH):
                if _is_gone(connection):
                    return
                with self._lock:
                    self.context.read(lane, rest[start : start + _BATCH])
            yield from ((cached, step) for step in self._steps(lane, tokens[-1], body, connection))
        finally:
            with self._lock:
                self.context.give_back(lane)

    def _steps(self, lane: Any, following: int, body: Json, connection: socket.socket) -> Iterator[Step]:
        sampling = Sampling(body.get("temperature", 0.8), body.get("top_p", 0.95), seed=body.get("seed", 0))
        drawer = Drawer(sampling, self.vocabulary.size)
        bias = body.get("logit_bias") or []
        pairs = [(int(token), value) for token, value in (bias.items() if isinstance(bias, dict) else bias)]
        barred = [token for token, value in pairs if value is False or value <= -100]
        held = b""
        left = body.get("n_predict", body.get("max_tokens", -1))
        count = 0
        while count != left and len(lane.tokens) < self.capacity and not _is_gone(connection):
            with self._lock:
                self.context.step([(lane, following)])
                logits = self.context.logits(0).copy()
                likeliest = self._likeliest(logits, body)
                logits[barred] = -np.inf
                following, _ = drawer.draw(logits)
                held += self.vocabulary.piece(following)
                ends = self.vocabulary.ends_turn(following)
            count += 1
            is_whole = not _ends_within_character(held)
            text = held.decode(errors="replace") if is_whole else ""
            yield Step(following, ends, is_whole, text, held, likeliest, count)
            held = b"" if is_whole else held
            if ends:
                return

    def _likeliest(self, logits: Any, body: Json) -> list[Json]:
        count = body.get("n_probs") or (body.get("top_logprobs", 0) if body.get("logprobs") else 0)
        if not count:
            return []
        logs = logits - logits.max()
        logs = logs - np.log(np.exp(logs).sum())
        best = np.argsort(-logs, kind="stable")[:count]
        return [
            {"id": int(token), "logprob": float(logs[token])} | self._spelled(int(token)) for token in best
        ]

    def _spelled(self, token: int) -> Json:
        data = self.vocabulary.piece(token)
        return {"token": data.decode(errors="ignore"), "bytes": list(data)}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each token waits for the last one's acknowledgement
    llama: Llama
    options: argparse.Namespace
    began = time.monotonic()

    def do_GET(self) -> None:
        self._answer(
            {
                "/health": lambda: {"status": "ok"},
                "/props": self._props,
                "/v1/models": self._models,
            }
        )

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.body: Json = json.loads(self.rfile.read(length) or b"{}")
        self._answer(
            {
                "/apply-template": lambda: {"prompt": self.llama.render(self.body["messages"])},
                "/tokenize": self._tokenize,
                "/detokenize": self._detokenize,
                "/completion": self._completion,
                "/v1/chat/completions": self._chat,
            }
        )

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, routes: Json) -> None:
        try:
            if self.options.plain and not self.path.startswith("/v1/"):
                raise Refusal(404, "not_found_error", "File Not Found")
            if self.path not in routes:
                raise Refusal(404, "not_found_error", "File Not Found")
            if time.monotonic() - self.began < self.options.loading:
                raise Refusal(503, "unavailable_error", "Loading model")
            is_public = self.path in ("/health", "/v1/models")
            key = self.options.key
            if key and not is_public and self.headers.get("Authorization") != f"Bearer {key}":
                raise Refusal(401, "authentication_error", "Invalid API Key")
            if (answer := routes[self.path]()) is not None:
                self._send(200, answer)
        except Refusal as refusal:
            self._send(refusal.status, refusal.body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, status: int, answer: Json) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _props(self) -> Json:
        return {
            "default_generation_settings": {"params": {}, "n_ctx": self.llama.capacity},
            "total_slots": 4,
            "model_path": self.llama.name,
            "chat_template": self.llama.template,
            "bos_token": self.llama.vocabulary.text(self.llama.vocabulary.bos),
            "eos_token": self.llama.vocabulary.text(self.llama.vocabulary.eos),
        }

    def _models(self) -> Json:
        meta = {"n_vocab": self.llama.vocabulary.size, "n_ctx": self.llama.capacity}
        entry: Json = {"id": self.llama.name, "object": "model", "owned_by": "llamacpp", "meta": meta}
        if self.options.plain:
            entry = {"id": self.llama.name, "object": "model", "owned_by": self.options.plain}
        return {"object": "list", "data": [entry]}

    def _tokenize(self) -> Json:
        special, whole = self.body.get("parse_special", True), self.body.get("add_special", False)
        tokens = self.llama.tokenize(self.body["content"], special=special, whole=whole)
        if not self.body.get("with_pieces"):
            return {"tokens": tokens}
        return {"tokens": [{"id": token, "piece": self.llama.whole_piece(token)} for token in tokens]}

    def _detokenize(self) -> Json:
        data = b"".join(map(self.llama.vocabulary.piece, self.body["tokens"]))
        return {"content": data.decode(errors="replace")}

    def _completion(self) -> Json | None:
        prompt = self.body["prompt"]
        tokens = self.llama.tokenize(prompt, special=True, whole=True)
        steps = self.llama.draw(tokens, self.body, self.connection)
        if self.body.get("stream"):
            self._stream(self._native_events(tokens, steps))
            return None
        drawn = [(cached, step) for cached, step in steps]
        last = [step for _, step in drawn]
        content = b"".join(step.data for step in last if step.is_whole)
        content += last[-1].data if last and not last[-1].is_whole else b""
        final = self._final(tokens, drawn[0][0] if drawn else 0, last[-1] if last else None)
        final |= {"content": content.decode(errors="replace"), "tokens": [step.token for step in last]}
        told = [self._probability(step) for step in last if step.is_whole]
        return final | ({"completion_probabilities": told} if told and self.body.get("n_probs") else {})

    def _native_events(self, tokens: list[int], steps: Iterator[tuple[int, Step]]) -> Iterator[Json]:
        cached, step = 0, None
        for cached, step in steps:
            if not step.is_whole:
                continue
            event: Json = {"index": 0, "content": step.content, "tokens": [step.token], "stop": False}
            event |= {"id_slot": 0, "tokens_predicted": step.predicted, "tokens_evaluated": len(tokens)}
            if self.body.get("timings_per_token"):
                event["timings"] = {"cache_n": cached, "prompt_n": len(tokens) - cached}
            if step.likeliest:
                event["completion_probabilities"] = [self._probability(step)]
            yield event
        yield self._final(tokens, cached, step)

    def _final(self, tokens: list[int], cached: int, step: Step | None) -> Json:
        return {
            "index": 0,
            "content": "",
            "tokens": [],
            "stop": True,
            "stop_type": "eos" if step and step.ends else "limit",
            "tokens_predicted": step.predicted if step else 0,
            "tokens_evaluated": len(tokens),
            "prompt": "",
            "timings": {"cache_n": cached, "prompt_n": len(tokens) - cached},
        }

    def _probability(self, step: Step) -> Json:
        # The real one, too, has here what can be told with the token, not what it alone writes.
        told = {"id": step.token, "token": step.content, "bytes": list(step.data), "logprob": 0.0}
        return told | {"top_logprobs": step.likeliest}

    def _chat(self) -> Json | None:
        if self.options.refuse and self.options.refuse in self.body:
            raise Refusal(400, "invalid_request_error", f"Unknown field: {self.options.refuse}")
        prompt = self.llama.render(self.body["messages"])
        tokens = self.llama.tokenize(prompt, special=True, whole=True)
        self._stream(self._chat_events(tokens, self.llama.draw(tokens, self.body, self.connection)))
        return None

    def _chat_events(self, tokens: list[int], steps: Iterator[tuple[int, Step]]) -> Iterator[Json]:
        yield {
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]
        }
        cached, step, ids = 0, None, []
        for cached, step in steps:  # noqa: B007
            ids += [] if step.ends else [step.token]
            if step.is_whole and not step.ends:
                choice: Json = {"index": 0, "delta": {"content": step.content}, "finish_reason": None}
                if step.likeliest:
                    choice["logprobs"] = {"content": [self._probability(step)]}
                if self.body.get("return_token_ids"):
                    choice["token_ids"], ids = ids, []
                yield {"choices": [choice]}
        reason = "stop" if step and step.ends else "length"
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        if self.body.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": len(tokens), "completion_tokens": step.predicted if step else 0}
            yield {"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": cached}}}

    def _stream(self, events: Iterator[Json]) -> None:
        first = next(events)  # a refusal is told before the headers are
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send_chunk(first)
        for event in events:
            time.sleep(self.options.pause)
            self._send_chunk(event)
        if self.path.startswith("/v1/"):
            self._write_chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _send_chunk(self, event: Json) -> None:
        self._write_chunk(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n")

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def _ends_within_character(data: bytes) -> bool:
    """Whether more bytes may make a character of the last ones."""
    for size in range(1, min(4, len(data)) + 1):
        lead = data[-size]
        if lead & 0xC0 != 0x80:
            return size < (2 if lead >> 5 == 6 else 3 if lead >> 4 == 14 else 4 if lead >> 3 == 30 else 1)
    return False


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has closed its end."""
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable) and not connection.recv(1, socket.MSG_PEEK)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients hang up as they like."""


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--key", default="")
    parser.add_argument("--plain", nargs="?", const="somebody", default="", help="the owner it names")
    parser.add_argument("--refuse", default="", help="a field of chat requests")
    parser.add_argument("--loading", type=float, default=0.0, help="seconds")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between tokens")
    Handler.options = parser.parse_args()
    Handler.llama = Llama(Handler.options.model, Handler.options.context)
    server = _Server(("127.0.0.1", Handler.options.port), Handler)
    print(server.server_address[1], flush=True)
    Handler.began = time.monotonic()
    server.serve_forever()


if __name__ == "__main__":
    main()

"""Measuring engines: who runs against whom, and what is told of each."""

import asyncio
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from models.bench import Record, contenders, measure, to_json
from models.catalogue import Format
from models.engines import EngineOptions
from models.errors import EngineError, NotPulled, UnknownModel
from models.store import Store

OPTIONS = EngineOptions(context_tokens=8192)


@pytest.fixture
def bench_store(tmp_path, tiny) -> Store:
    return Store(home=tmp_path / "home", catalogue=tiny.catalogue, engines=("mlx", "llama", "transformers"))


def pairs(store: Store, *names: object, engine: str | None = None) -> list[tuple[str, str]]:
    found = contenders(store, [str(name) for name in names], engine)
    return [(contender.model.name, contender.engine) for contender in found]


def test_every_engine_that_loads_a_model_is_measured(bench_store, nano, nano_folder) -> None:
    assert pairs(bench_store, nano, nano_folder) == [
        (nano.stem, "llama"),
        (nano_folder.name, "mlx"),
        (nano_folder.name, "transformers"),
    ]


def test_all_formats_of_a_name_stand_side_by_side(bench_store, nano, nano_folder) -> None:
    bench_store.add(nano, "both")
    bench_store.add(nano_folder, "both")
    assert pairs(bench_store, "Both") == [("both", "llama"), ("both", "mlx"), ("both", "transformers")]
    assert pairs(bench_store, "both", engine="mlx") == [("both", "mlx")]


def test_a_server_is_measured_by_its_address(bench_store) -> None:
    address = "http://me:secret@localhost:1/v1"
    (contender,) = contenders(bench_store, [address])
    assert (contender.model.name, contender.engine) == ("http://localhost:1/v1", "openai")
    assert contender.format is None


def test_weights_that_no_engine_here_loads_are_left_to_the_one_that_would(bench_store, nano_folder) -> None:
    few = Store(home=bench_store.home, catalogue=bench_store.catalogue, engines=("llama",))
    ((_, engine),) = pairs(few, nano_folder)
    assert engine in ("mlx", "transformers")


@pytest.mark.parametrize(
    ("name", "engine", "error", "words"),
    [
        ("NANO", "mlx", EngineError, "is gguf, which mlx does not load"),
        ("http://localhost:1", "llama", EngineError, "is a server, which llama does not load"),
        ("tiny", None, NotPulled, "ocamler models pull tiny"),
        ("nothing", None, UnknownModel, "There is no model"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(bench_store, nano, name, engine, error, words) -> None:
    with pytest.raises(error, match=words):
        contenders(bench_store, [str(nano) if name == "NANO" else name], engine)


@pytest.fixture(scope="module")
def measured(nano, tmp_path_factory) -> tuple[Record, list[str]]:
    store = Store(home=tmp_path_factory.mktemp("home"))
    record = Record(*contenders(store, [str(nano)]))
    said: list[str] = []
    asyncio.run(measure(record, OPTIONS, tokens=8, rounds=1, say=said.append))
    return record, said


def test_every_figure_is_taken_that_the_engine_gives(measured, nano) -> None:
    record, _ = measured
    row = record.row()
    assert (row.model, row.engine, row.format, row.error) == (nano.stem, "llama", Format.GGUF, None)
    assert row.ran
    assert row.prompt_tokens > 100
    assert row.prompt_tokens_per_second > 0
    assert row.generation_tokens_per_second > 0
    assert row.load_seconds > 0
    first = row.first_token_seconds
    assert None not in (first.cold, first.saved, first.warm, first.exact)
    assert first.exact < first.cold
    assert row.context_tokens == 8192
    memory = row.memory
    assert memory.planned_bytes < memory.free_bytes
    assert 0 < memory.loaded_bytes <= memory.peak_bytes


def test_each_step_is_told(measured, nano) -> None:
    _, said = measured
    assert said[0] == f"{nano.stem} by llama: cold, warm and exact, 1 of 1"
    assert said[-1].endswith("cold with the saved state, 1 of 1")


def test_the_figures_become_json_with_four_digits(measured) -> None:
    record, _ = measured
    whole = json.loads(json.dumps(to_json([record], tokens=8, rounds=1, interrupted=False)))
    assert whole["rows"][0]["engine"] == "llama"
    assert len(f"{whole['rows'][0]['load_seconds']:g}".replace(".", "").lstrip("0")) <= 4


async def test_an_engine_that_does_not_load_says_why_in_its_row(bench_store, nano, tmp_path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(nano.read_bytes())
    record = Record(*contenders(bench_store, [str(broken)]))
    os.truncate(broken, broken.stat().st_size // 2)  # after it was found whole
    await measure(record, OPTIONS, tokens=8, rounds=1, say=lambda _: None)
    row = record.row()
    assert not row.ran
    assert "truncated" in (row.error or "")


class Answering(BaseHTTPRequestHandler):
    """As much of an OpenAI-compatible server as is asked for: it says six words."""

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        self.answer(
            200 if found else 404, {"object": "list", "data": [{"id": "six-words", "object": "model"}]}
        )

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"message": "no such thing"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        words = ["one ", "two ", "three ", "four ", "five ", "six"][: asked.get("max_tokens", 6)]
        for word in words:
            self.event({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        count = sum(len(message["content"]) for message in asked["messages"]) // 4
        usage = {"prompt_tokens": count, "completion_tokens": len(words), "total_tokens": count + len(words)}
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body: dict[str, object]) -> None:
        self.wfile.write(
            b"data: " + json.dumps({"object": "chat.completion.chunk", **body}).encode() + b"\n\n"
        )

    def answer(self, code: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


async def test_a_server_is_asked_what_it_never_saw_and_is_never_cold(bench_store) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        record = Record(*contenders(bench_store, [f"http://127.0.0.1:{server.server_port}"]))
        await measure(record, OPTIONS, tokens=6, rounds=2, say=lambda _: None)
    finally:
        server.shutdown()
        server.server_close()
    row = record.row()
    assert row.error is None
    assert row.prompt_tokens > 300
    assert row.prompt_tokens_per_second > 0
    assert row.generation_tokens_per_second > 0
    first = row.first_token_seconds
    assert (first.cold, first.saved, row.load_seconds, row.memory.planned_bytes) == (None, None, None, None)
    assert None not in (first.warm, first.exact)


async def test_a_server_that_does_not_answer_says_so_in_its_row(bench_store) -> None:
    record = Record(*contenders(bench_store, ["http://127.0.0.1:9"]))
    await measure(record, OPTIONS, tokens=8, rounds=1, say=lambda _: None)
    assert not record.row().ran
    assert record.error


def test_the_figures_are_medians(bench_store, nano) -> None:
    record = Record(*contenders(bench_store, [str(nano)]))
    record.gaps = [0.1, 0.01, 0.02, 0.02, 5.0]
    record.firsts["warm"] = [3.0, 1.0, 2.0]
    row = record.row()
    assert row.generation_tokens_per_second == 50
    assert row.first_token_seconds.warm == 2.0
    assert (row.first_token_seconds.cold, row.load_seconds, row.memory.peak_bytes) == (None, None, None)

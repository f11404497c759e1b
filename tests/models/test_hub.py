"""Pulling from a hub: a small HTTP server that speaks as much of it as we use, and the real client."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from models.catalogue import Format, HubSource, parse
from models.errors import DownloadFailed, NoSpace
from models.progress import Silent
from models.shelf import Shelf
from models.store import Store

REPO = "some/model"
COMMIT = "c" * 40
WEIGHTS = os.urandom(300_000)
STEP = 500_000  # bytes that the server sends at a time
CONFIG = b'{"model_type": "qwen2", "max_position_embeddings": 64}'


@dataclass
class Hub:
    """What the server holds, does and has seen."""

    files: dict[str, bytes] = field(
        default_factory=lambda: {"model.safetensors": WEIGHTS, "config.json": CONFIG, "run_me.py": b"1 / 0"}
    )
    commit: str = COMMIT
    listed: dict[str, bytes] | None = None  # what the listing's hashes are of, when not of the files
    slow: bool = False
    break_at: int | None = None
    ranges: list[str] = field(default_factory=list)
    url: str = ""

    def listing(self) -> dict[str, object]:
        files = self.listed or self.files
        return {
            "id": REPO,
            "sha": self.commit,
            "siblings": [self._sibling(name, data) for name, data in files.items()],
        }

    def _sibling(self, name: str, data: bytes) -> dict[str, object]:
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        sibling: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": blob}
        if len(data) > 1000:
            oid = hashlib.sha256(data).hexdigest()
            sibling["lfs"] = {"sha256": oid, "size": len(data), "pointerSize": 134}
        return sibling


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        if self.path.startswith(f"/api/models/{REPO}"):
            return self._send(json.dumps(self.hub.listing()).encode())
        prefix = f"/{REPO}/resolve/{self.hub.commit}/"
        name = self.path.removeprefix(prefix)
        if not self.path.startswith(prefix) or name not in self.hub.files:
            return self.send_error(404)
        return self._send(self.hub.files[name], self.headers.get("Range"))

    def _send(self, data: bytes, wanted: str | None = None) -> None:
        start = 0
        if wanted:
            self.hub.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = len(data) if self.hub.break_at is None or len(data) < 1000 else self.hub.break_at
        for at in range(start, end, STEP):
            self.wfile.write(data[at : min(at + STEP, end)])
            if self.hub.slow:
                time.sleep(0.05)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    held = Hub()
    handler = type("OurHandler", (Handler,), {"hub": held})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    held.url = f"http://127.0.0.1:{server.server_port}"
    yield held
    server.shutdown()
    server.server_close()
    thread.join()


TABLE = {
    "model": [
        {
            "name": "tensors",
            "description": "For tests.",
            "licence": "Apache-2.0",
            "parameters": 1,
            "context": 64,
            "memory": 1,
            "prompt_format": "chatml",
            "writes_ocaml": True,
            "source": [
                {
                    "kind": "hub",
                    "format": "hf",
                    "repo": REPO,
                    "revision": "main",
                    "files": ["*.json", "*.safetensors"],
                    "size": 300_000,
                }
            ],
        }
    ]
}
HF = [Format.HF]


class Told(Silent):
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture
def environment(hub, tmp_path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return {**ours, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store(environment, tmp_path, told) -> Store:
    return Store(home=tmp_path / "home", catalogue=parse(TABLE), environment=environment, progress=told)


def test_the_files_that_are_asked_for_come_and_no_other(store) -> None:
    model = store.pull("tensors", HF)
    names = sorted(path.name for path in model.path.iterdir())
    assert names == ["config.json", "manifest.json", "model.safetensors"]
    assert (model.path / "model.safetensors").read_bytes() == WEIGHTS
    assert model.size == len(WEIGHTS) + len(CONFIG)
    assert store.resolve("tensors", HF) == model


def test_the_first_pull_pins_the_commit_and_every_hash(store) -> None:
    source = store.pull("tensors", HF).source
    assert isinstance(source, HubSource)
    assert source.revision == COMMIT
    assert source.sha256 == {
        "model.safetensors": hashlib.sha256(WEIGHTS).hexdigest(),
        "config.json": hashlib.sha256(CONFIG).hexdigest(),
    }


def test_a_damaged_file_is_fetched_again_alone_and_by_its_pin(store, hub, told) -> None:
    path = store.pull("tensors", HF).path
    (path / "config.json").write_text("{}")
    hub.files["model.safetensors"] = b"nobody asks for it"
    hub.listed = {"model.safetensors": WEIGHTS, "config.json": CONFIG}
    assert (store.resolve("tensors", HF).path / "config.json").read_bytes() == CONFIG
    assert any("config.json" in sentence and "damaged" in sentence for sentence in told.sentences)


def test_other_bytes_than_were_pinned_are_refused_though_the_hub_vouches_for_them(store, hub) -> None:
    path = store.pull("tensors", HF).path
    (path / "model.safetensors").write_bytes(b"damaged")
    hub.files["model.safetensors"] = os.urandom(300_000)
    with pytest.raises(DownloadFailed, match="no longer the pinned file"):
        store.resolve("tensors", HF)


def test_bytes_that_are_not_what_the_hub_says_are_refused(store, hub, told) -> None:
    hub.listed = dict(hub.files)
    hub.files["model.safetensors"] = os.urandom(300_000)
    with pytest.raises(DownloadFailed, match=r"model\.safetensors of some/model came damaged twice"):
        store.pull("tensors", HF)
    assert any("fetching it again" in sentence for sentence in told.sentences)


def test_a_small_file_is_checked_too(store, hub) -> None:
    hub.listed = dict(hub.files)
    hub.files["config.json"] = CONFIG.replace(b"64", b"65")
    with pytest.raises(DownloadFailed, match=r"config\.json of some/model came damaged"):
        store.pull("tensors", HF)


def test_a_broken_download_goes_on_where_it_broke(store, hub) -> None:
    partial = Shelf(store.home).partial("tensors", Format.HF, "hub")
    partial.mkdir(parents=True)
    (partial / "model.safetensors.partial").write_bytes(WEIGHTS[:120_000])
    assert (store.pull("tensors", HF).path / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.ranges == ["bytes=120000-"]


def test_a_killed_pull_goes_on_where_it_was(store, hub, environment) -> None:
    hub.slow = True
    weights = os.urandom(25_000_000)  # the client writes 10 MB at a time
    hub.files["model.safetensors"] = weights
    program = (
        "import json, sys; from pathlib import Path; from models.catalogue import Format, parse\n"
        "from models.store import Store\n"
        "Store(home=Path(sys.argv[1]), catalogue=parse(json.loads(sys.argv[2]))).pull('tensors', [Format.HF])"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(store.home), json.dumps(TABLE)], env=environment
    )
    partial = Shelf(store.home).partial("tensors", Format.HF, "hub") / "model.safetensors.partial"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (partial.exists() and partial.stat().st_size > 0):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # the child that fetched sees that its parent is gone
    size = partial.stat().st_size
    time.sleep(0.5)
    assert partial.stat().st_size == size, "a child went on alone"
    assert 0 < size < len(weights)
    hub.slow = False
    assert (store.pull("tensors", HF).path / "model.safetensors").read_bytes() == weights
    assert hub.ranges[-1] == f"bytes={size}-"


def test_a_download_that_breaks_off_keeps_what_came_and_says_so(store, hub) -> None:
    hub.break_at = 200_000
    partial = Shelf(store.home).partial("tensors", Format.HF, "hub")
    partial.mkdir(parents=True)
    (partial / "model.safetensors.partial").write_bytes(WEIGHTS[:200_000])
    with pytest.raises(DownloadFailed, match=r"broke off at 200 kB of 300 kB .* pull it again to go on"):
        store.pull("tensors", HF)
    hub.break_at = None
    assert (store.pull("tensors", HF).path / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.ranges[-1] == "bytes=200000-"


def test_a_hub_without_the_repository_is_one_sentence(store, hub) -> None:
    hub.commit = "other"
    table = json.loads(json.dumps(TABLE).replace(REPO, "some/other"))
    with pytest.raises(DownloadFailed, match=r"does not give some/other \(HTTP 40") as caught:
        replace(store, catalogue=parse(table)).pull("tensors", HF)
    assert "\n" not in str(caught.value)


def test_a_repository_without_weights_is_one_sentence(store, hub) -> None:
    del hub.files["model.safetensors"]
    with pytest.raises(DownloadFailed, match="does not hold any weights"):
        store.pull("tensors", HF)


def test_a_disk_without_room_is_told_before_anything_is_fetched(store, hub) -> None:
    with pytest.raises(NoSpace, match="where 99 B are free"):
        replace(store, free_bytes=lambda _: 99).pull("tensors", HF)


def test_a_file_with_a_path_that_leads_out_is_never_written(store, hub) -> None:
    hub.files["../evil.json"] = b"{}"
    hub.files["sub/inner.json"] = b"{}"
    names = {path.name for path in store.pull("tensors", HF).path.iterdir()}
    assert names == {"config.json", "manifest.json", "model.safetensors"}
    assert not (store.home / "models" / "tensors" / "evil.json").exists()


def test_a_hub_that_accepts_and_never_answers_costs_seconds(store, environment) -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent_environment = {
            **environment,
            "HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "HF_HUB_ETAG_TIMEOUT": "1",
        }
        start = time.monotonic()
        with pytest.raises(DownloadFailed, match="does not answer"):
            replace(store, environment=silent_environment).pull("tensors", HF)
        assert time.monotonic() - start < 10

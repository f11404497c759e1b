"""A tiny model in three real wheels, a store that pulls it without a network, and weights of a user."""

import hashlib
import os
import random
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from models.catalogue import Catalogue, Format, parse
from models.progress import Silent
from models.store import Store

_RANDOM = random.Random(0)
PARTS = tuple(bytes([n]) * 20_000 + _RANDOM.randbytes(5_000) for n in (1, 2, 3))
WHOLE = b"".join(PARTS)


class Told(Silent):
    """Remembers what is told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.started: list[int] = []

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.started.append(done)

    @property
    def text(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True)
class Tiny:
    """The model "tiny" of 75 kB: its bytes, and the folder of the wheels that carry it."""

    wheels: Path
    parts: tuple[bytes, ...] = PARTS
    whole: bytes = WHOLE
    sha256: str = hashlib.sha256(WHOLE).hexdigest()

    def build(self, n: int, data: bytes | None = None, member: str | None = None) -> Path:
        """Write the wheel of a part, as small as pip takes it; with other bytes or names than were pinned."""
        stem = f"tiny_part{n}"
        wheel = self.wheels / f"{stem}-1.0-py3-none-any.whl"
        info = f"{stem}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member or f"{stem}/data/part{n}.bin", PARTS[n - 1] if data is None else data)
            # Importing it would be seen: nobody may.
            archive.writestr(f"{stem}/__init__.py", "raise SystemExit('imported')\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{n}\nVersion: 1.0\n")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
        return wheel

    def forget(self, *numbers: int) -> None:
        """Take wheels away, so that only what is not fetched again can succeed."""
        for n in numbers:
            (self.wheels / f"tiny_part{n}-1.0-py3-none-any.whl").unlink()

    @property
    def environment(self) -> dict[str, str]:
        """No network: pip finds the wheels in a folder, and the hub is not asked."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "HF_"))}
        return {
            **ours,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "HF_HUB_OFFLINE": "1",
        }

    @property
    def table(self) -> dict[str, Any]:
        """A catalogue of this model, which the hub has too, and of one that the hub alone has."""
        hub = {"kind": "hub", "format": "gguf", "repo": "no/body", "revision": "main", "files": ["tiny.gguf"]}
        facts = {
            "description": "For tests.",
            "licence": "Apache-2.0",
            "parameters": 1,
            "context": 64,
            "memory": 1,
            "prompt_format": "chatml",
            "writes_ocaml": True,
        }
        parts = [
            {
                "package": f"tiny-part{n}",
                "version": "1.0",
                "member": f"tiny_part{n}/data/part{n}.bin",
                "size": len(part),
                "sha256": hashlib.sha256(part).hexdigest(),
            }
            for n, part in enumerate(PARTS, start=1)
        ]
        wheels = {
            "kind": "pypi",
            "format": "gguf",
            "what": "Tiny",
            "whose": "its testers",
            "file": "tiny.gguf",
            "size": len(WHOLE),
            "sha256": self.sha256,
            "parts": parts,
        }
        only_hub = {**hub, "format": "hf", "files": ["*"], "size": 9}
        return {
            "model": [
                {**facts, "name": "tiny", "source": [{**hub, "size": len(WHOLE)}, wheels]},
                {**facts, "name": "tensors-only", "source": [only_hub]},
            ]
        }

    @property
    def catalogue(self) -> Catalogue:
        return parse(self.table)


def make_tiny(folder: Path) -> Tiny:
    folder.mkdir()
    tiny = Tiny(folder)
    for n in (1, 2, 3):
        tiny.build(n)
    return tiny


@pytest.fixture
def tiny(tmp_path) -> Tiny:
    return make_tiny(tmp_path / "wheels")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store(tmp_path, tiny, told) -> Store:
    return Store(
        home=tmp_path / "home", catalogue=tiny.catalogue, environment=tiny.environment, progress=told
    )


@pytest.fixture(scope="session")
def pulled_home(tmp_path_factory) -> Path:
    """A home with the model pulled: the one that is copied where how it got there does not matter."""
    folder = tmp_path_factory.mktemp("pulled")
    tiny = make_tiny(folder / "wheels")
    store = Store(home=folder / "home", catalogue=tiny.catalogue, environment=tiny.environment)
    store.pull("tiny", [Format.GGUF])
    return store.home


@pytest.fixture
def pulled(store, pulled_home) -> Path:
    """The file of the model, which is in the store."""
    shutil.copytree(pulled_home, store.home)
    return store.home / "models" / "tiny" / "gguf" / "tiny.gguf"


@pytest.fixture(scope="session")
def own_gguf(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "own.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(2048)
    writer.add_license("mit")
    writer.add_chat_template("<|im_start|>{{ messages }}")
    writer.add_tensor("output.weight", np.ones((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.fixture
def own(tmp_path, own_gguf) -> Path:
    """A model file of the user's own."""
    path = tmp_path / "mine" / "My Model.gguf"
    path.parent.mkdir()
    path.write_bytes(own_gguf)
    return path

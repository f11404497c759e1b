"""What a model remembers of a system prompt, kept on disk for the next process that begins with it.

Nothing here is needed: a folder that cannot be written, a full disk or a damaged file costs the time to
read the prompt, and is told to nobody. Several processes may use one folder at once.
"""

import glob
import hashlib
import os
import re
import secrets
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

WORTH_TOKENS = 32
"""Fewer tokens are read again about as fast as their state."""

_FORM = "1"  # goes up when what a state means changes
_DIGEST_CHARACTERS = 40
_SAMPLES = 64  # of each file of weights
_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_STALE_SECONDS = 600.0  # no save takes longer: a file still partial then is of a process that died

# The names of whole states and of those being written, of every engine: they share the folder's limit.
_WHOLE = re.compile(r"[0-9a-f]{40}-[0-9a-f]{40}\.\w+")
_PARTIAL = re.compile(r"[0-9a-f]{40}-\d+-[0-9a-f]{8}\.partial\.\w+")


def fingerprint(path: Path) -> str:
    """Return a name for the weights in a file or folder, another one whenever they change.

    Looks at sizes, times and samples, which takes milliseconds where a digest of all would take seconds.
    Raises ``OSError`` when they cannot be read.
    """
    digest = hashlib.sha256()
    for file in _weight_files(path):
        status = file.stat()
        facts = (file.name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        digest.update(repr(facts).encode("utf-8", errors="surrogateescape"))
        with file.open("rb") as data:
            _sample(data, status.st_size, digest)
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


def state_key(facts: Sequence[str], tokens: Sequence[int]) -> str:
    """Return the key of the state after ``tokens``; ``facts`` are all else that it depends on.

    Such as the engine, its library's version, the weights' fingerprint, and settings that change what the
    numbers mean or where they lie.
    """
    digest = hashlib.sha256(repr((_FORM, tuple(facts))).encode())
    digest.update(array("q", tokens).tobytes())
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


class States:
    """A folder of states, each in a file named by its key and by the digest of what is in it.

    They take ``limit_bytes`` at most: those used longest ago go first. ``suffix`` ends every name, for
    libraries that go by it.
    """

    def __init__(self, folder: Path, limit_bytes: int, suffix: str = ".state") -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._suffix = suffix

    def find(self, key: str) -> Path | None:
        """Return the file with a key's state, whole as it was written, and note that it was used."""
        for path in self._all():
            if not (path.name.startswith(f"{key}-") and path.name.endswith(self._suffix)):
                continue
            with suppress(OSError):
                if _digest(path) == path.name.removesuffix(self._suffix).rpartition("-")[2]:
                    with suppress(OSError):
                        os.utime(path)
                    return path
            self.discard(path)
        return None

    def write(self, key: str, save: Callable[[Path], object]) -> None:
        """Keep what ``save`` writes into the file it is given; an exception of it means there is no state."""
        partial = self._folder / f"{key}-{os.getpid()}-{secrets.token_hex(4)}.partial{self._suffix}"
        try:
            self._make_folder()
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            save(partial)
            if 0 < partial.stat().st_size <= self._limit_bytes:
                partial.chmod(0o600)
                os.replace(partial, self._folder / f"{key}-{_digest(partial)}{self._suffix}")
                self.sweep()
        except Exception:  # whatever a library or a disk has against it: the reply is not to suffer
            pass
        finally:
            self.discard(partial)

    def discard(self, path: Path) -> None:
        """Delete a state, as one that turned out to be of no use."""
        with suppress(OSError):
            path.unlink()

    def sweep(self) -> None:
        """Delete what exceeds the limit, and what processes that died have left."""
        states: list[tuple[float, int, Path]] = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if _WHOLE.fullmatch(entry.name):
                        states.append((status.st_mtime, status.st_size, Path(entry.path)))
                    elif _PARTIAL.fullmatch(entry.name) and time.time() - status.st_mtime > _STALE_SECONDS:
                        self.discard(Path(entry.path))
        room = self._limit_bytes
        for _, size, path in sorted(states, reverse=True):
            room -= size
            if room < 0:
                self.discard(path)

    def _all(self) -> list[Path]:
        """All states, if nobody but the user can have put them here: they make the model say anything."""
        try:
            folder = self._folder.stat()
            names = os.listdir(self._folder)
        except OSError:
            return []
        if folder.st_uid != os.getuid() or folder.st_mode & 0o022:
            return []
        return [self._folder / name for name in sorted(names) if _WHOLE.fullmatch(name)]

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._folder.stat().st_mode & 0o077:
            is_suspect = not self._all()
            self._folder.chmod(0o700)
            for path in self._all() if is_suspect else []:
                self.discard(path)


def _weight_files(path: Path) -> list[Path]:
    """The files that make up a model: of a folder all in it, of a split file all its parts."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if split := re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path.name):
        return sorted(path.parent.glob(f"{glob.escape(split[1])}-?????-of-{split[2]}.gguf"))
    return [path]


def _sample(data: BinaryIO, size: int, digest: "hashlib._Hash") -> None:
    last = max(0, size - _SAMPLE_BYTES)
    for position in sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)}):
        data.seek(position)
        digest.update(data.read(_SAMPLE_BYTES))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()  # processors have instructions for it: four times as fast as blake2b
    with path.open("rb") as data:
        while block := data.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()[:_DIGEST_CHARACTERS]

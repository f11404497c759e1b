"""Hashes of files, read in pieces."""

import hashlib
from collections.abc import Callable
from pathlib import Path

CHUNK = 1 << 20  # bytes read at a time


def sha256_of(path: Path, watch: Callable[[int], None] = lambda _: None) -> str:
    """Return the file's sha256; ``watch`` is called with the bytes read so far."""
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            watch(done)
    return digest.hexdigest()


def git_blob_of(path: Path) -> str:
    """Return the id that git gives the file: what the hub knows of files that are not large."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def folder_digest(hashes: dict[str, str]) -> str:
    """One hash for a folder, over ``{relative path: sha256}``, in the form that ``sha256sum`` prints."""
    lines = "".join(f"{digest}  {path}\n" for path, digest in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()

"""Files that come in and go out: read at the door with a clear sentence, written whole or not at all."""

import contextlib
import errno
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

MOST_BYTES = 10 * 1024 * 1024  # a source file larger than this is a mistake


class FileProblem(Exception):
    """A file cannot be read or written; the message is a sentence."""


def read_file(path: Path) -> bytes:
    """Return a source file's bytes, ``-`` being stdin. Raises FileProblem."""
    data = sys.stdin.buffer.read(MOST_BYTES + 1) if str(path) == "-" else _read(path)
    if len(data) > MOST_BYTES:
        raise FileProblem(f"{path} is larger than {MOST_BYTES // 1024 // 1024} MiB: give a smaller file.")
    return data


def write_file(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one step: a reader sees the old file or the new one.

    A device or a pipe (``/dev/stdout``) is written as it is. Raises FileProblem.
    """
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            if path.is_dir():
                raise FileProblem(f"{path} is a folder: name a file to write to.")
            with path.open("w", encoding="utf-8") as stream:
                stream.write(text)
            return
        _replace(path.resolve(), text)
    except OSError as error:
        raise FileProblem(f"{path} can't be written ({_reason(error)}).") from error


def check_writable(path: Path) -> None:
    """Raise FileProblem when it is already clear that ``path`` can't be written."""
    if path.is_dir():
        raise FileProblem(f"{path} is a folder: name a file to write to.")
    folder = path.parent
    if not folder.is_dir():
        raise FileProblem(f"The folder {folder} does not exist: make it first.")
    target = path if path.exists() else folder
    if not os.access(target, os.W_OK):
        raise FileProblem(f"{path} can't be written (permission denied): choose another place.")


def keep(text: str, folder: Path, name: str) -> Path | None:
    """Save a text that found no other place; return where, or None when that failed too."""
    stem, _, ending = name.rpartition(".")
    for place in (folder, Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(
                prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}-", suffix=f".{ending}", dir=place
            )
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            return Path(path)
    return None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileProblem(f"{path} can't be read ({_reason(error)}): give the path of a file.") from error


def _replace(path: Path, text: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask() if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "there is no such file"
    if error.errno == errno.EISDIR:
        return "it is a folder"
    return (error.strerror or str(error)).lower()

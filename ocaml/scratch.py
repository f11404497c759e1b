"""Folders for one use: each below a parent of this process that it holds a lock on while it lives.

What a process that was killed left behind is swept when the next one makes its parent.
"""

import atexit
import contextlib
import fcntl
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["one_folder", "scratch_folder", "sweep"]

LOCK = ".lock"
PREFIX = "ocamler-"
PARENT_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as ``mkdtemp`` names them
UNBORN_SECONDS = 600.0  # how long a parent may be without its lock before it counts as left behind


@contextlib.asynccontextmanager
async def scratch_folder() -> AsyncIterator[Path]:
    """An empty folder of its own, removed at the end, also when a program made it hard to remove."""
    with one_folder() as folder:
        yield folder


@contextlib.contextmanager
def one_folder() -> Iterator[Path]:
    """The same, where nothing is awaited."""
    folder = _new_folder()
    try:
        yield folder
    finally:
        _state.folders.discard(folder)
        _remove(folder)


def sweep(place: Path | None = None) -> list[Path]:
    """Remove the parents in ``place`` whose process is dead, and return them.

    A lock that can be taken is a dead process's. Folders of other users and of other makers stay.
    """
    swept = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(place or tempfile.gettempdir()):
            with contextlib.suppress(OSError):
                if _may_be_parent(entry) and _sweep_one(Path(entry.path)):
                    swept.append(Path(entry.path))
    return swept


@dataclass(slots=True)
class _State:
    """The parent folder of this process and the folders in use below it."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    parent: Path | None = None
    place: str = ""  # the folder of temporary files that it is in
    lock: int = -1
    folders: set[Path] = field(default_factory=set)


_state = _State()


def _new_folder() -> Path:
    with _state.guard:
        for _ in range(8):
            parent = _parent()
            with contextlib.suppress(FileNotFoundError):  # something cleared the temporary files
                folder = Path(tempfile.mkdtemp(prefix="", dir=parent))
                _state.folders.add(folder)
                return folder
    raise OSError(f"{tempfile.gettempdir()} does not keep a folder: set TMPDIR to one that does.")


def _parent() -> Path:
    place = tempfile.gettempdir()
    if _state.parent is None or _state.place != place or not (_state.parent / LOCK).exists():
        _leave()
        first = _state.place == ""
        _state.parent, _state.lock = _made(place)
        _state.place = place
        if first:
            sweep(Path(place))
    return _state.parent


def _made(place: str) -> tuple[Path, int]:
    """Make a parent and lock it; one that a sweeper took between the two is made anew."""
    while True:
        parent = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place)).resolve()
        lock = -1
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(parent / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink and (parent / LOCK).exists():
                return parent, lock
        if lock >= 0:
            os.close(lock)


def _may_be_parent(entry: os.DirEntry[str]) -> bool:
    if PARENT_NAME.fullmatch(entry.name) is None or not entry.is_dir(follow_symlinks=False):
        return False
    # Shared folders of temporary files hold those of others; root has no business with theirs either.
    return entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _sweep_one(parent: Path) -> bool:
    try:
        lock = os.open(parent / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - parent.stat().st_mtime < UNBORN_SECONDS:
            return False
        parent.rmdir()  # with anything in it, it is not one of ours
        return True
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # its process lives, or another sweeper is at it
        if not os.fstat(lock).st_nlink:
            return False
        _clear(parent)
    finally:
        os.close(lock)
    return not parent.exists()


def _clear(parent: Path) -> None:
    """Remove a parent, its lock last: while it is there, no other sweeper gets at the rest."""
    for entry in list(os.scandir(parent)):
        if entry.name != LOCK:
            _remove(Path(entry.path))
    _remove(parent)


def _remove(folder: Path) -> None:
    """Remove a folder and all in it, whatever became of permissions and however deep it is.

    ``shutil.rmtree`` recurses, and gives up on a depth that a program makes in a moment.
    """
    if not folder.is_dir() or folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.unlink()
        return
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        _empty(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        os.rmdir(folder)


def _empty(here: int) -> None:
    """Remove what is in the folder that is open as ``here``, going down and up in it, and close it."""
    way: list[tuple[str, list[str]]] = []  # the folders that we are in, and what is left to do beside each
    try:
        left = _unlink_files(here)
        while True:
            while left:
                name = left.pop()
                below = _opened(name, here)
                if below >= 0:
                    os.close(here)
                    here = below
                    way.append((name, left))
                    left = _unlink_files(here)
            if not way:
                return
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = above
            name, left = way.pop()
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)


def _opened(name: str, inside: int) -> int:
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=inside)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)
    return -1


def _unlink_files(here: int) -> list[str]:
    """Remove what is no folder and return the names of those that are."""
    folders = []
    with contextlib.suppress(OSError), os.scandir(here) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=here)
    return folders


def _leave() -> None:
    """Let go of the parent; what is still in use below it stays, for a sweeper to find."""
    if _state.parent is not None and not _state.folders:
        with contextlib.suppress(OSError):  # something may have cleared the temporary files
            _clear(_state.parent)
    if _state.lock >= 0:
        with contextlib.suppress(OSError):
            os.close(_state.lock)
    _state.parent, _state.lock = None, -1


def _forget() -> None:
    """A forked child has no part in its parent's folders: it makes its own."""
    global _state
    inherited = _state.lock
    _state = _State()
    if inherited >= 0:
        with contextlib.suppress(OSError):
            os.close(inherited)


atexit.register(_leave)
os.register_at_fork(after_in_child=_forget)

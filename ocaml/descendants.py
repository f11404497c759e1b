"""What became of a process and of those that it started: their memory, their end, when it comes."""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["end_descendants", "resident_bytes", "when_ended"]

END_SECONDS = 0.5  # how long we look for descendants that are still to be ended


def resident_bytes(group: int, platform: str = sys.platform) -> int:
    """Return the resident memory of a process and its descendants in bytes, 0 when they are gone."""
    if platform == "linux":
        return sum(map(_resident_on_linux, [group, *_descendants(group)]))
    try:
        told = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, check=False)
    except OSError:
        return 0
    pairs = (line.split() for line in told.stdout.decode(errors="replace").splitlines())
    return sum(int(rss) * 1024 for pgid, rss in pairs if pgid == str(group))


def end_descendants(pid: int) -> None:
    """Kill all that a process started, in whatever group or session; not the process itself.

    Elsewhere than on Linux nobody tells who they are: there only their group can be ended.
    """
    until = time.monotonic() + END_SECONDS
    while (family := _living(pid)) and time.monotonic() < until:
        # Stopped first: one that is being killed can't outrun us by starting others.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for member in [*family, *_living(pid)]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(member, number)
        time.sleep(0.001)


def when_ended(pid: int, tell: Callable[[], None]) -> Callable[[], None]:
    """Call ``tell`` in the running loop once a child has ended, without reaping it.

    Returns what gives up waiting. A child that isn't reaped keeps its number, so that no other is hit by
    a signal that is meant for it.
    """
    loop = asyncio.get_running_loop()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return _when_readable(loop, os.pidfd_open(pid), tell)
    if sys.platform == "darwin":
        queue = select.kqueue()
        ended = select.kevent(
            pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
        )
        try:
            queue.control([ended], 0, 0)
        except ProcessLookupError:  # it has ended already
            queue.close()
            loop.call_soon(tell)
            return lambda: None
        return _when_readable(loop, queue.fileno(), tell, queue.close)
    return _when_waited_for(loop, pid, tell)


def _when_readable(
    loop: asyncio.AbstractEventLoop,
    source: int,
    tell: Callable[[], None],
    close: Callable[[], None] | None = None,
) -> Callable[[], None]:
    waiting = True

    def forget() -> None:
        nonlocal waiting
        if waiting:
            waiting = False
            loop.remove_reader(source)
            (close or (lambda: os.close(source)))()

    def ended() -> None:
        forget()
        tell()

    loop.add_reader(source, ended)
    return forget


def _when_waited_for(
    loop: asyncio.AbstractEventLoop, pid: int, tell: Callable[[], None]
) -> Callable[[], None]:
    waiting = True

    def forget() -> None:
        nonlocal waiting
        waiting = False

    def ended() -> None:
        if waiting:
            tell()

    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended)

    threading.Thread(target=wait, daemon=True).start()
    return forget


def _descendants(pid: int) -> list[int]:
    """A process's descendants, as far as the kernel tells (one may have ended by now)."""
    found = _children(pid)
    for one in found:
        found += _children(one)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return found


def _living(pid: int) -> list[int]:
    return [one for one in _descendants(pid) if not _is_dead(one)]


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (OSError, IndexError):
        return True


def _resident_on_linux(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

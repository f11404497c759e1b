"""How a program that nobody trusts is held: its own session, limits on time, memory and output, no leftovers.

Every child of the judge starts here, the compiler too: a type can be a bomb.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ocaml.verdict import Limit

POLL_SECONDS = 0.05  # how often memory and the watcher are looked at
PS_SECONDS = 0.25  # the same for memory where `ps` must be started to learn it
GRACE_SECONDS = 5.0  # how long a killed process may take to be reaped
HELD_PIPE_SECONDS = 0.5  # how long a pipe is read on that someone outside the group keeps open
MIB = 1024 * 1024

# An address space is wider than what is used: OCaml 5 reserves its minor heaps for 128 domains at once.
ADDRESS_SPACE_HEADROOM = 4096 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use: wall seconds, resident bytes of its process group, output bytes a stream."""

    seconds: float = 10.0
    memory_bytes: int = 1024 * MIB
    output_bytes: int = 256 * 1024
    file_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True)
class Execution:
    """How a process ended. ``exit_code`` is negative for a signal; ``limit`` says which limit killed it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    limit: Limit | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and self.limit is None


Watcher = Callable[[], bool]
"""Looked at while the process runs; True ends it for taking too long."""


async def execute(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    limits: Limits,
    stdin: int = subprocess.DEVNULL,
    watch: Watcher | None = None,
) -> Execution:
    """Run ``command`` in ``cwd`` under ``limits`` and end its whole process group, whatever happens.

    Output is capped while it is read. Cancelling the task kills the group too.
    Raises OSError when the command cannot be started at all.
    """
    started = time.monotonic()
    spawn = asyncio.get_running_loop().subprocess_exec(
        lambda: _Held(limits),
        *_limited(command, limits),
        cwd=cwd,
        env=dict(environment),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    transport, held = await _uncancelled(spawn)
    try:
        await held.wait(transport.get_pid(), started, watch)
    finally:
        _kill_group(transport.get_pid())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(held.closed(), GRACE_SECONDS)
        transport.close()
    code = transport.get_returncode()
    return Execution(
        exit_code=code if code is not None else -signal.SIGKILL,
        stdout=bytes(held.output[1]),
        stderr=bytes(held.output[2]),
        truncated=held.truncated,
        limit=Limit.TIME if code == -signal.SIGXCPU else held.limit,
        seconds=time.monotonic() - started,
    )


Spawned = tuple[asyncio.SubprocessTransport, "_Held"]


async def _uncancelled(spawn: Coroutine[None, None, Spawned]) -> Spawned:
    """Wait for a process to be started; a cancel takes effect behind it, when there is something to end.

    Cancelled in its middle, asyncio's start can wait for ever.
    """
    starting = asyncio.ensure_future(spawn)
    cancelled = False
    while not starting.done():
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled():
                raise
            cancelled = True
    if cancelled:
        transport, held = starting.result()
        _kill_group(transport.get_pid())
        await held.closed()
        transport.close()
        raise asyncio.CancelledError
    return starting.result()


@contextlib.asynccontextmanager
async def scratch_folder() -> AsyncIterator[Path]:
    """An empty folder of its own, removed at the end, also when a program made it hard to remove."""
    folder = Path(tempfile.mkdtemp(prefix="ocamler-"))
    try:
        yield folder.resolve()
    finally:
        _remove(folder)


def resident_bytes(group: int, platform: str = sys.platform) -> int:
    """Return the resident memory of a process and its descendants in bytes, 0 when they are gone."""
    if platform == "linux":
        return sum(map(_resident_on_linux, _family(group)))
    try:
        told = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, check=False)
    except OSError:
        return 0
    pairs = (line.split() for line in told.stdout.decode(errors="replace").splitlines())
    return sum(int(rss) * 1024 for pgid, rss in pairs if pgid == str(group))


class _Held(asyncio.SubprocessProtocol):
    """A running process: what it printed so far, whether it has ended, which limit it met."""

    def __init__(self, limits: Limits) -> None:
        self.output = {1: bytearray(), 2: bytearray()}
        self.truncated = False
        self.limit: Limit | None = None
        self._limits = limits
        self._open_pipes = {1, 2}
        self._over = asyncio.Event()
        self._closed = asyncio.Event()
        self._exited = False
        self._next_ps = 0.0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what fits under the cap; more than that ends the process."""
        room = self._limits.output_bytes - len(self.output[fd])
        self.output[fd] += data[:room]
        if len(data) > room:
            self.truncated = True
            self.limit = self.limit or Limit.OUTPUT
            self._over.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        """Note that a stream has ended."""
        self._open_pipes.discard(fd)
        self._note_closed()

    def process_exited(self) -> None:
        """Note the end; a grandchild may still hold the pipes, and is not waited for."""
        self._exited = True
        self._over.set()
        self._note_closed()

    async def wait(self, pid: int, started: float, watch: Watcher | None) -> None:
        """Return when the process has ended or a limit is met."""
        while not self._over.is_set():
            left = started + self._limits.seconds - time.monotonic()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), max(0.0, min(POLL_SECONDS, left)))
            if not self._over.is_set():
                self.limit = self.limit or await self._limit_met(pid, left, watch)
                if self.limit is not None:
                    return

    async def closed(self) -> None:
        """Return when the process is reaped and both streams have been read to their end, or soon after."""
        while not self._exited:
            await asyncio.sleep(0.002)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closed.wait(), HELD_PIPE_SECONDS)

    async def _limit_met(self, pid: int, left: float, watch: Watcher | None) -> Limit | None:
        if left <= 0 or (watch is not None and watch()):
            return Limit.TIME
        if sys.platform == "linux":
            used = resident_bytes(pid)
        elif (now := time.monotonic()) >= self._next_ps:
            self._next_ps = now + PS_SECONDS
            used = await asyncio.to_thread(resident_bytes, pid)
        else:
            return None
        return Limit.MEMORY if used > self._limits.memory_bytes else None

    def _note_closed(self) -> None:
        if self._exited and not self._open_pipes:
            self._closed.set()


def _family(pid: int) -> list[int]:
    """A process and its descendants, as far as the kernel tells (one may have ended by now)."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError, ValueError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            found += map(int, children)
    return found


def _resident_on_linux(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _kill_group(pid: int) -> None:
    """End everything that the process started and that stayed in its group; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _limited(command: Sequence[str | Path], limits: Limits, platform: str = sys.platform) -> list[str]:
    """Put the kernel's own limits in front of the command, through the shell that every Unix has.

    ``ulimit -v`` fails on macOS (there the resident memory is polled), so no failure is fatal.
    """
    cpu = int(limits.seconds) + 2
    # The soft limit ends a process with SIGXCPU, which tells why; the hard one with SIGKILL, which does not.
    settings = [f"-S -t {cpu}", f"-H -t {cpu + 1}", f"-f {limits.file_bytes // 512}", "-c 0", "-n 256"]
    if platform == "linux":
        settings.append(f"-v {(limits.memory_bytes + ADDRESS_SPACE_HEADROOM) // 1024}")
    script = "".join(f"ulimit {setting} 2>/dev/null; " for setting in settings) + 'exec "$@"'
    return ["/bin/sh", "-c", script, "sh", *map(str, command)]


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a program may have taken the permissions away
        for root, names, _ in os.walk(folder):
            for name in [root, *(os.path.join(root, name) for name in names)]:
                with contextlib.suppress(OSError):
                    os.chmod(name, 0o700)
        shutil.rmtree(folder, ignore_errors=True)

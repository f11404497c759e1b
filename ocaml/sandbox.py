"""How a program that nobody trusts is held: its own session, limits on time, memory and output, no leftovers.

Every child of the judge starts here, the compiler too: a type can be a bomb. What a program can see and
reach at all is ``ocaml.containment``'s.
"""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ocaml.containment import Container
from ocaml.containment.container import pipe_of, read_all, why
from ocaml.descendants import end_descendants, resident_bytes, when_ended
from ocaml.errors import ContainmentFailed
from ocaml.scratch import scratch_folder
from ocaml.verdict import Limit

__all__ = [
    "MIB",
    "RESULT",
    "Execution",
    "Limits",
    "Taker",
    "Watcher",
    "execute",
    "resident_bytes",
    "scratch_folder",
]

POLL_SECONDS = 0.05  # how often memory and the watcher are looked at
PS_SECONDS = 0.25  # the same for memory where `ps` must be started to learn it
GRACE_SECONDS = 5.0  # how long a killed process may take to be gone
HELD_PIPE_SECONDS = 0.5  # how long a pipe is read on that someone outside the group keeps open
READ_BYTES = 256 * 1024
STDIN_BYTES = 4096  # what fits into any system's pipe while nobody reads
MIB = 1024 * 1024

# An address space is wider than what is used: OCaml 5 reserves its minor heaps for 128 domains at once.
ADDRESS_SPACE_HEADROOM = 4096 * MIB
# Private memory is counted as it is written to be; the stacks of threads are, 8 MiB each, before they are.
DATA_HEADROOM = 256 * MIB

RESULT = "\0result"
"""An argument of a command that becomes the number of the descriptor whose bytes ``take`` gets."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use: wall seconds, resident bytes of its process group, output bytes a stream.

    ``folder_bytes`` and ``folder_entries`` are what a contained program may leave in its folder.
    """

    seconds: float = 10.0
    memory_bytes: int = 1024 * MIB
    output_bytes: int = 256 * 1024
    file_bytes: int = 64 * MIB
    result_bytes: int = 8 * MIB
    folder_bytes: int = 256 * MIB
    folder_entries: int = 10_000


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

Taker = Callable[[bytes], None]
"""Gets what the program writes to the descriptor of ``RESULT``, piece by piece."""


async def execute(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    limits: Limits,
    stdin: int | bytes = subprocess.DEVNULL,
    watch: Watcher | None = None,
    take: Taker | None = None,
    container: Container | None = None,
) -> Execution:
    """Run ``command`` in ``cwd`` under ``limits`` and end all that it started, whatever happens.

    Output is capped while it is read. Cancelling the task ends the program too. ``stdin`` may be a few
    bytes. Raises OSError when the command cannot be started at all, ContainmentFailed when its container
    can't.
    """
    held = _Held(limits, cwd)
    try:
        held.start(command, environment, stdin, take, container)
        await held.wait(watch)
    finally:
        await held.end()
    return held.execution(container)


class _Held:
    """A running process: what it printed so far, whether it has ended, which limit it met."""

    def __init__(self, limits: Limits, folder: Path) -> None:
        self._limits = limits
        self._folder = folder
        self._started = time.monotonic()
        self._limit: Limit | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: dict[str, _Stream] = {}
        self._status: socket.socket | None = None
        self._told = b""
        self._contained = False
        self._forget_end: Callable[[], None] = lambda: None
        self._over = asyncio.Event()
        self._ended = asyncio.Event()
        self._closed = asyncio.Event()
        self._next_ps = 0.0

    def start(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str],
        stdin: int | bytes,
        take: Taker | None,
        container: Container | None,
    ) -> None:
        """Start the process and begin to read what it says."""
        with contextlib.ExitStack() as theirs:  # ends that are the process's alone once it has them
            kept: list[int] = []
            arguments = [str(argument) for argument in command]
            if take is not None:
                result = self._socket_stream(theirs, self._limits.result_bytes, take)
                kept.append(result)
                arguments = [str(result) if argument == RESULT else argument for argument in arguments]
            self._contained = container is not None
            if container is not None and container.tells:
                self._status, other = socket.socketpair()
                theirs.callback(other.close)
                filter_from = _passed(theirs, pipe_of(container.filter))
                kept += [other.fileno(), *filter_from]
                arguments = container.wrap(
                    arguments, self._folder, status=other.fileno(), filter_from=next(iter(filter_from), None)
                )
            if isinstance(stdin, bytes):
                if len(stdin) > STDIN_BYTES:
                    raise ValueError(f"Standard input of more than {STDIN_BYTES} bytes comes from a file.")
                (stdin,) = _passed(theirs, pipe_of(stdin))
            self._process = subprocess.Popen(
                _limited(arguments, self._limits),
                cwd=self._folder,
                env=dict(environment),
                stdin=stdin,
                stdout=self._pipe_stream(theirs, "stdout"),
                stderr=self._pipe_stream(theirs, "stderr"),
                pass_fds=kept,
                start_new_session=True,
            )
        self._forget_end = when_ended(self._process.pid, self._note_end)

    async def wait(self, watch: Watcher | None) -> None:
        """Return when the process has ended or a limit is met."""
        while not self._over.is_set():
            left = self._started + self._limits.seconds - time.monotonic()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), max(0.0, min(POLL_SECONDS, left)))
            if not self._over.is_set():
                self._limit = self._limit or await self._limit_met(left, watch)
                if self._limit is not None:
                    return

    async def end(self) -> None:
        """End what still runs, read what was said to its end, and reap.

        The process is reaped last: until then its number can be no other's.
        """
        self._kill()
        try:
            if self._process is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), GRACE_SECONDS)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), HELD_PIPE_SECONDS)
        finally:
            self._forget_end()
            for stream in self._streams.values():
                stream.close()
            if self._status is not None:
                self._told = read_all(self._status)
                self._status.close()
            if self._process is not None and self._process.poll() is None:
                # It can't die yet; a thread that no one waits for reaps it when it does.
                threading.Thread(target=self._process.wait, daemon=True).start()

    def execution(self, container: Container | None) -> Execution:
        """How it ended."""
        code = self._process.returncode if self._process is not None else None
        code = -signal.SIGKILL if code is None else code
        stdout, stderr = self._streams["stdout"], self._streams["stderr"]
        if container is not None:
            started, code = container.ended(self._told, code)
            if not started and self._limit is None:
                reason = why(self._told, bytes(stderr.data)) or f"it ended with exit code {code}"
                raise ContainmentFailed(
                    f"The sandbox for the program did not start ({reason}): "
                    "see what `ocamler doctor` says of it, or try again when less is running."
                )
        return Execution(
            exit_code=code,
            stdout=bytes(stdout.data),
            stderr=bytes(stderr.data),
            truncated=stdout.full or stderr.full,
            limit=Limit.TIME if code == -signal.SIGXCPU else self._limit,
            seconds=time.monotonic() - self._started,
        )

    def _socket_stream(self, theirs: contextlib.ExitStack, room: int, take: Taker) -> int:
        """Read a socket, not a pipe: through /dev/fd a program opens the other end of a pipe of its own."""
        ours, other = socket.socketpair()
        theirs.callback(other.close)
        ours.shutdown(socket.SHUT_WR)
        self._streams["result"] = _Stream(ours.detach(), room, self._note_stream, take)
        return other.fileno()

    def _pipe_stream(self, theirs: contextlib.ExitStack, name: str) -> int:
        ours, other = os.pipe()
        theirs.callback(os.close, other)
        self._streams[name] = _Stream(ours, self._limits.output_bytes, self._note_stream)
        return other

    def _note_stream(self, stream: "_Stream") -> None:
        """Note that a stream has ended, or that it is full: more than that ends the process."""
        if stream.full:
            self._limit = self._limit or Limit.OUTPUT
            self._over.set()
        self._note_closed()

    def _note_end(self) -> None:
        """Note the end; a grandchild may still hold the streams, and is not waited for."""
        self._ended.set()
        self._over.set()
        self._note_closed()

    def _note_closed(self) -> None:
        if self._ended.is_set() and not any(stream.open for stream in self._streams.values()):
            self._closed.set()

    async def _limit_met(self, left: float, watch: Watcher | None) -> Limit | None:
        if left <= 0 or (watch is not None and watch()) or self._process is None:
            return Limit.TIME
        if self._contained and _is_full(self._folder, self._limits):
            return Limit.OUTPUT
        if sys.platform == "linux":
            used = resident_bytes(self._process.pid)
        elif (now := time.monotonic()) >= self._next_ps:
            self._next_ps = now + PS_SECONDS
            used = await asyncio.to_thread(resident_bytes, self._process.pid)
        else:
            return None
        return Limit.MEMORY if used > self._limits.memory_bytes else None

    def _kill(self) -> None:
        """End the process, what left its group too. It isn't reaped, so the numbers are still theirs."""
        if self._process is None:
            return
        end_descendants(self._process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class _Stream:
    """What comes on a descriptor, up to a cap; ``note`` is told when it is full and when it ends."""

    def __init__(
        self, source: int, room: int, note: Callable[["_Stream"], None], take: Taker | None = None
    ) -> None:
        self.data = bytearray()
        self.full = False
        self.open = True
        self._source = source
        self._room = room
        self._note = note
        self._take = take or self.data.extend
        self._loop = asyncio.get_running_loop()
        os.set_blocking(source, False)
        self._loop.add_reader(source, self._read)

    def close(self) -> None:
        """Read no more."""
        if self.open:
            self.open = False
            self._loop.remove_reader(self._source)
            os.close(self._source)

    def _read(self) -> None:
        try:
            added = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the other end went without reading
            added = b""
        if not added:
            self.close()
            self._note(self)
            return
        fits = added[: self._room]
        self._room -= len(fits)
        if fits:
            self._take(fits)
        if len(added) > len(fits) and not self.full:
            self.full = True
            self._note(self)


def _is_full(folder: Path, limits: Limits) -> bool:
    """Whether a folder holds more than it may, or is deeper than a path can be long."""
    entries = used = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        used += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entries > limits.folder_entries or used > limits.folder_bytes:
                        return True
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return True
    return False


def _passed(theirs: contextlib.ExitStack, descriptor: int | None) -> list[int]:
    if descriptor is None:
        return []
    theirs.callback(os.close, descriptor)
    return [descriptor]


def _limited(command: Sequence[str], limits: Limits, platform: str = sys.platform) -> list[str]:
    """Put the kernel's own limits in front of the command, through the shell that every Unix has.

    ``ulimit -v`` and ``-d`` fail on macOS (there the resident memory is polled), so no failure is fatal.
    """
    cpu = int(limits.seconds) + 2
    # The soft limit ends a process with SIGXCPU, which tells why; the hard one with SIGKILL, which does not.
    settings = [f"-S -t {cpu}", f"-H -t {cpu + 1}", f"-f {limits.file_bytes // 512}", "-c 0", "-n 256"]
    if platform == "linux":
        settings.append(f"-v {(limits.memory_bytes + ADDRESS_SPACE_HEADROOM) // 1024}")
        settings.append(f"-d {(limits.memory_bytes + DATA_HEADROOM) // 1024}")
    script = "".join(f"ulimit {setting} 2>/dev/null; " for setting in settings) + 'exec "$@"'
    return ["/bin/sh", "-c", script, "sh", *command]

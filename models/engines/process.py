"""The parent's end of an engine's child process: pipes, threads that serve them, and its last words.

Threads rather than asyncio's subprocesses: those belong to one event loop, while a loaded model
should outlive the loop (a prompt that runs each turn in a loop of its own, a test).
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from models.engines.wire import Request, Response, WireError, decode_response, encode

_LOG_LINES = 40
_LOG_LINE_BYTES = 4096
_GOODBYE_SECONDS = 1.0
_ADVICE = "try again, and choose another model if it happens again."


@dataclass(frozen=True, slots=True)
class Death:
    """How a child ended: its return code (negative: the signal) and the last line of its log."""

    code: int
    last_words: str

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if -self.code == signal.SIGKILL:
            return (
                "The model's process was killed, perhaps because memory ran out: "
                "try again, or choose a smaller model or context."
            )
        said = f" after saying “{self.last_words}”" if self.last_words else ""
        if self.code < 0:
            return f"The model's process crashed ({_signal_name(-self.code)}){said}: {_ADVICE}"
        return f"The model's process ended (exit code {self.code}){said}: {_ADVICE}"


class ChildProcess:
    """A running child: requests go in, responses and finally its death come out, on a thread of ours."""

    def __init__(
        self, engine: str, on_response: Callable[[Response], None], on_death: Callable[[Death], None]
    ) -> None:
        self._on_response = on_response
        self._on_death = on_death
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "models.engines.child", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(os.environ, sys.path),
            start_new_session=True,  # the terminal's Ctrl-C is for us to handle, not for the child to die of
        )
        self._writer = self._start(self._write, self._process.stdin)
        self._log_reader = self._start(self._read_log, self._process.stderr)
        self._reader = self._start(self._read, self._process.stdout)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether its death has not been noticed yet."""
        return self._reader.is_alive()

    def send(self, request: Request) -> None:
        """Send a request; never blocks. A dead child's death is reported by ``on_death``, not here."""
        self._outbox.put(encode(request))

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """Let it end by itself, kill it if it does not, and leave no zombie."""
        self._outbox.put(None)
        self._reader.join(_GOODBYE_SECONDS)
        if self._reader.is_alive():
            self.kill()
        for thread in (self._reader, self._log_reader, self._writer):
            thread.join(_GOODBYE_SECONDS)

    def _start(self, serve: Callable[[IO[bytes]], None], pipe: IO[bytes] | None) -> threading.Thread:
        thread = threading.Thread(target=serve, args=(pipe,), name=f"engine {serve.__name__}", daemon=True)
        thread.start()
        return thread

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            while (line := self._outbox.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            try:
                for line in pipe:
                    self._on_response(decode_response(line))
            except WireError as error:
                self._log.append(f"unreadable answer: {error}")
                self.kill()
        code = self._process.wait()
        self._outbox.put(None)  # the writer may wait for work
        self._log_reader.join(_GOODBYE_SECONDS)
        self._on_death(Death(code, self._log[-1] if self._log else ""))

    def _read_log(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(_LOG_LINE_BYTES):
                if text := line.decode("utf-8", errors="replace").strip():
                    self._log.append(text)


def child_environment(environment: Mapping[str, str], search_path: list[str]) -> dict[str, str]:
    """Return the child's environment: it finds what we find, and its threads do not spin in waiting.

    Spinning made generation 20 to 40 times slower on a busy machine. The variables are read when the
    native libraries are loaded, so they are set here and not in the child.
    """
    ours = str(Path(__file__).resolve().parents[2])
    found_by_us = [entry for entry in search_path if os.path.isabs(entry) and os.pathsep not in entry]
    if ours not in found_by_us:
        found_by_us.insert(0, ours)
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(found_by_us),
        "OMP_WAIT_POLICY": "passive",  # GNU's OpenMP
        "KMP_BLOCKTIME": "0",  # LLVM's, as on a Mac
        "OPENBLAS_NUM_THREADS": "1",  # numpy's own threads would take the model's cores
        "GGML_NO_BACKTRACE": "1",  # a crash would start a debugger on the child
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

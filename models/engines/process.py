"""The parent's end of an engine's child process: how it is started and ended, and its last words."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from models.engines.link import Link
from models.engines.wire import Request, Response

_LOG_LINES = 40
_LOG_LINE_BYTES = 4096
_GOODBYE_SECONDS = 1.0
_ADVICE = "try again, and choose another model if it happens again."
_ADVICE_WHEN_KILLED = "try again, or choose a smaller model or context."


@dataclass(frozen=True, slots=True)
class Death:
    """How a child ended: its return code (negative: the signal) and the last line of its log.

    The code is None for a child that was not ours, which nobody can wait for.
    """

    code: int | None
    last_words: str

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        return f"{self.reason}: {_ADVICE_WHEN_KILLED if self._is_killed else _ADVICE}"

    @property
    def reason(self) -> str:
        """What happened, without what to do about it."""
        said = f" after saying “{self.last_words}”" if self.last_words else ""
        if self.code is None:
            return f"The model's process, which was kept warm, ended{said}"
        if self._is_killed:
            return "The model's process was killed, perhaps because memory ran out"
        if self.code < 0:
            return f"The model's process crashed ({_signal_name(-self.code)}){said}"
        return f"The model's process ended (exit code {self.code}){said}"

    @property
    def _is_killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Child(Protocol):
    """A process that runs a model: requests go in; responses, and finally its death, come out on a thread."""

    @property
    def pid(self) -> int:
        """The process id."""

    def send(self, request: Request) -> None:
        """Send a request; never blocks. A dead child's death is reported, not raised here."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """Let it go: it ends, or serves others from now on."""


class ChildProcess:
    """A child of our own, which ends with us; fulfils ``Child``."""

    def __init__(
        self, engine: str, on_response: Callable[[Response], None], on_death: Callable[[Death], None]
    ) -> None:
        self._on_death = on_death
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._process = subprocess.Popen(
            child_command(engine),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(os.environ, sys.path),
            start_new_session=True,  # the terminal's Ctrl-C is for us to handle, not for the child to die of
        )
        requests, responses, log = self._process.stdin, self._process.stdout, self._process.stderr
        assert requests is not None
        assert responses is not None
        assert log is not None
        self._log_reader = threading.Thread(
            target=self._read_log, args=(log,), name="engine log", daemon=True
        )
        self._log_reader.start()
        self._link = Link(requests, responses, on_response, self._bury)
        self._link.open()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, request: Request) -> None:
        """Send a request."""
        self._link.send(request)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """Let it end by itself, kill it if it does not, and leave no zombie."""
        self._link.hang_up()
        if not self._link.wait(_GOODBYE_SECONDS):
            self.kill()
            self._link.wait(_GOODBYE_SECONDS)
        self._log_reader.join(_GOODBYE_SECONDS)

    def _bury(self, unreadable: str) -> None:
        if unreadable:
            self._log.append(unreadable)
            self.kill()
        code = self._process.wait()
        self._log_reader.join(_GOODBYE_SECONDS)
        self._on_death(Death(code, self._log[-1] if self._log else ""))

    def _read_log(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(_LOG_LINE_BYTES):
                if text := line.decode("utf-8", errors="replace").strip():
                    self._log.append(text)


def child_command(*arguments: str) -> list[str]:
    """Return the command of a child, which takes no module from the folder it is started in."""
    return [sys.executable, "-P", "-m", "models.engines.child", *arguments]


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
        "HF_HUB_OFFLINE": "1",  # a folder is all there is to load
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",  # its threads would take the model's cores
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

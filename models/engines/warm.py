"""A model kept warm from one command to the next, when the user asks for it: found, started, talked to.

It listens on a socket in a folder that is the user's alone. Which model, which settings and which version of
this code it runs is in the socket's name, so that nobody meets another's.
"""

import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from models.engines.link import Link
from models.engines.options import EngineOptions
from models.engines.process import Death, child_command, child_environment
from models.engines.wire import KeepWarm, Request, Response, Welcome, WireError, decode_response
from models.errors import EngineError

_CONNECT_SECONDS = 5.0
_START_SECONDS = 60.0  # until it listens, which is before it loads anything
_LONGEST_PATH = 100  # bytes; a socket's may have 104 on a Mac, 108 on Linux
_LOG_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Warmth:
    """Whether a model is kept warm: ``folder`` is where its socket lies, ``seconds`` how long it stays.

    None uses one that somebody asked for before, and starts none; 0 ends it when we are done with it.
    """

    folder: Path
    seconds: float | None = None


def runtime_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the sockets: short enough for one's path, and the user's own."""
    name = f"ocamler-{os.getuid()}"
    candidates = (environment.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")
    fitting = [
        Path(place, name)
        for place in candidates
        if os.path.isabs(place) and len(os.fsencode(place)) + 40 < _LONGEST_PATH
    ]
    return fitting[0]


def socket_path(folder: Path, engine: str, path: Path, options: EngineOptions) -> Path:
    """Return the socket of a model as ``engine`` loads it with ``options``."""
    from models.engines.states import fingerprint  # numpy and the like are the child's

    ours = sorted(Path(__file__).parent.glob("*.py"))
    code = [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in ours]
    whole = (engine, str(path), fingerprint(path), sorted(asdict(options).items()), code, sys.executable)
    return folder / f"{hashlib.sha256(repr(whole).encode()).hexdigest()[:16]}.sock"


class WarmChild:
    """A warm child that we are connected to; fulfils ``Child``. Closing leaves it to the next who comes."""

    def __init__(
        self,
        reached: "_Reached",
        path: Path,
        on_response: Callable[[Response], None],
        on_death: Callable[[Death], None],
    ) -> None:
        self._connection = reached.connection
        self._pid = reached.pid
        self._path = path
        self._on_death = on_death
        requests = self._connection.makefile("wb")
        self._link = Link(requests, reached.responses, on_response, self._bury)
        self._link.open()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._pid

    def send(self, request: Request) -> None:
        """Send a request."""
        self._link.send(request)

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Hang up; it cancels what we still wait for."""
        self._link.hang_up()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._link.wait(1.0)
        self._connection.close()

    def _bury(self, unreadable: str) -> None:
        self._connection.close()
        self._on_death(Death(None, unreadable or _last_words(self._path)))


def connect(
    path: Path,
    engine: str,
    seconds: float | None,
    on_response: Callable[[Response], None],
    on_death: Callable[[Death], None],
) -> WarmChild | None:
    """Return the warm child behind ``path``, a new one when there is none and ``seconds`` asks for it.

    Raises ``EngineError`` when it is asked for and the folder is not the user's alone, or it does not start.
    """
    if seconds:
        _guard(path.parent)
        reached = _reach(path) or _start(path, engine, seconds)
    elif _is_closed_to_others(path.parent) and (found := _reach(path)):
        reached = found
    else:
        return None
    child = WarmChild(reached, path, on_response, on_death)
    if seconds is not None:
        child.send(KeepWarm(0, seconds))
    return child


@dataclass(frozen=True, slots=True)
class _Reached:
    """An open connection to a child that has said who it is."""

    connection: socket.socket
    responses: BinaryIO
    pid: int


def _start(path: Path, engine: str, seconds: float) -> _Reached:
    from filelock import FileLock

    said = ""
    try:
        with FileLock(path.with_suffix(".lock"), timeout=_START_SECONDS):
            if reached := _reach(path):
                return reached  # another was faster
            with path.with_suffix(".log").open("wb") as log:
                started = subprocess.run(
                    child_command(engine, "--warm", str(path), str(seconds)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=child_environment(os.environ, sys.path),
                    cwd="/",  # it holds no folder that the user may want to remove
                    start_new_session=True,
                    timeout=_START_SECONDS,
                    check=False,
                )
            if started.returncode == 0 and (reached := _reach(path)):
                return reached
    except subprocess.TimeoutExpired:
        said = f"its process has not started within {_START_SECONDS:.0f} s"
    except OSError as error:
        said = error.strerror or str(error)
    said = said or _last_words(path) or "its process ended"
    raise EngineError(f"The model cannot be kept warm ({said}): run without --keep-warm.")


def _reach(path: Path) -> _Reached | None:
    """Connect, and wait to be welcomed: one that is just dying takes connections and answers none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_SECONDS)
    responses = connection.makefile("rb")
    try:
        connection.connect(str(path))
        welcome = decode_response(responses.readline())
    except (OSError, WireError):
        welcome = None
    if not isinstance(welcome, Welcome):
        responses.close()
        connection.close()
        return None
    connection.settimeout(None)
    return _Reached(connection, responses, welcome.pid)


def _guard(folder: Path) -> None:
    """Make the folder, or see that it is ours and closed to others: in /tmp anybody may have made it."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise EngineError(
            f"No model can be kept warm in {folder} ({error.strerror or error}): "
            "set XDG_RUNTIME_DIR, or run without --keep-warm."
        ) from error
    if not _is_closed_to_others(folder):
        raise EngineError(
            f"{folder} is open to others, so no model is kept warm there: remove it, or set XDG_RUNTIME_DIR."
        )


def _is_closed_to_others(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return is_ours and not status.st_mode & 0o077


def _last_words(path: Path) -> str:
    try:
        with path.with_suffix(".log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = log.read().decode("utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

"""The means to shut a program in, put together for one program and tried out before they are relied on."""

import enum
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ocaml.containment import bubblewrap, holder, seatbelt, seccomp
from ocaml.containment.views import DEVICES, seen
from ocaml.scratch import one_folder

PATIENCE_SECONDS = 20.0  # for a trial, on a busy machine
MORE_PROCESSES = 256  # how many a user may have more where nothing else keeps a program from forking


class Means(enum.Enum):
    """A means to shut a program in."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    SEATBELT = "sandbox-exec"
    HOLDER = "holder"  # a process of ours that ends what is left; part of every other but bubblewrap


# The strongest first. Rights on the machine count for most: no other process, no network, no files.
COMBINATIONS = {
    "linux": (
        {Means.BUBBLEWRAP, Means.SECCOMP},
        {Means.HOLDER, Means.NAMESPACES, Means.LANDLOCK, Means.SECCOMP},
        {Means.HOLDER, Means.NAMESPACES, Means.SECCOMP},
        {Means.HOLDER, Means.LANDLOCK, Means.SECCOMP},
        {Means.BUBBLEWRAP},
        {Means.HOLDER, Means.NAMESPACES, Means.LANDLOCK},
        {Means.HOLDER, Means.NAMESPACES},
        {Means.HOLDER, Means.SECCOMP},
        {Means.HOLDER, Means.LANDLOCK},
        {Means.HOLDER},
    ),
    "darwin": ({Means.HOLDER, Means.SEATBELT}, {Means.HOLDER}),
}


@dataclass(frozen=True, slots=True)
class Container:
    """Certain means, for a program that must see the files and folders in ``readable``.

    With ``in_memory`` bytes given, bubblewrap makes a folder of that size in memory in the place of the
    program's: what is written there is seen by nobody else, and gone with it. A program that ``forks`` holds
    its own children; filters of system calls are its business then.
    """

    means: frozenset[Means]
    readable: tuple[Path, ...] = ()
    platform: str = sys.platform
    in_memory: int | None = None
    forks: bool = False

    @property
    def tells(self) -> bool:
        """Whether it says on its status descriptor how the program started and ended."""
        return bool(self.means)

    @property
    def filter(self) -> bytes | None:
        """What must be readable on ``filter_from``."""
        if self.means >= {Means.BUBBLEWRAP, Means.SECCOMP}:
            return seccomp.filter_program(_machine(), signals=True)
        return None

    def wrap(
        self, command: Sequence[str], folder: Path, *, status: int | None, filter_from: int | None = None
    ) -> list[str]:
        """Return the command that runs ``command`` in ``folder``, the only place that it can write to."""
        if Means.BUBBLEWRAP in self.means:
            bwrap = shutil.which("bwrap") or "bwrap"
            return bubblewrap.wrapped(
                bwrap,
                command,
                folder=folder,
                readable=self.readable,
                status=status,
                filter_from=filter_from,
                in_memory=self.in_memory,
            )
        inner = list(command)
        if Means.SEATBELT in self.means:
            home = Path(os.path.expanduser("~"))
            inner = seatbelt.wrapped(
                inner, folder=folder, readable=self.readable, home=home, forks=self.forks
            )
        if Means.HOLDER not in self.means:
            return inner
        settings = json.dumps(self._settings(folder, -1 if status is None else status))
        return [sys.executable, "-I", "-S", "-P", holder.__file__, settings, *inner]

    def ended(self, told: bytes, code: int) -> tuple[bool, int]:
        """Whether the program was started, and its exit code, by what the container told and ended with."""
        if Means.BUBBLEWRAP in self.means:
            return _bubblewrap_ended(told, code)
        if Means.HOLDER in self.means:
            return told.startswith(b"started") or code < 0, code
        return True, code

    def _settings(self, folder: Path, status: int) -> holder.Settings:
        on_linux = self.platform == "linux"
        filter_program = (
            seccomp.filter_program(_machine(), signals=False) if Means.SECCOMP in self.means else None
        )
        return {
            "status": status,
            "folder": str(folder),
            "readable": list(seen(self.readable)) if on_linux else [],
            "devices": list(DEVICES) if on_linux else [],
            "namespaces": Means.NAMESPACES in self.means,
            "landlock": Means.LANDLOCK in self.means,
            "filter": (filter_program or b"").hex(),
            "own_pid": seccomp.OWN_PID,
            "processes": 0 if self.means & {Means.SECCOMP, Means.SEATBELT} else MORE_PROCESSES,
        }


def strongest(
    program: Path, readable: Iterable[Path] = (), *, trial: Sequence[str] = (), platform: str = sys.platform
) -> Container:
    """Return the strongest container in which ``program`` starts; tried once a process, with ``trial``.

    ``trial`` are arguments with which it ends at once. Its container is without means where none works.
    """
    return _strongest(str(program), tuple(readable), tuple(trial), platform)


def contained(
    command: Sequence[str],
    *,
    folder: Path,
    readable: Iterable[Path] = (),
    trial: Sequence[str] = (),
    status: int | None = None,
    platform: str = sys.platform,
) -> list[str]:
    """Put a command into the strongest container in which its program starts.

    ``status``, a socket's descriptor, tells whether it started. It ends with the process that started it.
    """
    chosen = strongest(Path(command[0]), readable, trial=trial, platform=platform)
    return chosen.wrap(command, folder, status=status)


def why_not(container: Container, command: Sequence[str], folder: Path) -> str | None:
    """Try a container out; say why it does not work, None when it does."""
    if Means.BUBBLEWRAP in container.means and shutil.which("bwrap") is None:
        return "bwrap is not on PATH"
    if Means.SECCOMP in container.means and seccomp.filter_program(_machine(), signals=True) is None:
        return f"no filter is known for {_machine()}"
    if Means.SEATBELT in container.means and not os.path.exists(seatbelt.SANDBOX_EXEC):
        return f"{seatbelt.SANDBOX_EXEC} is not there"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        filter_from = pipe_of(container.filter)
        try:
            kept = [theirs.fileno()] if filter_from is None else [theirs.fileno(), filter_from]
            tried = subprocess.run(
                container.wrap(command, folder, status=theirs.fileno(), filter_from=filter_from),
                cwd=folder,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=kept,
                timeout=PATIENCE_SECONDS,
                start_new_session=True,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            if filter_from is not None:
                os.close(filter_from)
        theirs.close()
        told = read_all(ours)
    started, code = container.ended(told, tried.returncode)
    return None if started and code == 0 else why(told, tried.stderr) or f"exit code {code}"


def why(told: bytes, stderr: bytes) -> str:
    """What a container gave as the reason for not starting a program."""
    lines = [*told.decode(errors="replace").splitlines(), *stderr.decode(errors="replace").splitlines()]
    reasons = [line.removeprefix("failed ") for line in lines if line.startswith(("failed ", "bwrap: "))]
    return (reasons or stderr.decode(errors="replace").strip().splitlines()[-1:] or [""])[0]


def pipe_of(data: bytes | None) -> int | None:
    """Return a descriptor that ``data`` can be read from, then its end. It must fit into a pipe."""
    if data is None:
        return None
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


def read_all(source: socket.socket) -> bytes:
    """Return what has come, without waiting for more."""
    source.setblocking(False)
    told = b""
    try:
        while (added := source.recv(4096)) and len(told) < 1 << 16:
            told += added
    except OSError:
        pass
    return told


@functools.cache
def _strongest(program: str, readable: tuple[Path, ...], trial: tuple[str, ...], platform: str) -> Container:
    with one_folder() as folder:
        for means in COMBINATIONS.get(platform, ()):
            container = Container(frozenset(means), readable, platform)
            if why_not(container, [program, *trial], folder) is None:
                return container
    return Container(frozenset(), readable, platform)


def _bubblewrap_ended(told: bytes, code: int) -> tuple[bool, int]:
    """Read bubblewrap's status; a signal's number comes as 128 more."""
    for line in told.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict) and isinstance(document.get("exit-code"), int):
            found: int = document["exit-code"]
            return True, 128 - found if 128 < found < 128 + 65 else found
    return code < 0, code


def _machine() -> str:
    return os.uname().machine if sys.maxsize > 2**32 else ""

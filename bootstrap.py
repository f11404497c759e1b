"""Sets this checkout up: `.venv` with all that ocamler needs, OCaml and a C++ compiler.

`make setup` starts it; asked for `dev`, as the tests do, it brings torch and MLX too, which nobody needs who
solves. It needs the standard library alone, starts under any Python from 3.8 on to say what it lacks, and
returns at once, silent, when the checkout is set up already.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence, TextIO, Tuple

ROOT = Path(__file__).resolve().parent
SUPPORTED = ((3, 13), (3, 12), (3, 11))  # the best first; requires-python in pyproject.toml says the same
WHEEL = "llama_cpp_python-*.whl"
ENGINES = "llama,mlx,openai"  # extras of pyproject.toml; MLX is for Apple silicon alone
DEV = "dev"  # the extra that tests and checks need, and how it is asked for
TICK = 1.0  # seconds between two looks at a step that says nothing
QUIET = 15.0  # seconds between two lines about the same step where nothing can move
TAIL = 40  # lines of a log that are shown when a step fails


Commands = Tuple[Tuple[str, ...], ...]  # one program with its arguments each


class Exit(Enum):
    """How set-up ends; the numbers are those of the `ocamler` command."""

    DONE = 0
    REFUSED = 2
    NO_OCAML = 7
    INTERRUPTED = 130


class SetupError(Exception):
    """A sentence or two: what is wrong and what to do."""

    def __init__(self, message: str, ending: Exit = Exit.REFUSED) -> None:
        super().__init__(message)
        self.ending = ending


class Consent(Enum):
    """Whether commands that change the machine may run."""

    ASK = "ask"
    RUN = "run"
    REFUSE = "refuse"


class Need(NamedTuple):
    """Something the machine lacks, the commands that install it, and what to do where they don't."""

    what: str
    commands: Commands
    otherwise: str
    ending: Exit = Exit.REFUSED


class Places(NamedTuple):
    """The files of a checkout that set-up reads and writes."""

    root: Path
    venv: Path
    python: Path
    stamp: Path  # stands only while the environment is whole, and says for which files it was made
    wheels: Path  # where llama.cpp lies once it is compiled, so that it is not compiled again
    cmake: Path  # tells llama.cpp's build what to leave out


def places_in(root: Path) -> Places:
    """Return where things lie in a checkout."""
    venv = root / ".venv"
    cmake = root / "models" / "engines" / "llama.cmake"
    return Places(root, venv, venv / "bin" / "python", venv / "setup.stamp", root / "build" / "wheels", cmake)


def main(arguments: Sequence[str] = ()) -> Exit:
    """Set the checkout up, with the `dev` packages if `arguments` say so, and return how that ended."""
    places, dev = places_in(ROOT), DEV in arguments
    os.umask(os.umask(0) & 0o077)  # whatever the user's umask, we can read what we write
    try:
        if not (is_current(places, dev=dev) and shutil.which("ocaml")):
            _use_supported_python()
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with _alone(places) as lock:
                _fill_needs(places)
                if not is_current(places, dev=dev):
                    _make_environment(places, lock, dev=dev or DEV in _stamped(places))
    except SetupError as error:
        _say(str(error))
        return error.ending
    except OSError as error:
        _say(f"Set-up failed: {error}. Mend that, then make again.")
        return Exit.REFUSED
    except KeyboardInterrupt:
        _say("\nInterrupted; the next run goes on from here.")
        return Exit.INTERRUPTED
    return Exit.DONE


def fingerprint(places: Places) -> str:
    """Return all that the environment depends on as one hash: when it changes, set-up runs again."""
    files = (places.root / "pyproject.toml", places.root / "bootstrap.py", places.venv / "pyvenv.cfg")
    contents = [path.read_bytes() if path.is_file() else b"" for path in files]
    return hashlib.sha256(b"\0".join([os.fsencode(places.root), *contents])).hexdigest()


def is_current(places: Places, *, dev: bool = False) -> bool:
    """Whether the environment stands, for this place and these files; costs milliseconds."""
    runs = all(os.access(places.venv / "bin" / name, os.X_OK) for name in ("python", "ocamler"))
    made = _stamped(places)
    return runs and fingerprint(places) in made and (DEV in made or not dev)


def consent(environment: Mapping[str, str], *, terminal: bool, root: bool) -> Consent:
    """Decide whether to ask before the machine is changed."""
    in_ci = environment.get("CI", "").lower() not in ("", "0", "false", "no")
    if terminal and not in_ci:
        return Consent.ASK
    return Consent.RUN if in_ci or root else Consent.REFUSE


def agree_on_commands(needs: Sequence[Need], decision: Consent, answer: Callable[[str], str]) -> Commands:
    """Show the commands that fill `needs` and return them if they may run; raise SetupError if not."""
    commands = tuple(dict.fromkeys(command for need in needs for command in need.commands))
    shown = "".join(f"\n    {shlex.join(command)}" for command in commands)
    told = f"ocamler needs {' and '.join(need.what for need in needs)}. This installs it:{shown}"
    if decision is Consent.REFUSE:
        raise SetupError(f"{told}\nRun that, then make again.", needs[0].ending)
    _say(told)
    if decision is Consent.ASK and answer("Run it now? [y/N] ").strip().lower() not in ("y", "yes"):
        raise SetupError("Nothing was installed: run that yourself, then make again.", needs[0].ending)
    return commands


def read_progress(line: str) -> str | None:
    """Return what a line of a verbose pip says of how far it is, None when it says nothing of that."""
    if built := re.match(r"\s*\[(\d+)/(\d+)\] ", line):  # ninja
        return "building llama.cpp {}/{}".format(*built.groups())
    if fetched := re.match(r"\s*(?:Collecting|Downloading) (?:\S*/)?([\w.-]+)", line):
        return "fetching " + re.split(r"-\d", fetched[1])[0].replace("_", "-")
    meanings = (
        ("Installing build dependencies", "fetching the tools of the build"),
        ("*** Configuring CMake", "preparing llama.cpp"),
        ("Installing collected packages", "installing"),
    )
    return next((meaning for start, meaning in meanings if line.lstrip().startswith(start)), None)


def pip_environment(environment: Mapping[str, str], cmake: Path) -> dict[str, str]:
    """Return pip's environment: nothing that leads it out of ours, and what of llama.cpp to build."""
    strays = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
    colours = ("FORCE_COLOR", "CLICOLOR_FORCE")  # they would hide the lines that read_progress knows
    make = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")  # ninja would wait for the job tokens of our make
    kept = {name: value for name, value in environment.items() if name not in strays + colours + make}
    ours = ("-DLLAVA_BUILD=OFF", f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={cmake}")
    cmake_args = f"{kept.get('CMAKE_ARGS', '')} {shlex.join(ours)}".strip()
    return {**kept, "PIP_USER": "0", "PIP_PROGRESS_BAR": "off", "CMAKE_ARGS": cmake_args}


def find_python(path: str) -> str | None:
    """Return the best usable interpreter on `path`; the name alone proves nothing (pyenv's stand-ins)."""
    for major, minor in SUPPORTED:
        if found := shutil.which(f"python{major}.{minor}", path=path):
            ask = [found, "-c", f"import sys; sys.exit(sys.version_info[:2] != ({major}, {minor}))"]
            if subprocess.run(ask, capture_output=True, check=False).returncode == 0:
                return found
    return None


class Progress:
    """One line that moves on a terminal; plain lines now and then where `width` is 0."""

    def __init__(self, stream: TextIO, *, width: int) -> None:
        self._stream = stream
        self._width = width  # of the terminal, in columns
        self._begun = self._said_at = time.monotonic()
        self._said = ""

    def show(self, text: str) -> None:
        """Say where we are."""
        now = time.monotonic()
        if self._width:
            line = f"{text} ({now - self._begun:.0f} s)"
            print("\r\x1b[K" + line[: self._width - 1], end="", file=self._stream, flush=True)
        elif text.split()[0] != self._said or now - self._said_at >= QUIET:
            self._said, self._said_at = text.split()[0], now
            print(text, file=self._stream, flush=True)

    def clear(self) -> None:
        """Leave the line free for what comes next."""
        if self._width:
            print("\r\x1b[K", end="", file=self._stream, flush=True)


def _use_supported_python() -> None:
    if os.name != "posix":
        raise SetupError("ocamler runs on Linux and macOS: on Windows, use it inside WSL.")
    if sys.version_info[:2] in SUPPORTED:
        return
    found = find_python(os.pathsep.join((os.environ.get("PATH", ""), "/opt/homebrew/bin", "/usr/local/bin")))
    if found is None:
        raise SetupError(
            "ocamler needs Python 3.11, 3.12 or 3.13, and {} is {}.{}: install one of them, or name it "
            "with `make setup PYTHON=/path/to/python3.13`.".format(sys.executable, *sys.version_info)
        )
    os.execv(found, [found, *sys.argv])


@contextlib.contextmanager
def _alone(places: Places) -> Iterator[int]:
    """Wait until no other set-up of this checkout runs, then give the lock's descriptor."""
    import fcntl  # not on Windows

    with open(places.root / "pyproject.toml", "rb+") as lock:  # NFS locks what may be written
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another set-up of this checkout is running; waiting for it to end.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _fill_needs(places: Places) -> None:
    """Install what the machine lacks and pip does not bring, with the user's consent."""
    needs = _find_needs(places)
    if needs and all(need.commands for need in needs):
        terminal = os.isatty(0) and os.isatty(2)
        decision = consent(os.environ, terminal=terminal, root=os.geteuid() == 0)
        for command in agree_on_commands(needs, decision, _ask):
            _say(f"Running: {shlex.join(command)}")
            if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
                raise SetupError(f"`{shlex.join(command)}` failed. {needs[0].otherwise}", needs[0].ending)
        needs = _find_needs(places)
    if needs:
        raise SetupError("\n".join(need.otherwise for need in needs), needs[0].ending)


def _find_needs(places: Places) -> list[Need]:
    return [need for need in (_ocaml(), _compiler(places), _venv_module()) if need]


def _ocaml() -> Need | None:
    sys.path.insert(0, str(ROOT))
    from ocaml import toolchain

    try:
        toolchain.find()
    except toolchain.ToolchainMissing as missing:
        install = toolchain.install_command(is_root=True)
        if install is None or os.environ.get(toolchain.VARIABLE):  # one named wrongly is not to be installed
            return Need("OCaml", (), str(missing), Exit.NO_OCAML)
        return Need("OCaml", tuple(map(_as_root, install.commands)), str(missing), Exit.NO_OCAML)
    return None


def _compiler(places: Places) -> Need | None:
    if any(places.wheels.glob(WHEEL)):
        return None
    commands, names = _apt_get("g++"), (os.environ.get("CXX") or "c++", "g++", "clang++")
    present = any(map(shutil.which, names))
    if sys.platform == "darwin":  # its c++ is always there, and does nothing without the tools
        commands = (("xcode-select", "--install"),)
        present = subprocess.run(["xcode-select", "-p"], capture_output=True, check=False).returncode == 0
    otherwise = "Once a C++ compiler (g++ or clang++) is installed, run make again."
    return None if present else Need("a C++ compiler", commands, otherwise)


def _venv_module() -> Need | None:
    if importlib.util.find_spec("ensurepip"):
        return None
    package = "python{}.{}-venv".format(*sys.version_info)  # Debian's name
    return Need("Python's venv module", _apt_get(package), f"Once {package} is installed, run make again.")


def _apt_get(package: str) -> Commands:
    commands = (("apt-get", "update"), ("apt-get", "install", "-y", package))
    return tuple(map(_as_root, commands)) if shutil.which("apt-get") else ()


def _as_root(command: tuple[str, ...]) -> tuple[str, ...]:
    if command[0] != "apt-get" or os.geteuid() == 0:  # Homebrew and opam refuse root
        return command
    return ("sudo", *command) if shutil.which("sudo") else ("su", "-c", shlex.join(command))


def _stamped(places: Places) -> list[str]:
    """Return what the environment was made for: a fingerprint, and `dev` where it has those packages."""
    return places.stamp.read_text().split() if places.stamp.is_file() else []


def _make_environment(places: Places, lock: int, *, dev: bool) -> None:
    """Fill `.venv`. Interrupted, the next run makes it anew from what was fetched and compiled."""
    import tomllib  # not before Python 3.11

    begun = time.monotonic()
    compiled = any(places.wheels.glob(WHEEL))
    _say(f"Setting up .venv{'' if compiled else '; llama.cpp is compiled once, which takes some minutes'}.")
    if not (places.stamp.is_file() and _stands_here(places)):
        made = [sys.executable, "-m", "venv", "--clear", str(places.venv)]
        done = subprocess.run(made, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise SetupError(f"{done.stdout}\n.venv could not be made: mend that, then make again.")
    places.stamp.unlink(missing_ok=True)
    project = tomllib.loads((places.root / "pyproject.toml").read_text("utf-8"))["project"]
    links = ("--prefer-binary", "--find-links", str(places.wheels))
    wheel = ("wheel", "--no-deps", *links, "--wheel-dir", str(places.wheels))
    places.wheels.mkdir(parents=True, exist_ok=True)
    engine = project["optional-dependencies"]["llama"]
    _pip(places, lock, (*wheel, *engine), places.venv / "llama-build.log")
    extras = f"{ENGINES},{DEV}" if dev else ENGINES
    _pip(places, lock, ("install", *links, "--editable", f".[{extras}]"), places.venv / "setup.log")
    loads = subprocess.run([str(places.python), "-c", "import llama_cpp"], capture_output=True, check=False)
    if loads.returncode:
        raise SetupError(
            "{}\nllama.cpp was compiled but does not load: remove build/ and run `{} -m pip cache remove "
            "llama_cpp_python`, then make again.".format(loads.stderr.decode(errors="replace"), places.python)
        )
    partial = places.stamp.with_suffix(".partial")
    partial.write_text(f"{fingerprint(places)} {DEV if dev else ''}")
    partial.replace(places.stamp)
    _say(f"Set up in {time.monotonic() - begun:.0f} s.")


def _stands_here(places: Places) -> bool:
    """Whether `.venv` was made at this place, which its scripts name, and its Python is still there."""
    config = places.venv / "pyvenv.cfg"
    made = config.read_text(encoding="utf-8") if config.is_file() else ""
    ask = [str(places.python), "-c", f"import pip, sys; sys.exit(sys.version_info[:2] not in {SUPPORTED})"]
    return str(places.venv) in made and subprocess.run(ask, capture_output=True, check=False).returncode == 0


def _pip(places: Places, lock: int, arguments: Sequence[str], log: Path) -> None:
    """Run pip, keep all it says in `log`, and show how far it is."""
    common = ("-m", "pip", "--verbose", "--no-input", "--disable-pip-version-check")
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else 0
    progress = Progress(sys.stderr, width=width)
    process = subprocess.Popen(
        [str(places.python), *common, *arguments],
        cwd=places.root,
        env=pip_environment(os.environ, places.cmake),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that it ends as a whole, compilers and all
        pass_fds=(lock,),  # were this process killed, the next set-up waits until pip has ended too
    )
    try:
        _follow(process, log, progress)
    finally:
        progress.clear()
        _end(process)
    if process.returncode:
        lines = [line[:200] for line in log.read_text(errors="replace").splitlines() if line.strip()][-TAIL:]
        raise SetupError("\n".join([*lines, f"That is the end of {log}: mend that, then make again."]))


def _follow(process: subprocess.Popen[bytes], log: Path, progress: Progress) -> None:
    assert process.stdout is not None
    rest, doing = b"", "starting"
    with open(log, "wb") as kept:
        while True:
            if select.select([process.stdout], [], [], TICK)[0]:
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    break
                kept.write(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    doing = read_progress(line.decode(errors="replace")) or doing
            elif process.poll() is not None:
                break  # a daemon that the compiler left (a cache) may hold the pipe
            progress.show(doing)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that closed its output; interrupt one that goes on, and leave none behind."""
    for send, seconds in ((0, 1), (signal.SIGINT, 10), (signal.SIGKILL, None)):  # pip clears up on SIGINT
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, send)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)


def _ask(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]).value)

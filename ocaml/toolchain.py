"""Where OCaml is on this machine, what it is, and how to get it where it isn't.

Nothing is run but ``opam var bin`` and ``ocamlc -config``, once per process.
"""

import contextlib
import functools
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ocaml.errors import ToolchainMissing

__all__ = [
    "InstallCommand",
    "Toolchain",
    "ToolchainMissing",
    "Version",
    "Which",
    "environment",
    "find",
    "install_command",
]

VARIABLE = "OCAMLER_OCAML"  # a folder that holds ocaml and ocamlc, or one of the two
HOMEBREW_FOLDERS = (Path("/opt/homebrew/bin"), Path("/usr/local/bin"))
SYSTEM_FOLDERS = ("/usr/bin", "/bin")
APT_PACKAGE = "ocaml-nox"
OPAM_COMPILER = "5.3.0"  # for a new opam switch: the newest that our tests have run on
OPAM_INSTALLER = 'bash -c "sh <(curl -fsSL https://opam.ocaml.org/install.sh)" && opam init --yes'
PATIENCE_SECONDS = 20.0  # for a child process, on a machine that is busy or whose disk sleeps

# Passed on to OCaml's processes where set. OCAMLPARAM changes what the compiler does, OCAMLRUNPARAM what is
# printed: `b` hangs OCaml 4.13's toplevel on an uncaught exception.
KEPT_VARIABLES = ("OCAMLLIB", "CAML_LD_LIBRARY_PATH", "TMPDIR")
DROPPED_VARIABLES = ("OCAMLPARAM", "OCAMLRUNPARAM", "CAMLRUNPARAM", "OCAML_COLOR", "OCAML_ERROR_STYLE")
# In words. A stack overflow on OCaml 5 cost 3.45 s and 1.06 GB without it, 0.21 s with it (measured).
SMALL_STACK = "l=1M"


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A compiler version. ``suffix`` ("~beta1", "+flambda") does not take part in comparisons."""

    major: int
    minor: int
    patch: int = 0
    suffix: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> "Version | None":
        """Read ``4.13.1`` or ``5.2.0+trunk``; None where the text is no version."""
        found = re.match(r"\s*(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(\S*)\s*$", text)
        if found is None:
            return None
        return cls(int(found[1]), int(found[2]), int(found[3] or 0), found[4])

    def __str__(self) -> str:
        minor = f"{self.minor:02}" if self.major < 5 else str(self.minor)  # 4.08.1, but 5.3.0
        return f"{self.major}.{minor}.{self.patch}{self.suffix}"


OLDEST = Version(4, 13)
TOO_NEW = Version(6, 0)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The programs of one OCaml installation."""

    ocaml: Path
    ocamlc: Path
    ocamldep: Path | None
    version: Version
    standard_library: Path


@dataclass(frozen=True, slots=True)
class InstallCommand:
    """Commands that bring OCaml, to be run one after the other, and a sentence about them."""

    commands: tuple[tuple[str, ...], ...]
    why: str

    @property
    def text(self) -> str:
        """The commands as one line for a shell."""
        return " && ".join(map(shlex.join, self.commands))

    @property
    def argv(self) -> tuple[str, ...]:
        """The commands as one."""
        return self.commands[0] if len(self.commands) == 1 else ("sh", "-c", self.text)


Which = Callable[[str], str | None]
"""Finds a program on PATH, as ``shutil.which`` does."""


def find(
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    *,
    folders: Sequence[Path] = HOMEBREW_FOLDERS,
    home: Path | None = None,
) -> Toolchain:
    """Return the OCaml to use, or raise ``ToolchainMissing``.

    Looked for in ``OCAMLER_OCAML`` (and then nowhere else), on PATH, in opam's current switch and in
    ``folders``; the first that serves is it. ``environ`` is the process's own unless given.
    """
    surroundings = os.environ if environ is None else environ
    place = home or Path(surroundings.get("HOME") or Path.home())
    return _find(tuple(sorted(surroundings.items())), platform, tuple(folders), place)


def install_command(
    platform: str = sys.platform,
    which: Which = shutil.which,
    *,
    is_root: bool | None = None,
) -> InstallCommand | None:
    """Return what installs OCaml with the package manager that is there, None where there is none."""
    if which("apt-get") and not platform.startswith("darwin"):
        root = (hasattr(os, "geteuid") and os.geteuid() == 0) if is_root is None else is_root
        if root or which("sudo"):
            return _with_apt(() if root else ("sudo",))
    if which("brew"):
        return InstallCommand((("brew", "install", "ocaml"),), "Homebrew installs its newest OCaml.")
    return _with_opam() if which("opam") else None


def environment(toolchain: Toolchain, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment that OCaml's own processes and compiled programs get: little, and plain."""
    surroundings = os.environ if environ is None else environ
    folders = dict.fromkeys((str(toolchain.ocamlc.parent), *SYSTEM_FOLDERS))
    clean = {"PATH": os.pathsep.join(folders), "LC_ALL": "C", "TERM": "dumb"}
    clean |= {name: surroundings[name] for name in KEPT_VARIABLES if surroundings.get(name)}
    if toolchain.version >= Version(5, 0):
        clean["OCAMLRUNPARAM"] = SMALL_STACK
    return clean


@functools.cache
def _find(
    surroundings: tuple[tuple[str, str], ...], platform: str, folders: tuple[Path, ...], home: Path
) -> Toolchain:
    environ = dict(surroundings)
    if environ.get(VARIABLE):
        return _named(environ[VARIABLE], environ)
    unusable: list[_UnusableError] = []
    for programs in _candidates(environ, folders, home):
        try:
            return _examine(programs, environ)
        except _UnusableError as error:
            unusable.append(error)
    which = _which(environ)
    if not unusable:
        raise ToolchainMissing(f"OCaml is not on this machine; install it with: {_mend(platform, which)}")
    raise ToolchainMissing(f"{unusable[0]}; install another with: {_mend(platform, which, unusable[0])}")


class _UnusableError(Exception):
    """An OCaml that does not serve; the text is a clause. ``version`` is given where it is what is wrong."""

    def __init__(self, clause: str, version: Version | None = None) -> None:
        super().__init__(clause)
        self.version = version


@dataclass(frozen=True, slots=True)
class _Programs:
    ocaml: Path
    ocamlc: Path


def _named(name: str, environ: Mapping[str, str]) -> Toolchain:
    """Return the toolchain that the user names: a folder, an installation's root, or a program."""
    place = Path(name).expanduser()
    if os.sep not in name and not place.exists():
        place = Path(_which(environ)(name) or place)
    folders = (place, place / "bin") if place.is_dir() else (place.parent, place.resolve().parent)
    programs = next(filter(None, map(_in_folder, folders)), None)
    if programs is None:
        raise ToolchainMissing(
            f"{VARIABLE} names {name}, where no ocaml with an ocamlc beside it is; "
            f"name the folder that holds both, or do without: unset {VARIABLE}"
        )
    try:
        return _examine(programs, environ)
    except _UnusableError as unusable:
        raise ToolchainMissing(
            f"{VARIABLE} names {name}, but {unusable}; name another, or do without: unset {VARIABLE}"
        ) from None


def _candidates(environ: Mapping[str, str], folders: Sequence[Path], home: Path) -> Iterator[_Programs]:
    """Yield what may serve, the likeliest first. opam is asked only when PATH had nothing."""
    on_path = _on_path(environ)
    if on_path is not None:
        yield on_path
    for folder in itertools.chain(_opam_folder(environ, home), folders):
        programs = _in_folder(folder)
        if programs is not None and programs != on_path:
            yield programs


def _on_path(environ: Mapping[str, str]) -> _Programs | None:
    which = _which(environ)
    ocamlc = which("ocamlc")
    if ocamlc is None:
        return None
    beside = _in_folder(Path(ocamlc).parent)
    ocaml = which("ocaml")
    return beside or (_Programs(Path(ocaml), Path(ocamlc)) if ocaml else None)


def _in_folder(folder: Path) -> _Programs | None:
    ocaml, ocamlc = folder / "ocaml", folder / "ocamlc"
    return _Programs(ocaml, ocamlc) if _is_program(ocaml) and _is_program(ocamlc) else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _opam_folder(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield where opam's current switch has its programs, by opam's own word if it is there to ask."""
    opam = _which(environ)("opam")
    told = ""
    if opam is not None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = _ask([opam, "var", "bin"], environ).strip()
    yield Path(told.splitlines()[-1]) if told else home / ".opam" / "default" / "bin"


def _examine(programs: _Programs, environ: Mapping[str, str]) -> Toolchain:
    """Ask a compiler what it is; raise ``_UnusableError`` if it does not serve."""
    folder = programs.ocamlc.parent
    try:
        told = _ask([str(programs.ocamlc), "-config"], environ)
    except OSError as error:
        raise _UnusableError(f"the ocamlc in {folder} does not run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise _UnusableError(f"the ocamlc in {folder} did not answer in {PATIENCE_SECONDS:.0f} s") from error
    except subprocess.CalledProcessError as error:
        raise _UnusableError(f"the ocamlc in {folder} does not run (exit code {error.returncode})") from error
    settings = {key: value.strip() for key, _, value in (line.partition(":") for line in told.splitlines())}
    version = Version.parse(settings.get("version", ""))
    if version is None or not settings.get("standard_library"):
        raise _UnusableError(f"the ocamlc in {folder} does not say its version and its standard library")
    if not OLDEST <= version < TOO_NEW:
        wanted = f"from {OLDEST.major}.{OLDEST.minor} up to, not including, {TOO_NEW.major}"
        raise _UnusableError(f"OCaml {version} in {folder} is not one that we can use ({wanted})", version)
    library = Path(settings["standard_library"])
    if not library.is_dir():
        raise _UnusableError(f"the standard library of the OCaml in {folder} is not at {library}")
    ocamldep = folder / "ocamldep"
    return Toolchain(
        programs.ocaml, programs.ocamlc, ocamldep if _is_program(ocamldep) else None, version, library
    )


def _ask(command: Sequence[str], environ: Mapping[str, str]) -> str:
    surroundings = {name: value for name, value in environ.items() if name not in DROPPED_VARIABLES}
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=surroundings,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return ended.stdout.decode(errors="replace")


def _which(environ: Mapping[str, str]) -> Which:
    return functools.partial(shutil.which, path=environ.get("PATH", os.defpath))


def _mend(platform: str, which: Which, because: _UnusableError | None = None) -> str:
    """Return the command line that brings an OCaml that serves."""
    command = install_command(platform, which)
    if because is None or because.version is None:
        return command.text if command else OPAM_INSTALLER
    if which("opam"):
        return shlex.join(("opam", "switch", "create", OPAM_COMPILER, "--yes"))
    # A system's packages are what is too old; Homebrew's OCaml is the newest.
    helps = command is not None and APT_PACKAGE not in command.commands[-1] and because.version < OLDEST
    return command.text if command and helps else OPAM_INSTALLER


def _with_apt(sudo: tuple[str, ...]) -> InstallCommand:
    commands = ((*sudo, "apt-get", "update"), (*sudo, "apt-get", "install", "-y", APT_PACKAGE))
    return InstallCommand(commands, "apt-get installs the OCaml of this system.")


def _with_opam() -> InstallCommand:
    commands = (
        ("opam", "init", "--bare", "--no-setup", "--yes"),
        ("opam", "switch", "create", "default", f"ocaml-base-compiler.{OPAM_COMPILER}", "--yes"),
    )
    return InstallCommand(commands, f"opam compiles OCaml {OPAM_COMPILER}; this takes some minutes.")

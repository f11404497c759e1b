"""Builds the check server for the compiler that is there, once, into a folder that is kept.

The compiler's libraries change between versions: where they do, each form that we know is tried, and the
first that compiles is taken, so that a version that nobody tried may serve too.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ocaml.errors import ServerUnavailable
from ocaml.toolchain import Toolchain, environment

SERVER, RUNNER, PRIMITIVES, INTERFACES = "ocamler_server", "runner", "primitives", "interfaces"
HARNESS_UNIT = "ocamler_dump"
PROGRAM = Path(__file__).parent / "program"
HARNESS = Path(__file__).parents[1] / "grading" / "harness"

# What differs between versions, each with its forms, the newest first.
FORMS = {
    "unit_api": ("unit_infos", "unit_strings"),
    "structure_api": ("structure_5", "structure_4"),
    "levels_api": ("levels_5", "levels_4"),
    "style_api": ("style_5", "style_4"),
    "parsetree_api": ("parsetree_many", "parsetree_single"),
}
MODULES = (
    "json", "ocamler_wire", "reports", "typing", "bytecode", "literal", "syntax", "source_text", "suite",
    "runs", SERVER,
)  # fmt: skip
RUNNER_MODULES = (HARNESS_UNIT, "ocamler_wire", "ocamler_slate", "ocamler_runner")
LIBRARIES = ("-I", "+compiler-libs", "-I", "+unix", "-I", "+dynlink")
STEP_SECONDS = 120.0  # the longest step takes 1 s here
_FAILED = "failed"

Said = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Built:
    """A server that can be started: the folder that holds it."""

    folder: Path

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return [str(self.folder / SERVER), str(self.folder)]

    @property
    def trial(self) -> list[str]:
        """What starts it and ends at once, with exit code 0."""
        return [str(self.folder / SERVER), "-trial"]


def built(toolchain: Toolchain, kept: Path, *, say: Said = lambda _: None) -> Built:
    """Return the server for ``toolchain``, building it below ``kept`` if it is not there yet.

    ``say`` is told before a build, which takes some seconds, and when it fails. Raises ServerUnavailable
    when it can't be built.
    """
    folder = place(toolchain, kept)
    if (folder / _FAILED).is_file():
        reason = (folder / _FAILED).read_text(errors="replace").strip()
        raise ServerUnavailable(f"{reason} (to try again, remove {folder})")
    if not (folder / SERVER).is_file():
        say(f"Building the check server for OCaml {toolchain.version}, once…")
        try:
            _build(toolchain, folder)
        except ServerUnavailable as unavailable:
            say(f"{unavailable}; plain compiler processes judge as well, only slower.")
            raise
    return Built(folder)


def place(toolchain: Toolchain, kept: Path) -> Path:
    """The folder of the server for ``toolchain``; another compiler or other sources of ours have another."""
    known = hashlib.sha256()
    for path in (toolchain.ocamlc, _libraries(toolchain)):
        with contextlib.suppress(OSError):
            about = path.stat()
            known.update(f"{path.resolve()} {about.st_size} {about.st_mtime_ns}\n".encode())
    for source in sorted([Path(__file__), *PROGRAM.rglob("*.*"), *HARNESS.glob("*.*")]):
        known.update(source.name.encode() + source.read_bytes())
    return kept / f"ocaml-{toolchain.version}-{known.hexdigest()[:16]}"


def _libraries(toolchain: Toolchain) -> Path:
    return toolchain.standard_library / "compiler-libs" / "ocamlcommon.cmxa"


def _build(toolchain: Toolchain, folder: Path) -> None:
    """Build in a folder beside, then move it: two that build at once don't meet."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    except OSError as error:
        raise ServerUnavailable(f"{folder.parent} can't be written ({error.strerror})") from error
    try:
        try:
            _Builder(toolchain, beside / "work").build(beside)
        except ServerUnavailable as unavailable:
            (beside / _FAILED).write_text(f"{unavailable}\n")
            _move(beside, folder)
            raise
        _move(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move(beside: Path, folder: Path) -> None:
    with contextlib.suppress(OSError):  # someone else was quicker
        beside.rename(folder)


@dataclass(frozen=True, slots=True)
class _Builder:
    toolchain: Toolchain
    folder: Path

    def build(self, ready: Path) -> None:
        """Compile the server natively, the runner and harness to bytecode; ``ready`` gets what is kept."""
        if not _libraries(self.toolchain).is_file():
            raise ServerUnavailable(
                "The compiler's libraries are missing (on Debian: apt-get install ocaml-compiler-libs)"
            )
        self.folder.mkdir()
        for source in (*PROGRAM.glob("*.ml*"), *(PROGRAM / "runner").iterdir(), *HARNESS.iterdir()):
            if source.is_file():
                shutil.copy(source, self.folder)
        self._take_forms()
        self._server()
        self._runner()
        (ready / PRIMITIVES).write_bytes(self._must("ocamlrun", "-p").stdout)
        # Apart from our other modules: a program that names one of those names nothing.
        (ready / INTERFACES).mkdir()
        (self.folder / f"{HARNESS_UNIT}.cmi").rename(ready / INTERFACES / f"{HARNESS_UNIT}.cmi")
        (self.folder / RUNNER).rename(ready / RUNNER)
        (self.folder / SERVER).rename(ready / SERVER)
        shutil.rmtree(self.folder)

    def _take_forms(self) -> None:
        for module, forms in FORMS.items():
            complaints = []
            for form in forms:
                shutil.copy(PROGRAM / "compat" / f"{form}.ml", self.folder / f"{module}.ml")
                told = self._run("ocamlopt", *LIBRARIES, "-c", f"{module}.ml")
                if told.returncode == 0:
                    break
                complaints.append(told.stderr.decode(errors="replace").strip())
            else:
                raise ServerUnavailable(
                    f"OCaml {self.toolchain.version} has other libraries than the check server knows: "
                    f"{' '.join(complaints[0].split())}"
                )

    def _server(self) -> None:
        archives = ("unix.cmxa", "ocamlcommon.cmxa", "ocamlbytecomp.cmxa")
        sources = self._sources((*FORMS, *MODULES))
        self._must("ocamlopt", *LIBRARIES, "-O3", "-w", "-a", *archives, *sources, "-o", SERVER)

    def _runner(self) -> None:
        archives = ("unix.cma", "dynlink.cma")
        flags = ("-custom", "-linkall", "-g", *LIBRARIES[2:])
        sources = self._sources(RUNNER_MODULES)
        self._must("ocamlc", *flags, *archives, *sources, "confine_stubs.c", "-o", RUNNER)

    def _sources(self, modules: Iterable[str]) -> list[str]:
        """The files of modules, each behind its interface where it has one."""
        files = (f"{module}{ending}" for module in modules for ending in (".mli", ".ml"))
        return [file for file in files if (self.folder / file).is_file()]

    def _must(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        told = self._run(program, *arguments)
        if told.returncode != 0:
            words = " ".join(told.stderr.decode(errors="replace").split())
            raise ServerUnavailable(f"The check server does not compile here ({program}: {words[-400:]})")
        return told

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        command: Sequence[str] = [str(self.toolchain.ocamlc.parent / program), *arguments]
        surroundings = environment(self.toolchain) | {"TMPDIR": str(self.folder)}
        surroundings["PATH"] += os.pathsep + os.defpath  # the C compiler and the linker
        try:
            return subprocess.run(
                command,
                cwd=self.folder,
                env=surroundings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=STEP_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerUnavailable(f"{program} can't be run to build the check server ({error})") from error

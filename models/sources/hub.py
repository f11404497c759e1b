"""Weights from the Hugging Face hub: asked for briefly, fetched with resume, checked against pinned hashes.

A hub source without pinned hashes is pinned at its first pull: the hub's own sha256 of each large file and
the commit go into the manifest, and a damaged model is fetched again from that commit, by those hashes.
"""

import fnmatch
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from models import manifest
from models.catalogue import HubSource
from models.digest import git_blob_of, sha256_of
from models.errors import BrokeOff, DamagedFile, DownloadFailed, SourceUnreachable
from models.manifest import Stamp, stamp
from models.progress import human_bytes
from models.shelf import bytes_under
from models.sources.fetching import Fetching, Outcome, run_child
from models.sources.hub_client import REFUSED

_PARTIAL = ".partial"
_ANSWER_SECONDS = 4  # for the hub's answer; HF_HUB_ETAG_TIMEOUT overrides it
_START_SECONDS = 3  # for Python to start and import huggingface_hub
_TRIES = 2  # a damaged file is fetched once more


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as the hub lists it; ``sha256`` is known of large files, ``blob`` (git's id) of the others."""

    path: str
    size: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit."""

    revision: str
    files: tuple[RemoteFile, ...]


def fetch(
    source: HubSource, folder: Path, name: str, fetching: Fetching
) -> tuple[HubSource, tuple[Stamp, ...]]:
    """Fetch what ``folder`` lacks; return the source as pinned now, and the stamps of its files."""
    listing = ask(source, fetching.environment)
    files = _chosen(source, listing)
    _forget_others(folder, files)
    size = sum(file.size for file in files)
    here = bytes_under(folder)
    fetching.require_space(name, folder, max(size - here, 0))
    fetching.progress.start(name, size, min(here, size))
    try:
        stamps = tuple(_fetched(source, listing, file, folder, fetching) for file in files)
    finally:
        fetching.progress.stop()
    pinned = {known.path: known.sha256 for known in stamps if known.sha256 is not None}
    return replace(source, revision=listing.revision, size=size, sha256=pinned), stamps


def ask(source: HubSource, environment: Mapping[str, str]) -> Listing:
    """Return what the hub has; raise ``SourceUnreachable`` within seconds when it does not answer."""
    if environment.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise SourceUnreachable("HF_HUB_OFFLINE is set, so the Hugging Face hub is not asked")
    seconds = _seconds(environment)
    outcome = _client(
        ["list", source.repo, source.revision, str(seconds)],
        environment,
        limit_seconds=seconds + _START_SECONDS,
    )
    if outcome.code is None:
        raise SourceUnreachable(f"the Hugging Face hub does not answer within {seconds} s")
    if outcome.code != 0:
        raise _hub_failed(source, outcome)
    return _listing(source, outcome.stdout)


def _seconds(environment: Mapping[str, str]) -> int:
    text = environment.get("HF_HUB_ETAG_TIMEOUT", "")
    return max(int(text), 1) if text.isdecimal() else _ANSWER_SECONDS


def _client(arguments: list[str], environment: Mapping[str, str], **options: Any) -> Outcome:
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONWARNINGS": "ignore"}
    # -P: the user's folder may hold a huggingface_hub.py of its own.
    command = [sys.executable, "-P", "-m", "models.sources.hub_client", *arguments]
    return run_child(command, {**environment, **quiet}, **options)


def _hub_failed(source: HubSource, outcome: Outcome) -> DownloadFailed:
    lines = outcome.stderr.strip().splitlines()
    reason = lines[-1].rstrip(".") if lines else f"its client ended with code {outcome.code}"
    reason = re.sub(r"^\[Errno -?\d+\] ", "", reason)
    if outcome.code == REFUSED:
        return DownloadFailed(f"the Hugging Face hub does not give {source.repo} ({reason[:120]})")
    return SourceUnreachable(f"the Hugging Face hub does not answer ({reason[:120]})")


def _listing(source: HubSource, text: str) -> Listing:
    try:
        table = json.loads(text.strip().splitlines()[-1])
        return Listing(str(table["revision"]), tuple(RemoteFile(**file) for file in table["files"]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SourceUnreachable(
            f"the Hugging Face hub's answer about {source.repo} is not readable"
        ) from error


def _chosen(source: HubSource, listing: Listing) -> tuple[RemoteFile, ...]:
    chosen = tuple(
        file
        for file in listing.files
        if any(fnmatch.fnmatchcase(file.path, pattern) for pattern in source.files) and _is_inside(file.path)
    )
    missing = [
        name for name in source.files if "*" not in name and name not in {file.path for file in chosen}
    ]
    if missing or not any(file.sha256 for file in chosen):
        what = missing[0] if missing else "any weights"
        raise DownloadFailed(f"{source.repo} on the Hugging Face hub does not hold {what}")
    return chosen


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return not path.startswith("/") and ".." not in parts and len(parts) == 1


def _forget_others(folder: Path, files: tuple[RemoteFile, ...]) -> None:
    """Remove what an earlier commit, or another source, left."""
    known = {manifest.NAME, *(name for file in files for name in (file.path, file.path + _PARTIAL))}
    for path in folder.iterdir():
        if path.is_file() and path.name not in known:
            path.unlink()


def _fetched(
    source: HubSource, listing: Listing, file: RemoteFile, folder: Path, fetching: Fetching
) -> Stamp:
    pinned = source.sha256.get(file.path)
    if pinned and file.sha256 and pinned != file.sha256:
        raise DamagedFile(
            f"{file.path} of {source.repo} is no longer the pinned file on the Hugging Face hub "
            f"(sha256 {file.sha256[:12]}… instead of {pinned[:12]}…)"
        )
    target = folder / file.path
    expected = pinned or file.sha256
    if target.is_file() and not _fault(target, file, expected):
        return stamp(folder, file.path, expected or sha256_of(target))
    target.unlink(missing_ok=True)
    partial = folder / (file.path + _PARTIAL)
    for attempt in range(1, _TRIES + 1):
        _download(source, listing, file, partial, fetching)
        fault = _fault(partial, file, expected)
        if not fault:
            partial.replace(target)
            return stamp(folder, file.path, expected or sha256_of(target))
        partial.unlink(missing_ok=True)
        if attempt < _TRIES:
            fetching.progress.say(f"{file.path} of {source.repo} came damaged ({fault}): fetching it again.")
    raise DamagedFile(f"{file.path} of {source.repo} came damaged twice ({fault})")


def _download(
    source: HubSource, listing: Listing, file: RemoteFile, partial: Path, fetching: Fetching
) -> None:
    if partial.is_file() and partial.stat().st_size >= file.size:
        return  # whole, or too long: its hash tells
    others = bytes_under(partial.parent) - (partial.stat().st_size if partial.is_file() else 0)
    outcome = _client(
        ["fetch", source.repo, listing.revision, file.path, str(partial), str(file.size)],
        fetching.environment,
        watch=lambda: fetching.progress.at(others + (partial.stat().st_size if partial.is_file() else 0)),
    )
    if outcome.code == 0:
        return
    came = partial.stat().st_size if partial.is_file() else 0
    if came == 0:
        raise _hub_failed(source, outcome)
    # Another source would begin at nothing: what is here is worth more.
    raise BrokeOff(
        f"the Hugging Face hub broke off at {human_bytes(came)} of {human_bytes(file.size)} of {file.path}"
    )


def _fault(path: Path, file: RemoteFile, expected: str | None) -> str:
    """Return what is wrong with a file, or nothing."""
    size = path.stat().st_size
    if size != file.size:
        return f"{size} bytes instead of {file.size}"
    if expected:
        found = sha256_of(path)
        return "" if found == expected else f"sha256 {found[:12]}… instead of {expected[:12]}…"
    if file.blob and git_blob_of(path) != file.blob:
        return "its git hash differs"
    return ""

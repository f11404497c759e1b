"""Bubblewrap's arguments: a program in namespaces of its own, with a view of little more than itself."""

from collections.abc import Sequence
from pathlib import Path

from ocaml.containment.views import DEVICES, seen

NAMES = ("bwrap",)


def wrapped(
    bwrap: str,
    command: Sequence[str],
    *,
    folder: Path,
    readable: Sequence[Path],
    status: int | None = None,
    filter_from: int | None = None,
    in_memory: int | None = None,
) -> list[str]:
    """Put ``command`` into bubblewrap; it writes to ``folder`` alone, and there it starts.

    ``status`` is a descriptor on which bubblewrap tells how the program ended, when it started at all;
    ``filter_from`` one that a seccomp filter is read from.
    """
    arguments = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if status is not None:
        arguments += ["--json-status-fd", str(status)]
    if filter_from is not None:
        arguments += ["--seccomp", str(filter_from)]
    for shown, real in seen(readable).items():
        arguments += ["--ro-bind", real, shown]
    for device in DEVICES:
        arguments += ["--dev-bind-try", device, device]
    if in_memory is None:
        arguments += ["--bind", str(folder), str(folder)]
    else:
        arguments += ["--size", str(in_memory), "--tmpfs", str(folder)]
    arguments += ["--remount-ro", "/", "--chdir", str(folder)]
    return [*arguments, "--", *command]

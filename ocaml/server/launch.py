"""Starts check servers, each shut in once for all that it is asked: the strongest means in which it works."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ocaml.containment import Container, Means, seccomp
from ocaml.containment.container import why_not
from ocaml.errors import ServerUnavailable
from ocaml.scratch import one_folder
from ocaml.server.build import Built
from ocaml.server.worker import Worker
from ocaml.toolchain import Toolchain, environment

FOLDER_BYTES = 256 * 1024 * 1024  # what programs may write in all, where the folder is in memory

# A server forks, so the filter against that comes later: its runner puts it on each child.
COMBINATIONS = {
    "linux": (
        {Means.BUBBLEWRAP},
        {Means.HOLDER, Means.NAMESPACES, Means.LANDLOCK},
        {Means.HOLDER, Means.NAMESPACES},
        {Means.HOLDER, Means.LANDLOCK},
        {Means.HOLDER},
    ),
    "darwin": ({Means.HOLDER, Means.SEATBELT}, {Means.HOLDER}),
}


def launcher(
    built: Built,
    toolchain: Toolchain,
    *,
    means: frozenset[Means] | None = None,
    platform: str = sys.platform,
) -> Callable[[], Worker]:
    """Return what starts a server. ``means`` are taken as they are; by default the strongest that work are.

    What it returns raises ServerUnavailable when no server starts at all, OSError when this one does not.
    """
    readable = (built.folder, toolchain.standard_library)
    filters = seccomp.filters_in_turn(os.uname().machine) if platform == "linux" else None
    runner = (*(calls.hex() for calls in filters), str(seccomp.OWN_PID)) if filters is not None else ()
    surroundings = environment(toolchain)

    @functools.cache
    def container() -> Container:
        if means is None:
            return _strongest(built, readable, platform)
        return _container(means, readable, platform)

    def start() -> Worker:
        with contextlib.ExitStack() as made:
            place = made.enter_context(one_folder())
            command = container().wrap([*built.command, *runner], place, status=None)
            kept = made.pop_all()
            try:
                return Worker(command, place, surroundings | {"TMPDIR": str(place)}, ended=kept.close)
            except BaseException:
                kept.close()
                raise

    return start


def _strongest(built: Built, readable: tuple[Path, ...], platform: str) -> Container:
    reason: str | None = f"nothing is known of {platform}"
    with one_folder() as folder:
        for means in (*COMBINATIONS.get(platform, ()), set()):
            container = _container(frozenset(means), readable, platform)
            reason = why_not(container, built.trial, folder)
            if reason is None:
                return container
    raise ServerUnavailable(f"The check server does not start ({reason})")


def _container(means: frozenset[Means], readable: tuple[Path, ...], platform: str) -> Container:
    return Container(means, readable, platform, in_memory=FOLDER_BYTES, forks=True)

"""What of the machine a contained program must see to start at all, on Linux."""

import os
from collections.abc import Iterable
from pathlib import Path

# Where the dynamic loader finds a program's libraries; no programs, none of the user's files.
LIBRARIES = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")


def seen(readable: Iterable[Path]) -> dict[str, str]:
    """Return the real path of each place to show, by the path that it is asked for under.

    A place below another that is shown already is left out.
    """
    shown: dict[str, str] = {}
    wanted = sorted({*LIBRARIES, *map(str, map(os.path.abspath, readable))})
    for path in wanted:
        inside = any(path.startswith(f"{other}/") for other in shown)
        if os.path.exists(path) and not inside:
            shown[path] = os.path.realpath(path)
    for path in wanted:  # what a link leads to, where that lies outside of what is shown
        real = os.path.realpath(path)
        if os.path.exists(path) and not any(real == o or real.startswith(f"{o}/") for o in shown):
            shown[real] = real
    return shown

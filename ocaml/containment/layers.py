"""What shuts programs in on this machine and what is missing, for people."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ocaml.containment.container import Container, Means, why_not
from ocaml.scratch import one_folder


@dataclass(frozen=True, slots=True)
class Layer:
    """One means: whether it holds here, what it does, and else why it doesn't and how to get it."""

    name: str
    holds: bool
    does: str
    missing: str = ""


_DOES = {
    Means.BUBBLEWRAP: "sees no other process, no network and no file but OCaml's and its own folder",
    Means.NAMESPACES: "the same through the kernel alone, where bubblewrap is missing",
    Means.LANDLOCK: "opens no file but OCaml's and those of its own folder",
    Means.SECCOMP: "can't start processes, open sockets, signal or trace others",
    Means.SEATBELT: "opens none of your files, has no network, can't start processes",
    Means.HOLDER: "ends with the judge, and all that it started ends with it",
}
_GET = {
    Means.BUBBLEWRAP: "install it with your package manager: apt-get install bubblewrap",
    Means.NAMESPACES: "outside of a chroot, allow user namespaces: "
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 or user.max_user_namespaces=10000",
    Means.LANDLOCK: "use Linux 5.13 or later, with landlock among the lsm= it starts with",
    Means.SECCOMP: "use x86_64 or aarch64 and a kernel with CONFIG_SECCOMP_FILTER",
    Means.SEATBELT: "it comes with macOS: see what /usr/bin/sandbox-exec says",
    Means.HOLDER: "see that Python can start itself",
}
_BY_PLATFORM = {
    "linux": (Means.BUBBLEWRAP, Means.NAMESPACES, Means.LANDLOCK, Means.SECCOMP, Means.HOLDER),
    "darwin": (Means.SEATBELT, Means.HOLDER),
}


def layers(platform: str = sys.platform) -> tuple[Layer, ...]:
    """Try each means on its own and say how it stands; limits on resources are everywhere."""
    program = Path(shutil.which("true") or "/usr/bin/true")
    found = []
    with one_folder() as folder:
        for means in _BY_PLATFORM.get(platform, ()):
            alone = {means} if means is Means.BUBBLEWRAP else {means, Means.HOLDER}
            container = Container(frozenset(alone), (program,), platform)
            found.append(_layer(means, why_not(container, [str(program)], folder)))
    limits = "time, memory, output, files and open files are bounded"
    return (*found, Layer("limits", holds=True, does=limits))


def strength(found: Sequence[Layer]) -> bool:
    """Whether programs are kept from the user's files and from the network."""
    holding = {layer.name for layer in found if layer.holds}
    return bool(holding & {Means.BUBBLEWRAP.value, Means.NAMESPACES.value, Means.SEATBELT.value}) or (
        holding >= {Means.LANDLOCK.value, Means.SECCOMP.value}
    )


def _layer(means: Means, why: str | None) -> Layer:
    missing = "" if why is None else f"{why}; {_GET[means]}"
    return Layer(means.value, why is None, _DOES[means], missing)

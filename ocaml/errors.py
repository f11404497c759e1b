"""What can go wrong in this room: every message is one sentence that ends in what to do."""

__all__ = [
    "BrokenToolchain",
    "ContainmentFailed",
    "OCamlError",
    "ServerUnavailable",
    "ToolchainMissing",
    "UnsoundTests",
]


class OCamlError(Exception):
    """The parent of every error of this room."""


class ToolchainMissing(OCamlError):
    """No OCaml that we can use is on this machine."""


class UnsoundTests(OCamlError):
    """The tests themselves do not parse or type-check, so that no answer could pass them."""


class BrokenToolchain(ToolchainMissing):
    """OCaml is here and does not do what every OCaml does."""


class ServerUnavailable(OCamlError):
    """The check server can't be built or started here; plain compiler processes serve as well, slower."""


class ContainmentFailed(OCamlError):
    """The sandbox of a program did not start: nothing is known of the program."""

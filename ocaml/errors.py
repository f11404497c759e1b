"""What can go wrong in this room: every message is one sentence that ends in what to do."""

__all__ = ["BrokenToolchain", "OCamlError", "ToolchainMissing", "UnsoundTests"]


class OCamlError(Exception):
    """The parent of every error of this room."""


class ToolchainMissing(OCamlError):
    """No OCaml that we can use is on this machine."""


class UnsoundTests(OCamlError):
    """The tests themselves do not parse or type-check, so that no answer could pass them."""


class BrokenToolchain(ToolchainMissing):
    """OCaml is here and does not do what every OCaml does."""

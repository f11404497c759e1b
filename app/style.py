"""Colours, or none: what each role of a text looks like on a terminal."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

__all__ = ["Style", "style_for"]


@dataclass(frozen=True, slots=True)
class Style:
    """The parameters of the terminal's SGR sequence for each role; an empty one prints nothing at all."""

    error: str = ""
    warning: str = ""
    hint: str = ""
    note: str = ""
    gutter: str = ""
    strong: str = ""
    good: str = ""

    @staticmethod
    def plain() -> "Style":
        """Return the style that prints no sequences."""
        return Style()

    @staticmethod
    def coloured() -> "Style":
        """Return the style for a terminal; it keeps to the eight colours that every theme has."""
        return Style(
            error="1;31", warning="1;33", hint="1;36", note="1;34", gutter="34", strong="1", good="1;32"
        )

    def paint(self, role: str, text: str) -> str:
        """Return ``text`` in a role, which is one of this style's own."""
        return f"\x1b[{role}m{text}\x1b[0m" if role and text else text


def style_for(stream: IO[str] | None, environ: Mapping[str, str] | None = None) -> Style:
    """Return the style that fits a stream: colours on a terminal alone, unless the user says otherwise.

    ``NO_COLOR`` comes before ``FORCE_COLOR`` and ``CLICOLOR_FORCE``, those before ``CLICOLOR`` and ``TERM``.
    """
    surroundings = os.environ if environ is None else environ
    if surroundings.get("NO_COLOR"):
        return Style.plain()
    forced = surroundings.get("FORCE_COLOR") or surroundings.get("CLICOLOR_FORCE")
    if forced:
        return Style.plain() if forced in ("0", "false") else Style.coloured()
    if surroundings.get("CLICOLOR") == "0" or surroundings.get("TERM") == "dumb":
        return Style.plain()
    return Style.coloured() if _is_terminal(stream) else Style.plain()


def _is_terminal(stream: IO[str] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False

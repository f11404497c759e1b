"""When there are colours."""

from io import StringIO
from pathlib import Path

import pytest

from app.render import Style, style_for


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


STYLES: list[tuple[dict[str, str], bool, bool]] = [
    # environment, coloured on a terminal, coloured elsewhere
    ({}, True, False),
    ({"TERM": "xterm-256color"}, True, False),
    ({"TERM": "dumb"}, False, False),
    ({"NO_COLOR": "1"}, False, False),
    ({"NO_COLOR": ""}, True, False),
    ({"FORCE_COLOR": "1"}, True, True),
    ({"FORCE_COLOR": "0"}, False, False),
    ({"CLICOLOR_FORCE": "1", "TERM": "dumb"}, True, True),
    ({"CLICOLOR_FORCE": "0"}, False, False),
    ({"CLICOLOR": "0"}, False, False),
    ({"CLICOLOR": "1"}, True, False),
    ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
]


@pytest.mark.parametrize(("environ", "on_terminal", "elsewhere"), STYLES)
def test_colours_are_for_terminals_unless_told_otherwise(
    environ: dict[str, str], on_terminal: bool, elsewhere: bool
) -> None:
    assert (style_for(Terminal(), environ) == Style.coloured()) is on_terminal
    assert (style_for(StringIO(), environ) == Style.coloured()) is elsewhere


def test_a_stream_that_is_closed_or_absent_is_no_terminal(tmp_path: Path) -> None:
    stream = (tmp_path / "out").open("w")
    stream.close()
    assert style_for(stream, {}) == Style.plain()
    assert style_for(None, {}) == Style.plain()

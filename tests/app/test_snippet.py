"""Marks under hostile, broken and very long code: in the right column, and nothing drives the terminal."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth

from app.render import Style, render_diagnostics
from ocaml.diagnostics import Diagnostic, Kind, Position, Related, Severity, Span


def span(start_line: int, start: int, end_line: int, end: int) -> Span:
    return Span(Position(start_line, start), Position(end_line, end))


def error(
    at: Span | None, message: str = "Unbound value x", path: str | None = "a.ml", **more: Any
) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Kind.UNBOUND, message, at, path, **more)


def shown(source: str, *found: Diagnostic, width: int = 80, style: Style | None = None, **others: str) -> str:
    sources = {"a.ml": source, **{name.replace("_", "."): text for name, text in others.items()}}
    return render_diagnostics(found, sources, style=style or Style.plain(), width=width)


def drawn(source: str, *found: Diagnostic, width: int = 80) -> list[str]:
    """Return the rows of code of a single diagnostic, without heading, place and count."""
    return shown(source, *found, width=width).split("\n")[2:-2]


MARKS = [
    ("a tab", "\tlet\tx", span(1, 5, 1, 6), ["1 |     let x", "  |         ^"]),
    ("wide characters", 's = "日本語" ^ x', span(1, 5, 1, 8), ['1 | s = "日本語" ^ x', "  |      ^^^^^^"]),
    ("after wide characters", "日本 ^ x", span(1, 5, 1, 6), ["1 | 日本 ^ x", "  |        ^"]),
    ("a letter with an accent", "e\u0301 x", span(1, 0, 1, 2), ["1 | e\u0301 x", "  | ^"]),
    ("after an accent", "e\u0301 x", span(1, 3, 1, 4), ["1 | e\u0301 x", "  |   ^"]),
    ("an accent alone", "ae\u0301 x", span(1, 2, 1, 3), ["1 | ae\u0301 x", "  |  ^"]),
    ("an accent on nothing", "\u0301 x", span(1, 0, 1, 1), ["1 | ◌\u0301 x", "  | ^"]),
    ("a flag and a skin tone", "🇩🇪👍🏽 x", span(1, 5, 1, 6), ["1 | 🇩🇪👍🏽 x", "  |      ^"]),
    ("a joiner behind a letter", "é\u200d x", span(1, 1, 1, 2), ["1 | é\ufffd x", "  |  ^"]),
    ("an emoji of several", "👩\u200d👧 x", span(1, 4, 1, 5), ["1 | 👩\u200d👧 x", "  |    ^"]),
    ("a hidden space", "a\u200bb", span(1, 1, 1, 2), ["1 | a\ufffdb", "  |  ^"]),
    ("a byte order mark", "\ufefflet", span(1, 0, 1, 1), ["1 | \ufffdlet", "  | ^"]),
    ("an undecodable byte", "a\udcffb", span(1, 1, 1, 2), ["1 | a\ufffdb", "  |  ^"]),
    ("carriage returns", "let x\r\nlet y\r\n", span(1, 4, 1, 6), ["1 | let x", "  |     ^"]),
    ("a carriage return within", "let\rx", span(1, 4, 1, 5), ["1 | let␍x", "  |     ^"]),
    ("a form feed", "let\fx\n", span(1, 4, 1, 5), ["1 | let␌x", "  |     ^"]),
    ("an empty span", "let x", span(1, 4, 1, 4), ["1 | let x", "  |     ^"]),
    ("an empty span on a wide character", "日本", span(1, 1, 1, 1), ["1 | 日本", "  |   ^^"]),
    ("the end of a line", "let x", span(1, 5, 1, 5), ["1 | let x", "  |      ^"]),
    ("past the end of a line", "let x", span(1, 50, 1, 60), ["1 | let x", "  |      ^"]),
    ("from within to past the end", "let x", span(1, 4, 1, 60), ["1 | let x", "  |     ^"]),
    ("the end of a file", "let x =\n", span(2, 0, 2, 0), ["1 | let x =", "2 |", "  | ^"]),
    ("after empty lines", "let x =\n\n\n", span(4, 0, 4, 0), ["1 | let x =", "...", "4 |", "  | ^"]),
    ("past the end of a file", "let x =", span(9, 3, 12, 5), ["1 | let x =", "  |        ^"]),
    ("an empty file", "", span(1, 0, 1, 0), ["1 |", "  | ^"]),
    ("the wrong way round", "let x", span(1, 4, 1, 2), ["1 | let x", "  |     ^"]),
    ("line 0", "let x", span(0, 0, 0, 0), ["1 | let x", "  | ^"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "at", "rows"), [case[1:] for case in MARKS], ids=[case[0] for case in MARKS]
)
def test_the_mark_is_right_under_what_is_meant(source: str, at: Span, rows: list[str]) -> None:
    rows_drawn = drawn(source, error(at))
    assert [row.replace(" |", "|", 1).lstrip(" ") for row in rows_drawn[1:]] == [
        row.replace(" |", "|", 1).lstrip(" ") for row in rows
    ]


LONG = "let x = " + "a + " * 200 + "foo" + " + b" * 200
WINDOWS = [
    (LONG, span(1, 808, 1, 811), "… a + a + a + a + a + a + foo + b + b + b + b + b + b +…", "^^^"),
    (LONG, span(1, 0, 1, 3), "let x = a + a + a + a + a + a + a + a + a + a + a + a +…", "^^^"),
    (LONG, span(1, 1607, 1, 1611), "…" + "+ b " * 13 + "+ b", "^^^^"),
    ("x" * 1000, span(1, 0, 1, 1000), "x" * 55 + "…", "^" * 56),
    ("x" * 1000, span(1, 500, 1, 1000), "…" + "x" * 54 + "…", "^" * 56),
    ("日" * 300 + "x" + "日" * 300, span(1, 300, 1, 301), None, "^"),
    ("x" * 1_000_000, span(1, 500_000, 1, 500_003), "…" + "x" * 54 + "…", "^^^"),
    ("\t" * 500 + "x" + "\t" * 500, span(1, 500, 1, 501), None, "^"),
]


@pytest.mark.parametrize(("source", "at", "line", "mark"), WINDOWS)
def test_of_a_long_line_what_surrounds_the_mark_is_shown(
    source: str, at: Span, line: str | None, mark: str
) -> None:
    text, underline = (row.partition("| ")[2] for row in drawn(source, error(at), width=60)[1:3])
    assert underline.strip() == mark
    if line is not None:
        assert text == line
        assert text.rstrip("…").ljust(len(underline))[len(underline) - len(mark) :].strip()
    assert all(len(row) <= 60 for row in drawn(source, error(at), width=60))


CONTROLS = (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))
INVISIBLE = (0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
HOSTILE = "".join(map(chr, (*CONTROLS, *INVISIBLE, 0xD800, 0xDFFF, 0xE0001, 0xE0041)))


def test_nothing_hostile_reaches_the_terminal() -> None:
    found = error(
        span(1, 3, 1, 30),
        f"message {HOSTILE}\x1b[2J\nHint: {HOSTILE}",
        path=f"a.ml{HOSTILE}",
        name=HOSTILE,
        code=8,
        hints=(HOSTILE, f"two {HOSTILE}"),
        related=(Related(HOSTILE, span(1, 0, 1, 2), f"a.ml{HOSTILE}"), Related(HOSTILE, None, HOSTILE)),
    )
    text = render_diagnostics(
        [found], {f"a.ml{HOSTILE}": f"let {HOSTILE}\x1b]0;pwned\x07\n"}, style=Style.plain(), width=80
    )
    assert sorted(map(hex, map(ord, set(HOSTILE) & set(text)))) == []
    text.encode()


NASTY = st.text(
    st.sampled_from("ab \t\n\r\x1b\x7f\x9b日é\u0301\u200d\u200b\ufe0f\u202e👩🏽🇩\ud800"), max_size=120
)
PLACES = st.builds(Position, st.integers(0, 12), st.integers(0, 70))


@settings(deadline=None, max_examples=150)
@given(NASTY, st.builds(Span, PLACES, PLACES), st.builds(Span, PLACES, PLACES), NASTY, st.integers(0, 60))
def test_anything_is_drawn_within_the_width(
    source: str, at: Span, other: Span, message: str, width: int
) -> None:
    found = error(at, message, hints=(message,), related=(Related(message, other, "a.ml"),))
    rows = shown(source, found, width=width).split("\n")
    code = [row for row in rows if " | " in row[:6]]
    assert all(wcswidth(row) <= max(width, 40) for row in code)  # -1 would be something that moves the cursor
    assert all(wcswidth(row) >= 0 for row in rows)
    assert any("^" in row for row in rows)


def test_a_heap_of_accents_is_cut() -> None:
    assert drawn("e" + "\u0301" * 500 + " x", error(span(1, 502, 1, 503)))[1].count("\u0301") < 20


@pytest.mark.parametrize("width", [0, 1, 20, 40])
def test_a_narrow_terminal_gets_narrow_text(width: int) -> None:
    found = error(span(1, 90, 1, 99), "word " * 40, hints=("hint " * 20,))
    text = shown("let x = " + "a + " * 40, found, width=width)
    assert max(map(len, text.split("\n"))) <= 42


def test_many_diagnostics_on_a_large_file_are_drawn() -> None:
    source = "let x = y\n" * 100_000
    found = [error(span(line, 8, line, 9)) for line in range(1, 2000)]
    assert shown(source, *found).count("^") == 1999


def test_a_bar_over_a_whole_large_file_is_short() -> None:
    assert len(drawn("let x = y\n" * 300_000, error(span(1, 0, 300_000, 3)))) == 10

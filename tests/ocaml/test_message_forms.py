"""Every form that a message of the compiler takes, hostile and broken ones too, and the time it takes."""

from typing import Any

import pytest

from ocaml.diagnostics import Kind, Severity, Span
from ocaml.diagnostics.messages import parse, parse_runtime


def fold(text: str) -> str:
    return " ".join(text.split())


def place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"start": None, "end": None}
    return {"start": [span.start.line, span.start.column], "end": [span.end.line, span.end.column]}


def test_headers_at_the_margin_of_an_alerts_own_text_are_text() -> None:
    text = """\
File "dep.ml", line 2, characters 8-11:
2 | let x = M.v
            ^^^
Alert deprecated: M.v
see
File "a.ml", line 1, characters 2-3:
Error: nope

File "dep.ml", line 1, characters 2-3:
Error: nope
File "dep.ml", line 3, characters 8-11:
3 | let y = "a" + 1
            ^^^
Error: This constant has type string but an expression was expected of type
         int
"""
    source = 'module M = …\nlet x = M.v\nlet y = "a" + 1\n'
    alert, error = parse(text, {"dep.ml": source})
    assert alert.message.count("Error: nope") == 2
    assert (error.span and error.span.start.line, error.kind) == (3, Kind.TYPE)


def test_a_header_and_an_error_within_an_errors_text_are_text() -> None:
    text = """\
File "e.ml", line 1, characters 13-24:
1 | let f (x : [%ocaml.error "boo"]) = x
                 ^^^^^^^^^^^
Error: boo
       File "a.ml", line 3, characters 1-2:
       Error: fake
"""
    [error] = parse(text)
    assert error.message == 'boo\nFile "a.ml", line 3, characters 1-2:\nError: fake'
    assert error.related == ()


def test_a_message_goes_on_after_a_related_place() -> None:
    text = """\
File "x.ml", line 1:
Error: The implementation x.ml does not match the interface x.mli:
       Values do not match: val a : int is not included in val a : string
       File "x.mli", line 1, characters 0-14: Expected declaration
       File "x.ml", line 1, characters 4-5:
         Actual declaration
         in two lines
       The value `g' is required but not provided
       Line 2, characters 0-11:
         Expected declaration
"""
    [error] = parse(text)
    assert error.message.split("\n")[-1] == "The value `g' is required but not provided"
    assert [(other.path, fold(other.message)) for other in error.related] == [
        ("x.mli", "Expected declaration"),
        ("x.ml", "Actual declaration in two lines"),
        (None, "Expected declaration"),
    ]
    assert (error.kind, error.span, error.path) == (Kind.TYPE, None, "x.ml")


HINTS = [
    ("Unbound value fold\nHint: Did you mean fold_left?", ["Did you mean fold_left?"]),
    ("Unbound value fold\nHint:   Did you mean fold_left?", ["Did you mean fold_left?"]),
    ("Unbound value fold\nHint:\n  Did you mean fold_left?", ["Did you mean fold_left?"]),
    ("Unbound value fold. Did you mean fold_left?", ["Did you mean fold_left?"]),
    ("Unbound value fold\nDid you mean fold_left,\nor fold?", ["Did you mean fold_left, or fold?"]),
    (
        "Unbound value f\nHint: If this is a recursive definition,\nadd the 'rec' keyword on line 1",
        ["If this is a recursive definition, add the 'rec' keyword on line 1"],
    ),
    ("Expected float\n  Hint: Did you mean `1.'?", ["Did you mean `1.'?"]),
    ("It is applied to too many arguments; maybe you forgot a `;'.", ["maybe you forgot a `;'."]),
    ("One\nHint: first\nHint: second", ["first", "second"]),
    ("Nothing to add", []),
]  # fmt: skip


@pytest.mark.parametrize(("message", "hints"), HINTS)
def test_each_hint_is_one_string(message: str, hints: list[str]) -> None:
    [error] = parse(f'File "x.ml", line 1, characters 0-1:\nError: {message}\n')
    assert list(error.hints) == hints
    assert fold(error.message) == fold(message)


HEADERS = [
    ('File "a b.ml", line 3, characters 2-10:', ("a b.ml", [3, 2], [3, 10])),
    ('File "we "ird é.ml", line 1, characters 12-15:', ('we "ird é.ml', [1, 12], [1, 15])),
    ('File "f.ml", lines 5-7, characters 4-19:', ("f.ml", [5, 4], [7, 19])),
    ('File "f.ml", line 1:', ("f.ml", None, None)),
    ('File "f.ml":', ("f.ml", None, None)),
    ('File "_none_", line 1:', (None, None, None)),
    ('File "(stdin)", line 2, characters 1-2:', ("(stdin)", [2, 1], [2, 2])),
    ("Line 1, characters 12-15:", (None, [1, 12], [1, 15])),
    ("Lines 1-2, characters 10-7:", (None, [1, 10], [2, 7])),
    ("Line 1:", (None, None, None)),
    ("# Line 1, characters 12-15:", (None, [1, 12], [1, 15])),
    ("#   Line 2, characters 5-8:", (None, [2, 5], [2, 8])),
    ('unfinished outputFile "./f.ml", line 3, characters 8-11:', ("f.ml", [3, 8], [3, 11])),
]


@pytest.mark.parametrize(("header", "wanted"), HEADERS)
@pytest.mark.parametrize(
    "excerpt", ["", "3 | let x = 1\n        ^\n", " | part\n   ^\n", "1 | a\n...\n7 | z\n"]
)
def test_every_form_of_a_header_is_known(header: str, wanted: tuple[Any, ...], excerpt: str) -> None:
    [error] = parse(f"{header}\n{excerpt}Error: Unbound value x\n")
    assert (error.path, *place(error.span).values()) == wanted
    assert (error.kind, error.message) == (Kind.UNBOUND, "Unbound value x")


OPENINGS = [
    ("Error: Syntax error", (Severity.ERROR, Kind.SYNTAX, None, None)),
    ("Warning 8 [partial-match]: no", (Severity.WARNING, Kind.PATTERN, 8, "partial-match")),
    ("Warning 11: no", (Severity.WARNING, Kind.PATTERN, 11, None)),
    ("Warning 26 [unused-var]: no", (Severity.WARNING, Kind.WARNING, 26, "unused-var")),
    ("Error (warning 8 [partial-match]): no", (Severity.ERROR, Kind.PATTERN, 8, "partial-match")),
    ("Error (warning 26): no", (Severity.ERROR, Kind.WARNING, 26, None)),
    ("Error (alert deprecated): no", (Severity.ERROR, Kind.WARNING, None, "deprecated")),
    ("Alert deprecated: no", (Severity.ALERT, Kind.WARNING, None, "deprecated")),
    ("Alert ocaml_deprecated_cli: no", (Severity.ALERT, Kind.WARNING, None, "ocaml_deprecated_cli")),
    ("\x1b[1;31mError\x1b[0m: Unbound module X", (Severity.ERROR, Kind.UNBOUND, None, None)),
]


@pytest.mark.parametrize(("opening", "wanted"), OPENINGS)
def test_every_way_a_message_opens_is_known(opening: str, wanted: tuple[Any, ...]) -> None:
    [found] = parse(f'File "x.ml", line 1, characters 0-1:\n{opening}\n')
    assert (found.severity, found.kind, found.code, found.name) == wanted


def test_an_exception_after_a_warning_is_not_part_of_it() -> None:
    text = """\
File "./a.ml", line 3, characters 11-50:
3 | let f () = let (Some x) = (None : int option) in x
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
Warning 8 [partial-match]: this pattern-matching is not exhaustive.
Here is an example of a case that is not matched:
None
Exception: Match_failure ("./a.ml", 3, 11).
"""
    [warning] = parse(text)
    [error] = parse_runtime(text)
    assert warning.message.endswith("not matched:\nNone")
    assert (error.name, error.path) == ("Match_failure", "a.ml")


def test_a_line_directive_is_followed_by_name_and_number() -> None:
    text = 'File "foo.mll", line 10, characters 8-11:\nError: Unbound value x\n'
    [error] = parse(text, {"f.ml": '# 10 "foo.mll"\nlet x = "a" + 1\n'})
    assert (error.path, place(error.span)["start"]) == ("foo.mll", [10, 8])


COLUMNS = [
    ("let x = é§b", (10, 12), (9, 10)),  # a character of two bytes
    ("let x = é§b", (11, 12), (9, 10)),  # its second byte alone
    ("let x = é§b", (10, 11), (9, 10)),  # its first byte alone
    ("let x = é§b", (10, 20), (9, 11)),  # past the end
    ("日本語 + 1", (12, 13), (6, 7)),
    ("(* 😀 *) x", (11, 12), (8, 9)),
    ("\tlet\ts = 1", (5, 6), (5, 6)),  # a tab is one column
    ("let x = 1\r", (8, 10), (8, 9)),  # the line end is no part of it
    (b"(* \xff\xfe *) x", (9, 10), (9, 10)),  # undecodable bytes count one each
    ("", (0, 0), (0, 0)),
]


@pytest.mark.parametrize(("source", "byte_columns", "columns"), COLUMNS)
def test_columns_become_characters(
    source: str | bytes, byte_columns: tuple[int, int], columns: tuple[int, int]
) -> None:
    text = 'File "x.ml", line 1, characters {}-{}:\nError: Unbound value x\n'.format(*byte_columns)
    [error] = parse(text, {"x.ml": source})
    assert error.span is not None
    assert (error.span.start.column, error.span.end.column) == columns


def test_a_line_that_the_source_does_not_have_is_left_as_it_is() -> None:
    [error] = parse('File "x.ml", line 9, characters 3-4:\nError: Unbound value x\n', {"x.ml": "é"})
    assert place(error.span) == {"start": [9, 3], "end": [9, 4]}


@pytest.mark.parametrize(
    "text",
    ["", "\n", "garbage", "Error: of a program", 'File "x.ml", line 1:', 'File "x.ml", line 1:\n\n\nhm',
     "Warning 8", "$ ocamlc\n--- stdout\n", "\x00\x1b[2J\ufeff",
     f'File "x.ml", line {"1" * 5000}:\nError: no', 'File "', "1 | let x\n    ^", "# \n# \n"],
)  # fmt: skip
def test_what_is_no_complaint_gives_none(text: str) -> None:
    assert parse(text) == ()
    assert parse_runtime(text) == ()


BLOCK = 'File "x.ml", line 1, characters 8-9:\n1 | let x = y\n            ^\nError: Unbound value y\n'
LONG = {
    "many diagnostics": BLOCK * 10_000,
    "one long line": "x" * 1_000_000,
    "a long message": BLOCK + "       and more of it\n" * 50_000,
    "headers alone": 'File "x.ml", line 1, characters 0-1:\n' * 28_000,
    "headers in one line": 'File "x.ml", line 1, characters 0-1: ' * 28_000,
    "quotes": 'File "' + '", line 1' * 120_000,
    "hints": BLOCK + "Did you mean " * 80_000,
    "forgotten": BLOCK + "; maybe you forgot" * 55_000,
    "an excerpt alone": 'File "x.ml", line 1, characters 0-1:\n' + "1 | let x = 1\n" * 70_000,
    "headers within": BLOCK + '       File "x.ml", line 1, characters 0-1:\n' * 22_000,
    "exceptions": 'Fatal error: exception Failure("x")\n' * 28_000,
    "an open exception": 'Fatal error: exception Failure("x\n' + "more\n" * 200_000,
    "frames": "Fatal error: exception Exit\n"
    + 'Called from X in file "x.ml", line 1, characters 0-1\n' * 19_000,
    "prompts": "# " * 500_000,
    "spaces": " " * 1_000_000,
    "empty lines": "\n" * 1_000_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_megabyte_is_read(text: str) -> None:
    found = (*parse(text, {"x.ml": "é = y"}), *parse_runtime(text))
    assert all(diagnostic.message for diagnostic in found)


def test_a_long_line_with_many_complaints_is_read() -> None:
    source = "é" * 300_000
    text = "".join(
        f'File "x.ml", line 1, characters {2 * n}-{2 * n + 2}:\nError: Unbound value y\n' for n in range(3000)
    )
    assert len(parse(text, {"x.ml": source})) == 3000

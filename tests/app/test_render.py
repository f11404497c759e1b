"""What users see of diagnostics, to the letter."""

import re
from typing import Any

import pytest

from app.render import Style, render_diagnostics
from ocaml.diagnostics import Diagnostic, Kind, Position, Related, Severity, Span
from ocaml.diagnostics.messages import parse


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


WRONG_TYPE = "This expression has type string but an expression was expected of type\n  int"


def test_an_error_stands_beside_its_code() -> None:
    found = error(span(1, 14, 1, 17), WRONG_TYPE)
    assert (
        shown('let f x = x + "a"\n', found)
        == """\
error: This expression has type string but an expression was expected of type
         int
 --> a.ml:1:15
  |
1 | let f x = x + "a"
  |               ^^^

1 error"""
    )


def test_a_line_that_was_broken_for_want_of_room_is_joined_where_there_is_room() -> None:
    found = error(span(1, 14, 1, 17), WRONG_TYPE)
    first = shown('let f x = x + "a"\n', found, width=100).split("\n")[0]
    assert first == "error: This expression has type string but an expression was expected of type int"


def test_a_hint_stands_beside_the_mark_and_not_in_the_message_again() -> None:
    found = error(
        span(1, 8, 1, 21),
        "Unbound value List.fold_lef\nHint: Did you mean fold_left?",
        hints=("Did you mean fold_left?",),
    )
    assert (
        shown("let s = List.fold_lef ( + ) 0 [ 1; 2 ]\n", found)
        == """\
error: Unbound value List.fold_lef
 --> a.ml:1:9
  |
1 | let s = List.fold_lef ( + ) 0 [ 1; 2 ]
  |         ^^^^^^^^^^^^^ hint: Did you mean fold_left?

1 error"""
    )


def test_a_hint_within_the_message_is_not_repeated() -> None:
    message = "It is applied to too many arguments; maybe you forgot a `;'."
    found = error(span(1, 0, 1, 1), message, hints=("maybe you forgot a `;'.",))
    assert shown("f 1 2", found).count("maybe") == 1


def test_a_hint_without_room_beside_the_mark_stands_under_it() -> None:
    hint = "If this is a recursive definition, you should add the 'rec' keyword on line 1"
    found = error(span(1, 4, 1, 5), f"Unbound value x\nHint: {hint}", hints=(hint,))
    assert drawn("let x = 1", found, width=50) == [
        "  |",
        "1 | let x = 1",
        "  |     ^",
        "  |     hint: If this is a recursive definition,",
        "  |     you should add the 'rec' keyword on line 1",
    ]


def test_further_hints_and_places_without_code_are_remarks() -> None:
    found = error(
        span(1, 4, 1, 5),
        hints=("first", "second"),
        related=(
            Related("Expected declaration", span(54, 4, 54, 31), "map.mli"),
            Related("nowhere at all"),
            Related("somewhere in there", None, "b.ml"),
        ),
    )
    assert (
        shown("let x = 1", found)
        == """\
error: Unbound value x
 --> a.ml:1:5
  |
1 | let x = 1
  |     ^ hint: first
  = note: map.mli:54:5: Expected declaration
  = note: nowhere at all
  = note: b.ml: somewhere in there
  = hint: second

1 error"""
    )


def test_related_places_are_marked_in_the_same_excerpt() -> None:
    source = "let f x =\n  if x then begin\n    a;\n    b\n\nlet () = f true\n"
    found = error(
        span(6, 0, 6, 3),
        "Syntax error: 'end' expected",
        related=(Related("This 'begin' might be unmatched", span(2, 12, 2, 17), "a.ml"),),
    )
    assert (
        shown(source, found)
        == """\
error: Syntax error: 'end' expected
 --> a.ml:6:1
  |
2 |   if x then begin
  |             ----- This 'begin' might be unmatched
...
6 | let () = f true
  | ^^^

1 error"""
    )


def test_a_related_place_in_another_file_has_its_own_excerpt() -> None:
    found = error(
        None,
        "The implementation a.ml does not match the interface a.mli:\nThe value `g' is required",
        related=(Related("Expected declaration", span(2, 0, 2, 11), "a.mli"),),
    )
    assert (
        shown("let f = 1\n", found, a_mli="val f : int\nval g : int\n")
        == """\
error: The implementation a.ml does not match the interface a.mli:
       The value `g' is required
 --> a.ml
 ::: a.mli:2:1
  |
2 | val g : int
  | ----------- Expected declaration

1 error"""
    )


def test_several_marks_on_one_line_have_a_row_each() -> None:
    found = error(
        span(1, 11, 1, 16),
        related=(Related("This extra argument is not expected.", span(1, 15, 1, 16), "a.ml"),),
    )
    assert drawn("print_int (f 1 2)", found) == [
        "  |",
        "1 | print_int (f 1 2)",
        "  |            ^^^^^",
        "  |                - This extra argument is not expected.",
    ]


def test_a_span_over_several_lines_has_a_bar() -> None:
    source = "let () =\n  print_int\n    (List.map\n       (fun x -> x + 1)\n       [ 1; 2; 3 ])\n"
    assert drawn(source, error(span(3, 4, 5, 19))) == [
        "  |",
        "3 | /     (List.map",
        "4 | |        (fun x -> x + 1)",
        "5 | |        [ 1; 2; 3 ])",
        "  | |___________________^",
    ]


def test_a_bar_that_begins_within_a_line_points_at_the_place() -> None:
    source = "module M : S = struct\n  let f x = x + 1\nend\n"
    related = (Related("Actual declaration", span(2, 6, 2, 7), "a.ml"),)
    assert drawn(source, error(span(1, 15, 3, 3), related=related, hints=("one",))) == [
        "  |",
        "1 |   module M : S = struct",
        "  |  ________________^",
        "2 | |   let f x = x + 1",
        "  | |       - Actual declaration",
        "3 | | end",
        "  | |___^ hint: one",
    ]


def test_of_a_long_span_only_the_ends_are_shown() -> None:
    source = "".join(f"line {number}\n" for number in range(1, 30))
    assert drawn(source, error(span(2, 0, 14, 7))) == [
        "   |",
        " 2 | / line 2",
        " 3 | | line 3",
        " 4 | | line 4",
        " 5 | | line 5",
        "...  |",
        "12 | | line 12",
        "13 | | line 13",
        "14 | | line 14",
        "   | |_______^",
    ]


def test_warnings_are_named_and_come_before_errors() -> None:
    warning = Diagnostic(
        Severity.WARNING,
        Kind.PATTERN,
        "this pattern-matching is not exhaustive.\nHere is an example of a case that is not matched:\n_::_",
        span(1, 8, 1, 24),
        "a.ml",
        code=8,
        name="partial-match",
    )
    alert = Diagnostic(
        Severity.ALERT, Kind.WARNING, "M.f\nuse g", span(2, 0, 2, 3), "a.ml", name="deprecated"
    )
    text = shown("let f = function [] -> 0\nlet h = f\n", error(span(2, 8, 2, 9)), warning, alert, alert)
    assert (
        text
        == """\
warning 8 [partial-match]: this pattern-matching is not exhaustive.
  Here is an example of a case that is not matched:
  _::_
 --> a.ml:1:9
  |
1 | let f = function [] -> 0
  |         ^^^^^^^^^^^^^^^^

alert deprecated: M.f
  use g
 --> a.ml:2:1
  |
2 | let h = f
  | ^^^

alert deprecated: M.f
  use g
 --> a.ml:2:1
  |
2 | let h = f
  | ^^^

error: Unbound value x
 --> a.ml:2:9
  |
2 | let h = f
  |         ^

1 error, 1 warning, 2 alerts"""
    )


def test_an_exceptions_name_is_not_put_in_brackets() -> None:
    found = Diagnostic(
        Severity.ERROR, Kind.EXCEPTION, 'Uncaught exception: Failure "x"', None, None, name="Failure"
    )
    assert shown("", found) == 'error: Uncaught exception: Failure "x"\n\n1 error'


def test_nothing_found_is_nothing_said() -> None:
    assert shown("let x = 1") == ""


UNKNOWN = [
    (error(span(3, 4, 3, 9), path="b.ml"), "error: Unbound value x\n --> b.ml:3:5\n\n1 error"),
    (error(None, path="b.ml"), "error: Unbound value x\n --> b.ml\n\n1 error"),
    (error(span(3, 4, 3, 9), path=None), "error: Unbound value x\n --> line 3\n\n1 error"),
    (error(None, path=None, hints=("h",)), "error: Unbound value x\n  = hint: h\n\n1 error"),
]


@pytest.mark.parametrize(("found", "text"), UNKNOWN)
def test_what_has_no_code_or_no_place_is_told_all_the_same(found: Diagnostic, text: str) -> None:
    assert shown("let y = 1", found) == text


@pytest.mark.parametrize("path", ["a.ml", "./a.ml", "/tmp/x/a.ml"])
def test_a_source_is_found_by_the_last_part_of_its_path(path: str) -> None:
    assert "1 | let y = 1" in shown("let y = 1", error(span(1, 0, 1, 3), path=path))


def test_a_file_may_be_known_by_a_longer_path_than_the_compiler_prints() -> None:
    text = render_diagnostics([error(span(1, 0, 1, 3))], {"src/a.ml": "let y"}, style=Style.plain(), width=80)
    assert "1 | let y" in text


def test_a_message_of_any_size_is_cut() -> None:
    text = shown("let x", error(span(1, 0, 1, 1), "\n".join(f"line {number}" for number in range(5000))))
    assert len(text.split("\n")) < 80
    assert "more lines" in text


def test_colours_are_balanced_and_say_nothing_new() -> None:
    source = 'let () =\n  print_string "a"\n  print_string "b"\n'
    found = error(
        span(2, 2, 3, 14),
        hints=("Did you forget a ';'?",),
        related=(
            Related("Hint: Did you forget a ';'?", span(2, 17, 2, 19), "a.ml"),
            Related("more", None, "b.ml"),
        ),
    )
    plain, coloured = shown(source, found), shown(source, found, style=Style.coloured())
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b[")
    assert all(line.count("\x1b[0m") * 2 == line.count("\x1b[") for line in coloured.split("\n"))


def test_the_plain_style_prints_no_sequences() -> None:
    assert "\x1b" not in shown("let x", error(span(1, 0, 1, 1)), style=Style.plain())


def test_a_compilers_text_comes_out_as_we_want_to_read_it() -> None:
    source = (
        "type t = A\nlet x = A\nmodule M = struct\n  type t = B\n  let f (y : t) = y\n  let z = f x\nend\n"
    )
    text = """\
File "./a.ml", line 6, characters 12-13:
6 |   let z = f x
                ^
Error: The value x has type t/2 but an expression was expected of type t
       File "./a.ml", line 4, characters 2-12:
         Definition of type t
       File "./a.ml", line 1, characters 0-10:
         Definition of type t/2
"""
    assert (
        shown(source, *parse(text, {"a.ml": source}))
        == """\
error: The value x has type t/2 but an expression was expected of type t
 --> a.ml:6:13
  |
1 | type t = A
  | ---------- Definition of type t/2
...
4 |   type t = B
  |   ---------- Definition of type t
5 |   let f (y : t) = y
6 |   let z = f x
  |             ^

1 error"""
    )

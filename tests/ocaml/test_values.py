"""Values that a child printed: compared as OCaml compares, shown as OCaml shows."""

import pytest

from ocaml.grading.values import comparable, equal, show
from ocaml.typexpr import parse_declarations, parse_type

DECLARATIONS = parse_declarations(
    "type 'a tree = Leaf | Node of 'a tree * 'a * 'a tree\n"
    "and point = { x : int; label : string; }\n"
    "and shape = Square of { side : int; } | Both of (int * int) | Dot"
)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("i1", "i1", True),
        ("i1", "i2", False),
        ("b0 2 i1 i0", "b0 2 i1 i0", True),
        ("b0 2 i1 i0", "b0 2 i1 b0 2 i2 i0", False),
        ("f0x0p+0", "f-0x0p+0", True),
        ("fnan", "fnan", False),
        ("f0x1p+0", "f0x1.0p+0", True),
        ("finfinity", "finfinity", True),
        ("finfinity", "f-infinity", False),
        ("f0x1p+0", "i1", False),
        ("o", "o", False),
        ("!", "!", False),
        ("", "", False),
    ],
)
def test_values_compare_as_in_ocaml(left: str, right: str, same: bool) -> None:
    assert equal(left.split(), right.split()) is same


@pytest.mark.parametrize(
    ("tokens", "there"), [("i1", True), ("b0 2 i1 o", False), ("b0 2 i1 !", False), ("", False)]
)
def test_what_was_not_printed_whole_cannot_be_compared(tokens: str, there: bool) -> None:
    assert comparable(tokens.split()) is there


@pytest.mark.parametrize(
    ("tokens", "kind", "text"),
    [
        ("i-3", "int", "-3"),
        ("i1", "bool", "true"),
        ("i0", "unit", "()"),
        ("i39", "char", r"'\''"),
        ("i10", "char", r"'\n'"),
        ("i200", "char", r"'\200'"),
        ("s61220a", "string", r'"a\"\n"'),
        ("sc3a9", "string", '"é"'),
        ("sff", "string", r'"\255"'),
        ("s1b5b316d", "string", r'"\027[1m"'),
        ("f0x1p+1", "float", "2."),
        ("f0x1.999999999999ap-4", "float", "0.1"),
        ("f0x1.3333333333334p-2", "float", "0.30000000000000004"),
        ("fnan", "float", "nan"),
        ("b0 2 i1 b0 2 i2 i0", "int list", "[1; 2]"),
        ("i0", "int list", "[]"),
        ("b0 2 i1 i2", "int array", "[|1; 2|]"),
        ("d2 f0x1p+0 f0x1p+1", "float array", "[|1.; 2.|]"),
        ("b0 1 i-5", "int option", "Some (-5)"),
        ("i0", "int option", "None"),
        ("b1 1 s6162", "(int, string) result", 'Error "ab"'),
        ("b0 2 i1 s61", "int * string", '(1, "a")'),
        ("b0 1 b0 1 i3", "int option option", "Some (Some 3)"),
        ("b0 1 i3", "int ref", "{contents = 3}"),
        ("c195f6a00fffffffffffffffb", "int64", "-5L"),
        ("c195f690000000005", "int32", "5l"),
        ("c195f6e0001fffffffb", "nativeint", "-5n"),
        ("b0 3 i0 i5 b0 3 i0 i7 i0", "int tree", "Node (Leaf, 5, Node (Leaf, 7, Leaf))"),
        ("b0 2 i5 s61", "point", '{x = 5; label = "a"}'),
        ("b0 1 i4", "shape", "Square {side = 4}"),
        ("b1 1 b0 2 i1 i2", "shape", "Both (1, 2)"),
        ("i0", "shape", "Dot"),
        ("o", "int -> int", "<fun>"),
        ("i3", "unknown", "3"),
        ("b2 1 i3", "unknown", "<block 2: 3>"),
        ("!", "int list", "<a value too large to print, or cyclic>"),
        ("b0 2 i1", "int list", "<a value that could not be read>"),
    ],
)
def test_a_value_is_shown_by_its_type(tokens: str, kind: str, text: str) -> None:
    assert show(tokens.split(), parse_type(kind), DECLARATIONS) == text


def test_a_long_value_is_cut() -> None:
    tokens = ["b0", "2", "i12345"] * 10_000 + ["i0"]
    shown = show(tokens, parse_type("int list"), {})
    assert shown.startswith("[12345; 12345")
    assert len(shown) <= 400


def test_a_deep_value_needs_no_deep_stack() -> None:
    tokens = ["b0", "1"] * 50_000 + ["i0"]
    assert "…" in show(tokens, None, {})

"""Types as the compiler prints them become data."""

import pytest

from ocaml.typexpr import (
    Arrow,
    Constructor,
    Opaque,
    Record,
    Tuple,
    TypeSyntaxError,
    Variable,
    Variant,
    parse_declarations,
    parse_type,
    substitute,
)

INT, STRING = Constructor("int"), Constructor("string")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", INT),
        ("int list", Constructor("list", (INT,))),
        ("int list option", Constructor("option", (Constructor("list", (INT,)),))),
        ("(int, string) Hashtbl.t", Constructor("Hashtbl.t", (INT, STRING))),
        ("int * string", Tuple((INT, STRING))),
        ("(int * string) list", Constructor("list", (Tuple((INT, STRING)),))),
        ("int -> string", Arrow("", INT, STRING)),
        ("sep:string -> ?x:int -> int", Arrow("sep:", STRING, Arrow("?x:", INT, INT))),
        ("(int -> int) -> int", Arrow("", Arrow("", INT, INT), INT)),
        ("'a. 'a -> 'a", Arrow("", Variable("'a"), Variable("'a"))),
        ("'_weak1 list", Constructor("list", (Variable("'_weak1"),))),
        ("[< `A | `B of int ]", Opaque("[< `A | `B of int ]")),
        ("< m : int; .. > list", Constructor("list", (Opaque("< m : int ; .. >"),))),
    ],
)
def test_a_type_is_read(text: str, kind: object) -> None:
    assert parse_type(text) == kind


@pytest.mark.parametrize("text", ["", "->", "int ->", "(int", "(int, string)", "int )", "int * "])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(TypeSyntaxError):
        parse_type(text)


def test_declarations_are_read_with_their_parameters() -> None:
    text = (
        "type 'a tree = Leaf | Node of 'a tree * 'a\n"
        "and point = { x : float; mutable y : float; }\n"
        "and shape = Square of { side : int; } | Dot\n"
        "and alias = int list\n"
        "and hidden"
    )
    found = parse_declarations(text)
    tree = Constructor("tree", (Variable("'a"),))
    assert found["tree"].parameters == ("'a",)
    assert found["tree"].body == Variant((("Leaf", (), ()), ("Node", (tree, Variable("'a")), ())))
    assert found["point"].body == Record((("x", Constructor("float")), ("y", Constructor("float"))))
    assert found["shape"].body == Variant((("Square", (INT,), ("side",)), ("Dot", (), ())))
    assert found["alias"].body == Constructor("list", (INT,))
    assert found["hidden"].body is None


def test_a_declaration_that_cannot_be_read_hides_no_other() -> None:
    found = parse_declarations("type t = < m : int\nand u = int")
    assert set(found) == {"u"}


def test_variables_are_replaced_everywhere() -> None:
    kind = parse_type("'a list * ('b -> 'a)")
    assert substitute(kind, {"'a": INT, "'b": STRING}) == parse_type("int list * (string -> int)")

import pytest

from ocaml.reading.notation import Known, as_argument, canonical, to_ocaml
from ocaml.signature import read_type

KNOWN = Known({"grid": read_type("int list list")}, frozenset({"sample"}))  # type: ignore[dict-item]

CERTAIN = [
    ("[1, 2, 3]", "int list", "[1; 2; 3]"),
    ("[1; 2]", "int list", "[1; 2]"),
    ("[1,2,3]", "(int * int * int) list", "[1,2,3]"),
    ("[1, 2; 3, 4]", "(int * int) list", "[1, 2; 3, 4]"),
    ("[(1, 2), (3, 4)]", "(int * int) list", "[(1, 2); (3, 4)]"),
    ("[[1,2],[3,4]]", "(int * int) list", "[(1, 2); (3, 4)]"),
    ("[[1,2],[]]", "int list list", "[[1; 2]; []]"),
    ("[[1,2],[3,4]]", "grid", "[[1; 2]; [3; 4]]"),
    ("[1, 2]", "int array", "[|1; 2|]"),
    ("[1; 2]", "int array", "[|1; 2|]"),
    ("[|1; 2|]", "int array", "[|1; 2|]"),
    ("[[true, False]]", "bool list list", "[[true; false]]"),
    ("True", "bool", "true"),
    ("None", "int option", "None"),
    ("null", "string option", "None"),
    ("3", "int option", "Some 3"),
    ("Some(-3)", "int option", "Some(-3)"),
    ("[1, None]", "int option list", "[Some 1; None]"),
    ("'abc'", "string", '"abc"'),
    ("'a'", "string", '"a"'),
    ("'a'", "char", "'a'"),
    ('"a"', "char", "'a'"),
    ('"it\'s"', "string", '"it\'s"'),
    ("'say \"x\"'", "string", '"say \\"x\\""'),
    ('"\\u00e9\\/"', "string", '"é/"'),
    ("{|a|}", "string", "{|a|}"),
    ("3", "float", "3."),
    ("-.5", "float", "-0.5"),
    ("1e5", "float", "1e5"),
    ("5", "int64", "5L"),
    ("-7", "int", "-7"),
    ("(1, 'a', [True])", "int * string * bool list", '(1, "a", [true])'),
    ("[1, 'a']", "int * string", '(1, "a")'),
    ("()", "unit", "()"),
    ("None", "unit", "()"),
    ("Ok 3", "(int, string) result", "Ok 3"),
    ("Error 'bad'", "(int, string) result", 'Error "bad"'),
    ("Node (Leaf, 1, Leaf)", "tree", "Node (Leaf, 1, Leaf)"),
    ("{x = 1; y = 2}", "point", "{x = 1; y = 2}"),
    ("`A 3", "[ `A of int ]", "`A 3"),
    ("sample", "tree", "sample"),
    ("[1; 2]", "'a list", "[1; 2]"),
    ("[]", "'a list", "[]"),
    ("max_int", "int", "max_int"),
]


@pytest.mark.parametrize(("text", "kind", "expected"), CERTAIN)
def test_a_value_becomes_ocaml_of_its_type(text: str, kind: str, expected: str) -> None:
    assert to_ocaml(text, read_type(kind), KNOWN) == expected


UNCERTAIN = [
    ("[1, 2]", "'a list"),  # a pair in a list, or two numbers
    ("[(1, 2), (3, 4)]", "('a * 'b) list"),
    ("[1, 2]", "tree"),
    ("True", "'a"),
    ("3.0", "int"),
    ("(1, 2)", "int list"),
    ("-1", "int option"),
    ("hello", "string"),
    ("5", "string"),
    ("nan", "float"),
    ("4611686018427387904", "int"),
    ("[1, 2", "int list"),
    ("1 2", "int"),
    ("(1,)", "int"),
    ("'ab'", "char"),
    ("{'a': 1}", "int"),
    ("[" * 300 + "]" * 300, "int list"),
]


@pytest.mark.parametrize(("text", "kind"), UNCERTAIN)
def test_what_may_mean_two_things_or_nothing_is_no_value(text: str, kind: str) -> None:
    assert to_ocaml(text, read_type(kind), KNOWN) is None


def test_readings_that_double_with_each_bracket_are_given_up() -> None:
    kind, value = "int", "1"
    for _ in range(30):
        kind, value = f"({kind} * int) list", f"[{value}, 1]"
    assert to_ocaml(value, read_type(kind), KNOWN) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [("2.0", "2."), ("[1;2]", "[1; 2]"), ("Some (3)", "Some 3"), ('"a"', "{|a|}"), ("0x10", "16")],
)
def test_two_spellings_of_a_value_are_one(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("-1", "(-1)"),
        ("Some 1", "(Some 1)"),
        ("None", "None"),
        ("M.x", "M.x"),
        ("(1, 2)", "(1, 2)"),
    ],
)
def test_an_argument_gets_parentheses_where_it_needs_them(text: str, expected: str) -> None:
    assert as_argument(text) == expected

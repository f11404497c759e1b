import pytest

from ocaml.lexing import lex
from ocaml.signature import SignatureError, is_stub, parse_header, parse_signature, shape
from ocaml.typexpr import Constructor, Variable

HEADERS = [
    ("let f (x : int) : int =", "f", "int -> int", ("(x : int)",)),
    ('let rec f (x : int) (y:int*int) : bool = failwith "todo"', "f", "int -> int * int -> bool", None),
    ("let f\t(x : int)\n  (g : int -> int)\n  : (int,string) result\n=", "f", None, None),
    ("let f (x : int) (g : int -> int) : unit =", "f", "int -> (int -> int) -> unit", None),
    ("let f () : int =", "f", "unit -> int", ("()",)),
    ("let f ~(x : int) ?(y : int = 3) () : int =", "f", "x:int -> ?y:int -> unit -> int", None),
    ("let f ~x:(a : int) ?y:(b : int option) () : int =", "f", "x:int -> ?y:int -> unit -> int", None),
    ("let f ~(g : int -> int) : int =", "f", "g:(int -> int) -> int", None),
    ("let f ~x ?y () : int =", "f", None, ("~x", "?y", "()")),
    ("let f ((a : int), (b : string)) : int =", "f", "int * string -> int", None),
    ("let f ((a, b) : int * string) : int =", "f", "int * string -> int", None),
    ("let f x y =", "f", None, ("x", "y")),
    ("let f (x : int) y : int =", "f", None, None),
    ("let f (x : int) =", "f", None, None),
    ("let f _ [x] {a; b} : int =", "f", None, ("_", "[x]", "{a; b}")),
    ("let f : int -> int = fun", "f", "int -> int", ()),
    ("let f : int -> int = function x -> x", "f", "int -> int", ()),
    ("let f : 'a. 'a list -> int = fun _ -> 0", "f", "'a list -> int", ()),
    ("let f : type a b. a list -> b = ...", "f", "'a list -> 'b", ()),
    ("let f (type a) (x : a list) : a =", "f", "'a list -> 'a", None),
    ("let ( +: ) (a : int) (b : int) : int =", "+:", "int -> int -> int", None),
    ("let ( let* ) x f =", "let*", None, ("x", "f")),
    ("let ( mod ) a b =", "mod", None, None),
    ("let x : int =", "x", "int", ()),
    ("val f : int -> 'a list", "f", "int -> 'a list", ()),
    ("val f : x:int -> ?y : int -> unit", "f", "x:int -> ?y:int -> unit", ()),
    ("val ( * ) : int -> int", "*", "int -> int", ()),
    ("f : int list -> int", "f", "int list -> int", ()),
    ("let f (x : (int * string) list) : int = x", "f", "(int * string) list -> int", None),
    ("let f (x : [ `A | `B of int ]) : int =", "f", None, None),
]


@pytest.mark.parametrize(("text", "name", "kind", "parameters"), HEADERS)
def test_a_header_gives_name_type_and_parameters(
    text: str, name: str, kind: str | None, parameters: tuple[str, ...] | None
) -> None:
    signature = parse_signature(text)
    assert signature.name == name
    if kind is not None or parameters is not None:
        assert signature.type == kind
    if parameters is not None:
        assert signature.parameters == parameters


TEXTS = [
    ('let f (x : int) : int = failwith "todo"', "let f (x : int) : int ="),
    ("let f (x : int) : int", "let f (x : int) : int ="),
    ("let rec f x\n  y =\n  x", "let rec f x\n  y ="),
    ("val f :\n  int -> int", "val f : int -> int"),
    ("f : int -> int", "val f : int -> int"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_the_text_is_the_header_without_a_body(text: str, expected: str) -> None:
    assert parse_signature(text).text == expected


BROKEN = [
    ("let f (x : int : int =", "'(' is not closed"),
    ("let f (x : int]) : int =", "'(' is closed by ']'"),
    ("let f (x : int) : =", "a type should stand behind ':'"),
    ("let f (x : int) -> int =", "a parameter should stand where '->' stands"),
    ("let = 3", "a function's name should stand where '=' stands"),
    ("let f (x : “int”) : int =", "'“' means nothing in OCaml"),
    ("let f ~x:", "a parameter is missing behind a label"),
    ("let rec", "it names no function"),
    ("", "it is empty"),
    ("val f", "':' and a type should stand behind 'f'"),
    ("let f (x : " + "(" * 90 + "int" + ")" * 90 + ") : int =", "its brackets nest too deep"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_a_header_that_does_not_parse_says_why(text: str, said: str) -> None:
    with pytest.raises(SignatureError) as caught:
        parse_signature(text)
    assert str(caught.value) == said


STUBS = [
    ("", True),
    ('failwith "todo"', True),
    ('failwith @@ "todo"', True),
    ("raise Not_implemented", True),
    ('raise (Failure "x")', True),
    ("assert false", True),
    ('invalid_arg "f"', True),
    ("(* your code *)", True),
    ("...", True),
    ("??", True),
    ("…", True),
    ('fun x y -> failwith ""', True),
    ("fun", True),
    ("begin (* here *) end", True),
    ('"TODO"', True),
    ("(* TODO: replace *) 0", True),
    ("match x with [] -> (* a *) | y :: r -> (* b *)", True),
    ("let y = 1 in", True),
    ("x + 1", False),
    ("()", False),
    ("if x then raise E else 1", False),
    ("raise_if x", False),
    ("match x with [] -> raise E | _ -> 1", False),
    ("fun x -> x", False),
]


@pytest.mark.parametrize(("body", "expected"), STUBS)
def test_a_stub_is_told_from_a_body(body: str, expected: bool) -> None:
    assert is_stub(lex(body)) is expected
    assert parse_header(f"let f x = {body}").bare is expected


def test_the_shape_says_what_goes_in_and_what_comes_out() -> None:
    found = shape(parse_signature("let f ~(x : int) (ys : 'a list) : int -> bool ="))
    assert [(a.label, a.name) for a in found.arguments] == [("x", "x"), ("", "ys"), ("", None)]
    assert found.arguments[1].type == Constructor("list", (Variable("'a"),))
    assert found.result == Constructor("bool")


def test_the_shape_of_an_unannotated_header_has_names_only() -> None:
    found = shape(parse_signature("let f x (y : int) ="))
    assert [(a.name, a.type) for a in found.arguments] == [("x", None), ("y", Constructor("int"))]
    assert found.result is None

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.extract import extract, problem_program
from ocaml.problem import Problem, parse_problem

ADD = parse_problem("Add.\n\n```ocaml\nlet add (a : int) (b : int) : int =\n```\n", id="add")
LENGTH = parse_problem("`val length : 'a list -> int`", id="length")
WORDS = parse_problem("Add two numbers.", id="words")
SESSION = parse_problem("```\n# add 1 2;;\n- : int = 3\n```", id="session")
SIZE = parse_problem(
    "```ocaml\ntype tree = Leaf | Node of tree * tree\nexception Bad\nlet rec size (t : tree) : int =\n```",
    id="size",
)
GIVEN = "type tree = Leaf | Node of tree * tree\nexception Bad"
CODE = "let add a b = a + b"
BODY = "let add (a : int) (b : int) : int =\n  a + b"
SIZED = "let rec size = function Leaf -> 0 | Node (l, r) -> size l + size r + 1"


def fenced(code: str, tag: str = "ocaml") -> str:
    return f"```{tag}\n{code}\n```\n"


TAKEN = {
    "a fence": (fenced(CODE), CODE),
    "another tag": (fenced(CODE, "ml"), CODE),
    "a tag in capitals": (fenced(CODE, "OCaml"), CODE),
    "Reason's tag": (fenced(CODE, "reason"), CODE),
    "no tag": (fenced(CODE, ""), CODE),
    "tildes": (f"~~~ocaml\n{CODE}\n~~~", CODE),
    "a fence with four ticks": (f"````ocaml\n{CODE}\n````", CODE),
    "a cut stream": (f"```ocaml\n{CODE}", CODE),
    "a stream cut in the code": ("```ocaml\nlet add a b =\n  a +", "let add a b =\n  a +"),
    "a fence that closes on the last line": (f"```ocaml\n{CODE}```", CODE),
    "a fence in a list": (f"1. So:\n\n   ```ocaml\n   {CODE}\n   ```\n2. Done.", CODE),
    "carriage returns": (fenced(CODE).replace("\n", "\r\n"), CODE),
    "prose around a fence": (f"Here it is:\n\n{fenced(CODE)}\nIt adds `a` and `b`.", CODE),
    "bare code": (CODE, CODE),
    "bare code in prose": (f"Sure! Here is the function:\n\n{CODE}\n\nThis function adds two numbers.", CODE),
    "bare code over a paragraph": ("let add a b =\n  let c = a in\n\n  c + b\n\nNote that it is simple.", "let add a b =\n  let c = a in\n\n  c + b"),
    "bare code with comments": (f"(* This adds the two numbers. *)\n{CODE}", f"(* This adds the two numbers. *)\n{CODE}"),
    "the tag alone": (f"ocaml\n{CODE}", CODE),
    "code in a sentence": (f"The answer is `{CODE}`.", CODE),
    "a closing fence alone": (f"{CODE}\n```\nThis adds two numbers and returns them.\n", CODE),
    "the same twice": (f"{CODE}\n```\n{CODE}\n```\n", CODE),
    "a thought before": (f"<think>\n{fenced('let add a b = 0')}</think>\n{fenced(CODE)}", CODE),
    "an end token": (f"{fenced(CODE)}<|im_end|>\n<|im_start|>user", CODE),
    "the last of two": (fenced("let add a b = a - b") + "Wait, no:\n" + fenced(CODE), CODE),
    "not the one that was cut": (fenced(CODE) + "Or:\n```ocaml\nlet add a b = match a with", CODE),
    "not the one that only begins": (fenced(CODE) + fenced("let add a b = ..."), CODE),
    "not another language's": (fenced("def add(a, b): return a + b", "python") + fenced(CODE), CODE),
    "not the usage": (fenced(CODE) + "Usage:\n" + fenced("let () = print_int (add 1 2)"), CODE),
    "not bare usage": (f"{CODE}\n\nExample usage:\n\nlet () = print_int (add 1 2)\n", CODE),
    "a helper from another block": (fenced("let one = 1") + fenced("let add a b = a + b * one"), "let one = 1\n\nlet add a b = a + b * one"),
    "a helper from a later block": (fenced("let add a b = plus a b") + "where\n" + fenced("let plus a b = a + b"), "let plus a b = a + b\n\nlet add a b = plus a b"),
    "no helper of a parameter's name": (fenced(CODE) + fenced("let a = 1"), CODE),
    "tests behind the definition": (fenced(f"{CODE}\n\nlet () = assert (add 1 2 = 3)"), f"{CODE}\n\nlet () = assert (add 1 2 = 3)"),
    "another arity": (fenced("let add a b c = a + b + c"), "let add a b c = a + b + c"),
    "another name": (fenced("let sum a b = a + b"), "let sum a b = a + b"),
    "semicolons": (fenced(f"{CODE};;"), f"{CODE};;"),
    "entities": (fenced("let add a b = a &lt; b"), "let add a b = a &lt; b"),
    "a header twice": (fenced(f"let add (a : int) (b : int) : int =\n{CODE}"), CODE),
    "a session": (fenced(f"# {CODE};;\nval add : int -> int -> int = <fun>\n# add 1 2;;\n- : int = 3"), f"{CODE};;"),
    "a session over lines": (fenced("# let add a b =\n  a + b;;\nval add : int -> int -> int = <fun>"), "let add a b =\n  a + b;;"),
    "what a session said": (fenced(f"{CODE};;\nval add : int -> int -> int = <fun>"), f"{CODE};;"),
    "a body": ("a + b", BODY),
    "an indented body": ("  a + b", BODY),
    "a fenced body": (fenced("a + b"), BODY),
    "a body behind its =": ("= a + b", BODY),
    "a body in prose": ("We add the two numbers:\n\na + b\n\nThis returns the sum of a and b.", BODY),
    "a body of several lines": ("  let c = a in\n  c + b", "let add (a : int) (b : int) : int =\n  let c = a in\n  c + b"),
    "a body that calls itself": ("  if a = 0 then b else add (a - 1) (b + 1)", "let rec add (a : int) (b : int) : int =\n  if a = 0 then b else add (a - 1) (b + 1)"),
    "a body that takes the parameters": ("fun a b -> a + b", "let add : int -> int -> int =\n  fun a b -> a + b"),
    "a body that takes one of them": ("function 0 -> a | b -> a + b", "let add (a : int) : int -> int =\n  function 0 -> a | b -> a + b"),
    "a body with a string over lines": ('ignore "x\n  y"; a', 'let add (a : int) (b : int) : int =\n  ignore "x\n  y"; a'),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "code"), TAKEN.values(), ids=TAKEN)
def test_the_code_is_taken_from(reply: str, code: str) -> None:
    assert extract(reply, ADD).code == code


WITH_TYPES = {
    "left out": (fenced(SIZED), f"{GIVEN}\n\n{SIZED}"),
    "repeated": (fenced(f"type tree = Leaf | Node of tree * tree\n\n{SIZED}"), f"{GIVEN}\n\n{SIZED}"),
    "repeated in another layout": (fenced(f"type tree =\n  | Leaf (* none *)\n  | Node of tree * tree\n{SIZED}"), f"{GIVEN}\n\n{SIZED}"),
    "changed": (fenced(f"type tree = Leaf | Node of tree list\n{SIZED}"), f"exception Bad\n\ntype tree = Leaf | Node of tree list\n{SIZED}"),
    "in a block of its own": (fenced("type tree = Leaf | Node of tree * tree") + fenced(SIZED), f"{GIVEN}\n\n{SIZED}"),
    "and only the body": ("  match t with\n  | Leaf -> 0\n  | Node (l, r) -> size l + size r", f"{GIVEN}\n\nlet rec size (t : tree) : int =\n  match t with\n  | Leaf -> 0\n  | Node (l, r) -> size l + size r"),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "code"), WITH_TYPES.values(), ids=WITH_TYPES)
def test_the_problems_definitions_stand_once_in_front(reply: str, code: str) -> None:
    assert extract(reply, SIZE).code == code


def test_definitions_that_rest_on_a_changed_type_stand_behind_it() -> None:
    problem = parse_problem("```ocaml\ntype a = A\ntype b = a list\nlet f (x : b) : int =\n```", id="p")
    code = problem_program(problem, "type a = A | B\n\nlet f x = List.length x")
    assert code == "type a = A | B\n\ntype b = a list\n\nlet f x = List.length x"


def test_a_body_goes_under_the_type_where_no_parameters_are_known() -> None:
    code = extract("function [] -> 0 | _ :: r -> 1 + length r", LENGTH).code
    assert code == "let rec length : 'a list -> int =\n  function [] -> 0 | _ :: r -> 1 + length r"


@pytest.mark.parametrize("problem", [WORDS, SESSION])
def test_a_problem_without_a_header_gets_the_code_as_it_is(problem: Problem) -> None:
    assert extract(fenced("let helper = 1") + fenced(CODE), problem).code.endswith(CODE)


@pytest.mark.parametrize(
    "reply",
    ["", " \n", "\0", "I apologize, but I cannot help with that.", "```ocaml\n```", "```", "Sorry!", "…"],
)
def test_a_reply_without_code_gives_none(reply: str) -> None:
    found = extract(reply, SIZE)
    assert found.code == ""
    assert found.notes == ("no code in the reply",)


NOTES = [
    (fenced(CODE), ()),
    (f"```ocaml\n{CODE[:-1]}", ("the reply ends in the middle of the code",)),
    (CODE, ("no fence around the code",)),
    (fenced(CODE) * 2, ("of several blocks that define it, one taken",)),
    (fenced(CODE) + fenced("add 1 2"), ("a block of usage left out",)),
    (fenced("a + b"), ("the body put under the header",)),
]


@pytest.mark.parametrize(("reply", "notes"), NOTES)
def test_what_was_done_is_noted(reply: str, notes: tuple[str, ...]) -> None:
    assert extract(reply, ADD).notes == notes


PIECES = st.lists(
    st.sampled_from(
        [
            "```", "```ocaml\n", "~~~", "\n", "let ", "add ", "a b ", " = ", "in ", '"', "'", "(*", "*)",
            ";;", "# ", "`", "(", ")", "type tree = Leaf", "match x with ", "| ", "-> ", "fun ",
            "- : int = 2\n", "This is the code.", "\r", "\0", "end ", "begin ",
        ]
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=400)
@given(PIECES)
def test_any_reply_is_taken_without_an_error(pieces: list[str]) -> None:
    for problem in (ADD, LENGTH, WORDS, SESSION, SIZE):
        assert isinstance(extract("".join(pieces), problem).code, str)


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_any_text_at_all_is_taken_without_an_error(text: str) -> None:
    extract(text, ADD)
    extract(fenced(text), SIZE)

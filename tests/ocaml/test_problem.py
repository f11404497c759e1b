import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocaml.problem import MOST_BYTES, ProblemError, parse_problem, parse_row, read_problem

EXAMPLES = Path(__file__).parents[2] / "examples"

DOC = """(** Doubles [x].

    >>> double 2
    4
*)
let double (x : int) : int =
"""

TREE = """# Trees

A tree:

```ocaml
(* it may be empty *)
type tree =
  | Leaf
  | Node of tree * int * tree

exception Empty
```

Write

```ocaml
(** [largest t] is the largest element of [t]. *)
let rec largest (t : tree) : int = failwith "todo"
```

Usage:

```ocaml
let t = Node (Leaf, 3, Leaf)
let () = assert (largest t = 3)
```
"""

SIGNATURES = {
    "a doc comment": (DOC, "double", "int -> int"),
    "a block with a stub": (TREE, "largest", "tree -> int"),
    "a block without a tag": ("Do it.\n```\nlet f (x : int) : int = ...\n```", "f", "int -> int"),
    "tildes": ("~~~ml\nlet f (x : int) : int = ??\n~~~", "f", "int -> int"),
    "an unclosed block": ("```ocaml\nlet f (x : int) : int =", "f", "int -> int"),
    "a loose header": ("Do it.\n\nlet f (x : int) : int =\n\nThank you.", "f", "int -> int"),
    "an indented header": ("Do it:\n\n    let f (x : int) : int =\n\nThank you.", "f", "int -> int"),
    "a loose type": ("Do it.\n\nval f : int -> int\n", "f", "int -> int"),
    "inline let": ("Write `let f (x : int) : int` please.", "f", "int -> int"),
    "inline val": ("Write `val f : int -> int`.", "f", "int -> int"),
    "inline type": ("Write a function `f : int list -> int` that adds.", "f", "int list -> int"),
    "a signature line": ("Signature: f : int -> int\n\nDouble it.", "f", "int -> int"),
    "the one asked for": ("Use `g : int -> int`. Write a function `f : int -> int`, as `h : int -> int`.", "f", "int -> int"),
    "a name with parameters": ("Write a function `repeat n s` that repeats.", "repeat", None),
    "the last of several": ("```ocaml\nlet f (x : int) : int = ...\nlet g (x : bool) : int = ...\n```", "g", "bool -> int"),
    "code before words": ("`let f : int`\n```ocaml\nlet g (x : int) : int =\n```", "g", "int -> int"),
    "a type elsewhere": ("```ocaml\nval f : int -> int\n```\n```ocaml\nlet f x = failwith \"\"\n```", "f", "int -> int"),
    "and": ("```ocaml\nlet rec even (n : int) : bool = ...\nand odd (n : int) : bool = ...\n```", "even", "int -> bool"),
    "an operator": ("```ocaml\nlet ( |+| ) (a : int) (b : int) : int =\n```", "|+|", "int -> int -> int"),
    "over several lines": ("```ocaml\nlet rec f\n    (x : int)\n    (y : int)\n  : int\n=\n```", "f", "int -> int -> int"),
    "a session": ("```ocaml\n# f;;\n- : int -> int = <fun>\n```", "f", "int -> int"),
    "a function to mend": ("Mend `sum`.\n```ocaml\nlet rec sum (l : int list) : int = 0\n```", "sum", "int list -> int"),
    "a keyword in a sentence": ("let me ask you to reverse a list\n\ntype of the list: any", None, None),
    "words alone": ("Write a function that reverses a list.", None, None),
    "words about values": ("Use `List.map : ('a -> 'b) -> 'a list -> 'b list` and `let x = 1`.", None, None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "name", "kind"), SIGNATURES.values(), ids=SIGNATURES)
def test_the_header_asked_for_is_found(text: str, name: str | None, kind: str | None) -> None:
    signature = parse_problem(text, id="p").signature
    assert (signature and signature.name, signature and signature.type) == (name, kind)


def test_a_statement_keeps_the_prose_and_the_rest_has_its_place() -> None:
    problem = parse_problem(TREE, id="tree")
    assert (
        problem.statement
        == "# Trees\n\nA tree:\n\nWrite\n\n[largest t] is the largest element of [t].\n\nUsage:"
    )
    assert (
        problem.definitions
        == "(* it may be empty *)\ntype tree =\n  | Leaf\n  | Node of tree * int * tree\nexception Empty"
    )
    assert [e.assertion for e in problem.examples] == ["(let t = Node (Leaf, 3, Leaf) in largest t) = (3)"]


STATEMENTS = {
    "read doctests": (DOC, "Doubles [x]."),
    "doctests are all there is": ("(** >>> f 1\n    2\n*)\nlet f (x : int) : int =", ">>> f 1\n2"),
    "an example that is not read stays": ("`val f : 'a list -> int`\n>>> f [1, 2]\n2", "`val f : 'a list -> int`\n>>> f [1, 2]\n2"),
    "tables and lists stay": ("`val f : int -> int`\n\nInput: 1\nOutput: 2", "`val f : int -> int`\n\nInput: 1\nOutput: 2"),
    "foreign blocks stay": ("Do.\n```json\n{}\n```\n`val f : int -> int`", "Do.\n\n```json\n{}\n```\n\n`val f : int -> int`"),
    "other headers stay": ("```ocaml\nlet g (x : int) : int = ...\nlet f (x : int) : int = ...\n```", "```ocaml\nlet g (x : int) : int = ...\n```"),
    "a header alone": ("let f (x : int) : int =", ""),
    "a comment over a type speaks where nothing else does": ("(* Count. *)\ntype t = A\nlet f (x : t) : int =", "Count."),
    "a comment under a type": ("val f : int -> int\n(** Doubles. *)", "Doubles."),
}  # fmt: skip


@pytest.mark.parametrize(("text", "statement"), STATEMENTS.values(), ids=STATEMENTS)
def test_the_statement_is_what_is_not_said_elsewhere(text: str, statement: str) -> None:
    assert parse_problem(text, id="p").statement == statement


DEFINITIONS = {
    "types, exceptions, modules": (
        "```ocaml\ntype t = A\nexception E\nmodule M = struct let x = 1 end\nmodule type S = sig val f : int end\n```",
        "type t = A\nexception E\nmodule M = struct let x = 1 end\nmodule type S = sig val f : int end",
    ),
    "a value beside the header": ("```ocaml\nlet pi = 3.\nlet area (r : float) : float =\n```", "let pi = 3."),
    "a value beside a type": ("```ocaml\ntype t = A\nlet a = A\n```\n`val f : t -> int`", "type t = A\nlet a = A"),
    "usage is none": ("`val f : int -> int`\n```ocaml\nlet one = 1\nassert (f one = 2)\n```", ""),
    "a use of the function is none": ("```ocaml\ntype t = A\nlet f (x : t) : int =\n\nlet r = f A\n```", "type t = A"),
    "what a test opens is none": ("`val f : int -> int`\n```ocaml\nopen OUnit2\nlet t = f 1\n```", ""),
    "what stands open over the header": ("```ocaml\nopen List\nlet f (x : int) : int =\n```", "open List"),
    "a type of a session": ("`val f : int -> int`\n```ocaml\n# type t = A;;\ntype t = A\n```", "type t = A"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "definitions"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_what_the_answer_may_rely_on_is_kept_word_for_word(text: str, definitions: str) -> None:
    assert parse_problem(text, id="p").definitions == definitions


@pytest.mark.parametrize("text", [DOC, TREE])
def test_line_ends_and_a_byte_order_mark_change_nothing(text: str) -> None:
    plain = parse_problem(text, id="p")
    assert parse_problem("\ufeff" + text.replace("\n", "\r\n"), id="p") == plain
    assert parse_problem(text.replace("\n", "\r"), id="p") == plain


REFUSED = {
    "nothing": ("", "is empty"),
    "blanks": (" \n\t\r\n\ufeff", "is empty"),
    "no words": ("```\n```\n---\n", "no words and no code"),
    "NUL": ("a\0b", "character 1 is NUL"),
    "a bracket too few": ("```ocaml\nlet f (x : int : int =\n```", "line 2 does not parse, '(' is not closed"),
    "a bracket too few in a doc comment's header": ("(** Doc. *)\nlet f (x : int : int =", "line 2 does not parse"),
    "a letter that is none": ("let f (x : “int”) : int =", "'“' means nothing in OCaml"),
    "another language's arrow": ("let f (x : int) -> int =", "where '->' stands"),
    "a broken inline header": ("Write `let f (x : int : int`.", "'(' is not closed"),
    "no type": ("```ocaml\nlet f (x : int) : =\n```", "a type should stand behind ':'"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_problem_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_problem(text, id="kata")
    message = str(caught.value)
    assert said in message
    assert message.startswith("kata")
    assert message.endswith(".")
    assert "\n" not in message


def test_a_broken_header_beside_a_good_one_is_an_aside() -> None:
    text = "This is wrong: `let f (x : int : int`.\n```ocaml\nlet f (x : int) : int =\n```"
    assert parse_problem(text, id="p").signature is not None


FILES = {
    "a binary": (b"\x7fELF\0\0", "binary (byte 4 is NUL)"),
    "not UTF-8": (b"let f \xff", "not UTF-8 at byte 6 (0xff)"),
    "not UTF-8 behind a mark": (b"\xef\xbb\xbfa\xff", "not UTF-8 at byte 4 (0xff)"),
    "UTF-16": ("let f".encode("utf-16"), "UTF-16"),
    "nothing": (b"", "is empty"),
    "too much": (b"word\n" * (MOST_BYTES // 5 + 1), "more than the 1,048,576"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "said"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "kata.md"
    path.write_bytes(data)
    with pytest.raises(ProblemError) as caught:
        read_problem(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_path_that_leads_nowhere_or_to_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"There is no file .*gone\.md"):
        read_problem(tmp_path / "gone.md")
    with pytest.raises(ProblemError, match="is a folder"):
        read_problem(tmp_path)
    with pytest.raises(ProblemError, match="cannot be read"):
        read_problem("a\0b")


def test_ten_megabytes_are_refused_with_their_size(tmp_path: Path) -> None:
    path = tmp_path / "big.md"
    path.write_bytes(b"f 1 = 2\n" * (10 * MOST_BYTES // 8))
    with pytest.raises(ProblemError, match=r"has 10,485,760 bytes, more than the 1,048,576"):
        read_problem(path)


def test_a_dash_reads_the_standard_input() -> None:
    problem = read_problem("-", stdin=io.BytesIO(DOC.encode()))
    assert (problem.id, problem.signature and problem.signature.name) == ("stdin", "double")
    with pytest.raises(ProblemError, match="The standard input is empty"):
        read_problem(Path("-"), stdin=io.BytesIO(b""))


def test_a_file_gives_its_name_as_id(tmp_path: Path) -> None:
    (tmp_path / "double.md").write_text(DOC)
    assert read_problem(tmp_path / "double.md").id == "double"


ROWS = [
    ({"id": "a", "prompt": DOC, "tests": "assert true"}, "a", "double", "assert true"),
    ({"task_id": 7, "problem": "Double it.", "signature": "let double (x : int) : int =", "test": "t"}, "7", "double", "t"),
    ({"name": "n", "question": "Double it.", "function": "val double : int -> int", "test_list": ["a", "b"]}, "n", "double", "a\nb"),
    ({"id": "b", "statement": "```ocaml\nlet f x = ...\nlet g x = ...\n```", "function": "f"}, "b", "f", ""),
    ({"prompt": "Words only.", "tests": None}, "row", None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("row", "name", "function", "tests"), ROWS)
def test_a_row_becomes_a_problem(row: dict[str, object], name: str, function: str | None, tests: str) -> None:
    problem = parse_row(row)
    assert (problem.id, problem.signature and problem.signature.name, problem.tests) == (
        name,
        function,
        tests,
    )


BAD_ROWS = [
    ({"id": "x", "tests": "t"}, "Row x has no text under"),
    ({"id": "x", "prompt": 3}, "no text under \"prompt\" but int"),
    ({"id": "x", "prompt": "Do.", "tests": {"a": 1}}, "no text under \"tests\" but dict"),
    ({"id": "x", "prompt": "Do.", "signature": "let f (x ="}, "its signature does not parse"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "said"), BAD_ROWS)
def test_a_bad_row_is_named(row: dict[str, object], said: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_row(row)
    assert said in str(caught.value)


OURS = [
    ("run_length.md", "decode", 3),
    ("digits.md", "digit_sum", 3),
    ("pair_sum.md", "pair_sum", 3),
    ("group_words.md", "group_by_length", 3),
    ("tree_depth.md", "at_depth", 4),
    ("calculator.md", "evaluate", 5),
]


@pytest.mark.parametrize(("file", "name", "examples"), OURS)
def test_the_examples_that_come_with_the_project_are_read_whole(file: str, name: str, examples: int) -> None:
    problem = read_problem(EXAMPLES / file)
    assert problem.signature is not None
    assert problem.signature.name == name
    assert problem.signature.type is not None
    assert len(problem.examples) == examples
    assert problem.unread == ()
    assert problem.statement


def test_every_file_among_the_examples_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.md")} == {file for file, _, _ in OURS}


PIECES = st.lists(
    st.sampled_from(
        [
            "```", "```ocaml\n", "\n", "let ", "f ", "(x : int)", " = ", "in ", '"', "'", "(*", "*)", ";;",
            "# ", "| a | b |\n", "|---|---|\n", ">>> ", "1", "[1, 2]", "Input: ", "Output: ", "assert ",
            "- : int = 2\n", "`", "type t = A", "\r", "é",
        ]
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=300)
@given(PIECES)
def test_any_text_is_a_problem_or_a_sentence(pieces: list[str]) -> None:
    try:
        problem = parse_problem("".join(pieces), id="p")
    except ProblemError as error:
        sentences, examples = [str(error)], ()
    else:
        sentences, examples = list(problem.unread), problem.examples
    assert not any("\n" in sentence for sentence in sentences)
    assert all(example.assertion and example.line for example in examples)

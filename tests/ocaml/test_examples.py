"""Every notation of an example, and what looks like one."""

import subprocess
from pathlib import Path

import pytest

from ocaml.problem import ProblemError, parse_problem
from ocaml.toolchain import Toolchain


def assertions(text: str) -> list[str]:
    """The examples of a problem, short: ``f 1 = 2`` or the boolean."""
    return [
        e.expression if e.expected is None else f"{e.expression} = {e.expected}"
        for e in parse_problem(text, id="p").examples
    ]


INT = "`let f (x : int) : int`\n\n"
LIST = "```ocaml\nlet f (xs : int list) (k : int) : bool =\n```\n\n"
POLY = "`val f : 'a list -> int`\n\n"


def ocaml(code: str) -> str:
    return f"```ocaml\n{code}\n```\n"


NOTATIONS = {
    "a doctest": (INT + ">>> f 1\n2\n", ["f 1 = 2"]),
    "two doctests in a row": (INT + ">>> f 1\n2\n>>> f 2\n3\n", ["f 1 = 2", "f 2 = 3"]),
    "a doctest in a doc comment with stars": (
        "(** Adds.\n * >>> f 1\n * 2\n *)\nlet f (x : int) : int =",
        ["f 1 = 2"],
    ),
    "a doctest over several lines": (
        LIST + ">>> f [1;\n...    2] 3\ntrue\n",
        ["f [1;\n   2] 3 = true"],
    ),
    "a doctest whose value goes on": ("`val f : int -> int list`\n>>> f 1\n[1;\n 2]\nWords.", ["f 1 = [1;\n2]"]),
    "a doctest with a binding": (
        LIST + ">>> let xs = [1; 2]\n>>> f xs 1\ntrue\n",
        ["let xs = [1; 2] in f xs 1 = true"],
    ),
    "a doctest that raises": (INT + ">>> f 0\nException: Not_found.\n", ["(try ignore (f 0); false with Not_found -> true)"]),
    "an equation on a line": (INT + "f 1 = 2\n", ["f 1 = 2"]),
    "an equation in a list": (INT + "- `f 1 = 2`\n2. f 2 = 3\n", ["f 1 = 2", "f 2 = 3"]),
    "equations in a sentence": (INT + "For example `f 1 = 2`, and `f 2 = 3`; `f 3` is `4`, `f 4` is `5`.", ["f 1 = 2", "f 2 = 3", "f 3 = 4", "f 4 = 5"]),
    "arrows": (INT + "f 1 => 2\nf 2 -> 3\n`f 3` → `4`\n", ["f 1 = 2", "f 2 = 3", "f 3 = 4"]),
    "words": (
        INT + "`f 1` returns `2`. `f 2` should return 3, and f 3 is not said.\nf 4 evaluates to 5.\n`f 5` gives `6`",
        ["f 1 = 2", "f 2 = 3", "f 4 = 5", "f 5 = 6"],
    ),
    "words that raise": (
        INT + "`f 0` raises `Invalid_argument \"f\"` when it is 0.",
        ['(try ignore (f 0); false with Invalid_argument "f" -> true)'],
    ),
    "a negative argument": (INT + "`f -1 = 2`, `f (-2) = -3`", ["f (-1) = 2", "f (-2) = -3"]),
    "a call as in Python": (LIST + "f([1, 2], 3) == True\n", ["f [1; 2] 3 = true"]),
    "a function as argument": ("`val f : (int -> int) -> int`\n- `f (fun x -> x + 1) = 2`\n- `f succ` is `3`", ["f (fun x -> x + 1) = 2", "f succ = 3"]),
    "an operator": ("`let ( +: ) (a : int) (b : int) : int`\n\n`1 +: 2 = 3`", ["1 +: 2 = 3"]),
    "equations in a block": (INT + ocaml("f 1 = 2\nf 2 = 3;;"), ["f 1 = 2", "f 2 = 3"]),
    "comments in a block": (
        INT + ocaml("f 1 (* = 2 *)\nf 2 (* 3 *)\nf 3;; (* - : int = 4 *)\nf 4\n(* => 5 *)\nf 5 (* raises Exit *)"),
        ["f 1 = 2", "f 2 = 3", "f 3 = 4", "f 4 = 5", "(try ignore (f 5); false with Exit -> true)"],
    ),
    "arrows in a block": (INT + ocaml("f 1 => 2\nf 2 -> 3"), ["f 1 = 2", "f 2 = 3"]),
    "asserts": (
        INT + ocaml("assert (f 1 = 2);;\nlet () = assert (f 2 = 3); assert (4 = f 3)\nlet _ = assert ((f 4) = 5)"),
        ["f 1 = 2", "f 2 = 3", "f 3 = 4", "f 4 = 5"],
    ),
    "asserts in blocks and under bindings": (
        INT + ocaml("let () =\n  let x = 1 in\n  begin assert (f x = 2); assert (f 2 > x) end"),
        ["let x = 1 in f x = 2", "let x = 1 in f 2 > x"],
    ),
    "a boolean": (INT + ocaml("assert (f 1 > 0 && f 2 > 0)\nlet%test _ = f 3 = 4"), ["f 1 > 0 && f 2 > 0", "f 3 = 4"]),
    "asserts in a loop": (
        INT + ocaml("let () = List.iter (fun (a, b) -> assert (f a = b)) [(1, 2)]"),
        ["(List.iter (fun (a, b) -> assert (f a = b)) [(1, 2)]; true)"],
    ),
    "a block's own values": (INT + ocaml("let one = 1\nlet got = f one\nlet () = assert (got = 2)"), ["let one = 1 in let got = f one in got = 2"]),
    "asserts under the header": ("let f (x : int) : int =\n\nassert (f 1 = 2)\n", ["f 1 = 2"]),
    "a session": (INT + "```\n# f 1;;\n- : int = 2\n# f (1 +\n   1);;\n- : int =\n3\n```", ["f 1 = 2", "f (1 +\n   1) = 3"]),
    "an indented session": (INT + "    # f 1;;\n    - : int = 2\n", ["f 1 = 2"]),
    "a session that raises": (INT + ocaml('# f 0;;\nException: Failure "zero".'), ['(try ignore (f 0); false with Failure "zero" -> true)']),
    "a session that prints": (INT + ocaml("# f 0;;\nhello\n- : int = 2"), ["f 0 = 2"]),
    "a session without prompts": (INT + ocaml("f 1;;\n- : int = 2"), ["f 1 = 2"]),
    "a session of utop": (INT + ocaml("utop # f 1;;\n- : int = 2\nutop[1]> f 2;;\n- : int = 3"), ["f 1 = 2", "f 2 = 3"]),
    "a session with a value": (
        LIST + ocaml("# let xs = [1];;\nval xs : int list = [1]\n# f xs 1;;\n- : bool = true"),
        ["let xs = [1] in f xs 1 = true"],
    ),
    "a session without a header": ("Find it.\n" + ocaml("# last [1];;\n- : int option = Some 1"), ["last [1] = Some 1"]),
    "input and output": (LIST + "Input: xs = [1,2,3], k = 2\nOutput: true\nExplanation: words\n", ["f [1; 2; 3] 2 = true"]),
    "inputs by name in any order": (LIST + "**Input:** k = 2, xs = [1]\n**Output:** False\n", ["f [1] 2 = false"]),
    "inputs without names": (LIST + "- Input: [1, 2], 3\n- Output: true\n- Input: `[1; 2] 4`, Output: `false`", ["f [1; 2] 3 = true", "f [1; 2] 4 = false"]),
    "inputs a line each": (LIST + "Input:\n\n[1, 2]\n3\n\nOutput:\n\ntrue\n", ["f [1; 2] 3 = true"]),
    "input and output as sections": (
        LIST + "### Input\n```\nxs = [1, 2]\nk = 3\n```\n### Output\n```\ntrue\n```\n",
        ["f [1; 2] 3 = true"],
    ),
    "input and output in a block": (INT + "```\nInput: 1\nOutput: 2\n\nInput: 2\nOutput: 3\n```", ["f 1 = 2", "f 2 = 3"]),
    "input and output in OCaml": (INT + "Input:\n" + ocaml("f 1") + "Output:\n" + ocaml("2"), ["f 1 = 2"]),
    "labelled arguments": (
        "let f ~(a : int) ?(b : int = 0) () : int =\n\nInput: a = 1, b = 2\nOutput: 3\n\nf ~a:1 () = 1",
        ["f ~a:1 ~b:2 () = 3", "f ~a:1 () = 1"],
    ),
    "a table": (INT + "| Input | Output |\n|---|---|\n| 1 | 2 |\n| `f 2` | `3` |\n", ["f 1 = 2", "f 2 = 3"]),
    "a table of parameters": (
        LIST + "| # | k | xs | expected | why |\n|:-:|--:|---|---|---|\n| 1 | 2 | [1, 2] | True | a \\| b |\n",
        ["f [1; 2] 2 = true"],
    ),
    "a table headed by the call": ("`val f : int -> int`\n\nn | f n\n--|--\n1 | 2\n", ["f 1 = 2"]),
    "a table with arrays": (
        "`val f : int array -> int`\n\n| input | output |\n|---|---|\n| [|1; 2|] | 3 |\n| [4, 5] | 9 |",
        ["f [|1; 2|] = 3", "f [|4; 5|] = 9"],
    ),
    "a list of arrows": ("`val f : int -> string`\n\nExamples:\n\n- 1 -> \"I\"\n- `4` → `\"IV\"`\n", ['f 1 = "I"', 'f 4 = "IV"']),
    "a comment over the header": ("(* f 1 = 2 *)\nlet f (x : int) : int = failwith \"todo\"", ["f 1 = 2"]),
    "an example twice": (INT + "f 1 = 2\n>>> f (1)\n2\n", ["f 1 = 2"]),
    "a float that ends a sentence": ("`val f : float -> float`\n\nf 2 is 4. `f 3.` is `9.`", ["f 2. = 4.", "f 3. = 9."]),
    "an alias": ("```ocaml\ntype row = int list\nlet f (r : row) : row =\n```\nInput: r = [1,2]\nOutput: [2,1]", ["f [1; 2] = [2; 1]"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), NOTATIONS.values(), ids=NOTATIONS)
def test_an_example_is_read(text: str, expected: list[str]) -> None:
    assert assertions(text) == expected


NONE = {
    "a law": INT + "`f x = 2 * x`, f x -> x + x, and `f (x + y) = f x + f y`.",
    "a type": INT + "`f : int -> int` and `val f : int -> int`",
    "a negation": INT + "`f 1` is not `2`.",
    "one of several values": INT + "`f 1` is `2`, `3` or `4`.",
    "another function": INT + "`g 1 = 2`; >>> g 1 gives 2.",
    "arithmetic": INT + "1 + 1 = 2\n\n>>> 1 + 1\n2\n",
    "a map of letters": "`val f : string -> string`\n\n'a' -> 'b'\n",
    "a sentence with the name": INT + "The function f 3 times. We call f 1 and then stop.",
    "what is printed": INT + ocaml("print_int (f 1) (* 2 *)"),
    "a remark": INT + ocaml("f 1 (* the smallest one *)"),
    "an input that is described": INT + "Input: an integer\nOutput: a number\n\n### Input\nThe first line holds n.\n\n### Output\nOne number.",
    "types of inputs": INT + "Input: integer\nOutput: integer\n",
    "a table of something else": INT + "| Operator | Meaning |\n|---|---|\n| 1 | 2 |\n",
    "a heading": INT + "# f 1;\n",
    "the function itself": INT + ocaml("# f;;\n- : int -> int = <fun>"),
    "another language": INT + "```python\nassert f(1) == 2\n```",
}  # fmt: skip


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_what_only_looks_like_an_example_is_none(text: str) -> None:
    problem = parse_problem(text, id="p")
    assert (problem.examples, problem.unread) == ((), ())


UNREAD = {
    "a list that may be a tuple": (POLY + "\n>>> f [1, 2]\n2\n", 4, "certain reading"),
    "a string without quotes": ("`val f : string -> int`\nInput: hello\nOutput: 5", 2, "quotes"),
    "too many inputs": (INT + "Input: 1, 2\nOutput: 3", 3, "2 inputs where `f` takes 1"),
    "names of other inputs": (LIST + "Input: xs = [1], n = 2\nOutput: true", 5, "names"),
    "an input without a header": ("Sum it.\n\nInput: 1\nOutput: 2", 3, "no function header"),
    "a shortened value": (INT + ocaml("# f 1;;\n- : int list = [1; ...]"), 4, "does not print all"),
    "a doctest without a value": (INT + ">>> f 1\n\n", 3, "no value"),
    "an assert without parentheses": (INT + ocaml("assert f 1 = 2"), 4, "parentheses"),
    "a value of another type": ("`val f : int -> string`\nInput: 1\nOutput: 2", 2, "certain reading"),
    "a row with too many cells": (INT + "| Input | Output |\n|---|---|\n| 1 | 2 | 3 |", 5, "3 cells"),
    "an exception without a name": (INT + ">>> f 1\nTraceback (most recent call last):\n", 3, "no exception"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "said"), UNREAD.values(), ids=UNREAD)
def test_what_cannot_be_read_for_certain_is_told_in_a_sentence(text: str, line: int, said: str) -> None:
    problem = parse_problem(text, id="p")
    (sentence,) = problem.unread
    assert problem.examples == ()
    assert sentence.startswith(f"The example on line {line} was not read: ")
    assert said in sentence
    assert sentence.endswith(".")


CONTRADICTIONS = [
    (INT + "f 1 = 2\n\n`f (1)` returns `3`.", "line 3", "line 5"),
    (INT + ">>> f 1\n2\n" + ocaml("assert (f 1 = 3)"), "line 3", "line 6"),
    (LIST + "Input: [1, 2], 3\nOutput: true\n\n>>> f [1;2] 3\nfalse\n", "line 5", "line 8"),
]


@pytest.mark.parametrize(("text", "first", "second"), CONTRADICTIONS)
def test_two_values_for_one_expression_are_refused_with_both_lines(
    text: str, first: str, second: str
) -> None:
    with pytest.raises(ProblemError, match=rf"{first} .*{second} "):
        parse_problem(text, id="p")


def test_two_spellings_of_one_value_are_no_contradiction() -> None:
    text = "`val f : int -> float list`\n\nf 1 = [1.0; 2.]\n\nf 1 = [ 1. ; 2.0 ]\n"
    assert assertions(text) == ["f 1 = [1.0; 2.]"]


def test_an_example_knows_its_line() -> None:
    problem = parse_problem("# Title\n\n" + INT + ocaml("let a = 1\nassert (f a = 2)") + "f 2 = 3\n", id="p")
    assert [example.line for example in problem.examples] == [7, 9]


def test_examples_in_every_notation_are_ocaml(toolchain: Toolchain, tmp_path: Path) -> None:
    stubs = {"int": "let f _ = assert false"}
    for number, (text, _) in enumerate(NOTATIONS.values()):
        problem = parse_problem(text, id="p")
        kind = problem.signature.type if problem.signature else None
        name = problem.signature.name if problem.signature else "last"
        header = f"let ( {name} )" if not name.isidentifier() else f"let {name}"
        stub = f"{header} : {kind} = Obj.magic 0" if kind else f"{header} = Obj.magic 0"
        checks = "".join(f"let _ = fun () -> assert ({e.assertion})\n" for e in problem.examples)
        (tmp_path / f"n{number}.ml").write_text(f"{problem.definitions}\n{stub or stubs}\n{checks}")
    files = sorted(path.name for path in tmp_path.glob("*.ml"))
    result = subprocess.run(
        [toolchain.ocamlc, "-i", *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr

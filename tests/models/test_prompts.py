"""What a model is asked: one place, short, and nothing asked that was not given."""

import hashlib

import pytest

from models import prompts
from models.engines.protocol import Message, Role

STATEMENT = "Return the sum of a list."
SIGNATURE = "let sum (xs : int list) : int ="
DEFINITIONS = "type t = A | B of int"
EXAMPLES = ["(sum [1; 2]) = (3)", "(sum []) = (0)"]


def question(**more: object) -> str:
    system, user = prompts.solve(STATEMENT, **more)  # type: ignore[arg-type]
    assert (system.role, user.role) == (Role.SYSTEM, Role.USER)
    return user.text


def test_the_system_prompt_is_short():
    assert len(prompts.SYSTEM.split()) < 60
    assert prompts.solve(STATEMENT)[0] == Message(Role.SYSTEM, prompts.SYSTEM)


def test_a_bare_statement_is_asked_as_it_is():
    assert question() == STATEMENT


def test_whatever_is_given_is_in_the_question():
    text = question(signature=SIGNATURE, definitions=DEFINITIONS, examples=EXAMPLES)
    for part in (STATEMENT, SIGNATURE, DEFINITIONS, *EXAMPLES):
        assert part in text
    assert text.count("```ocaml\n") == 3
    assert text.count("```") == 6


@pytest.mark.parametrize("left_out", ["signature", "definitions", "examples"])
def test_whatever_is_not_given_is_not_mentioned(left_out: str):
    given = {"signature": SIGNATURE, "definitions": DEFINITIONS, "examples": EXAMPLES}
    titles = {"signature": "Signature:", "definitions": "Already defined", "examples": "Examples:"}
    text = question(**(given | {left_out: [] if left_out == "examples" else " \n"}))
    for name, title in titles.items():
        assert (title in text) is (name != left_out)


def test_the_same_problem_is_always_asked_in_the_same_words():
    assert question(signature=SIGNATURE) == question(signature=f"{SIGNATURE}\n")


def test_a_fence_within_the_code_does_not_end_the_fence_around_it():
    text = question(definitions="(** {v ```ocaml v} *)\ntype t = int")
    assert text.endswith("````ocaml\n(** {v ```ocaml v} *)\ntype t = int\n````")


def test_a_repair_goes_on_after_the_code_with_the_compilers_words():
    asked = prompts.solve(STATEMENT, signature=SIGNATURE)
    complaint = "Line 1: let sum xs = List.sum xs\nError: Unbound value List.sum"
    repair = prompts.repair(asked, "let sum xs = List.sum xs\n", complaint)
    assert repair[:2] == asked
    assert repair[2] == Message(Role.ASSISTANT, "```ocaml\nlet sum xs = List.sum xs\n```")
    assert repair[3].role is Role.USER
    assert complaint in repair[3].text
    assert len(repair) == 4


def test_repairs_can_follow_repairs():
    asked = prompts.solve(STATEMENT)
    twice = prompts.repair(prompts.repair(asked, "let a = 1", "no"), "let a = 2", "no again")
    assert [message.role.value for message in twice] == ["system", *["user", "assistant"] * 2, "user"]


@pytest.mark.parametrize("code", ["", " \n"])
def test_an_answer_without_code_is_asked_for_again_in_the_same_turn(code: str):
    asked = prompts.solve(STATEMENT)
    repair = prompts.repair(asked, code, "There is no OCaml code in the answer.")
    assert [message.role for message in repair] == [Role.SYSTEM, Role.USER]
    assert repair[1].text.startswith(asked[1].text)
    assert "There is no OCaml code in the answer." in repair[1].text


def test_the_version_changes_with_the_words():
    asked = prompts.solve("S", "sig", "def", ["e"])
    words = repr([asked, prompts.repair(asked, "code", "complaint"), prompts.repair(asked, "", "complaint")])
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    assert (prompts.VERSION, digest) == ("1", "961882365ca929c2")

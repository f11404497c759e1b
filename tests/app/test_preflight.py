"""What is wrong with a problem is said before a model is loaded."""

from pathlib import Path

import pytest

from app.preflight import Cleared, clear, stub_for
from ocaml.errors import UnsoundTests
from ocaml.judge import Judge, PlainJudge
from ocaml.problem import Example, Problem, ProblemError, Signature, read_problem
from ocaml.toolchain import find

SUCC = Signature("f", "let f (x : int) : int =", "int -> int", ("(x : int)",))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.md"))


@pytest.fixture(scope="module")
def judge() -> Judge:
    return PlainJudge(find())


def problem(**parts: object) -> Problem:
    return Problem(**{"id": "p", "statement": "Add one.", "signature": SUCC, **parts})  # type: ignore[arg-type]


async def test_a_sound_problem_is_left_as_it_is(judge: Judge) -> None:
    given = problem(examples=(Example("f 1", "2"), Example("f 2", "3")))
    assert await clear(given, judge) == Cleared(given, ())


async def test_an_example_that_fits_no_answer_is_left_out_and_named(judge: Judge) -> None:
    given = problem(examples=(Example("f 1", "2", 3), Example("f 1", '"two"', 7)))
    cleared = await clear(given, judge)
    assert cleared.problem.examples == given.examples[:1]
    assert "line 7" in cleared.notes[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("let f (x : int : int =", "does not parse"),
        ("let f (x : nosuch) : int =", "does not type-check"),
    ],
)
async def test_a_signature_that_is_no_ocaml_is_refused(judge: Judge, text: str, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        await clear(problem(signature=Signature("f", text)), judge)


async def test_tests_that_fit_no_answer_are_refused(judge: Judge) -> None:
    with pytest.raises(UnsoundTests):
        await clear(problem(tests='let () = assert (f 1 = "a")'), judge)


async def test_words_alone_are_refused(judge: Judge) -> None:
    with pytest.raises(ProblemError, match="no code"):
        await clear(Problem("p", "Write something nice."), judge)


@pytest.mark.parametrize(
    "signature",
    [
        SUCC,
        Signature("f", "val f : int -> int", "int -> int"),
        Signature("f", "val f : int", "int"),
        Signature("f", "let f x y =", None),
        Signature("f", 'let rec f ?(sep = ",") ~x (y : \'a list) : string =', None),
    ],
)
async def test_every_form_of_signature_has_a_stub_that_type_checks(
    judge: Judge, signature: Signature
) -> None:
    await clear(problem(signature=signature), judge)
    assert stub_for(signature)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_the_examples_that_we_ship_are_sound(judge: Judge, path: Path) -> None:
    given = read_problem(path)
    cleared = await clear(given, judge)
    assert cleared.notes == ()
    assert cleared.problem.signature is not None
    assert len(cleared.problem.examples) >= 3

"""Right and wrong answers to real problems get the verdict they deserve, and the stub gets nothing.

    OCAMLER_MULTIPLT=multiplt_ocaml_dev.jsonl pytest tests/ocaml/test_answers.py

judges the same answers by the tests of the dataset's rows too, which are not kept here.
"""

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from ocaml.judge import Judge
from ocaml.problem import Signature, parse_row
from ocaml.verdict import Stage


@dataclass(frozen=True)
class Case:
    """A problem with one way to test it, and answers to it."""

    name: str
    asked: Signature | None
    tests: str
    right: str
    wrong: tuple[str, ...]

    @property
    def stub(self) -> str:
        assert self.asked is not None
        return f'let {self.asked.name} = fun _ -> failwith "todo"'


@pytest.fixture(scope="module", params=[pytest.param("plain", marks=pytest.mark.slow), "served"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Both judges, the one that starts compilers in the slow tests."""
    found: Judge = request.getfixturevalue(f"{request.param}_judge")
    return found


def cases() -> list[Case]:
    """The problems with our own tests, then those with the dataset's, where that is named."""
    text = (Path(__file__).parent / "answers" / "answers.toml").read_text(encoding="utf-8")
    problems = tomllib.loads(text)["problem"]
    found = []
    for problem in problems:
        name = problem["function"]
        asked = Signature(name, f"val {name} : {problem['type']}", problem["type"])
        tests = "".join(f"let () = assert ({claim})\n" for claim in problem["tests"])
        found.append(Case(problem["id"], asked, tests, problem["right"], tuple(problem["wrong"])))
    place = os.environ.get("OCAMLER_MULTIPLT")
    if place:
        lines = Path(place).read_text(encoding="utf-8").splitlines()
        rows = {row["id"]: parse_row(row) for row in map(json.loads, lines)}
        found += [
            Case(f"{case.name}-row", rows[case.name].signature, rows[case.name].tests, case.right, case.wrong)
            for case in tuple(found)
        ]
    return found


CASES = cases()
WRONG = [(case, index) for case in CASES for index in range(len(case.wrong))]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_right_answer_passes(judge: Judge, case: Case) -> None:
    verdict = await judge.grade(case.right, case.tests, asked=case.asked)
    failed = [(claim.text, claim.actual) for claim in verdict.assertions if claim.outcome != "passed"]
    assert verdict.stage is Stage.PASS, (failed, verdict.errors)
    assert verdict.passed == verdict.total > 0
    assert all(claim.compared for claim in verdict.assertions)


@pytest.mark.parametrize(("case", "index"), WRONG, ids=[f"{case.name}-{index}" for case, index in WRONG])
async def test_a_wrong_answer_does_not(judge: Judge, case: Case, index: int) -> None:
    verdict = await judge.grade(case.wrong[index], case.tests, asked=case.asked)
    assert verdict.stage is not Stage.PASS
    assert verdict.passed < verdict.total


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_the_stub_gets_nothing(judge: Judge, case: Case) -> None:
    verdict = await judge.grade(case.stub, case.tests, asked=case.asked)
    assert (verdict.stage, verdict.passed) == (Stage.TESTS, 0)
    assert verdict.total > 0


def test_there_are_enough_problems_with_answers_wrong_in_many_ways() -> None:
    assert len({case.name.removesuffix("-row") for case in CASES}) >= 40
    assert all(case.wrong for case in CASES)

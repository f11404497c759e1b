"""Mutated and oversized programs get a verdict, whatever they are; ``tests/benchmarks/soak.py --fuzz`` tries many more."""

import contextlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ocaml.errors import UnsoundTests
from ocaml.judge import Judge, Source
from ocaml.problem import Signature
from ocaml.verdict import Stage

SEEDS = range(90)
GRADED_SEEDS = range(1000, 1020)
ASKED = Signature("double", "val double : int -> int", "int -> int")
TESTS = "let () = assert (double 1 = 2)\nlet () = assert (double 4 = 8)\n"


def _beside(place: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mutations = _beside(Path(__file__).with_name("mutations.py"))
LARGE: dict[str, bytes] = mutations.large_cases()
# On these a compiler of 4.13 meets its limit, 10 s; two of the kind (lists, functions) are in the fast tests.
KEEPS_BUSY = {"10000 arrays", "10000 tuples", "deep pattern", "deep type application"}
SOURCES = [path.read_bytes() for path in sorted((Path(__file__).parent / "hostile").glob("honest*.ml"))] + [
    b"type t = A | B of int * string\nlet rec f = function A -> 0 | B (n, s) -> n + String.length s\nlet x = f (B (1, \"a\"))",
    b"module M (X : sig val n : int end) = struct let twice = 2 * X.n end\nlet y = let open M (struct let n = 1 end) in [| twice |]",
    b"(* a (* nested *) comment with \"a string\" *)\nlet s = {q|text|q} ^ \"\\n\\u{e9}\\065\" let c = '\\'' let f ?(a = 1) ~b () = a + b",
]  # fmt: skip


@pytest.fixture(scope="module", params=[pytest.param("plain", marks=pytest.mark.slow), "served"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Both judges, the one that starts compilers in the slow tests."""
    found: Judge = request.getfixturevalue(f"{request.param}_judge")
    return found


async def checks(judge: Judge, source: bytes) -> None:
    """A verdict with words for it: an error where the file is refused, none where it isn't."""
    (checked,) = await judge.check([Source("a.ml", source)])
    assert checked.stage in {Stage.SYNTAX, Stage.TYPE, Stage.PASS}
    assert checked.ok == (not any(found.is_error for found in checked.diagnostics))
    assert all(found.message for found in checked.diagnostics)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_mutated_program_gets_a_verdict(judge: Judge, seed: int) -> None:
    await checks(judge, mutations.mutated(seed, SOURCES))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in KEEPS_BUSY)) for name in LARGE]
)
async def test_a_program_of_great_depth_or_length_gets_a_verdict(judge: Judge, name: str) -> None:
    await checks(judge, LARGE[name])


@pytest.mark.parametrize("seed", GRADED_SEEDS)
async def test_a_mutated_answer_gets_a_verdict(judge: Judge, seed: int) -> None:
    answer = mutations.mutated(seed, [b"let rec double x = if x = 0 then 0 else 2 + double (x - 1)\n"])
    verdict = await judge.grade(answer.decode(errors="surrogateescape"), TESTS, asked=ASKED)
    assert verdict.total == 2
    assert (verdict.stage is Stage.PASS) == (verdict.passed == 2)


@pytest.mark.parametrize("seed", GRADED_SEEDS)
async def test_mutated_tests_are_used_or_refused(judge: Judge, seed: int) -> None:
    tests = mutations.mutated(seed, [TESTS.encode()]).decode(errors="surrogateescape")
    with contextlib.suppress(UnsoundTests):
        verdict = await judge.grade("let double x = 2 * x", tests, asked=ASKED)
        assert verdict.total > 0 or not tests.strip()


@pytest.mark.parametrize(
    "name",
    ["long identifier", "10000 parentheses", "10000 unclosed comments", "only NULs", "surrogate", "nothing"],
)
async def test_an_answer_of_great_depth_or_length_gets_a_verdict(judge: Judge, name: str) -> None:
    verdict = await judge.grade(LARGE[name].decode(errors="surrogateescape"), TESTS, asked=ASKED)
    assert (verdict.stage < Stage.TESTS, verdict.passed, verdict.total) == (True, 0, 2)


def test_a_seed_makes_the_same_program_again() -> None:
    assert [mutations.mutated(seed, SOURCES) for seed in SEEDS] == [
        mutations.mutated(seed, SOURCES) for seed in SEEDS
    ]

"""The cases of ``soak.py``: requests to a judge, each knowing what the answer should be."""

import importlib.util
import random
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ocaml.judge import Judge, Source
from ocaml.verdict import Stage

FAMILIES = ("shadow", "exit", "magic", "forge", "loop", "overflow", "memory", "flood", "raise", "directive")
SLOW = {"type_bomb", "loop_on_every_input"}  # seconds each: they have their place in the tests
TESTS = Path(__file__).parents[1] / "ocaml"


def _load(place: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"soak_{place.stem}", place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile = _load(TESTS / "hostile" / "programs.py")
mutations = _load(TESTS / "mutations.py")


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and what is wrong with its answer: an empty text when nothing is."""

    name: str
    ask: Callable[[Judge], Coroutine[None, None, str]]


async def ask_honest(judge: Judge) -> str:
    """Have an honest answer graded; say what is wrong with the verdict."""
    task = hostile.PROBLEMS["double"]
    verdict = await judge.grade(task.honest, task.tests, asked=task.asked)
    return (
        ""
        if verdict.stage is Stage.PASS and verdict.passed == task.total
        else f"honest: {verdict.stage.label}"
    )


def cases(seed: int) -> Iterator[Case]:
    """Endless cases, in an order that the seed decides."""
    chance = random.Random(seed)
    programs = [p for p in hostile.programs() if p.name.partition("_")[0] in FAMILIES and p.name not in SLOW]
    makers: tuple[Callable[[], Case], ...] = (
        lambda: _valid(chance),
        lambda: _invalid(chance),
        lambda: _pair(chance),
        lambda: _graded(chance),
        lambda: _hostile(chance.choice(programs)),
    )
    while True:
        (maker,) = chance.choices(makers, weights=(6, 6, 2, 8, 3))
        yield maker()


def _checked(name: str, sources: list[Source], stages: list[Stage]) -> Case:
    async def ask(judge: Judge) -> str:
        found = [checked.stage for checked in await judge.check(sources)]
        return (
            ""
            if found == stages
            else f"{[stage.label for stage in found]}, not {[stage.label for stage in stages]}"
        )

    return Case(name, ask)


def _valid(chance: random.Random) -> Case:
    n = chance.randrange(10**6)
    text = chance.choice(
        (
            f"let x{n} = {n}",
            f"type t{n} = A | B of int\nlet f = function A -> {n} | B n -> n",
            f"module M = struct let twice x = 2 * x end\nlet y = M.twice {n}",
            f"let f l = List.fold_left ( + ) {n} l\nlet s = string_of_int (f [])",
        )
    )
    return _checked(f"valid: {text!r}", [Source("a.ml", text.encode())], [Stage.PASS])


def _invalid(chance: random.Random) -> Case:
    n = chance.randrange(10**6)
    text, stage = chance.choice(
        (
            (f"let x{n} = {n} +", Stage.SYNTAX),
            (f'let s = "{n}', Stage.SYNTAX),
            (f"let x = {n} + true", Stage.TYPE),
            (f"let x = unknown_{n}", Stage.TYPE),
            (f"let r = ref [] let x{n} = 1", Stage.TYPE),
        )
    )
    return _checked(f"invalid: {text!r}", [Source("a.ml", text.encode())], [stage])


def _pair(chance: random.Random) -> Case:
    """Two files of the same names as in every other pair: nothing of one request may be seen in the next."""
    n, wrong = chance.randrange(10**6), chance.random() < 0.5
    first = Source("first.ml", f"type t{n} = int\nlet v{n} = {n}".encode())
    second = Source("second.ml", f"let w = First.v{n + wrong}".encode())
    return _checked(f"pair: {n} {wrong}", [second, first], [Stage.TYPE if wrong else Stage.PASS, Stage.PASS])


def _graded(chance: random.Random) -> Case:
    """An answer that is right for some of a few inputs, which is then what it earns."""
    n, k = chance.randrange(2, 10**6), chance.randrange(5)
    answer = f"let f x = if x < {k} then x * {n} else raise Exit"
    tests = "".join(f"let () = assert (f {x} = {x * n})\n" for x in range(4))
    stage = Stage.PASS if k == 4 else Stage.TESTS

    async def ask(judge: Judge) -> str:
        verdict = await judge.grade(answer, tests)
        right = (verdict.stage, verdict.passed, verdict.total) == (stage, k, 4)
        return (
            ""
            if right
            else f"{verdict.stage.label} {verdict.passed}/{verdict.total}, not {stage.label} {k}/4"
        )

    return Case(f"graded: {n} {k}", ask)


def _hostile(program: Any) -> Case:
    known = dict.fromkeys(("HOME", "CWD"), "/nonexistent") | {
        "PID": "0",
        "DECOY": "0",
        "PORT": "9",
        "SLEEP": "20",
        "MARK": "ocamler_soak",
    }

    async def ask(judge: Judge) -> str:
        verdict = await judge.grade(program.fill(known), program.task.tests, asked=program.task.asked)
        why = " ".join(found.message for found in verdict.errors)
        earned = f"{verdict.stage.label} {verdict.passed}/{verdict.total} {why}"
        return (
            ""
            if verdict.stage in program.stages and program.least <= verdict.passed <= program.most
            else earned
        )

    return Case(f"hostile: {program.name}", ask)

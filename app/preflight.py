"""Before a model is loaded, see whether the problem itself holds together under OCaml."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.judging import example_tests
from ocaml.errors import UnsoundTests
from ocaml.judge import Judge, Source
from ocaml.problem import Example, Problem, ProblemError, Signature
from ocaml.verdict import Stage


@dataclass(frozen=True, slots=True)
class Cleared:
    """The problem as it can be judged, and a sentence for each example that had to be left out."""

    problem: Problem
    notes: tuple[str, ...]


async def clear(problem: Problem, judge: Judge) -> Cleared:
    """Type-check the signature, then examples and tests against it.

    Raises ProblemError when the signature or the types are no OCaml, UnsoundTests when the tests are not.
    """
    notes = list(problem.unread)
    if problem.signature is None:
        _check_there_is_code(problem)
        notes.append("No signature was found, so that any definitions that compile will do.")
        return Cleared(problem, tuple(notes))
    stub = f"{problem.definitions}\n{stub_for(problem.signature)}"
    await _check_stub(stub, problem, judge)
    examples, refused = await _usable(problem.examples, stub, problem.signature, judge)
    notes += refused
    if problem.tests:
        await judge.grade(stub, problem.tests, asked=problem.signature)
    return Cleared(replace(problem, examples=examples), tuple(notes))


def _check_there_is_code(problem: Problem) -> None:
    """Words alone can't be judged: without a signature there must at least be an example."""
    if not (problem.examples or problem.tests or problem.definitions):
        raise ProblemError(
            f"{problem.id} has no code in it that OCaml could judge an answer by: "
            "add the signature, such as `let f (x : int) : int =`, and an example, such as `f 1 = 2`."
        )


def stub_for(signature: Signature) -> str:
    """Return a definition that has the signature and does nothing."""
    if signature.text.startswith("let") and signature.text.rstrip().endswith("="):
        return f"{signature.text} assert false"
    if signature.type is not None and "->" in signature.type:
        return f"let {signature.name} : {signature.type} = fun _ -> assert false"
    return f"let {signature.name} : {signature.type or '_'} = Obj.magic 0"


async def _check_stub(stub: str, problem: Problem, judge: Judge) -> None:
    (checked,) = await judge.check([Source("problem.ml", stub.encode())])
    if checked.stage is Stage.PASS or problem.signature is None:
        return
    error = next((found for found in checked.diagnostics if found.is_error), None)
    message = " ".join(error.message.split()) if error else "it is no OCaml"
    what = f"The signature `{' '.join(problem.signature.text.split())}`"
    if problem.definitions:
        what += " or the types it comes with"
    raise ProblemError(f"{what} {_verb(checked.stage)}: {message}. Mend it in {problem.id}.")


def _verb(stage: Stage) -> str:
    return "does not parse" if stage is Stage.SYNTAX else "does not type-check"


async def _usable(
    examples: tuple[Example, ...], stub: str, signature: Signature, judge: Judge
) -> tuple[tuple[Example, ...], list[str]]:
    """Leave out the examples that cannot be true of anything with this signature."""
    if await _fits(examples, stub, signature, judge) is None:
        return examples, []
    kept: list[Example] = []
    notes: list[str] = []
    for example in examples:
        wrong = await _fits([example], stub, signature, judge)
        if wrong is None:
            kept.append(example)
        else:
            place = f" at line {example.line}" if example.line else ""
            notes.append(f"The example `{example.expression}`{place} is left out. {wrong}")
    return tuple(kept), notes


async def _fits(examples: Sequence[Example], stub: str, signature: Signature, judge: Judge) -> str | None:
    if not examples:
        return None
    try:
        await judge.grade(stub, example_tests(tuple(examples)), asked=signature)
    except UnsoundTests as error:
        return str(error)
    return None

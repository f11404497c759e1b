"""A ``solve`` command from its flags to its exit code: read, clear, find a model, solve, hand over."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.answer import Answer, deliver
from app.exits import exit_for
from app.files import check_writable, read_file
from app.judging import open_judge
from app.opening import find_model, memory_told, open_model
from app.plain import Plain
from app.preflight import clear
from app.settings import Settings, load_settings
from app.solve import Budget, Drawing, best, solve
from app.streams import tell
from models.events import Attempt, Finished, Judged, Started, Token
from ocaml.judge import Judge
from ocaml.problem import Problem, read_problem
from ocaml.verdict import Verdict

if TYPE_CHECKING:
    from models.address import Server
    from models.catalogue import Model


@dataclass(frozen=True, slots=True)
class Request:
    """The command's flags; None means not given."""

    problem: Path
    tests: Path | None = None
    output: Path | None = None
    attempts: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    model: str | None = None
    seed: int = 0
    keep_warm: float | None = None
    as_json: bool = False
    verbose: bool = False


@dataclass(slots=True)
class _Session:
    """What has come of it so far, so that an interruption loses nothing."""

    attempts: list[Attempt[Verdict]] = field(default_factory=list)
    partial: str = ""
    seconds: float = 0.0


def solve_request(request: Request) -> int:
    """Do what the flags ask and return the exit code."""
    settings = load_settings(
        {
            "model": request.model,
            "attempts": request.attempts,
            "max_tokens": request.max_tokens,
            "max_seconds": request.max_seconds,
            "keep_warm": request.keep_warm,
        }
    )
    problem = _problem(request)
    judge = open_judge(settings)
    cleared = asyncio.run(clear(problem, judge))
    for note in cleared.notes:
        tell(note)
    model = find_model(settings)
    session = _Session()
    try:
        asyncio.run(_run(cleared.problem, judge, model, settings, request, session))
    except KeyboardInterrupt:
        _hand_over_what_there_is(request, model, session)
        raise
    answer = Answer(best(session.attempts), tuple(session.attempts), model.name, session.seconds)
    code = deliver(answer, output=request.output, as_json=request.as_json, name=problem.id)
    return code if code is not None else exit_for(answer.best.verdict)


def _problem(request: Request) -> Problem:
    if request.output is not None:
        check_writable(request.output)
    tests = read_file(request.tests).decode(errors="replace") if request.tests else ""
    problem = read_problem(request.problem)
    return replace(problem, tests=f"{tests}\n{problem.tests}" if tests else problem.tests)


async def _run(
    problem: Problem,
    judge: Judge,
    model: "Model | Server",
    settings: Settings,
    request: Request,
    session: _Session,
) -> None:
    engine = open_model(model, settings)
    face = Plain(verbose=request.verbose)
    budget = Budget(settings.attempts, settings.max_tokens, settings.max_seconds)
    drawing = Drawing(request.seed, settings.temperature)
    try:
        face.loading(model.name, memory_told(model, settings) if face.is_watched else "")
        face.loaded(await engine.load())
        async with aclosing(solve(problem, engine, judge, budget=budget, drawing=drawing)) as events:
            async for event in events:
                face.show(event)
                match event:
                    case Started():
                        session.partial = ""
                    case Token(_, text):
                        session.partial += text
                    case Judged(_, attempt):
                        session.partial = ""
                        session.attempts.append(attempt)
                    case Finished(seconds=seconds):
                        session.seconds = seconds
    finally:
        await engine.close()


def _hand_over_what_there_is(request: Request, model: "Model | Server", session: _Session) -> None:
    """On Ctrl-C: the best judged answer as usual, else a note where the unjudged text is."""
    from app.files import keep
    from app.judging import answers_folder

    if session.attempts:
        answer = Answer(best(session.attempts), tuple(session.attempts), model.name, session.seconds)
        deliver(answer, output=request.output, as_json=request.as_json, name=request.problem.stem)
    elif session.partial.strip():
        kept = keep(session.partial, answers_folder(), "unjudged.md")
        tell(
            f"what the model had written, not judged, is kept in {kept}."
            if kept
            else "nothing could be kept."
        )

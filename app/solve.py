"""Solve a problem: generate, let OCaml judge, repair with what it said, as a stream of typed events.

It knows engines, the judge and prompts; it knows no terminal.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.complaint import complaint
from app.extract import extract
from app.judging import tests_of
from models import prompts
from models.engines.protocol import Engine, Finish, Message, Sampling
from models.events import Attempt, CodeReady, Event, Finished, How, Judged, Repairing, Started, Token
from ocaml.judge import Judge
from ocaml.problem import Problem
from ocaml.verdict import Stage, Verdict

SolveEvent: TypeAlias = Event[Verdict]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be spent: attempts in all, tokens an attempt, wall seconds in all."""

    attempts: int = 3
    max_tokens: int = 768
    max_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the attempts after the greedy one are drawn."""

    seed: int = 0
    temperature: float = 0.4


@dataclass(slots=True)
class _Progress:
    """What has been tried so far."""

    started: float
    attempts: list[Attempt[Verdict]] = field(default_factory=list)

    def left(self, budget: Budget) -> float:
        return budget.max_seconds - (time.monotonic() - self.started)


async def solve(
    problem: Problem, engine: Engine, judge: Judge, *, budget: Budget, drawing: Drawing
) -> AsyncGenerator[SolveEvent, None]:
    """Yield what happens, ending with ``Finished``.

    Raises EngineError when the model dies, UnsoundTests when the problem's tests cannot be judged by.
    """
    progress = _Progress(time.monotonic())
    question = _question(problem)
    messages, sampling, how, why = (
        question,
        Sampling(max_tokens=budget.max_tokens, seed=drawing.seed),
        How.GREEDY,
        "",
    )
    for number in range(1, budget.attempts + 1):
        yield Started(number, how, why)
        async for event in _attempt(
            number, how, messages, sampling, problem, engine, judge, progress, budget
        ):
            yield event
        latest = progress.attempts[-1]
        if latest.verdict.stage is Stage.PASS or number == budget.attempts or progress.left(budget) <= 0:
            break
        messages, sampling, how, why = _next(
            question, progress, replace(sampling, seed=drawing.seed + number), drawing
        )
        yield Repairing(number, why)
    yield Finished(best(progress.attempts), tuple(progress.attempts), time.monotonic() - progress.started)


def best(attempts: Sequence[Attempt[Verdict]]) -> Attempt[Verdict]:
    """Return the attempt that came furthest: by stage, assertions passed, fewer diagnostics, shorter code."""
    return max(
        attempts,
        key=lambda attempt: (
            attempt.verdict.stage,
            attempt.verdict.passed,
            -len(attempt.verdict.diagnostics),
            -len(attempt.code),
        ),
    )


async def _attempt(
    number: int,
    how: How,
    messages: Sequence[Message],
    sampling: Sampling,
    problem: Problem,
    engine: Engine,
    judge: Judge,
    progress: _Progress,
    budget: Budget,
) -> AsyncIterator[SolveEvent]:
    """Generate one answer, take its code and have it judged."""
    began, reply, tokens = time.monotonic(), [], 0
    async for delta in engine.generate(messages, sampling=sampling):
        reply.append(delta.text)
        tokens += len(delta.tokens)
        if delta.text:
            yield Token(number, delta.text, delta.entropy)
        if delta.finish is None and progress.left(budget) <= 0:
            await engine.cancel()
        if delta.finish is Finish.CANCELLED:
            break
    code = extract("".join(reply), problem).code
    yield CodeReady(number, code)
    verdict = await judge.grade(code, tests_of(problem), asked=problem.signature)
    attempt = Attempt(code, verdict, tokens, time.monotonic() - began, how)
    progress.attempts.append(attempt)
    yield Judged(number, attempt)


def _question(problem: Problem) -> list[Message]:
    return prompts.solve(
        problem.statement,
        signature=problem.signature.text if problem.signature else "",
        definitions=problem.definitions,
        examples=[example.assertion for example in problem.examples],
    )


def _next(
    question: list[Message], progress: _Progress, sampling: Sampling, drawing: Drawing
) -> tuple[list[Message], Sampling, How, str]:
    """Choose the next attempt: repair what failed, or draw afresh when the same text came back."""
    latest, earlier = progress.attempts[-1], progress.attempts[:-1]
    if not latest.code.strip() or any(attempt.code == latest.code for attempt in earlier):
        hotter = replace(sampling, temperature=min(1.0, drawing.temperature * 2))
        return question, hotter, How.SAMPLE, "nothing new came back: asking afresh at a higher temperature"
    words = complaint(latest.code, latest.verdict)
    warmer = replace(sampling, temperature=drawing.temperature)
    return prompts.repair(question, latest.code, words), warmer, How.REPAIR, words

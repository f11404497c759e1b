"""Solve a problem: generate, let OCaml judge, repair with what it said, as a stream of typed events.

It knows engines, the judge and prompts; it knows no terminal.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.complaint import complaint
from app.extract import extract
from app.judging import tests_of
from models import prompts
from models.engines.protocol import Engine, Message, Sampling, Usage
from models.events import Attempt, CodeReady, Dropped, Event, Finished, How, Judged, Repairing, Started, Token
from ocaml.judge import Judge
from ocaml.problem import Problem
from ocaml.verdict import Stage, Verdict

SolveEvent: TypeAlias = Event[Verdict]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be spent: attempts in all, tokens an attempt, wall seconds in all."""

    attempts: int
    max_tokens: int
    max_seconds: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the attempts after the greedy one are drawn."""

    seed: int
    temperature: float


@dataclass(frozen=True, slots=True)
class _Request:
    """What the model is asked next: in which words, how it is drawn, and why."""

    messages: Sequence[Message]
    sampling: Sampling
    how: How
    why: str = ""


@dataclass(slots=True)
class _Solving:
    """A problem being solved: by whom, within what, and what has been tried so far."""

    problem: Problem
    engine: Engine
    judge: Judge
    budget: Budget
    started: float = field(default_factory=time.monotonic)
    attempts: list[Attempt[Verdict]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall seconds so far."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float:
        """Wall seconds that may still be spent."""
        return self.budget.max_seconds - self.seconds


async def solve(
    problem: Problem, engine: Engine, judge: Judge, *, budget: Budget, drawing: Drawing
) -> AsyncGenerator[SolveEvent, None]:
    """Yield what happens, ending with ``Finished``.

    Raises EngineError when the model dies, UnsoundTests when the problem's tests cannot be judged by.
    """
    solving = _Solving(problem, engine, judge, budget)
    question = _question(problem)
    request = _Request(question, Sampling(max_tokens=budget.max_tokens, seed=drawing.seed), How.GREEDY)
    for number in range(1, budget.attempts + 1):
        yield Started(number, request.how, request.why)
        async with aclosing(_attempt(number, request, solving)) as events:
            async for event in events:
                yield event
        passed = solving.attempts[-1].verdict.stage is Stage.PASS
        if passed or number == budget.attempts or solving.seconds_left <= 0:
            break
        sampling = replace(request.sampling, seed=drawing.seed + number)
        request = _next(question, solving.attempts, sampling, drawing)
        yield Repairing(number, request.why)
    yield Finished(best(solving.attempts), tuple(solving.attempts), solving.seconds)


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


async def _attempt(number: int, request: _Request, solving: _Solving) -> AsyncGenerator[SolveEvent, None]:
    """Generate one answer, take its code and have it judged."""
    began, reply, tokens, usage = time.monotonic(), "", 0, Usage()
    with _ending_in(solving.seconds_left, solving.engine):
        async for delta in solving.engine.generate(request.messages, sampling=request.sampling):
            reply += delta.text
            tokens += len(delta.tokens)
            usage = delta.usage or usage
            if delta.text:
                yield Token(number, delta.text, delta.entropy)
    if usage.dropped_messages:
        yield Dropped(number, usage.dropped_messages, usage.dropped_tokens)
    code = extract(reply, solving.problem).code
    yield CodeReady(number, code)
    verdict = await solving.judge.grade(code, tests_of(solving.problem), asked=solving.problem.signature)
    attempt = Attempt(
        code,
        verdict,
        tokens,
        time.monotonic() - began,
        request.how,
        usage.dropped_messages,
        usage.dropped_tokens,
    )
    solving.attempts.append(attempt)
    yield Judged(number, attempt)


@contextmanager
def _ending_in(seconds: float, engine: Engine) -> Iterator[None]:
    """Cancel the generation when the time is up, also while the prompt is being read."""
    running: list[asyncio.Task[None]] = []

    def cancel() -> None:
        running.append(asyncio.ensure_future(engine.cancel()))

    timer = asyncio.get_running_loop().call_later(max(0.0, seconds), cancel)
    try:
        yield
    finally:
        timer.cancel()


def _question(problem: Problem) -> list[Message]:
    return prompts.solve(
        problem.statement,
        signature=problem.signature.text if problem.signature else "",
        definitions=problem.definitions,
        examples=[example.assertion for example in problem.examples],
    )


def _next(
    question: Sequence[Message],
    attempts: Sequence[Attempt[Verdict]],
    sampling: Sampling,
    drawing: Drawing,
) -> _Request:
    """Choose the next attempt: repair what failed, or draw afresh when the same text came back."""
    *earlier, latest = attempts
    if not latest.code.strip() or any(attempt.code == latest.code for attempt in earlier):
        hotter = replace(sampling, temperature=min(1.0, drawing.temperature * 2))
        return _Request(question, hotter, How.SAMPLE, "nothing new came back: asking afresh, hotter")
    words = complaint(latest.code, latest.verdict)
    warmer = replace(sampling, temperature=drawing.temperature)
    return _Request(prompts.repair(question, latest.code, words), warmer, How.REPAIR, words)

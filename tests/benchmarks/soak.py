"""Thousands of checks and grades in a row: no wrong verdict, no leak, and a judge whose workers die answers all the same.

    python -P tests/benchmarks/soak.py --cases 10000 [--judge plain|served] [--concurrency 2] [--seed N]
    python -P tests/benchmarks/soak.py --fuzz 20000 [--judge plain|served] [--seed N] [--resume FILE]

Cases are valid, invalid and hostile programs by turns, each with the verdict that is known to be right; every
``--kill-every`` cases a process of the judge's is killed. Memory, descriptors, processes and temporary files are
counted before and after. Prints one JSON line and a summary; exits 1 on a leak or a wrong verdict.
``--fuzz`` asks for a verdict on mutated programs instead, and goes on where ``--resume FILE`` says it stopped.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ocaml.judge import Judge, PlainJudge, Source
from ocaml.sandbox import MIB, Limits
from ocaml.served import open_judge as open_served
from ocaml.toolchain import find

sys.path.append(str(Path(__file__).parent))  # which `python -P` leaves out

from soak_cases import SLOW, TESTS, Case, ask_honest, cases, mutations

LIMITS = Limits(seconds=2.0, memory_bytes=128 * MIB, output_bytes=64 * 1024, file_bytes=8 * MIB)
WARM_UP = 500  # cases before the first count: caches, pools and a heap for hostile output are no leak
MOST_GROWTH_MIB = 48.0  # of our own process and of what it keeps running, over a whole run
LARGE_EVERY = 200  # of mutated programs, one is very deep or very long


@contextlib.asynccontextmanager
async def open_judge(name: str) -> AsyncIterator[Judge]:
    """Open a judge by its name, and close it."""
    judge: Judge
    if name == "plain":
        judge = PlainJudge(find(), LIMITS)
    elif name == "served":
        folder = Path(tempfile.gettempdir()) / "servers"
        judge = open_served(find(), LIMITS, folder, say=lambda words: print(words, file=sys.stderr))
        if isinstance(judge, PlainJudge):
            raise SystemExit("There is no check server here: name plain.")
    else:
        raise SystemExit(f"There is no judge {name}: name plain or served.")
    try:
        yield judge
    finally:
        await judge.aclose()


@dataclass(frozen=True, slots=True)
class Count:
    """What there is of everything that might leak."""

    own_mib: float
    children_mib: float
    descriptors: int
    processes: int
    temporary: int


@dataclass(slots=True)
class Outcome:
    """What a run found."""

    asked: int = 0
    wrong: list[str] = field(default_factory=list)
    killed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", default="plain")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--fuzz", type=int, metavar="N", help="mutated programs, in place of cases")
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--kill-every", type=int, default=500, metavar="N", help="0 for never")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keeps how far --fuzz has come")
    parser.add_argument(
        "--last", type=int, default=0, metavar="N", help="show the last N wrong verdicts only"
    )
    options = parser.parse_args()
    with _own_temporary_folder() as folder:
        report = asyncio.run(_fuzz(options) if options.fuzz else _soak(options, folder))
    print(json.dumps(report))
    for line in report["wrong"][-options.last :]:
        print(f"WRONG {line}", file=sys.stderr)
    for line in report.get("leaks", []):
        print(f"LEAK {line}", file=sys.stderr)
    good = not report["wrong"] and not report.get("leaks")
    print(f"{'good' if good else 'BAD'}: {report['asked']} cases in {report['seconds']:.0f} s, "
          f"{report['rate']:.1f} a second, {len(report['wrong'])} wrong", file=sys.stderr)  # fmt: skip
    return 0 if good else 1


@contextlib.contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    """Have all temporary files in a folder of our own, so that what is left can be counted."""
    with tempfile.TemporaryDirectory(prefix="ocamler_soak_", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield Path(folder)


async def _soak(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    outcome = Outcome()
    endless = cases(options.seed)
    async with open_judge(options.judge) as judge:
        await _run(judge, endless, min(WARM_UP, options.cases), options, outcome)
        course = [await _settled_count(folder)]
        seconds = 0.0
        for quarter in range(4):
            started = time.monotonic()
            await _run(judge, endless, (options.cases - outcome.asked) // (4 - quarter), options, outcome)
            seconds += time.monotonic() - started
            course.append(await _settled_count(folder))
    return {
        "judge": options.judge,
        "seed": options.seed,
        "asked": outcome.asked,
        "kinds": dict(sorted(outcome.kinds.items())),
        "killed": outcome.killed,
        "seconds": round(seconds, 1),
        "rate": round(max(0, outcome.asked - WARM_UP) / seconds, 2) if seconds else 0.0,
        "course": [asdict(count) for count in course],
        "leaks": _leaks(course[0], course[-1]),
        "wrong": outcome.wrong,
    }


async def _run(
    judge: Judge, endless: Iterator[Case], count: int, options: argparse.Namespace, outcome: Outcome
) -> None:
    """Ask ``count`` cases, ``concurrency`` at a time."""
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            case = next(endless)
            outcome.asked += 1
            outcome.kinds[case.name.partition(":")[0]] += 1
            if options.kill_every and outcome.asked % options.kill_every == 0:
                outcome.killed += await _asked_while_killing(judge, outcome)
            try:
                wrong = await case.ask(judge)
            except Exception as error:  # whatever it is, it is no verdict
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                outcome.wrong.append(f"{case.name} -> {wrong}")
            if outcome.asked % 250 == 0:
                print(f"{outcome.asked}: {len(outcome.wrong)} wrong", file=sys.stderr, flush=True)

    await asyncio.gather(*(worker() for _ in range(options.concurrency)))


async def _asked_while_killing(judge: Judge, outcome: Outcome) -> int:
    """Kill what of the judge's outlives a request, as a crash would; the next request must be answered.

    A judge that keeps no process has none to kill: what runs one program alone is the program's, and its end
    is part of the verdict.
    """
    kept = [
        child
        for child in psutil.Process().children()
        if time.time() - child.create_time() > LIMITS.seconds * 12
    ]
    victim = random.Random(outcome.asked).choice(kept) if kept else None
    if victim is not None:
        with contextlib.suppress(psutil.Error):
            victim.send_signal(signal.SIGKILL)
    wrong = await ask_honest(judge)
    if wrong:
        outcome.wrong.append(f"after a worker was killed -> {wrong}")
    return int(victim is not None)


async def _settled_count(folder: Path) -> Count:
    await asyncio.sleep(1.0)
    own = psutil.Process()
    children = own.children(recursive=True)
    resident = 0
    for child in children:
        with contextlib.suppress(psutil.Error):
            resident += child.memory_info().rss
    return Count(
        own_mib=round(own.memory_info().rss / MIB, 1),
        children_mib=round(resident / MIB, 1),
        descriptors=own.num_fds(),
        processes=len(children),
        temporary=sum(1 for _ in folder.rglob("*")),
    )


def _leaks(before: Count, after: Count) -> list[str]:
    allowed = {"own_mib": MOST_GROWTH_MIB, "children_mib": MOST_GROWTH_MIB}
    then, now = asdict(before), asdict(after)
    return [
        f"{name}: {then[name]} before, {now[name]} after"
        for name in then
        if now[name] - then[name] > allowed.get(name, 0)
    ]


async def _fuzz(options: argparse.Namespace) -> dict[str, Any]:
    """Ask for a verdict on each of N mutated programs; what raises is wrong."""
    sources = [
        path.read_bytes() for path in sorted((TESTS / "hostile").glob("*.ml")) if path.stem not in SLOW
    ]
    large = list(mutations.large_cases().values())
    first, wrong = _resumed(options)
    stages: Counter[str] = Counter()
    left, done = iter(range(first, options.fuzz)), first
    started = time.monotonic()

    async def worker(judge: Judge) -> None:
        nonlocal done
        for number in left:
            is_large = number % LARGE_EVERY == 0
            source = (
                large[number // LARGE_EVERY % len(large)]
                if is_large
                else mutations.mutated(options.seed * 10**6 + number, sources)
            )
            found = await _fuzzed(judge, source)
            stages[found if found in _LABELS else "wrong"] += 1
            if found not in _LABELS:
                wrong.append(f"--seed {options.seed}, number {number}: {found}")
            done += 1
            if done % 500 == 0:
                print(f"{done}: {dict(stages)}", file=sys.stderr, flush=True)
                if options.resume:
                    # Others may be under way below this number: a few are asked again, none is left out.
                    state = {
                        "seed": options.seed,
                        "next": max(0, number - 2 * options.concurrency),
                        "wrong": wrong,
                    }
                    options.resume.write_text(json.dumps(state))

    async with open_judge(options.judge) as judge:
        await asyncio.gather(*(worker(judge) for _ in range(options.concurrency)))
    seconds = time.monotonic() - started
    return {
        "judge": options.judge, "seed": options.seed, "asked": done, "stages": dict(stages), "wrong": wrong,
        "seconds": round(seconds, 1), "rate": round((done - first) / seconds, 2) if seconds else 0.0,
    }  # fmt: skip


_LABELS = {"syntax", "type", "pass"}


async def _fuzzed(judge: Judge, source: bytes) -> str:
    """Return the label of the stage, or what is wrong."""
    try:
        (checked,) = await judge.check([Source("a.ml", source)])
    except Exception as error:  # whatever it is, it is no verdict
        return f"{type(error).__name__}: {error}"
    if checked.ok == any(found.is_error for found in checked.diagnostics):
        return f"{checked.stage.label} with {len(checked.diagnostics)} diagnostics"
    return checked.stage.label


def _resumed(options: argparse.Namespace) -> tuple[int, list[str]]:
    if options.resume is None or not options.resume.exists():
        return 0, []
    state = json.loads(options.resume.read_text())
    return (state["next"], state["wrong"]) if state["seed"] == options.seed else (0, [])


if __name__ == "__main__":
    sys.exit(main())

"""How much faster the judge is than plain compiler processes, on the same answers in one run.

    python -P tests/benchmarks/judge.py [--answers FILE.jsonl] [--rounds N]

Plain is what anyone would write: ``ocamlc -c`` to check; to judge, ``ocamlc -c``, ``ocamlc -o`` and the program,
one after another. The answers are rows of {"id", "code", "tests"}, by default those of tests/ocaml/answers. Rounds
of the two take turns, with the sandbox on, and both must come to the same verdicts. Prints rates, the ratios
(medians over the rounds), the latency of one check, what 2 workers bring over 1, and the servers' memory.
"""

import argparse
import asyncio
import concurrent.futures
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ocaml.judge import PlainJudge, Source
from ocaml.sandbox import Limits
from ocaml.served import ServedJudge
from ocaml.server.build import built
from ocaml.server.launch import launcher
from ocaml.server.pool import Pool
from ocaml.toolchain import Toolchain, find
from ocaml.verdict import Limit, Stage, Verdict

ANSWERS = Path(__file__).parents[1] / "ocaml" / "answers" / "answers.toml"
PLAIN_SECONDS = 10.0
LATENCIES = 200  # checks, one after another
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What is judged."""

    id: str
    code: str
    tests: str


def read_answers(path: Path | None) -> list[Answer]:
    """Read rows of JSON, or the answers of the tests: right ones and wrong ones."""
    if path is not None:
        rows = map(json.loads, filter(str.strip, path.read_text().split("\n")))
        return [Answer(str(row["id"]), row["code"], row["tests"]) for row in rows]
    answers = []
    for problem in tomllib.loads(ANSWERS.read_text())["problem"]:
        tests = "".join(f"let () = assert ({assertion})\n" for assertion in problem["tests"])
        for number, code in enumerate((problem["right"], *problem["wrong"])):
            answers.append(Answer(f"{problem['id']}/{number}", code, tests))
    return answers


@dataclass(frozen=True, slots=True)
class Plain:
    """The plain way, with the tools of ``toolchain``."""

    toolchain: Toolchain

    def check(self, answer: Answer) -> str:
        """Type-check the answer alone."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "answer.ml").write_text(answer.code)
            return "refused" if self._run(folder, "-c", "answer.ml") else "accepted"

    def judge(self, answer: Answer) -> str:
        """Judge it with its tests behind it."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "answer.ml").write_text(f"{answer.code.rstrip()}\n\n{answer.tests}\n")
            try:
                if self._run(folder, "-c", "answer.ml"):
                    return "refused"
                if self._run(folder, "-o", "answer", "answer.ml"):
                    return "not linked"
                ended = subprocess.run(
                    ["./answer"], cwd=folder, capture_output=True, timeout=PLAIN_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                return "too slow"
            return "failed" if ended.returncode else "passed"

    def _run(self, folder: str, *arguments: str) -> int:
        command = [str(self.toolchain.ocamlc), *arguments]
        return subprocess.run(
            command, cwd=folder, capture_output=True, timeout=PLAIN_SECONDS, check=False
        ).returncode


def plainly(
    judge: Callable[[Answer], str], answers: Sequence[Answer], workers: int
) -> tuple[float, list[str]]:
    """Return answers a second and the verdicts."""
    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        verdicts = list(pool.map(judge, answers))
    return len(answers) / (time.perf_counter() - started), verdicts


async def served(
    judge: ServedJudge, answers: Sequence[Answer], workers: int, *, with_tests: bool
) -> tuple[float, list[str]]:
    """Return answers a second and the verdicts."""
    left = list(enumerate(answers))[::-1]
    verdicts = [""] * len(answers)

    async def work() -> None:
        while left:
            index, answer = left.pop()
            if with_tests:
                verdicts[index] = told(await judge.grade(answer.code, answer.tests))
            else:
                (checked,) = await judge.check([Source("answer.ml", answer.code.encode())])
                verdicts[index] = "accepted" if checked.ok else "refused"

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(workers)))
    return len(answers) / (time.perf_counter() - started), verdicts


def told(verdict: Verdict) -> str:
    """A verdict in the words of the plain way."""
    if verdict.limit is Limit.TIME:
        return "too slow"
    if verdict.stage is Stage.PASS:
        return "passed"
    return {Stage.LINK: "not linked", Stage.RUN: "failed", Stage.TESTS: "failed"}.get(
        verdict.stage, "refused"
    )


async def measure(answers: Sequence[Answer], rounds: int, workers: int) -> int:
    """Run the rounds and print what came of them; 1 when a verdict differs."""
    toolchain = find()
    plain = Plain(toolchain)
    _, verdicts = plainly(plain.judge, answers, workers)
    # Waiting for the limit on time takes as long either way.
    answers = [answer for answer, verdict in zip(answers, verdicts, strict=True) if verdict != "too slow"]
    print(f"{len(answers)} answers, {len(verdicts) - len(answers)} left out that do not end", file=sys.stderr)
    with tempfile.TemporaryDirectory() as kept:
        pool = Pool(launcher(built(toolchain, Path(kept)), toolchain), workers)
        judge = ServedJudge(PlainJudge(toolchain, Limits()), pool, Limits())
        await served(judge, answers[:4], workers, with_tests=True)  # starts the servers
        rates: dict[str, list[float]] = {}
        differing: set[str] = set()
        for number in range(rounds):
            for name, plain_judge, with_tests in (
                ("check", plain.check, False),
                ("check + tests", plain.judge, True),
            ):
                slow, by_plain = plainly(plain_judge, answers, workers)
                # A fresh judge each round: what it remembers of tests is a help that must be earned.
                judge = ServedJudge(PlainJudge(toolchain, Limits()), pool, Limits())
                quick, by_served = await served(judge, answers, workers, with_tests=with_tests)
                rates.setdefault(f"{name}, plain", []).append(slow)
                rates.setdefault(f"{name}, served", []).append(quick)
                rates.setdefault(f"{name}, ratio", []).append(quick / slow)
                differing |= {
                    f"{answer.id} ({name}): plain says {one}, the judge {other}"
                    for answer, one, other in zip(answers, by_plain, by_served, strict=True)
                    if one != other
                }
            print(f"round {number + 1} of {rounds} done", file=sys.stderr)
        one, _ = await served(judge, answers, 1, with_tests=True)
        two, _ = await served(judge, answers, 2, with_tests=True)
        report(rates, await latency(judge, answers[0]), two / one, memory())
        pool.close()
    for line in sorted(differing):
        print(f"DIFFERS {line}")
    return 1 if differing else 0


async def latency(judge: ServedJudge, answer: Answer) -> float:
    """Return the median time of one check in milliseconds."""
    found = []
    for number in range(LATENCIES):
        source = Source("answer.ml", f"{answer.code}\nlet number_{number} = {number}".encode())
        started = time.perf_counter()
        await judge.check([source])
        found.append(1000 * (time.perf_counter() - started))
    return statistics.median(found)


def memory() -> dict[str, float]:
    """Return the resident memory of our children in MiB, by name; pages that they share count in each."""
    found: dict[str, float] = {}
    for child in psutil.Process().children(recursive=True):
        name, used = child.name(), child.memory_info().rss / MIB
        found[name] = found.get(name, 0.0) + used
    return found


def report(rates: dict[str, list[float]], milliseconds: float, growth: float, used: dict[str, float]) -> None:
    """Print it for people."""
    for name, values in rates.items():
        unit = "times" if name.endswith("ratio") else "a second"
        spread = f"{min(values):.1f} to {max(values):.1f}"
        print(f"{name:24} {statistics.median(values):8.1f} {unit} ({spread})")
    print(f"{'latency of one check':24} {milliseconds:8.2f} ms")
    print(f"{'2 workers over 1':24} {growth:8.2f} times")
    for name, megabytes in sorted(used.items()):
        print(f"{'memory of ' + name:24} {megabytes:8.1f} MiB")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=Path, help="rows of {id, code, tests}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    return asyncio.run(measure(read_answers(arguments.answers), arguments.rounds, arguments.workers))


if __name__ == "__main__":
    sys.exit(main())

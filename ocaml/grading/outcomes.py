"""Run the claims of a driver one after another, start again behind one that took the process with it."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from ocaml.compiler import Workbench, run_folder
from ocaml.sandbox import Execution
from ocaml.verdict import Limit

CLAIM_SECONDS = 3.0  # how long one assertion may take
RESULT_FILE = "ocamler_result"
RESULT_BYTES = 32 * 1024 * 1024  # what is read of the results; the file size limit keeps it near


@dataclass(frozen=True, slots=True)
class Result:
    """What one claim did: the tokens of its value, or the exception it raised, or the limit it met."""

    tokens: tuple[str, ...] | None = None
    raised: str = ""
    limit: Limit | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class Ran:
    """All results by index, what was printed, and whether any claim was reached at all."""

    last: Execution
    results: dict[int, Result] = field(default_factory=dict)
    started: bool = True
    limit: Limit | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


async def run_claims(bench: Workbench, program: Path, count: int) -> Ran:
    """Run ``program`` until each of ``count`` claims has a result or the time of all is used up."""
    deadline = time.monotonic() + bench.limits.seconds * 3
    ran: Ran | None = None
    first = 0
    results = run_folder(program) / RESULT_FILE
    while True:
        results.unlink(missing_ok=True)
        progress = _Progress(results, min(CLAIM_SECONDS, bench.limits.seconds))
        limits = replace(
            bench.limits, seconds=min(bench.limits.seconds, max(0.1, deadline - time.monotonic()))
        )
        execution = await bench.run_bytecode(program, str(first), limits=limits, watch=progress.stuck)
        progress.read()
        if ran is None:
            ran = Ran(execution)
        _collect(ran, execution, progress)
        if progress.done or (count and ran.results.keys() >= set(range(count))):
            return ran
        if progress.begun is None:
            ran.started = bool(ran.results)
            return ran
        stuck = progress.begun
        if stuck not in ran.results:
            gone = Result(limit=execution.limit, raised="the program ended here", seconds=execution.seconds)
            ran.results[stuck] = gone
        first = stuck + 1
        if first >= count or time.monotonic() > deadline:
            return ran


def _collect(ran: Ran, execution: Execution, progress: "_Progress") -> None:
    for index, result in progress.results.items():
        ran.results.setdefault(index, result)
        ran.limit = ran.limit or result.limit
    ran.last = execution
    ran.limit = ran.limit or execution.limit
    ran.truncated = ran.truncated or execution.truncated
    ran.stdout += execution.stdout.decode(errors="replace")
    ran.stderr += execution.stderr.decode(errors="replace")


class _Progress:
    """Reads the result file as it grows, and knows since when the present claim has been running."""

    def __init__(self, path: Path, claim_seconds: float) -> None:
        self._path = path
        self._claim_seconds = claim_seconds
        self._offset = 0
        self._rest = b""
        self._since = time.monotonic()
        self.begun: int | None = None
        self.results: dict[int, Result] = {}
        self.done = False

    def stuck(self) -> bool:
        """Whether the present claim has had its time; the answer's own start-up has the process's."""
        self.read()
        return self.begun is not None and time.monotonic() - self._since > self._claim_seconds

    def read(self) -> None:
        """Take in the lines that were added."""
        if self._offset >= RESULT_BYTES or self._path.is_symlink():
            return
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                added = file.read(RESULT_BYTES - self._offset)
        except OSError:
            return
        self._offset += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        for line in lines:
            self._line(line.decode("ascii", errors="replace"))

    def _line(self, line: str) -> None:
        word, *rest = line.split() or [""]
        match word, rest:
            case "begin", [index] if index.isdigit():
                self.begun = int(index)
                self._since = time.monotonic()
            case "value", [index, seconds, *tokens] if index.isdigit():
                self.results.setdefault(int(index), Result(tuple(tokens), seconds=_seconds(seconds)))
            case "raised", [index, seconds, *text] if index.isdigit():
                raised = _unhex("".join(text))
                self.results.setdefault(int(index), Result(raised=raised, seconds=_seconds(seconds)))
            case "limit", [index, seconds, "memory"] if index.isdigit():
                self.results.setdefault(int(index), Result(limit=Limit.MEMORY, seconds=_seconds(seconds)))
            case "done", []:
                self.done = True


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _unhex(text: str) -> str:
    try:
        return bytes.fromhex(text).decode(errors="replace")
    except ValueError:
        return "an exception"

"""Run the claims of a driver one after another, start again behind one that took the process with it.

The harness in the process tells what each claim did, on a channel of its own, in lines that begin with a
nonce: it alone knows it, so that an answer that finds the channel has nothing to say there.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from ocaml.compiler import Workbench
from ocaml.sandbox import RESULT, Execution, Limits
from ocaml.verdict import Limit

CLAIM_SECONDS = 3.0  # how long one assertion may take
DRIVE = "ocamler-claims"  # the argument on which the harness begins by itself


@dataclass(frozen=True, slots=True)
class Attempted:
    """One process that ran claims: how it ended, what it told, and the nonce that true lines begin with."""

    execution: Execution
    told: bytes
    nonce: str


Attempt = Callable[[int], Awaitable[Attempted]]
"""Runs the claims from one on in a process; a claim that takes longer than CLAIM_SECONDS ends it."""


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


async def run_claims(attempt: Attempt, count: int, limits: Limits) -> Ran:
    """Attempt until each of ``count`` claims has a result or the time of all is used up."""
    deadline = time.monotonic() + limits.seconds * 3
    ran: Ran | None = None
    first = 0
    while True:
        attempted = await attempt(first)
        execution = attempted.execution
        progress = Progress(attempted.nonce)
        progress.feed(attempted.told)
        if ran is None:
            ran = Ran(execution)
        _collect(ran, execution, progress)
        if progress.done or (count and ran.results.keys() >= set(range(count))):
            return ran
        if progress.begun is None or progress.begun < first:
            ran.started = bool(ran.results)
            return ran
        stuck = progress.begun
        if stuck not in ran.results:
            gone = Result(limit=execution.limit, raised="the program ended here", seconds=execution.seconds)
            ran.results[stuck] = gone
        first = stuck + 1
        if first >= count or time.monotonic() > deadline:
            return ran


async def attempt_program(bench: Workbench, program: Path, first: int) -> Attempted:
    """Run a linked driver from claim ``first`` on."""
    nonce = new_nonce()
    progress = Progress(nonce, min(CLAIM_SECONDS, bench.limits.seconds))
    told = bytearray()

    def take(added: bytes) -> None:
        told.extend(added)
        progress.feed(added)

    execution = await bench.run_bytecode(
        program,
        DRIVE,
        str(first),
        RESULT,
        limits=bench.limits,
        stdin=f"{nonce}\n".encode(),
        watch=progress.stuck,
        take=take,
    )
    return Attempted(execution, bytes(told), nonce)


def new_nonce() -> str:
    """A word that nobody guesses."""
    return secrets.token_hex(16)


class Progress:
    """Reads what a harness tells as it comes, and knows since when the present claim has been running."""

    def __init__(self, nonce: str, claim_seconds: float = CLAIM_SECONDS) -> None:
        self._nonce = nonce.encode()
        self._claim_seconds = claim_seconds
        self._rest = bytearray()
        self._since = time.monotonic()
        self.begun: int | None = None
        self.results: dict[int, Result] = {}
        self.done = False

    def stuck(self) -> bool:
        """Whether the present claim has had its time; the answer's own start-up has the process's."""
        return (
            self.begun is not None and not self.done and time.monotonic() - self._since > self._claim_seconds
        )

    def feed(self, added: bytes) -> None:
        """Take in what was told next."""
        if b"\n" not in added:
            self._rest += added
            return
        *lines, rest = bytes(self._rest + added).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            nonce, _, told = line.partition(b" ")
            if secrets.compare_digest(nonce, self._nonce):
                self._line(told.decode("ascii", errors="replace"))

    def _line(self, line: str) -> None:
        word, *rest = line.split() or [""]
        match word, rest:
            case "begin", [index] if _is_index(index):
                self.begun = int(index)
                self._since = time.monotonic()
            case "value", [index, seconds, *tokens] if _is_index(index):
                self.results.setdefault(int(index), Result(tuple(tokens), seconds=_seconds(seconds)))
            case "raised", [index, seconds, *text] if _is_index(index):
                raised = _unhex("".join(text))
                self.results.setdefault(int(index), Result(raised=raised, seconds=_seconds(seconds)))
            case "limit", [index, seconds, "memory"] if _is_index(index):
                self.results.setdefault(int(index), Result(limit=Limit.MEMORY, seconds=_seconds(seconds)))
            case "done", []:
                self.done = True


def _collect(ran: Ran, execution: Execution, progress: Progress) -> None:
    for index, result in progress.results.items():
        ran.results.setdefault(index, result)
        ran.limit = ran.limit or result.limit
    ran.last = execution
    ran.limit = ran.limit or execution.limit
    ran.truncated = ran.truncated or execution.truncated
    ran.stdout += execution.stdout.decode(errors="replace")
    ran.stderr += execution.stderr.decode(errors="replace")


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


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

"""A grading's compiler, over a check server that is its own for that long."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ocaml.compiler import COMPILER_LIMITS, Source, nothing_here
from ocaml.diagnostics import Span
from ocaml.diagnostics.messages import as_new, read_reports
from ocaml.errors import BrokenToolchain
from ocaml.grading.assertions import Suite
from ocaml.grading.memory import Memory
from ocaml.grading.outcomes import CLAIM_SECONDS, Attempted, new_nonce
from ocaml.grading.session import Compiled, CompilerLimit, Refused
from ocaml.grading.source import span_of, to_bytes
from ocaml.grading.suite_json import suite_from_json
from ocaml.interface import Item, Standard, read_signature, standard_names
from ocaml.sandbox import Execution, Limits
from ocaml.server.worker import Reply, Request, TooSlow, Worker, WorkerDied
from ocaml.verdict import Limit, Stage, Verdict

SLACK_SECONDS = 5.0  # what a run may take beyond its own limit, which the runner holds it to


class LinkRefused(Exception):
    """The code is well typed and needs what no program has."""


@dataclass
class ServedSession:
    """See ``ocaml.grading.session.Session``."""

    worker: Worker
    limits: Limits
    memory: Memory
    _answer: Source | None = None
    _items: tuple[Item, ...] = field(default_factory=tuple)

    async def standard(self) -> Standard:
        """Ask once for all sessions."""
        if self.memory.standard is None:
            said = self._ask(b"standard")
            if said["stage"] != "pass":
                raise BrokenToolchain("The compiler does not type `include Stdlib`: mend OCaml.")
            self.memory.standard = standard_names(read_signature(said["signature"]))
        return self.memory.standard

    async def suite(self, tests: bytes, *, whole: bool) -> Suite | Refused:
        """Have the claims read on the server's parse tree."""
        modules = " ".join(sorted((await self.standard()).modules))
        said = self._ask(b"claims", b"true" if whole else b"false", modules.encode(), tests)
        if said["stage"] != "pass":
            return Refused(read_reports(said["reports"], {"tests.ml": tests}))
        return suite_from_json(said["suite"])

    async def compile_answer(self, source: Source) -> Verdict:
        """Type and compile the answer; what would not link is not graded here."""
        compiled, said = compile_unit(self.worker, source)
        self._answer = source
        self._items = read_signature(as_new(said.get("signature", "")))
        return compiled

    async def signature(self) -> tuple[Item, ...]:
        """It came with the compiled answer."""
        return self._items

    async def definition(self, name: str) -> Span | None:
        """Ask for the place of a pattern."""
        place = (self._ask(b"definition", name.encode()))["place"]
        return span_of(self._answer.data, *place) if place and self._answer else None

    async def refusal(self, program: str, sources: Mapping[str, bytes]) -> Refused | None:
        """Type a program beside the answer."""
        said = self._ask(b"fits", b"checked.ml", to_bytes(program))
        return None if said["stage"] == "pass" else Refused(read_reports(said["reports"], sources))

    async def build_whole(self, program: str) -> Mapping[int, tuple[str, ...]] | None:
        """The server takes constants out of the compiled code."""
        said = self._ask(b"build whole", to_bytes(program))
        if said["stage"] != "pass" or "values" not in said or not said["links"]:
            return None
        return {index: tuple(tokens.split()) for index, tokens in said["values"]}

    async def expect(self, program: str) -> Mapping[int, tuple[str, ...]] | Compiled:
        """Compile the program of expected values; constants need not be run."""
        said = self._ask(b"expect", to_bytes(program))
        if "values" in said:
            return {index: tuple(tokens.split()) for index, tokens in said["values"]}
        return Compiled.TO_RUN if said["stage"] == "pass" and said["links"] else Compiled.REFUSED

    async def build(self, program: str) -> bool:
        """Compile the driver."""
        said = self._ask(b"build", to_bytes(program))
        return bool(said["stage"] == "pass" and said["links"])

    async def attempt_expected(self, first: int) -> Attempted:
        """Run the program of expected values alone."""
        return attempt(self.worker, "expected", self.limits, first=first)

    async def attempt(self, first: int) -> Attempted:
        """Run the answer and then the driver."""
        return attempt(self.worker, "driver", self.limits, first=first)

    async def values(self, program: str) -> Sequence[tuple[str, str]]:
        """Have it typed."""
        said = self._ask(b"values", to_bytes(program))
        return list(said.get("values", {}).items())

    def _ask(self, *request: bytes) -> Mapping[str, Any]:
        return ask_compiler(self.worker, request).said


def ask_compiler(worker: Worker, request: Request) -> Reply:
    """Ask for work of the compiler. Raises CompilerLimit when it takes too long over it."""
    try:
        return worker.ask(request, seconds=COMPILER_LIMITS.seconds)
    except TooSlow:
        seconds = COMPILER_LIMITS.seconds
        raise CompilerLimit(Execution(-9, b"", b"", False, Limit.TIME, seconds)) from None


def compile_unit(worker: Worker, source: Source, *, debug: bool = False) -> tuple[Verdict, Mapping[str, Any]]:
    """Type and compile a unit; the verdict is PASS when it can be run. Raises LinkRefused, CompilerLimit.

    With ``debug`` the code knows its places, for backtraces.
    """
    request = (b"compile", b"true" if debug else b"false", source.name.encode(), source.data)
    said = ask_compiler(worker, request).said
    found = read_reports(said["reports"], {source.name: source.data})
    if said["stage"] == "pass" and not said["links"]:
        raise LinkRefused
    if said.get("empty"):
        return Verdict(Stage.EMPTY, diagnostics=nothing_here(found)), said
    return Verdict(Stage[said["stage"].upper()], diagnostics=found), said


def attempt(
    worker: Worker, program: str, limits: Limits, *, first: int = 0, backtrace: bool = False
) -> Attempted:
    """Run what was compiled (``answer``, ``expected``, ``driver``) in a child, from claim ``first`` on."""
    nonce = new_nonce()
    job = (
        program,
        str(first),
        nonce,
        str(limits.seconds),
        str(min(CLAIM_SECONDS, limits.seconds)),
        str(limits.memory_bytes),
        str(limits.output_bytes),
        str(limits.file_bytes),
        "true" if backtrace else "false",
    )
    try:
        request = (b"run", *(word.encode() for word in job))
        reply = worker.ask(request, seconds=limits.seconds + SLACK_SECONDS)
    except TooSlow:  # the runner keeps to the limit itself, so something is wrong with it
        raise WorkerDied from None
    if reply.fields[-1].startswith(f"{nonce} unloaded ".encode()):
        raise WorkerDied
    status, limit, truncated, seconds, stdout, stderr, told = reply.fields
    execution = Execution(
        exit_code=int(status),
        stdout=stdout,
        stderr=stderr,
        truncated=truncated == b"true",
        limit=Limit(limit.decode()) if limit else Limit.TIME if int(status) == -24 else None,
        seconds=float(seconds),
    )
    return Attempted(execution, told, nonce)

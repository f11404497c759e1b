"""The judge over warm check servers: the same verdicts as the plain one's, in milliseconds.

What a server can't be asked — files that need each other, an interface, a program that reads its input,
names that are the judge's own, code that does not link — the plain judge answers, and so it does whatever
killed two servers.
"""

import asyncio
import contextlib
import re
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ocaml.compiler import Source, explained
from ocaml.diagnostics.messages import as_new, read_reports
from ocaml.errors import ServerUnavailable
from ocaml.grading.grade import Grading
from ocaml.grading.memory import Memory
from ocaml.grading.session import CompilerLimit
from ocaml.judge import Checked, Judge, PlainJudge, ran_to_its_end
from ocaml.problem import Signature
from ocaml.sandbox import Limits
from ocaml.server.build import built
from ocaml.server.launch import launcher
from ocaml.server.pool import Pool
from ocaml.server.session import LinkRefused, ServedSession, ask_compiler, attempt, compile_unit
from ocaml.server.worker import Worker, WorkerDied
from ocaml.toolchain import Toolchain
from ocaml.verdict import Stage, Verdict

T = TypeVar("T")

TRIES = 2  # a server that dies twice over the same request is not asked a third time

_FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_']*\.ml")
# Modules that the server and its runner have, or may look for: a program of that name is the plain judge's.
_TAKEN = re.compile(r"(?:unix|dynlink|stdlib|std_exit|camlinternal|ocamler|profiling)", re.IGNORECASE)
_SPEC = re.compile(r"(?:[-+@]?[A-Za-z]|[-+@]\d+(?:\.\.\d+)?)*")
# The end of a backtrace: how the program was loaded.
_LOADING = re.compile(
    r"(?:^(?:Raised at|Re-raised at|Called from) (?:(?:Dynlink|Ocamler_runner)\b.*|unknown location)\n)+\Z",
    re.MULTILINE,
)
_WORD = re.compile(rb"[A-Za-z_][\w']*")
_OURS = "Ocamler_"  # in tests too, whose names are looked up where the judge's are


def open_judge(
    toolchain: Toolchain, limits: Limits, kept: Path, *, say: Callable[[str], None] = lambda _: None
) -> Judge:
    """Return the best judge there is here: over servers built below ``kept``, else over plain processes.

    ``say`` is told of a build, and why it failed if it did.
    """
    plain = PlainJudge(toolchain, limits)
    try:
        server = built(toolchain, kept, say=say)
    except ServerUnavailable:
        return plain
    return ServedJudge(plain, Pool(launcher(server, toolchain)), limits)


class ServedJudge:
    """Judges with the servers of ``pool``, and what they can't with ``plain``."""

    def __init__(self, plain: PlainJudge, pool: Pool, limits: Limits) -> None:
        self._plain = plain
        self._pool = pool
        self._limits = limits
        self._memory = Memory()

    async def check(self, sources: Sequence[Source], *, warnings: Sequence[str] = ()) -> tuple[Checked, ...]:
        """Type-check ``sources``, all at once where they are independent, with every error of each."""
        specs = _specs(warnings)
        if specs is None or not all(map(_servable, sources)) or not _independent(sources):
            return await self._plain.check(sources, warnings=warnings)
        return tuple(await asyncio.gather(*(self._check_one(source, specs) for source in sources)))

    async def run(self, source: Source, *, stdin: int = subprocess.DEVNULL) -> Verdict:
        """Compile and run ``source`` in an empty folder."""

        async def work(worker: Worker) -> Verdict:
            compiled, _ = compile_unit(worker, source, debug=True)
            if compiled.stage is not Stage.PASS:
                return compiled
            attempted = attempt(worker, "answer", self._limits, backtrace=True)
            verdict = ran_to_its_end(attempted.execution, source, compiled.diagnostics)
            return replace(verdict, stderr=_LOADING.sub("", verdict.stderr))

        if stdin == subprocess.DEVNULL and _servable(source):
            with contextlib.suppress(LinkRefused, _NotServed):
                return await self._served(work)
        return await self._plain.run(source, stdin=stdin)

    async def grade(self, answer: str, tests: str, *, asked: Signature | None = None) -> Verdict:
        """Grade by running each assertion of ``tests``; without any, run the answer."""

        async def work(worker: Worker) -> Verdict:
            session = ServedSession(worker, self._limits, self._memory)
            return await Grading(session, answer, tests, asked, self._memory).verdict()

        if _OURS not in answer and _OURS not in tests:
            with contextlib.suppress(LinkRefused, _NotServed):
                return await self._served(work)
        return await self._plain.grade(answer, tests, asked=asked)

    async def aclose(self) -> None:
        """End the servers."""
        self._pool.close()

    async def _check_one(self, source: Source, specs: Sequence[str]) -> Checked:
        async def work(worker: Worker) -> Checked:
            return _checked(worker, source, specs)

        try:
            return await self._served(work)
        except _NotServed:
            flags = [flag for spec in specs for flag in ("-w", spec)]
            return (await self._plain.check([source], warnings=flags))[0]

    async def _served(self, work: Callable[[Worker], Coroutine[Any, Any, T]]) -> T:
        for _ in range(TRIES):
            try:
                return await self._pool.lend(work)
            except WorkerDied:
                continue
            except (OSError, ServerUnavailable):
                break
        raise _NotServed


class _NotServed(Exception):
    """No server could answer."""


def _checked(worker: Worker, source: Source, specs: Sequence[str]) -> Checked:
    request = (b"check", source.name.encode(), source.data, *(spec.encode() for spec in specs))
    try:
        said = ask_compiler(worker, request).said
    except CompilerLimit as met:
        found = explained((), met.told, Stage.TYPE)
        return Checked(source.name, Stage.TYPE, found, limit=met.told.limit)
    reports = [*said["reports"], *said.get("more", ())]
    found = tuple(dict.fromkeys(read_reports(reports, {source.name: source.data})))
    signature = as_new(said["signature"]) if "signature" in said else None
    return Checked(source.name, Stage[said["stage"].upper()], found, signature)


def _specs(warnings: Sequence[str]) -> list[str] | None:
    """The warnings chosen, or None where there are other flags than ``-w``."""
    flags, specs = list(warnings[::2]), list(warnings[1::2])
    is_known = set(flags) <= {"-w"} and len(flags) == len(specs) and all(map(_SPEC.fullmatch, specs))
    return specs if is_known else None


def _servable(source: Source) -> bool:
    return (
        bool(_FILE_NAME.fullmatch(source.name))
        and not _TAKEN.match(source.name)
        and _OURS.encode() not in source.data
    )


def _independent(sources: Sequence[Source]) -> bool:
    """Whether no file names the module of another: what is not named can't be needed."""
    modules = {
        source.name: (source.name[0].upper() + Path(source.name).stem[1:]).encode() for source in sources
    }
    if len(set(modules.values())) < len(sources):
        return False
    if len(sources) == 1:
        return True
    return all(
        module not in set(_WORD.findall(source.data)) or name == source.name
        for source in sources
        for name, module in modules.items()
    )

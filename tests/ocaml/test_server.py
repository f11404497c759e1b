"""The check server: built once, asked often, replaced when it dies, and as new for every request."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ocaml.errors import ServerUnavailable
from ocaml.judge import PlainJudge, Source
from ocaml.sandbox import MIB, Limits
from ocaml.served import ServedJudge, open_judge
from ocaml.server.build import Built, built, place
from ocaml.server.launch import launcher
from ocaml.server.pool import Pool
from ocaml.server.worker import TooSlow, Worker, WorkerDied
from ocaml.toolchain import Toolchain
from ocaml.verdict import Stage

LIMITS = Limits(seconds=2, memory_bytes=128 * MIB)
TESTS = "let () = assert (f 1 = 2)\nlet () = assert (f 2 = 3)"
RIGHT = "let f x = x + 1"


def source(text: str) -> list[Source]:
    return [Source("program.ml", text.encode())]


@pytest.fixture
async def pool(toolchain: Toolchain, server: Built) -> AsyncIterator[Pool]:
    pool = Pool(launcher(server, toolchain), size=1)
    yield pool
    pool.close()


@pytest.fixture
def judge(toolchain: Toolchain, pool: Pool) -> ServedJudge:
    return ServedJudge(PlainJudge(toolchain, LIMITS), pool, LIMITS)


def servers(place: Path) -> list[psutil.Process]:
    """The processes that run from a server's folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(word.startswith(str(place)) for word in process.info["cmdline"] or ())
    ]


def kill(processes: list[psutil.Process]) -> None:
    """Kill what has not ended by itself meanwhile."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for something that is about to be so."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return holds()


async def test_a_server_that_dies_is_replaced_and_the_request_answered(
    judge: ServedJudge, server: Built
) -> None:
    for _ in range(3):
        assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS
        kill(servers(server.folder))
        assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS


async def test_a_runner_that_dies_takes_its_server_along(judge: ServedJudge, server: Built) -> None:
    assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS
    kill([process for process in servers(server.folder) if process.name() == "runner"])
    assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS


async def test_where_no_server_can_be_started_plain_processes_answer(toolchain: Toolchain) -> None:
    def start() -> Worker:
        raise OSError("no more processes")

    judge = ServedJudge(PlainJudge(toolchain, LIMITS), Pool(start, 1), LIMITS)
    assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS
    assert (await judge.check(source("let x = 1")))[0].ok
    assert (await judge.run(source("let () = print_string {|x|}")[0])).stdout == "x"


async def test_a_cancelled_run_is_over_and_the_next_one_answered(judge: ServedJudge, server: Built) -> None:
    await judge.run(source("let () = ()")[0])
    at_rest = len(servers(server.folder))
    task = asyncio.create_task(judge.run(source("let () = while true do () done")[0]))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    verdict = await judge.run(source("let () = print_string {|on|}")[0])
    assert verdict.stdout == "on"
    assert await until(lambda: len(servers(server.folder)) <= at_rest)


async def test_a_request_that_takes_too_long_ends_its_server(pool: Pool) -> None:
    worker = pool._start()
    slow = b"let f0 x = (x, x)\n" + b"".join(b"let f%d x = f%d (f%d x)\n" % (n + 1, n, n) for n in range(5))
    with pytest.raises(TooSlow):
        worker.ask((b"check", b"a.ml", slow), seconds=0.3)
    with pytest.raises(WorkerDied):
        worker.ask((b"check", b"a.ml", b"let x = 1"), seconds=1)
    worker.end()


async def test_a_closed_judge_answers_by_plain_processes(judge: ServedJudge, server: Built) -> None:
    await judge.aclose()
    before = len(servers(server.folder))
    assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS
    assert len(servers(server.folder)) == before


async def test_a_server_outlives_the_thread_of_its_first_request(judge: ServedJudge, pool: Pool) -> None:
    for _ in range(3):
        await asyncio.to_thread(asyncio.run, judge.grade(RIGHT, TESTS))
    await asyncio.sleep(0.1)
    assert [worker.alive for worker in pool._idle] == [True]


async def test_however_many_give_up_no_more_servers_are_kept_than_places(
    judge: ServedJudge, pool: Pool
) -> None:
    async def impatient(number: int) -> None:
        async with asyncio.timeout(0.002 * (number % 5)):
            await judge.grade(RIGHT, TESTS)

    await asyncio.gather(*(impatient(number) for number in range(60)), return_exceptions=True)
    assert await until(lambda: len(pool._idle) == pool.size)
    assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS


async def test_closing_leaves_no_process(toolchain: Toolchain, server: Built) -> None:
    before = {process.pid for process in servers(server.folder)}
    pool = Pool(launcher(server, toolchain), size=2)
    judge = ServedJudge(PlainJudge(toolchain, LIMITS), pool, LIMITS)
    await asyncio.gather(*(judge.grade(RIGHT, TESTS) for _ in range(4)))
    assert {process.pid for process in servers(server.folder)} - before
    pool.close()
    assert await until(lambda: {process.pid for process in servers(server.folder)} <= before)


@pytest.mark.parametrize(
    "first",
    [
        "let x : int = true",
        "let x = (",
        '[@@@ocaml.warning "-a"] let f (Some x) = x',
        '[@@@ocaml.warning "@a"] let f x = let y = 1 in x',
        "type int = string let x : int = {|a|}",
        "type 'a list = Nope module List = struct end module Stdlib = struct end",
        "exception Not_found let (=) _ _ = true let (+) = (-)",
        "let r = ref []",
        "let rec f x = f x x",
        "module rec A : sig val x : int end = struct let x = B.x end and B : sig val x : int end = struct let x = A.x end",
        "let f (type a) (x : a) = x let g : type a. a -> a = fun x -> f x let h = g 1 2",
        "class c = object method m = self end",
        "open Nowhere",
        'let [@inline] f x = 1 + "a"',
        "let f x = x [@@inlined] let () = 1 (",
        "let () = Nowhere.run ()",
    ],
)
async def test_no_program_leaves_anything_for_the_next(judge: ServedJudge, first: str) -> None:
    honest = "let f = function Some x -> x + 1\nlet g l = List.map (fun x -> if x = 1 then raise Not_found else x) l"
    (alone,) = await judge.check(source(honest))
    await judge.check(source(first))
    await judge.grade(first, TESTS)
    (after,) = await judge.check(source(honest))
    assert (after.diagnostics, after.signature) == (alone.diagnostics, alone.signature)
    assert (await judge.grade(RIGHT, TESTS)).stage is Stage.PASS


async def test_every_error_is_told_not_the_first_alone(judge: ServedJudge) -> None:
    text = 'let a : int = "a"\nlet b = a + 1\nlet c = b ^ "c"\nlet d = c + nowhere\nlet e = [1; "e"]'
    (checked,) = await judge.check(source(text))
    assert [found.span.start.line for found in checked.diagnostics if found.span] == [1, 3, 4, 5]


async def test_what_follows_from_an_error_is_no_error_of_its_own(judge: ServedJudge) -> None:
    (checked,) = await judge.check(source('let f x = x + "1"\nlet g = f 1 + 2\nlet h = String.length (f g)'))
    assert len(checked.diagnostics) == 1


async def test_files_that_need_each_other_are_judged_together(judge: ServedJudge) -> None:
    files = [Source("b.ml", b"let y = A.x + 1"), Source("a.ml", b"let x = 1"), Source("c.ml", b"let z = 2")]
    assert [checked.ok for checked in await judge.check(files)] == [True, True, True]


async def test_one_judge_serves_one_event_loop_after_another(toolchain: Toolchain, server: Built) -> None:
    pool = Pool(launcher(server, toolchain), size=1)
    judge = ServedJudge(PlainJudge(toolchain, LIMITS), pool, LIMITS)

    async def several() -> list[Stage]:
        return [
            verdict.stage for verdict in await asyncio.gather(*(judge.grade(RIGHT, TESTS) for _ in range(3)))
        ]

    for _ in range(2):
        assert await asyncio.to_thread(asyncio.run, several()) == [Stage.PASS] * 3
    pool.close()


async def test_an_app_that_is_killed_leaves_no_server(server: Built, tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from ocaml.judge import Source
from ocaml.sandbox import Limits
from ocaml.served import open_judge
from ocaml.toolchain import find
judge = open_judge(find(), Limits(seconds=60), Path(sys.argv[1]))
asyncio.run(judge.run(Source("a.ml", b"let () = while true do () done")))
"""
    before = {process.pid for process in servers(server.folder)}
    app = subprocess.Popen(
        [sys.executable, "-c", program, server.folder.parent], env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    new = lambda: {process.pid for process in servers(server.folder)} - before  # noqa: E731
    assert await until(lambda: len(new()) >= 3)
    os.kill(app.pid, signal.SIGKILL)
    app.wait()
    assert await until(lambda: not new())


def test_another_compiler_has_another_server(toolchain: Toolchain, tmp_path: Path) -> None:
    other = tmp_path / "ocamlc"
    shutil.copy(toolchain.ocamlc, other)
    assert place(toolchain, tmp_path) != place(replace(toolchain, ocamlc=other), tmp_path)


def test_without_the_compilers_libraries_the_judge_is_plain(toolchain: Toolchain, tmp_path: Path) -> None:
    bare = replace(toolchain, standard_library=tmp_path)
    with pytest.raises(ServerUnavailable, match="ocaml-compiler-libs"):
        built(bare, tmp_path / "kept")
    said: list[str] = []
    assert isinstance(open_judge(bare, LIMITS, tmp_path / "kept", say=said.append), PlainJudge)
    assert said == []  # it was said when the build was tried


def test_a_build_that_fails_says_why_once_and_is_not_tried_again(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ocamlopt").write_text("#!/bin/sh\necho no assembler here >&2\nexit 2\n")
    (tools / "ocamlopt").chmod(0o755)
    crippled = replace(toolchain, ocamlc=tools / "ocamlc")
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(ServerUnavailable, match="no assembler here"):
            built(crippled, tmp_path / "kept", say=said.append)
    assert len(said) == 2  # that it builds, and that it failed

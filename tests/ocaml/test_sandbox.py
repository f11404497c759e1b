"""Programs are held: their time, memory, output and descendants."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ocaml.descendants import resident_bytes, when_ended
from ocaml.sandbox import MIB, RESULT, Execution, Limits, execute
from ocaml.verdict import Limit

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


async def shell(script: str, cwd: Path, **limits: float) -> Execution:
    held = Limits(**{"seconds": 5.0, **limits})  # type: ignore[arg-type]
    return await execute(["/bin/sh", "-c", script], cwd=cwd, environment=ENVIRONMENT, limits=held)


async def test_an_exit_code_and_both_streams_come_back(tmp_path: Path) -> None:
    ran = await shell("echo out; echo err >&2; exit 3", tmp_path)
    assert (ran.exit_code, ran.stdout, ran.stderr, ran.limit) == (3, b"out\n", b"err\n", None)
    assert not ran.ok


async def test_a_program_that_sleeps_is_ended_at_its_wall_time(tmp_path: Path) -> None:
    ran = await shell("sleep 60", tmp_path, seconds=0.3)
    assert ran.limit is Limit.TIME
    assert ran.seconds < 5


@pytest.mark.parametrize("stream", ["1", "2"])
async def test_output_is_cut_while_it_is_read(tmp_path: Path, stream: str) -> None:
    ran = await shell(f"while :; do echo 0123456789; done >&{stream}", tmp_path, output_bytes=10_000)
    assert ran.limit is Limit.OUTPUT
    assert ran.truncated
    assert len(ran.stdout) + len(ran.stderr) == 10_000


async def test_output_just_at_the_limit_is_whole(tmp_path: Path) -> None:
    ran = await shell("printf 0123456789", tmp_path, output_bytes=10)
    assert (ran.stdout, ran.truncated, ran.limit) == (b"0123456789", False, None)


async def test_a_program_that_fills_the_memory_is_ended(tmp_path: Path) -> None:
    hungry = "x = []\nwhile True: x.append(b'x' * 1000000)"
    limits = Limits(seconds=20, memory_bytes=64 * MIB)
    ran = await execute([sys.executable, "-c", hungry], cwd=tmp_path, environment=ENVIRONMENT, limits=limits)
    assert ran.limit is Limit.MEMORY


async def test_the_memory_of_a_child_counts(tmp_path: Path) -> None:
    hungry = "x = b'x' * 200_000_000; import time; time.sleep(60)"
    limits = Limits(seconds=20, memory_bytes=64 * MIB)
    command = ["/bin/sh", "-c", '"$0" -c "$1"; true', sys.executable, hungry]
    ran = await execute(command, cwd=tmp_path, environment=ENVIRONMENT, limits=limits)
    assert ran.limit is Limit.MEMORY


async def test_a_file_cannot_grow_without_end(tmp_path: Path) -> None:
    ran = await shell("exec cat /dev/zero > big", tmp_path, file_bytes=MIB)
    assert not ran.ok
    assert (tmp_path / "big").stat().st_size <= MIB


async def test_children_in_the_background_end_with_the_program(tmp_path: Path) -> None:
    ran = await shell("sleep 300 & echo $!", tmp_path)
    await gone(int(ran.stdout))


async def test_a_child_that_holds_the_pipe_delays_nothing(tmp_path: Path) -> None:
    ran = await shell("sleep 300 & exit 0", tmp_path, seconds=60)
    assert (ran.exit_code, ran.limit) == (0, None)


async def test_cancelling_ends_the_program(tmp_path: Path) -> None:
    task = asyncio.create_task(shell("echo $$ > pid; exec sleep 300", tmp_path))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int((tmp_path / "pid").read_text()))


async def test_ignoring_signals_does_not_help(tmp_path: Path) -> None:
    ran = await shell("trap '' TERM INT HUP XCPU; while :; do :; done", tmp_path, seconds=0.5)
    assert ran.limit is Limit.TIME


async def test_the_environment_is_only_what_was_given(tmp_path: Path) -> None:
    os.environ["OCAMLER_TEST_SECRET"] = "secret"
    try:
        ran = await shell("env", tmp_path)
    finally:
        del os.environ["OCAMLER_TEST_SECRET"]
    assert b"secret" not in ran.stdout


async def test_a_watcher_can_end_the_program(tmp_path: Path) -> None:
    ran = await execute(
        ["/bin/sh", "-c", "sleep 60"],
        cwd=tmp_path,
        environment=ENVIRONMENT,
        limits=Limits(),
        watch=lambda: True,
    )
    assert ran.limit is Limit.TIME


async def test_a_few_bytes_are_its_standard_input_and_then_it_ends(tmp_path: Path) -> None:
    ran = await execute(
        ["/bin/sh", "-c", "cat; echo end"],
        cwd=tmp_path,
        environment=ENVIRONMENT,
        limits=Limits(),
        stdin=b"given\0\n",
    )
    assert ran.stdout == b"given\0\nend\n"


async def test_more_than_a_few_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="comes from a file"):
        await execute(["/bin/cat"], cwd=tmp_path, environment=ENVIRONMENT, limits=Limits(), stdin=b"x" * 5000)


async def test_results_come_on_a_descriptor_of_their_own_as_they_are_told(tmp_path: Path) -> None:
    heard: list[bytes] = []
    seen: list[int] = []

    def watch() -> bool:
        seen.append(len(heard))
        return False

    ran = await execute(
        [
            sys.executable,
            "-c",
            "import os, sys, time\nfor c in 'abc': os.write(int(sys.argv[1]), c.encode()); time.sleep(0.2)",
            RESULT,
        ],
        cwd=tmp_path,
        environment=ENVIRONMENT,
        limits=Limits(),
        watch=watch,
        take=heard.append,
    )
    assert (heard, ran.stdout) == ([b"a", b"b", b"c"], b"")
    assert {1, 2} <= set(seen)


async def test_results_told_just_before_the_end_are_heard(tmp_path: Path) -> None:
    heard = bytearray()
    await execute(
        [
            sys.executable,
            "-c",
            "import os, sys; os.write(int(sys.argv[1]), b'x' * 100_000); os.kill(os.getpid(), 9)",
            RESULT,
        ],
        cwd=tmp_path,
        environment=ENVIRONMENT,
        limits=Limits(),
        take=heard.extend,
    )
    assert len(heard) == 100_000


async def test_a_command_that_is_not_there_is_no_end_of_a_program(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        await execute(["true"], cwd=tmp_path / "nowhere", environment=ENVIRONMENT, limits=Limits())


async def test_nothing_stays_open(tmp_path: Path) -> None:
    await shell("exit 0", tmp_path)
    before = descriptors()
    for script in ("exit 1", "sleep 60 & exit 0", "yes"):
        await shell(script, tmp_path, seconds=0.3)
    for _ in range(5):
        task = asyncio.create_task(shell("sleep 60", tmp_path))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert descriptors() == before


async def test_the_end_is_told_while_the_number_is_still_the_childs() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    ended = asyncio.Event()
    when_ended(child.pid, ended.set)
    await asyncio.wait_for(ended.wait(), 5)
    os.kill(child.pid, 0)  # it would not be there, were it reaped
    assert child.wait() == 7


async def test_an_end_that_was_before_is_told_too() -> None:
    child = subprocess.Popen(["/bin/true"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    await asyncio.sleep(0.05)
    ended = asyncio.Event()
    when_ended(child.pid, ended.set)
    await asyncio.wait_for(ended.wait(), 5)
    child.communicate()


async def test_an_end_that_nobody_waits_for_any_more_is_not_told() -> None:
    child = subprocess.Popen(["/bin/true"])
    told: list[bool] = []
    when_ended(child.pid, lambda: told.append(True))()
    child.wait()
    await asyncio.sleep(0.05)
    assert told == []


def test_resident_memory_is_read_on_this_platform() -> None:
    assert resident_bytes(os.getpid()) > MIB


def test_elsewhere_it_is_asked_of_ps_for_the_group() -> None:
    known = resident_bytes(os.getpgrp(), "darwin")
    assert known > MIB if shutil.which("ps") else known == 0


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_process_that_is_gone_has_no_memory(platform: str) -> None:
    assert resident_bytes(2**22 + 1, platform) == 0


async def gone(pid: int) -> None:
    """Wait until a process is dead (a zombie that nobody reaps yet is)."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"process {pid} still runs")


def descriptors() -> int:
    """How many descriptors are open."""
    found = 0
    for number in range(1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        found += 1
    return found

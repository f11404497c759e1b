"""Folders for one use leave nothing behind, whoever is killed."""

import asyncio
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocaml.scratch import UNBORN_SECONDS, scratch_folder, sweep

ROOT = Path(__file__).parents[2]
HOLDS_ONE = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from ocaml.scratch import scratch_folder
async def main():
    async with scratch_folder() as folder:
        (folder / "file").write_text("x")
        print(folder, flush=True)
        sys.stdin.read()
asyncio.run(main())
print("left", flush=True)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of temporary files for this test alone, in this process and those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None  # read the variable again
    yield tmp_path
    tempfile.tempdir = None


def holder() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE, str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def left_behind(place: Path, name: str = "ocamler-abcdefgh") -> Path:
    """What a killed process leaves."""
    parent = place / name
    (parent / "inner" / "run").mkdir(parents=True)
    (parent / "inner" / "file").write_text("x")
    (parent / ".lock").touch()
    return parent


async def test_a_folder_is_empty_and_ones_own(temporary: Path) -> None:
    async with scratch_folder() as one, scratch_folder() as other:
        assert one != other
        assert list(one.iterdir()) == list(other.iterdir()) == []
        assert one.parent == other.parent
        assert one.parent.parent == temporary.resolve()
        assert one.parent.stat().st_mode & 0o777 == one.stat().st_mode & 0o777 == 0o700
        assert one == one.resolve()
    assert not one.exists()


async def test_it_goes_when_the_task_is_cancelled(temporary: Path) -> None:
    made: list[Path] = []

    async def work() -> None:
        async with scratch_folder() as folder:
            made.append(folder)
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    while not made:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not made[0].exists()


async def test_it_goes_even_when_its_permissions_were_taken() -> None:
    async with scratch_folder() as folder:
        (folder / "a" / "b" / "c").mkdir(parents=True)
        (folder / "a" / "b" / "c" / "file").write_text("x")
        for taken in ("a/b/c", "a/b", "a", "."):
            (folder / taken).chmod(0)
    assert not folder.exists()


async def test_it_goes_however_deep_it_is_inside() -> None:
    async with scratch_folder() as folder:
        home = os.getcwd()
        try:
            os.chdir(folder)
            for depth in range(3000):  # deeper than Python recurses and than a path is long
                os.mkdir("inner")
                if depth % 100 == 0:
                    Path("file").write_text("x")
                    Path("inner").chmod(0o700)
                os.chdir("inner")
            os.chmod("..", 0o500)
        finally:
            os.chdir(home)
    assert not folder.exists()


async def test_what_its_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "kept").chmod(0o500)
    async with scratch_folder() as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "link").symlink_to(tmp_path / "kept")
        (folder / "inner").chmod(0)
    assert (tmp_path / "kept" / "file").read_text() == "x"
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o500


def test_nothing_is_left_after_a_process(temporary: Path) -> None:
    process = holder()
    told, _ = process.communicate("")
    assert told.endswith("left\n")
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_leaves_is_swept_by_the_next(temporary: Path) -> None:
    killed = holder()
    assert killed.stdout is not None
    folder = Path(killed.stdout.readline().strip())
    killed.kill()
    killed.communicate()
    assert (folder / "file").exists()
    next_one = holder()
    assert next_one.stdout is not None
    its_own = Path(next_one.stdout.readline().strip())
    assert list(temporary.resolve().iterdir()) == [its_own.parent]
    next_one.communicate("")
    assert list(temporary.iterdir()) == []


def test_what_lives_is_not_swept(temporary: Path) -> None:
    alive = holder()
    assert alive.stdout is not None
    folder = Path(alive.stdout.readline().strip())
    assert sweep(temporary) == []
    assert (folder / "file").exists()
    alive.communicate("")


def test_the_lock_is_not_held_on_by_what_a_process_starts(temporary: Path) -> None:
    code = HOLDS_ONE.replace(
        "sys.stdin.read()",
        "import subprocess; p = subprocess.Popen(['sleep', '60'], close_fds=False); print(p.pid, flush=True); sys.stdin.read()",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    started = int(process.stdout.readline())
    process.kill()
    process.wait()
    try:
        assert [path.resolve() for path in sweep(temporary)] == [folder.parent]
    finally:
        os.kill(started, 9)
        process.communicate()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_has_folders_of_its_own(temporary: Path) -> None:
    async with scratch_folder() as ours:
        child = os.fork()
        if child == 0:
            try:
                from ocaml.scratch import one_folder

                with one_folder() as theirs:
                    fine = theirs.parent != ours.parent and ours.exists()
                os._exit(0 if fine else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ours.exists()


async def test_a_cleared_folder_of_temporary_files_is_no_end(temporary: Path) -> None:
    async with scratch_folder() as first:
        pass
    subprocess.run(["rm", "-rf", str(first.parent)], check=True)
    async with scratch_folder() as second:
        assert second.exists()
    assert second.parent != first.parent


@pytest.mark.parametrize(
    "name", ["ocamler-abcdefg", "ocamler-abcdefghi", "ocamler-ABCDEFGH", "ocamlerxabcdefgh", "other"]
)
def test_folders_of_other_makers_stay(tmp_path: Path, name: str) -> None:
    parent = left_behind(tmp_path, name)
    assert sweep(tmp_path) == []
    assert parent.exists()


def test_what_has_no_lock_stays_unless_it_is_empty_and_old(tmp_path: Path) -> None:
    full, young, old = (tmp_path / f"ocamler-{letter * 8}" for letter in "abc")
    for folder in (full, young, old):
        folder.mkdir()
    (full / "file").touch()
    for folder in (full, old):
        at = folder.stat().st_mtime - UNBORN_SECONDS - 1
        os.utime(folder, (at, at))
    assert sweep(tmp_path) == [old]
    assert full.exists()
    assert young.exists()


def test_links_and_files_that_look_like_it_stay(tmp_path: Path) -> None:
    kept = left_behind(tmp_path, "kept")
    (tmp_path / "ocamler-aaaaaaaa").symlink_to(kept)
    (tmp_path / "ocamler-bbbbbbbb").write_text("x")
    odd = tmp_path / "ocamler-cccccccc"
    odd.mkdir()
    (odd / ".lock").symlink_to(kept / ".lock")
    assert sweep(tmp_path) == []
    assert (kept / "inner" / "file").exists()
    assert odd.exists()


def test_what_is_left_with_its_permissions_taken_is_swept(tmp_path: Path) -> None:
    parent = left_behind(tmp_path)
    (parent / "inner" / "run").chmod(0)
    (parent / "inner").chmod(0)
    assert sweep(tmp_path) == [parent]
    assert not parent.exists()


def test_two_sweepers_are_not_in_each_others_way(tmp_path: Path) -> None:
    parents = [left_behind(tmp_path, f"ocamler-{number:08}") for number in range(40)]
    code = "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from ocaml.scratch import sweep; print(len(sweep(Path(sys.argv[2]))))"
    command = [sys.executable, "-c", code, str(ROOT), str(tmp_path)]
    sweepers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    swept = [int(sweeper.communicate()[0]) for sweeper in sweepers]
    assert sum(swept) >= len(parents)
    assert list(tmp_path.iterdir()) == []


def test_a_sweeper_leaves_what_another_is_at(tmp_path: Path) -> None:
    parent = left_behind(tmp_path)
    with (parent / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep(tmp_path) == []
    assert parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_the_folders_of_other_users_stay(tmp_path: Path) -> None:
    parent = left_behind(tmp_path)
    os.chown(parent, 65534, 65534)
    assert sweep(tmp_path) == []
    assert parent.exists()


def test_a_place_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    assert sweep(tmp_path / "nowhere") == []

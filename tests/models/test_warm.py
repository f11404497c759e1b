"""A model kept warm between commands: asked for, found again, closed to others, gone in time."""

import asyncio
import os
import socket
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from asking import ENDLESS, QUESTION, complete

from models.engines import EngineOptions, Finish, Prompt, Sampling
from models.engines.remote import EngineProcess
from models.engines.warm import Warmth, runtime_folder, socket_path
from models.engines.wire import Generate, encode
from models.errors import EngineError

Open = Callable[..., EngineProcess]


@pytest.fixture
def tmp_path(short_folder: Path) -> Path:
    """A folder short enough for the path of a socket in it."""
    return Path(tempfile.mkdtemp(dir=short_folder))


@pytest.fixture
async def open_warm(tmp_path: Path, nano: Path) -> AsyncIterator[Open]:
    """Yield a function that opens the nano model, kept warm for so many seconds; all ends with the test."""
    folder = tmp_path / "run"
    opened: list[EngineProcess] = []

    def open_one(seconds: float | None, model: Path = nano, **options: object) -> EngineProcess:
        engine = EngineProcess(model, EngineOptions(**options), warmth=Warmth(folder, seconds))  # type: ignore[arg-type]
        opened.append(engine)
        return engine

    yield open_one
    for engine in opened:
        pid = engine.pid
        await engine.close()
        if pid and psutil.pid_exists(pid):
            os.kill(pid, 9)


async def pid_after_answering(engine: EngineProcess) -> int:
    assert (await complete(engine)).tokens
    assert engine.pid is not None
    return engine.pid


async def is_gone(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return not is_running(pid)


def is_running(pid: int) -> bool:
    """Whether it is more than a zombie, which is its new parent's affair."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def test_a_model_kept_warm_serves_the_next_command_without_loading(open_warm: Open):
    first = open_warm(60)
    pid = await pid_after_answering(first)
    await first.close()
    assert psutil.pid_exists(pid)
    second = open_warm(None)
    assert await pid_after_answering(second) == pid


async def test_the_prompt_of_the_last_command_is_still_in_memory(open_warm: Open):
    first = open_warm(60)
    await complete(first)
    await first.close()
    again = await complete(open_warm(None))
    assert again.cached_tokens == again.prompt_tokens - 1


async def test_without_being_asked_nothing_stays(open_warm: Open):
    engine = open_warm(None)
    pid = await pid_after_answering(engine)
    await engine.close()
    assert await is_gone(pid)


async def test_it_ends_when_nobody_came_for_as_long_as_was_said(open_warm: Open, tmp_path: Path):
    engine = open_warm(0.3)
    pid = await pid_after_answering(engine)
    await engine.close()
    assert await is_gone(pid)
    assert list((tmp_path / "run").glob("*.sock")) == []


async def test_zero_ends_it_after_this_command(open_warm: Open):
    first = open_warm(60)
    pid = await pid_after_answering(first)
    await first.close()
    last = open_warm(0)
    assert await pid_after_answering(last) == pid
    await last.close()
    assert await is_gone(pid)


async def test_one_whose_library_is_missing_does_not_stay_to_say_so_again(nano: Path, tmp_path: Path):
    engine = EngineProcess(nano, EngineOptions(), "telepathy", warmth=Warmth(tmp_path / "run", 60))
    with pytest.raises(EngineError, match="no engine called telepathy"):
        await engine.load()
    pid = engine.pid
    assert pid
    await engine.close()
    assert await is_gone(pid)


async def test_another_model_or_other_settings_are_another_process(open_warm: Open, make_nano):
    pids = {
        await pid_after_answering(open_warm(60)),
        await pid_after_answering(open_warm(60, context_tokens=512)),
        await pid_after_answering(open_warm(60, make_nano(seed=5))),
    }
    assert len(pids) == 3


async def test_a_model_that_changed_on_disk_is_loaded_anew(
    open_warm: Open, nano: Path, tmp_path: Path, make_nano
):
    model = tmp_path / "m.gguf"
    model.write_bytes(nano.read_bytes())
    first = await complete(open_warm(60, model))
    model.write_bytes(make_nano(seed=7).read_bytes())
    second = await complete(open_warm(60, model))
    assert first.text != second.text


async def test_two_commands_at_once_share_it_and_both_are_answered(open_warm: Open):
    engines = [open_warm(60) for _ in range(3)]
    completions = await asyncio.gather(*(complete(engine) for engine in engines))
    assert len({completion.text for completion in completions}) == 1
    assert len({engine.pid for engine in engines}) == 1


async def test_a_command_that_ends_in_the_middle_leaves_it_free_for_the_next(
    open_warm: Open, endless_nano: Path
):
    rude = open_warm(60, endless_nano)
    await anext(rude.generate(QUESTION, sampling=ENDLESS))
    pid = rude.pid
    await rude.close()
    began = time.monotonic()
    polite = open_warm(None, endless_nano)
    assert (await complete(polite, sampling=Sampling(max_tokens=5))).tokens
    assert polite.pid == pid
    assert time.monotonic() - began < 5


async def test_whoever_gives_up_before_his_turn_takes_it_from_nobody(open_warm: Open, endless_nano: Path):
    first, second = open_warm(60, endless_nano), open_warm(60, endless_nano)
    second._patience_seconds = 0.2  # a child that is deaf for so long is killed
    await second.load()
    reply = first.generate(QUESTION, sampling=ENDLESS)
    await anext(reply)
    pid = first.pid
    waiting = asyncio.create_task(complete(second))
    await asyncio.sleep(0.1)
    await second.cancel()
    assert (await waiting).finish is Finish.CANCELLED
    await asyncio.sleep(0.8)
    assert (await anext(reply)).tokens
    assert first.pid == pid
    await reply.aclose()


async def test_a_client_that_was_put_to_sleep_does_not_stop_the_others(
    open_warm: Open, tmp_path: Path, endless_nano: Path
):
    engine = open_warm(60, endless_nano)
    await engine.load()
    (path,) = (tmp_path / "run").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as asleep:
        asleep.connect(str(path))
        asleep.sendall(encode(Generate(1, (Prompt(tuple(QUESTION), sampling=ENDLESS),))))
        await asyncio.sleep(0.3)  # while it writes until nothing fits in between any more
        assert (await asyncio.wait_for(complete(engine, sampling=Sampling(max_tokens=5)), 10)).tokens


async def test_when_it_is_killed_the_next_command_starts_its_own(open_warm: Open):
    first = open_warm(60)
    pid = await pid_after_answering(first)
    await first.close()
    os.kill(pid, 9)
    assert await pid_after_answering(open_warm(None)) != pid


async def test_only_the_user_can_reach_it(open_warm: Open, tmp_path: Path):
    await pid_after_answering(open_warm(60))
    (path,) = (tmp_path / "run").glob("*.sock")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) & 0o177 == 0


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
async def test_a_folder_open_to_others_is_refused(open_warm: Open, tmp_path: Path, mode: int):
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    with pytest.raises(EngineError, match="is open to others"):
        await open_warm(60).load()


@pytest.mark.parametrize("seconds", [None, 0])
async def test_a_folder_that_others_made_matters_to_nobody_who_keeps_no_model_warm(
    open_warm: Open, tmp_path: Path, seconds: float | None
):
    await pid_after_answering(open_warm(60))
    (tmp_path / "run").chmod(0o755)
    engine = open_warm(seconds)
    pid = await pid_after_answering(engine)
    await engine.close()
    assert await is_gone(pid)


async def test_a_folder_that_cannot_be_made_is_one_sentence(nano: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    engine = EngineProcess(nano, EngineOptions(), warmth=Warmth(tmp_path / "file" / "run", 60))
    with pytest.raises(EngineError, match=r"^No model can be kept warm in .* run without --keep-warm\.$"):
        await engine.load()


async def test_a_folder_that_is_a_link_is_refused(open_warm: Open, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="is open to others"):
        await open_warm(60).load()


@pytest.mark.parametrize("noise", [b"", b"\xff\xfe\n", b'{"is": "Reboot"}\n', b"[" * 100_000 + b"\n"])
async def test_noise_on_the_socket_harms_nobody(open_warm: Open, tmp_path: Path, noise: bytes):
    engine = open_warm(60)
    pid = await pid_after_answering(engine)
    (path,) = (tmp_path / "run").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(path))
        stranger.sendall(noise)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):
            await asyncio.sleep(0)
    await asyncio.sleep(0.3)
    assert await pid_after_answering(engine) == pid


def test_its_socket_has_a_path_short_enough_for_every_platform(tmp_path: Path, nano: Path):
    deep = {"XDG_RUNTIME_DIR": "/" + "d" * 120}
    path = socket_path(runtime_folder(deep), "transformers", nano, EngineOptions())
    assert len(os.fsencode(path)) < 100


def test_the_runtime_folder_is_the_platforms_where_there_is_one():
    assert runtime_folder({"XDG_RUNTIME_DIR": "/run/user/7"}).parent == Path("/run/user/7")


def test_a_runtime_folder_that_depends_on_where_we_are_is_none():
    assert runtime_folder({"XDG_RUNTIME_DIR": "run"}).is_absolute()

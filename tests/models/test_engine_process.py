"""How an engine's process lives and dies: started, killed, stopped, orphaned, closed, started again."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from asking import complete_all

from models.engines import EngineOptions, Finish, Message, Prompt, Role, Sampling, collect
from models.engines.process import Child, ChildProcess, Death
from models.engines.remote import EngineProcess
from models.errors import EngineError

ROOT = Path(__file__).resolve().parents[2]
QUESTION = [Message(Role.USER, "Say something.")]
ENDLESS = Sampling(max_tokens=1_000_000)
SHORT = Sampling(max_tokens=5)

# A program that opens an engine, as the command does, and tells its child's process id.
PARENT = """
import asyncio, sys
from pathlib import Path
from models.engines import EngineOptions, Message, Role, Sampling
from models.engines.remote import EngineProcess

async def main(model, text):
    engine = EngineProcess(Path(model), EngineOptions(context_tokens=32768))
    await engine.load()
    print(engine.pid, flush=True)
    async for delta in engine.generate(
        [Message(Role.USER, text)], sampling=Sampling(max_tokens=int(sys.argv[3]))
    ):
        pass
    await engine.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.fixture
async def engine(endless_nano: Path) -> AsyncIterator[EngineProcess]:
    engine = EngineProcess(endless_nano, EngineOptions(context_tokens=32768), patience_seconds=0.5)
    yield engine
    await engine.close()


async def answer(engine: EngineProcess) -> str:
    return (await collect(engine.generate(QUESTION, sampling=SHORT))).text


def pid_of(engine: EngineProcess) -> int:
    assert engine.pid is not None
    return engine.pid


def program(*arguments: object, cwd: Path | None = None, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return condition()


def is_gone(pid: int) -> bool:
    """Whether the process is no more; an orphan's zombie is its new parent's affair."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


async def test_loading_leaves_the_event_loop_free(engine: EngineProcess):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await engine.load()
    ticking.cancel()
    assert ticks > 5


async def test_loading_again_costs_no_new_process(engine: EngineProcess):
    await asyncio.gather(engine.load(), engine.load())
    pid = pid_of(engine)
    await engine.load()
    await answer(engine)
    assert pid_of(engine) == pid


async def test_an_engine_outlives_the_loop_that_loaded_it(nano: Path):
    def in_another_loop() -> tuple[str, str]:
        engine = EngineProcess(nano, EngineOptions())
        asyncio.run(engine.load())
        answers = asyncio.run(answer(engine)), asyncio.run(answer(engine))
        asyncio.run(engine.close())
        return answers

    first, second = await asyncio.to_thread(in_another_loop)
    assert first == second


async def test_the_child_dying_is_told_and_the_reply_goes_on_in_another(endless_nano: Path):
    notices: list[str] = []
    engine = EngineProcess(endless_nano, EngineOptions(context_tokens=4096), notice=notices.append)
    stream = engine.generate(QUESTION, sampling=Sampling(max_tokens=300))
    first = await anext(stream)
    pid = pid_of(engine)
    os.kill(pid, signal.SIGKILL)
    text = first.text + "".join([delta.text async for delta in stream])
    assert text == "ha ha ho ho " * 150
    assert pid_of(engine) != pid
    assert notices == [
        "The model's process was killed, perhaps because memory ran out: "
        "it is started again, and the answer goes on."
    ]
    await engine.close()


async def test_the_child_dying_twice_in_one_reply_is_one_sentence_and_the_next_request_is_answered(
    engine: EngineProcess,
):
    stream = engine.generate(QUESTION, sampling=ENDLESS)
    await anext(stream)
    first = pid_of(engine)
    os.kill(first, signal.SIGKILL)
    while engine.pid in (None, first):
        await anext(stream)
    os.kill(pid_of(engine), signal.SIGKILL)
    with pytest.raises(EngineError, match=r"^The model's process was killed, perhaps"):
        await collect(stream)
    assert await answer(engine)


async def test_a_batch_goes_on_where_it_was_when_the_child_dies(nano: Path):
    prompts = [
        Prompt(tuple(QUESTION), sampling=Sampling(max_tokens=60)),
        Prompt(tuple(QUESTION), forbidden_first=(1, 2, 3), sampling=Sampling(max_tokens=3)),
        Prompt(tuple(QUESTION), "let ", sampling=Sampling(max_tokens=50)),
    ]
    whole = EngineProcess(nano, EngineOptions(context_tokens=4096))
    expected = [completion.text for completion in await complete_all(whole, prompts)]
    await whole.close()
    engine = EngineProcess(nano, EngineOptions(context_tokens=4096))
    texts, count = ["", "", ""], 0
    async for part in engine.batch(prompts):
        texts[part.index] += part.delta.text
        count += 1
        if count == 40:
            os.kill(pid_of(engine), signal.SIGKILL)
    await engine.close()
    assert texts[:2] == expected[:2]
    assert texts[2].startswith(expected[2][:10])  # its prefix was text, which may be cut otherwise


async def test_the_child_dying_between_requests_is_not_noticed(engine: EngineProcess):
    before = await answer(engine)
    os.kill(pid_of(engine), signal.SIGKILL)
    assert await until(lambda: engine.pid is None)
    assert await answer(engine) == before


async def test_a_prompt_that_kills_the_child_twice_is_one_sentence(engine: EngineProcess):
    await engine.load()
    reading = asyncio.create_task(
        collect(engine.generate([Message(Role.USER, "é" * 10_000)], sampling=SHORT))
    )
    for _ in range(2):
        await asyncio.sleep(0.2)
        assert await until(lambda: engine.pid is not None)
        await asyncio.sleep(0.3)
        os.kill(pid_of(engine), signal.SIGSEGV)
    with pytest.raises(EngineError, match=r"^The model's process crashed \(SIGSEGV\)"):
        await reading


@pytest.mark.parametrize(
    ("death", "sentence"),
    [
        (Death(-9, ""), "was killed, perhaps because memory ran out: try again, or choose a smaller"),
        (Death(-6, "GGML_ASSERT failed"), "crashed (SIGABRT) after saying “GGML_ASSERT failed”: try again"),
        (Death(-250, ""), "crashed (signal 250): try again"),
        (Death(None, "Killed"), "which was kept warm, ended after saying “Killed”: try again"),
        (Death(70, "ValueError"), "ended (exit code 70) after saying “ValueError”: try again"),
    ],
)
def test_every_death_has_its_sentence(death: Death, sentence: str):
    assert sentence in death.sentence
    assert death.sentence.startswith("The model's process")
    assert death.sentence.endswith(".")
    assert death.sentence.startswith(f"{death.reason}: ")


def test_the_reason_of_a_death_holds_all_of_its_last_words():
    death = Death(70, "ValueError: no such shape: 3")
    assert (
        death.reason == "The model's process ended (exit code 70) after saying “ValueError: no such shape: 3”"
    )


@pytest.mark.parametrize("dies_first", [False, True])
async def test_cancel_is_heard_while_a_child_is_being_started(endless_nano: Path, dies_first: bool):
    delays = iter([0.0, 1.5] if dies_first else [1.5])
    notices: list[str] = []

    def start(*listeners: Any) -> Child:
        time.sleep(next(delays, 0.0))
        return ChildProcess("llama", *listeners)

    engine = EngineProcess(
        endless_nano, EngineOptions(context_tokens=4096), start_child=start, notice=notices.append
    )
    stream = engine.generate(QUESTION, sampling=ENDLESS)
    if dies_first:
        await anext(stream)
        os.kill(pid_of(engine), signal.SIGKILL)
    reply = asyncio.create_task(collect(stream))
    assert await until(lambda: len(notices) == dies_first)
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await engine.cancel()
    assert (await reply).finish is Finish.CANCELLED
    assert time.monotonic() - began < 0.5
    assert await answer(engine)  # by the child that was being started
    await engine.close()


async def test_one_reply_of_a_batch_is_cancelled_while_a_child_is_being_started(nano: Path):
    def start(*listeners: Any) -> Child:
        time.sleep(0.3)
        return ChildProcess("llama", *listeners)

    engine = EngineProcess(nano, EngineOptions(context_tokens=4096), start_child=start)
    replies = asyncio.create_task(complete_all(engine, [Prompt(tuple(QUESTION), sampling=SHORT)] * 2))
    await asyncio.sleep(0.1)
    await engine.cancel(0)
    assert [reply.finish for reply in await replies] == [Finish.CANCELLED, Finish.LENGTH]
    await engine.close()


async def test_a_child_deaf_to_cancel_is_cancelled_all_the_same_and_replaced(engine: EngineProcess):
    async with aclosing(engine.generate(QUESTION, sampling=ENDLESS)) as stream:
        await anext(stream)
        pid = pid_of(engine)
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        await engine.cancel()
        rest = [delta async for delta in stream]
    assert time.monotonic() - began < 0.5
    assert rest[-1].finish is Finish.CANCELLED
    assert await answer(engine)
    assert pid_of(engine) != pid


async def test_closing_is_quick_twice_the_same_and_leaves_no_child(engine: EngineProcess):
    await answer(engine)
    pid = pid_of(engine)
    began = time.monotonic()
    await engine.close()
    await engine.close()
    assert time.monotonic() - began < 1
    assert engine.pid is None
    assert not psutil.pid_exists(pid)


async def test_closing_an_engine_that_never_started_does_nothing(nano: Path):
    await EngineProcess(nano, EngineOptions()).close()


async def test_closing_ends_a_running_generation_with_one_sentence(engine: EngineProcess):
    stream = engine.generate(QUESTION, sampling=ENDLESS)
    await anext(stream)
    waiting = asyncio.create_task(answer(engine))
    await asyncio.sleep(0)
    await engine.close()
    with pytest.raises(EngineError, match="The engine was closed before it had answered"):
        async for _ in stream:
            pass
    with pytest.raises(EngineError, match="The engine is closed"):
        await waiting


async def test_closing_while_it_loads_leaves_no_child(nano: Path):
    before = {child.pid for child in psutil.Process().children()}  # other tests' engines live longer
    engine = EngineProcess(nano, EngineOptions())
    loading = asyncio.create_task(engine.load())
    await asyncio.sleep(0.05)
    await engine.close()
    with pytest.raises(EngineError):
        await loading
    assert engine.pid is None
    assert {child.pid for child in psutil.Process().children()} == before


async def test_a_cancelled_load_can_be_taken_up_again(engine: EngineProcess):
    loading = asyncio.create_task(engine.load())
    await asyncio.sleep(0.05)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert await answer(engine)


async def test_a_dead_child_is_no_zombie(engine: EngineProcess):
    await engine.load()
    pid = pid_of(engine)
    os.kill(pid, signal.SIGKILL)
    assert await until(lambda: not psutil.pid_exists(pid))


@pytest.mark.parametrize("text", ["short", "é" * 10_000], ids=["generating", "reading the prompt"])
async def test_the_child_ends_with_its_parent(endless_nano: Path, text: str):
    with program(endless_nano, text, 1_000_000) as parent:
        assert parent.stdout is not None
        child = int(await asyncio.to_thread(parent.stdout.readline))
        await asyncio.sleep(0.3)
        assert not is_gone(child)
        parent.kill()
    assert await until(lambda: is_gone(child))


async def test_the_terminals_interrupt_does_not_reach_the_child(engine: EngineProcess):
    await engine.load()
    assert os.getsid(pid_of(engine)) == pid_of(engine) != os.getsid(0)
    assert os.getpgid(pid_of(engine)) != os.getpgid(0)


async def test_waiting_threads_do_not_spin(engine: EngineProcess):
    await engine.load()
    environment = psutil.Process(pid_of(engine)).environ()
    assert environment["OMP_WAIT_POLICY"] == "passive"
    assert environment["KMP_BLOCKTIME"] == "0"


def test_nothing_is_written_on_our_terminal(make_nano: Callable[..., Path]):
    with program(make_nano(says="hello there", eos="<|endoftext|>"), "hi", 5) as parent:
        stdout, stderr = parent.communicate(timeout=30)
    assert (len(stdout.splitlines()), stderr, parent.returncode) == (1, b"", 0)


@pytest.mark.parametrize("after_ours", ["", f"{os.pathsep}."], ids=["only ours", "theirs after ours"])
def test_it_works_in_a_folder_full_of_the_users_own_modules(nano: Path, tmp_path: Path, after_ours: str):
    for name in ("app", "models", "ocaml", "training", "convert"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    with program(nano, "hi", 5, cwd=tmp_path, PYTHONPATH=f"{ROOT}{after_ours}") as parent:
        _, stderr = parent.communicate(timeout=30)
    assert (stderr, parent.returncode) == (b"", 0)


def test_the_users_modules_do_not_stand_in_for_the_libraries(nano: Path, tmp_path: Path):
    for name in ("json", "numpy", "jinja2", "llama_cpp", "threading", "models"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    with program(nano, "hi", 5, cwd=tmp_path, PYTHONPATH=str(ROOT)) as parent:
        _, stderr = parent.communicate(timeout=30)
    assert (stderr, parent.returncode) == (b"", 0)


async def test_an_unknown_engine_is_one_sentence(nano: Path):
    engine = EngineProcess(nano, EngineOptions(), engine="abacus")
    with pytest.raises(
        EngineError, match=r"^There is no engine called abacus: use llama, mlx or transformers\.$"
    ):
        await engine.load()
    await engine.close()

"""A server that speaks OpenAI's language alone, in a process that dies and comes back, and many callers."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking import ENDLESS, GREEDY, QUESTION, complete, complete_all, deltas_of

from models.engines.openai import OpenAIEngine
from models.engines.openai_http import Patience
from models.engines.options import EngineOptions
from models.engines.protocol import Finish, Prompt
from models.errors import EngineError

SAYS = "0123é456→789ABCDEFGHIJK🐫LMN"
BYTES = tuple(bytes([byte]) for byte in SAYS.encode())  # no cut between them is another in a text
ENDLESS_SAYS = (b"ha ha", b" ho ho ")
KEY = "sk-s3cret-0123456789"


class Process:
    """A server of a nano model."""

    def __init__(self, model: Path, *options: str) -> None:
        self._command = [sys.executable, "-P", str(Path(__file__).parent / "llama_server.py"), str(model)]
        self._options = options
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, at the port it had before."""
        root = Path(__file__).parents[2]
        command = [*self._command, *self._options, "--port", str(self.port)]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


Serve = Callable[..., Process]


@pytest.fixture(scope="module")
def serve(make_nano: Callable[..., Path]) -> Iterator[Serve]:
    """Yield a function that returns the server that was started with such options."""
    running: dict[tuple[bool, tuple[str, ...]], Process] = {}

    def start(*options: str, ends: bool = True) -> Process:
        if (ends, options) not in running:
            nano = {"says": BYTES} if ends else {"says": ENDLESS_SAYS, "ends": "ha ha"}
            running[ends, options] = Process(make_nano(**nano), *options)
        return running[ends, options]

    yield start
    for process in running.values():
        process.kill()


def engine(server: Process, notices: list[str] | None = None, restart: float = 5.0, **environment: str):
    notice = (notices if notices is not None else []).append
    patience = Patience(restart=restart)
    return OpenAIEngine(server.url, EngineOptions(), environment, notice=notice, patience=patience)


async def test_the_first_token_is_none_of_the_forbidden_and_later_ones_may_be(serve: Serve):
    one = engine(serve("--plain", "vllm"))
    free = await complete(one)
    deltas = await deltas_of(one, forbidden_first=[free.tokens[0], -1])
    tokens = [token for delta in deltas for token in delta.tokens]
    assert tokens[0] != free.tokens[0]
    assert [delta.usage is not None for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    assert deltas[-1].usage.prompt_tokens == free.prompt_tokens


def deltas_text(deltas, count: int) -> str:
    return "".join(delta.text for delta in deltas[:count])


async def test_a_token_that_comes_later_may_be_one_that_is_forbidden_first(serve: Serve):
    one = engine(serve("--plain", "vllm"))
    free = await complete(one)
    again = await complete(one, prefix=free.tokens[:3], forbidden_first=[free.tokens[-1]])
    assert again.text == SAYS[3:]


async def test_what_a_server_does_not_know_is_left_out(serve: Serve):
    assert (await complete(engine(serve("--plain", "--refuse", "seed")))).text == SAYS


async def test_token_ids_of_a_reply_that_was_left_early_are_gone_on_from(serve: Serve):
    one = engine(serve("--plain", "vllm"))
    kept = []
    async for delta in one.generate(QUESTION, sampling=GREEDY):
        kept.append(delta)
        if len(kept) == 5:
            break
    tokens = [token for delta in kept for token in delta.tokens]
    rest = await complete(one, prefix=tokens)
    assert deltas_text(kept, 5) + rest.text == SAYS


async def test_a_reply_whose_server_dies_and_is_back_goes_on_where_it_was(serve: Serve):
    server, notices = serve("--plain", "vllm", "--pause", "0.01"), []
    deltas = []
    async for delta in engine(server, notices).generate(QUESTION, sampling=GREEDY):
        deltas.append(delta)
        if len(deltas) == 6:
            server.kill()
            server.start()
    assert "".join(delta.text for delta in deltas) == SAYS
    assert [delta.finish for delta in deltas if delta.finish] == [Finish.STOP]
    assert notices == [f"The server at {server.url} broke off and is back: the reply goes on where it was."]


async def test_of_one_death_in_a_batch_one_notice_tells(serve: Serve):
    server, notices = serve("--plain", "somebody", "--pause", "0.01"), []
    texts = [""] * 6
    count = 0
    async for answer in engine(server, notices).batch([Prompt(tuple(QUESTION), sampling=GREEDY)] * 6):
        texts[answer.index] += answer.delta.text
        if (count := count + 1) == 20:
            server.kill()
            server.start()
    assert texts == [SAYS] * 6
    assert len(notices) == 1


async def test_a_server_that_dies_for_good_is_one_sentence(make_nano):
    server, notices = Process(make_nano(says=BYTES), "--plain", "--pause", "0.01"), []

    async def read() -> None:
        count = 0
        async for _ in engine(server, notices, restart=0.3).batch(
            [Prompt(tuple(QUESTION), sampling=GREEDY)] * 6
        ):
            if (count := count + 1) == 10:
                server.kill()

    with pytest.raises(EngineError, match=r"broke.*: look into its log\.$"):
        await read()
    assert notices == []


async def test_a_server_that_loads_is_waited_for(make_nano):
    server = Process(make_nano(says=BYTES), "--loading", "0.3")
    try:
        assert (await complete(engine(server))).text == SAYS
    finally:
        server.kill()


@pytest.mark.parametrize("kind", [(), ("--plain",)])
@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"OCAMLER_API_KEY": KEY}, ""),
        ({"OCAMLER_API_KEY": KEY, "OPENAI_API_KEY": "sk-other"}, ""),
        ({"OCAMLER_API_KEY": "sk-other", "OPENAI_API_KEY": KEY}, "refuses the key"),
        ({}, "wants a key"),
    ],
)
async def test_a_server_gets_the_key_that_is_ours_first(serve: Serve, kind, environment, words: str):
    one = engine(serve(*kind, "--key", KEY), **environment)
    if not words:
        assert (await complete(one)).text == SAYS
        return
    with pytest.raises(EngineError, match=f"{words}.*OCAMLER_API_KEY"):
        await complete(one)


@pytest.mark.parametrize("kind", [(), ("--plain",)])
async def test_one_reply_of_a_batch_is_cancelled_and_the_others_go_on(serve: Serve, kind):
    one = engine(serve(*kind, "--pause", "0.01"))
    finishes = {}
    texts = [""] * 6
    async for answer in one.batch([Prompt(tuple(QUESTION), sampling=GREEDY)] * 6):
        assert answer.index not in finishes
        texts[answer.index] += answer.delta.text
        if answer.delta.finish:
            finishes[answer.index] = answer.delta.finish
        if answer.index == 1 and len(texts[1]) > 5:
            await one.cancel(1)
            await one.cancel(5)  # which waits for its turn
    assert [finishes[index] for index in range(6)] == [
        Finish.CANCELLED if index in (1, 5) else Finish.STOP for index in range(6)
    ]
    assert texts[0] == SAYS
    assert SAYS.startswith(texts[1])


@pytest.mark.parametrize(("kind", "after"), [((), 0.0), ((), 0.1), (("--plain",), 0.0), (("--plain",), 0.1)])
async def test_a_cancel_ends_a_reply_at_any_time(serve: Serve, kind, after: float):
    one = engine(serve(*kind, ends=False))
    await one.load()
    reading = asyncio.create_task(complete(one, sampling=ENDLESS))
    await asyncio.sleep(after)
    while not reading.done():  # one before it has begun ends nothing
        await one.cancel()
        await asyncio.sleep(0.01)
    assert (await reading).finish is Finish.CANCELLED
    assert (await complete(one)).text


async def test_engines_on_several_loops_and_two_at_once(serve: Serve):
    server = serve()
    one, other = engine(server), engine(server)

    async def both() -> list[str]:
        return [reply.text for reply in await asyncio.gather(*map(complete, (one, other, one)))]

    for _ in range(3):
        assert await asyncio.to_thread(lambda: asyncio.run(both())) == [SAYS] * 3
    await one.close()
    await one.close()
    with pytest.raises(EngineError, match="closed"):
        await complete(one)
    assert (await complete(other)).text == SAYS


@pytest.mark.slow
async def test_the_server_of_mlx_lm_is_one_of_them(make_nano_folder: Callable[..., Path]):
    pytest.importorskip("mlx_lm")
    folder = make_nano_folder(says=BYTES)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "mlx_lm.server", "--model", str(folder), "--port", str(port)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment
    ) as process:
        try:
            one = OpenAIEngine(f"http://127.0.0.1:{port}#{folder}", environment={})
            await _until_it_listens(one)
            assert (await complete(one)).text == SAYS
            for size in (15, 8):  # it begins anew, as the longer one has shown
                assert (await complete(one, prefix=SAYS[:size])).text == SAYS[size:]
            assert [
                reply.text
                for reply in await complete_all(one, [Prompt(tuple(QUESTION), sampling=GREEDY)] * 3)
            ] == [SAYS] * 3
            deltas = []
            async for delta in one.generate(QUESTION, sampling=GREEDY):
                deltas.append(delta)
                await one.cancel()
            assert deltas[-1].finish is Finish.CANCELLED
            assert (await complete(one)).text == SAYS
        finally:
            process.kill()


async def _until_it_listens(one: OpenAIEngine) -> None:
    for _ in range(300):
        try:
            await one.load()
            return
        except EngineError:
            await asyncio.sleep(0.2)
    raise TimeoutError


async def test_a_batch_of_none_is_none(serve: Serve):
    assert await complete_all(engine(serve()), []) == []

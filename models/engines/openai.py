"""The engine of those who have a server running: llama-server, vLLM, LM Studio, Ollama, by their address.

It fulfils ``Engine`` in our own process. llama-server is spoken to in its own language, which knows tokens;
all others in OpenAI's. See ``openai_llama`` and ``openai_generic`` for what each can do.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

from models.engines.openai_address import find_key, parse_address
from models.engines.openai_generic import GenericServer
from models.engines.openai_http import Patience, Refused, Server, ServerLost
from models.engines.openai_llama import LlamaServer
from models.engines.openai_wire import Listed, Properties, parse_models, parse_properties
from models.engines.options import EngineOptions
from models.engines.protocol import BatchDelta, Delta, Finish, Footprint, Message, Prompt, Sampling, Usage
from models.errors import EngineError

_AT_ONCE = 4  # replies of a batch; the default of llama-server, and modest elsewhere
_RESTART_PAUSE = 0.2  # seconds
_NAMED = 8  # models in a sentence

T = TypeVar("T")
Answer: TypeAlias = BatchDelta | Footprint | Exception


class Speaker(Protocol):
    """How a kind of server is spoken to, with the model that was chosen there."""

    def reply(self, server: Server, prompt: Prompt) -> AsyncGenerator[Delta, None]:
        """Yield the reply to its last delta; raise ``ServerLost`` when the server dies."""


class OpenAIEngine:
    """A model behind ``url``: ``http://host:port``, with or without ``/v1``, and ``#model`` to choose one.

    The key comes from ``environment``, as ``openai_address`` says. Callers take turns. A reply that breaks
    off because the server died goes on, once, when it is back in time; ``notice`` is told in a sentence.
    Of ``options`` only the context counts: no more of the server's is used.
    """

    def __init__(
        self,
        url: str,
        options: EngineOptions | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        notice: Callable[[str], None] = lambda _: None,
        patience: Patience | None = None,
    ) -> None:
        self._url = url
        self._options = options or EngineOptions()
        self._environment = environment
        self._notice = notice
        self._patience = patience or Patience()
        self._opened: tuple[Speaker, Footprint] | None = None
        self._running: _Run | None = None
        self._closed = False
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def load(self) -> Footprint:
        """Ask the server what it has; raise ``EngineError`` when it is none or lacks the model."""
        async with self._turn(), self._server() as server, _Run() as run:
            self._opened = None
            self._running = run
            try:
                run.start(None, self._tell_footprint(run, server))
                while True:
                    answer = await run.answers.get()
                    if isinstance(answer, Exception):
                        raise answer
                    if isinstance(answer, Footprint):
                        return answer
            finally:
                self._running = None

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        prefix: str | Sequence[int] = "",
        forbidden_first: Sequence[int] = (),
        sampling: Sampling,
    ) -> AsyncGenerator[Delta, None]:
        """Stream the reply, as ``Engine`` says."""
        accepted = prefix if isinstance(prefix, str) else tuple(prefix)
        prompt = Prompt(tuple(messages), accepted, tuple(forbidden_first), sampling)
        async with aclosing(self.batch([prompt])) as answers:
            async for answer in answers:
                yield answer.delta

    async def batch(self, prompts: Sequence[Prompt]) -> AsyncGenerator[BatchDelta, None]:
        """Stream the replies, four of them at once, as ``Engine`` says."""
        async with self._turn(), self._server() as server, _Run() as run:
            self._running = run
            try:
                for index, prompt in enumerate(prompts):
                    run.start(index, self._tell(run, server, index, prompt))
                unfinished = set(range(len(prompts)))
                while unfinished:
                    answer = await run.answers.get()
                    if isinstance(answer, Exception):
                        raise answer
                    # Nothing comes after a cancel.
                    if isinstance(answer, BatchDelta) and answer.index in unfinished:
                        if answer.delta.finish:
                            unfinished.remove(answer.index)
                        yield answer
            finally:
                self._running = None

    async def cancel(self, index: int | None = None) -> None:
        """End the running replies, or one of them, by closing their connections."""
        if run := self._running:
            run.soon(run.cancel, index)

    async def close(self) -> None:
        """End what runs; whoever still waits gets an ``EngineError``."""
        self._closed = True
        if run := self._running:
            closed = EngineError("The engine was closed before it had answered: open it again.")
            run.soon(run.answers.put_nowait, closed)

    def _turn(self) -> asyncio.Lock:
        """Return the lock of the running loop: a lock belongs to one, and the engine may outlive it."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Lock()
        return self._turns[1]

    def _server(self) -> Server:
        if self._closed:
            raise EngineError("The engine is closed: open it again.")
        address = parse_address(self._url)
        return Server(address, find_key(address, self._environment), self._patience)

    async def _tell_footprint(self, run: "_Run", server: Server) -> None:
        """Put what the model takes, or why there is none, where the caller waits."""
        try:
            _, footprint = await self._open(server)
            run.answers.put_nowait(footprint)
        except Exception as error:
            run.answers.put_nowait(error)

    async def _tell(self, run: "_Run", server: Server, index: int, prompt: Prompt) -> None:
        """Put a reply, or why there is none, where the caller waits."""
        try:
            async with run.limit, aclosing(self._reply(run, server, prompt)) as deltas:
                async for delta in deltas:
                    run.answers.put_nowait(BatchDelta(index, delta))
        except Exception as error:
            run.answers.put_nowait(error)

    async def _reply(self, run: "_Run", server: Server, prompt: Prompt) -> AsyncGenerator[Delta, None]:
        """Yield a reply; when the server dies within it, go on once where it was."""
        speaker, _ = await self._open(server)
        told: list[Delta] = []
        try:
            async with aclosing(speaker.reply(server, prompt)) as deltas:
                async for delta in deltas:
                    told.append(delta)
                    yield delta
            return
        except ServerLost as loss:
            await self._wait_for(server, loss)
        if not run.is_told:  # of one death all the replies of a batch may die
            run.is_told = True
            back = f"The server at {server.name} broke off and is back"
            self._notice(f"{back}: the reply goes on where it was.")
        async with aclosing(speaker.reply(server, _rest(prompt, told))) as deltas:
            async for delta in deltas:
                yield _less_prompt(delta, sum(map(_length, told)))

    async def _wait_for(self, server: Server, loss: ServerLost) -> None:
        """Return when the server answers again; raise ``loss`` when it does not in time."""
        until = time.monotonic() + self._patience.restart
        while True:
            try:
                await server.get(f"{server.api}/models")
                return
            except ServerLost:
                if time.monotonic() > until:
                    raise loss from None
            await asyncio.sleep(_RESTART_PAUSE)

    async def _open(self, server: Server) -> tuple[Speaker, Footprint]:
        """Return how the server is spoken to, and what its model takes; asks it once."""
        if self._opened is None:
            model = await _choose(server)
            properties = await _properties(server)
            theirs = properties.context if properties else model.context
            capacity = min(filter(None, (theirs, self._options.context_tokens)), default=0)
            speaker: Speaker = GenericServer(model.name, model.owner)
            if properties and model.vocabulary:
                speaker = LlamaServer(properties, model.vocabulary, capacity, model.name)
            self._opened = speaker, Footprint(context_tokens=capacity)
        return self._opened


class _Run:
    """The replies that are being written, each by a task, for one caller who reads ``answers``."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[Answer] = asyncio.Queue()
        self.limit = asyncio.Semaphore(_AT_ONCE)
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int | None, asyncio.Task[None]] = {}
        self.is_told = False

    async def __aenter__(self) -> "_Run":
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def start(self, index: int | None, work: Coroutine[None, None, None]) -> None:
        """Have a reply written, or None of them: what is no reply cannot be cancelled."""
        self._tasks[index] = asyncio.create_task(work)

    def cancel(self, index: int | None) -> None:
        """End one reply, or all: the caller is told at once, and their connections close."""
        for each, task in self._tasks.items():
            if each is not None and index in (None, each):
                ended = Delta("", finish=Finish.CANCELLED, usage=Usage())
                self.answers.put_nowait(BatchDelta(each, ended))
                task.cancel()

    def soon(self, call: Callable[[T], object], argument: T) -> None:
        """Call in the loop of the replies, whichever we are in; it may be over."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, argument)


async def _choose(server: Server) -> Listed:
    """Return the model that the address names, or the server's first."""
    wanted = server.address.model
    try:
        answer = await server.get(f"{server.api}/models")
        with server.parsing():
            models = parse_models(answer)
    except ServerLost:
        raise
    except EngineError as error:
        if not wanted or (isinstance(error, Refused) and error.status in (401, 403, 503)):
            raise
        return Listed(wanted)  # mlx_lm.server without a cache of the hub lists nothing, and has the model
    if not models:
        raise EngineError(f"The server at {server.name} has no model: load one there.")
    names = [model.name for model in models]
    if not wanted:
        return next((model for model in models if "embed" not in model.name.lower()), models[0])
    if wanted not in names:
        known = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        raise EngineError(f"The server at {server.name} has no model {wanted}: name one of {known}.")
    return models[names.index(wanted)]


async def _properties(server: Server) -> Properties | None:
    """Return what llama-server says of itself; None for any other."""
    try:
        answer = await server.get("/props")
    except ServerLost:
        raise
    except EngineError as error:
        if isinstance(error, Refused) and error.status in (401, 403):
            raise  # its list of models alone is public
        return None
    with server.parsing():
        return parse_properties(answer)


def _rest(prompt: Prompt, told: Sequence[Delta]) -> Prompt:
    """Return the prompt for what is left of a reply."""
    written = [delta for delta in told if delta.text or delta.tokens]
    if not written:
        return prompt
    text = "".join(delta.text for delta in written)
    tokens = tuple(token for delta in written for token in delta.tokens)
    # With text alone the speaker finds the tokens of what it wrote by itself.
    is_exact = all(delta.tokens for delta in written) and not (
        isinstance(prompt.prefix, str) and prompt.prefix
    )
    prefix: str | tuple[int, ...] = (*prompt.prefix, *tokens) if is_exact else ""
    if not is_exact and isinstance(prompt.prefix, str):
        prefix = prompt.prefix + text
    left = max(0, prompt.sampling.max_tokens - sum(map(_length, written)))
    return replace(
        prompt, prefix=prefix, forbidden_first=(), sampling=replace(prompt.sampling, max_tokens=left)
    )


def _length(delta: Delta) -> int:
    return len(delta.tokens) or len(delta.entropies) or (1 if delta.text else 0)


def _less_prompt(delta: Delta, count: int) -> Delta:
    """Return the delta without ``count`` tokens of ours in the prompt that it counts."""
    if delta.usage is None:
        return delta
    prompt_tokens = max(0, delta.usage.prompt_tokens - count)
    cached_tokens = min(delta.usage.cached_tokens, prompt_tokens)
    return replace(
        delta, usage=replace(delta.usage, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens)
    )

"""The one protocol every engine speaks, and the data that crosses it."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Role(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. ``temperature`` 0 is greedy; ``max_tokens`` bounds the completion."""

    temperature: float = 0.0
    top_p: float = 0.95
    max_tokens: int = 768
    seed: int = 0


class Finish(StrEnum):
    """Why a completion ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a reply goes on from.

    ``prefix`` is the start of the reply that is already accepted, as text or, exactly, as the token ids of
    earlier deltas; it is not repeated in the stream. The first new token is none of ``forbidden_first``.
    """

    messages: tuple[Message, ...]
    prefix: str | tuple[int, ...] = ""
    forbidden_first: tuple[int, ...] = ()
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a prompt cost: its tokens, accepted prefix included, and how many were not read again.

    A conversation that exceeds the context loses its oldest messages, never the system's nor the last one:
    so many of them, of so many tokens, were dropped.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    dropped_messages: int = 0
    dropped_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a completion: whole characters of text and the token ids since the last delta.

    Tokens that end within a character wait for the rest of it, so a caller who keeps the first n
    deltas has text and ids that spell each other: the ids, given as ``prefix``, go on exactly there.
    A token that ends the turn is in neither. ``entropies`` has one number a token, that of the
    distribution it was drawn from, in nats at temperature 1; ``entropy`` is the last of them.
    The last delta of a completion carries ``finish`` and ``usage``; its text may be empty.
    """

    text: str
    tokens: tuple[int, ...] = ()
    entropy: float = 0.0
    finish: Finish | None = None
    entropies: tuple[float, ...] = ()
    usage: Usage | None = None


CANCELLED = Delta("", finish=Finish.CANCELLED, usage=Usage())
"""All that is told of a reply, or of the rest of it, when nobody waits for the engine's own last delta."""


@dataclass(frozen=True, slots=True)
class BatchDelta:
    """A piece of the reply to prompt number ``index`` (from 0) of a batch."""

    index: int
    delta: Delta


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a loaded model takes: the tokens its context holds, and the resident bytes of its process.

    Both are 0 where they cannot be known, as of a server elsewhere.
    """

    context_tokens: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished completion; ``prompt_tokens`` and ``cached_tokens`` as in ``Usage``."""

    text: str
    tokens: tuple[int, ...]
    finish: Finish
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Engine(Protocol):
    """A loaded model in a process of its own, or behind a server's address."""

    async def load(self) -> Footprint:
        """Load the model; raise ``EngineError`` with one sentence when it does not load."""

    def generate(
        self,
        messages: Sequence[Message],
        *,
        prefix: str | Sequence[int] = "",
        forbidden_first: Sequence[int] = (),
        sampling: Sampling,
    ) -> AsyncGenerator[Delta, None]:
        """Stream the assistant's reply to a ``Prompt`` of these fields. Closing the generator cancels.

        Loads the model when that has not happened. When its process dies it is started again, once, and the
        reply goes on where it was. Raises ``EngineError`` when it dies again, or when the system's and the
        last message alone exceed the context.
        """

    def batch(self, prompts: Sequence[Prompt]) -> AsyncGenerator[BatchDelta, None]:
        """Stream the replies to several prompts, side by side; each ends with a delta that has a finish.

        Each reply is the one that ``generate`` gives for its prompt, as far as the library's arithmetic does
        not depend on the size of the batch. More prompts than the engine runs at a time wait their turn.
        """

    async def cancel(self, index: int | None = None) -> None:
        """End the running generation or batch, or of a batch the one reply, within half a second.

        Its stream goes on to the last delta, with the finish ``CANCELLED``.
        """

    async def close(self) -> None:
        """End the process. Safe to call twice."""


async def collect(deltas: AsyncIterator[Delta]) -> Completion:
    """Read a stream to its end and return the completion as one."""
    text: list[str] = []
    tokens: list[int] = []
    finish, usage = Finish.CANCELLED, Usage()
    async for delta in deltas:
        text.append(delta.text)
        tokens.extend(delta.tokens)
        finish = delta.finish or finish
        usage = delta.usage or usage
    return Completion("".join(text), tuple(tokens), finish, usage.prompt_tokens, usage.cached_tokens)

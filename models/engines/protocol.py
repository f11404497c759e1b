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
class Usage:
    """What a prompt cost: its tokens, accepted prefix included, and how many were not read again."""

    prompt_tokens: int = 0
    cached_tokens: int = 0


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


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished completion; ``prompt_tokens`` and ``cached_tokens`` as in ``Usage``."""

    text: str
    tokens: tuple[int, ...]
    finish: Finish
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Engine(Protocol):
    """A loaded model in a process of its own."""

    async def load(self) -> None:
        """Load the model; raise ``EngineError`` with one sentence when it does not load."""

    def generate(
        self,
        messages: Sequence[Message],
        *,
        prefix: str | Sequence[int] = "",
        forbidden_first: Sequence[int] = (),
        sampling: Sampling,
    ) -> AsyncGenerator[Delta, None]:
        """Stream the assistant's reply; ``prefix`` is the start of it that is already accepted.

        ``prefix`` is text or, exactly, the token ids of earlier deltas; it is not repeated in the
        stream. The first new token is none of ``forbidden_first``. Closing the generator cancels.
        Loads the model when that has not happened, or when its process has died since.
        Raises ``EngineError`` when the model's process dies or the prompt exceeds the context.
        """

    async def cancel(self) -> None:
        """End the running generation within half a second; the generator ends with ``CANCELLED``."""

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

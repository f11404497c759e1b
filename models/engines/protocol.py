"""The one protocol every engine speaks, and the data that crosses it."""

from collections.abc import AsyncIterator, Sequence
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
class Delta:
    """A piece of a completion: whole characters of text and the token ids since the last delta.

    ``entropy`` is that of the distribution the last token was drawn from, in nats at temperature 1.
    The last delta of a completion carries ``finish``; its text may be empty.
    """

    text: str
    tokens: tuple[int, ...] = ()
    entropy: float = 0.0
    finish: Finish | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished completion. ``prompt_tokens`` counts the prompt, ``cached_tokens`` what was not read again."""

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
        prefix: str = "",
        forbidden_first: Sequence[int] = (),
        sampling: Sampling,
    ) -> AsyncIterator[Delta]:
        """Stream the assistant's reply; ``prefix`` is the start of it that is already accepted.

        The first new token is none of ``forbidden_first``. Closing the iterator cancels.
        Raises ``EngineError`` when the model's process dies or the prompt exceeds the context.
        """

    async def cancel(self) -> None:
        """End the running generation within half a second; the iterator ends with ``CANCELLED``."""

    async def close(self) -> None:
        """End the process. Safe to call twice."""

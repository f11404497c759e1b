"""A conversation cut down to what the context holds: its oldest messages go, and the caller is told."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from models.engines.protocol import Message, Prompt, Role, Usage
from models.errors import EngineError

Tokenize: TypeAlias = Callable[[Sequence[Message]], list[int]]
Accept: TypeAlias = Callable[[], list[int]]

_LONGEST_TOKEN = 256  # characters, and more than any has; to cut up megabytes of text takes seconds
_ROOM = 4  # a reply has at least a quarter of the context, or all it may have


@dataclass(frozen=True, slots=True)
class Fitted:
    """The tokens of what is read: a conversation, and ``accepted``, the start of the reply."""

    conversation: list[int]
    accepted: list[int]
    dropped_messages: int = 0
    dropped_tokens: int = 0

    @property
    def tokens(self) -> list[int]:
        """All of them, in order."""
        return self.conversation + self.accepted

    def usage(self, cached_tokens: int) -> Usage:
        """Return what reading them costs when ``cached_tokens`` are in memory."""
        return Usage(len(self.tokens), cached_tokens, self.dropped_messages, self.dropped_tokens)


def fit(prompt: Prompt, accept: Accept, tokenize: Tokenize, capacity: int) -> Fitted:
    """Return the tokens of a prompt, without its oldest messages where all of them would leave no room.

    ``tokenize`` cuts a conversation and ``accept`` the prefix; ``capacity`` is the context's, in tokens,
    reply included. The system's messages and the last one stay; questions go together with their answers.
    Raises ``EngineError`` when those alone are too long.
    """
    _refuse_endless(prompt, capacity)
    accepted = accept()
    messages = list(prompt.messages)
    whole = conversation = tokenize(messages)
    if not whole and not accepted:
        raise EngineError("The conversation is empty: ask something.")
    room = capacity - len(accepted) - max(0, min(prompt.sampling.max_tokens, capacity // _ROOM))
    dropped = 0
    if len(conversation) > room and (counts := _droppable(messages)):

        def fits(count: int) -> bool:
            return len(tokenize(_without_oldest(messages, count))) <= room

        # Sought by halves: to cut up a long chat once for every exchange that goes would take minutes.
        dropped = counts[min(bisect_left(counts, True, key=fits), len(counts) - 1)]
        conversation = tokenize(_without_oldest(messages, dropped))
    length = len(conversation) + len(accepted)
    if length >= capacity:
        raise EngineError(
            f"The prompt has {length} tokens and the context holds {capacity}, "
            "reply included: shorten it or load the model with a larger context."
        )
    return Fitted(conversation, accepted, dropped, len(whole) - len(conversation))


def oldest_exchange(messages: Sequence[Message]) -> int:
    """Return how many messages the oldest exchange has; 0 when only the last question is left."""
    if len(messages) < 2:
        return 0
    answers = iter(enumerate(messages[1:], 1))
    return next((at for at, message in answers if message.role is Role.USER), 0)


def _droppable(messages: Sequence[Message]) -> list[int]:
    """Return how many messages may go, the system's not counted: those of one exchange, of two, and so on."""
    turns = [message for message in messages if message.role is not Role.SYSTEM]
    return [at for at, message in enumerate(turns) if at and message.role is Role.USER]


def _without_oldest(messages: Sequence[Message], count: int) -> list[Message]:
    turns = [at for at, message in enumerate(messages) if message.role is not Role.SYSTEM]
    gone = set(turns[:count])
    return [message for at, message in enumerate(messages) if at not in gone]


def _refuse_endless(prompt: Prompt, capacity: int) -> None:
    last = len(prompt.messages) - 1
    stay = (
        message for at, message in enumerate(prompt.messages) if at == last or message.role is Role.SYSTEM
    )
    size = len(prompt.prefix) + sum(len(message.text) for message in stay)
    if size > capacity * _LONGEST_TOKEN:
        raise EngineError(
            f"The prompt has {size:,} characters and the context holds {capacity} tokens, "
            "reply included: shorten it."
        )

"""A conversation cut down to what the context holds: its oldest messages go, and the caller is told."""

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
    reply included. The system's message and the last one stay; questions go together with their answers.
    Raises ``EngineError`` when those two alone are too long.
    """
    _refuse_endless(prompt, capacity)
    accepted = accept()
    messages = list(prompt.messages)
    whole = conversation = tokenize(messages)
    if not whole and not accepted:
        raise EngineError("The conversation is empty: ask something.")
    room = min(prompt.sampling.max_tokens, capacity // _ROOM)
    first = 1 if messages and messages[0].role is Role.SYSTEM else 0
    dropped = 0
    while len(conversation) + len(accepted) + room > capacity:
        if (count := oldest_exchange(messages[first:])) == 0:
            break
        del messages[first : first + count]
        dropped += count
        conversation = tokenize(messages)
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


def _refuse_endless(prompt: Prompt, capacity: int) -> None:
    size = len(prompt.prefix) + sum(len(message.text) for message in prompt.messages)
    if size > capacity * _LONGEST_TOKEN:
        raise EngineError(
            f"The prompt has {size:,} characters and the context holds {capacity} tokens, "
            "reply included: shorten it."
        )

"""A conversation to the tokens that the model reads, by the chat template that the weights bring.

Two things a plain rendering gets wrong are mended here. A control token written out in a message
(``<|im_end|>`` in a problem's text) stays text. A reply that this model wrote is spelled by the tokens it
drew, not by those its text would be cut into: so the next turn finds the whole last one in memory.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from models.catalogue import PromptFormat
from models.engines.fitting import Fitted, fit
from models.engines.protocol import Message, Prompt, Role
from models.engines.template import Render, compile_template
from models.engines.utf8 import Utf8Assembler
from models.engines.vocabulary import Vocabulary
from models.errors import EngineError

_REMEMBERED_REPLIES = 64

Tokens: TypeAlias = tuple[int, ...]


class Replies:
    """What the model wrote lately, as text and as the tokens it drew."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, Tokens] = OrderedDict()

    def remember(self, text: str, tokens: Sequence[int]) -> None:
        """Keep a reply; the oldest is forgotten."""
        if tokens:
            self._tokens[text] = tuple(tokens)
            self._tokens.move_to_end(text)
        while len(self._tokens) > _REMEMBERED_REPLIES:
            self._tokens.popitem(last=False)

    def find(self, text: str) -> Tokens | None:
        """Return the tokens of a whole reply."""
        return self._tokens.get(text)

    def beginning_with(self, text: str) -> Tokens | None:
        """Return the tokens of the latest reply that begins with ``text``."""
        return next((self._tokens[reply] for reply in reversed(self._tokens) if reply.startswith(text)), None)


class Chat:
    """Turns conversations into tokens, for one model.

    ``template`` is what the weights bring, and may be empty: then ``fallback`` says how they are addressed.
    It may be a function, too, of one who renders. ``name`` is the model's in sentences.
    """

    def __init__(
        self, vocabulary: Vocabulary, template: str | Render | None, fallback: PromptFormat | None, name: str
    ) -> None:
        self._vocabulary = vocabulary
        self._name = name
        self._replies = Replies()
        if callable(template):
            self._render_raw = template
            return
        source = template or (fallback and fallback.fallback_template)
        if not source:
            raise EngineError(
                f"{name} brings no chat template: say which prompt format it wants (chatml), "
                "or choose another."
            )
        self._render_raw = compile_template(
            source, bos=vocabulary.text(vocabulary.bos), eos=vocabulary.text(vocabulary.eos), name=name
        )

    def fit(self, prompt: Prompt, capacity: int) -> Fitted:
        """Return the tokens of a prompt, cut down to ``capacity`` where need be, as ``fitting.fit`` says."""
        return fit(prompt, lambda: self.accepted(prompt.prefix), self.tokens, capacity)

    def system_tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens at the start of the conversation depend on the system's message alone."""
        if len(messages) < 2 or messages[0].role is not Role.SYSTEM:
            return 0
        asked = (self.tokens([messages[0], Message(Role.USER, question)]) for question in "a0")
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*asked, strict=False)))

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens up to the assistant's turn."""
        stand_ins = _StandIns(self._vocabulary, self._replies)
        text = self._render(stand_ins.replace(messages))
        if stand_ins.have_replies and stand_ins.restore(text) != self._render(messages):
            # The template looks into what the assistant said, or trims it: let it.
            stand_ins = _StandIns(self._vocabulary, Replies())
            text = self._render(stand_ins.replace(messages))
        return self._with_one_bos(stand_ins.tokenize(text))

    def accepted(self, prefix: str | Tokens) -> list[int]:
        """Return the tokens of the reply's accepted start."""
        if not isinstance(prefix, str):
            if strange := [token for token in prefix if not 0 <= token < self._vocabulary.size]:
                raise EngineError(
                    f"The prefix holds {strange[0]}, which is no token of {self._name}: give it as text."
                )
            return list(prefix)
        spelled, rest = self._spelled(prefix)
        return spelled + (_tokenize_within(self._vocabulary, rest, special=False) if rest else [])

    def remember(self, reply: Sequence[int]) -> None:
        """Keep the tokens of what the model wrote, for the turns to come."""
        data = b"".join(self._vocabulary.piece(token) for token in reply)
        self._replies.remember(data.decode("utf-8", errors="replace"), reply)

    def _render(self, messages: Sequence[Message]) -> str:
        try:
            return self._render_raw(messages)
        except Exception as error:  # templates are programs of others: whatever they raise is a refusal
            if len(messages) > 1 and messages[0].role is Role.SYSTEM:
                return self._render(_without_system(messages))
            raise EngineError(
                f"The chat template of {self._name} refuses this conversation ({error}): "
                "it wants turns of user and assistant, one after the other."
            ) from error

    def _with_one_bos(self, tokens: list[int]) -> list[int]:
        """One beginning-of-sequence token where the vocabulary adds it or the template writes it."""
        bos = self._vocabulary.bos
        if bos < 0:
            return tokens
        start = next((i for i, token in enumerate(tokens) if token != bos), len(tokens))
        wanted = [bos] if self._vocabulary.adds_bos or start > 0 else []
        return wanted + tokens[start:]

    def _spelled(self, prefix: str) -> tuple[list[int], str]:
        """As much of ``prefix`` as whole tokens of a reply spell, and the rest of it."""
        text = Utf8Assembler()
        tokens = self._replies.beginning_with(prefix) or ()
        at = spelled = 0
        for count, token in enumerate(tokens, 1):
            whole = text.feed(self._vocabulary.piece(token))
            if whole is None:
                continue
            if at == len(prefix) or not prefix.startswith(whole, at):
                break
            at += len(whole)
            spelled = count
        return list(tokens[:spelled]), prefix[at:]


@dataclass(frozen=True, slots=True)
class _Literal:
    """Text in which no control token is to be seen."""

    text: str


class _StandIns:
    """Names that go through the template in place of what must not be cut into tokens as usual."""

    def __init__(self, vocabulary: Vocabulary, replies: Replies) -> None:
        self._vocabulary = vocabulary
        self._replies = replies
        # Private-use characters and a number nobody can know: no message holds it by chance or by malice.
        # No letters: some templates write all in capitals.
        self._name = f"\ue0f0{secrets.randbelow(10**20)}:"
        self._end = "\ue0f1"
        self._meanings: list[tuple[str, _Literal | Tokens]] = []

    @property
    def have_replies(self) -> bool:
        """Whether a reply was replaced."""
        return any(isinstance(meaning, tuple) for _, meaning in self._meanings)

    def replace(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with stand-ins in them."""
        return [Message(message.role, self._replace_in(message)) for message in messages]

    def restore(self, text: str) -> str:
        """Return a rendered text with the stand-ins turned back."""
        return "".join(part if isinstance(part, str) else part[0] for part in self._parts(text))

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a rendered text."""
        tokens: list[int] = []
        for part in self._parts(text):
            match part:
                case str() if not tokens:
                    tokens += self._vocabulary.tokenize(part, special=True)
                case str():
                    tokens += _tokenize_within(self._vocabulary, part, special=True)
                case (_, _Literal(literal)):
                    tokens += _tokenize_within(self._vocabulary, literal, special=False)
                case (_, reply):
                    tokens += reply
        return tokens

    def _replace_in(self, message: Message) -> str:
        if message.role is Role.ASSISTANT and (reply := self._replies.find(message.text)):
            return self._stand_in(message.text, reply)
        controls = self._controls_in(message.text)
        if not controls:
            return message.text
        pattern = "|".join(re.escape(text) for text in sorted(controls, key=len, reverse=True))
        return re.sub(pattern, lambda found: self._stand_in(found[0], _Literal(found[0])), message.text)

    def _controls_in(self, text: str) -> set[str]:
        tokens = set(self._vocabulary.tokenize(text, special=True))
        return {self._vocabulary.text(token) for token in tokens if self._vocabulary.is_control(token)} - {""}

    def _stand_in(self, text: str, meaning: _Literal | Tokens) -> str:
        self._meanings.append((text, meaning))
        return f"{self._name}{len(self._meanings) - 1}{self._end}"

    def _parts(self, text: str) -> list[str | tuple[str, _Literal | Tokens]]:
        pieces = re.split(f"{re.escape(self._name)}([0-9]+){self._end}", text)
        return [
            self._meanings[int(piece)] if i % 2 else piece for i, piece in enumerate(pieces) if i % 2 or piece
        ]


def _tokenize_within(vocabulary: Vocabulary, text: str, *, special: bool) -> list[int]:
    """Return the tokens of a text that goes on from another one.

    Vocabularies of SentencePiece's kind put a space before whatever they are given: here after a line's end,
    which is then taken away.
    """
    tokens = vocabulary.tokenize(text, special=special)
    spaces = len(text) - len(text.lstrip(" "))
    written = b"".join(map(vocabulary.piece, tokens[: spaces + 2]))
    if not written.startswith(b" " * (spaces + 1)):
        return tokens
    before = vocabulary.tokenize("\n", special=False)
    both = vocabulary.tokenize("\n" + text, special=special)
    return both[len(before) :] if both[: len(before)] == before else tokens


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation for a template without system turns: its text opens the user's."""
    system, first, *others = messages
    return [Message(first.role, f"{system.text}\n\n{first.text}"), *others]

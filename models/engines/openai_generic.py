"""Any OpenAI-compatible server, by ``/v1/chat/completions`` alone: text, and of tokens what it tells.

A reply goes on from a last message of the assistant. vLLM and SGLang are told so; others do it by themselves
(LM Studio, Ollama) or begin the reply anew (mlx_lm.server, OpenAI). Where such a beginning repeats the
accepted text to the letter it is cut off; where it says something else nobody can tell, and it is taken as
what comes after. Entropies are there where the server tells probabilities while it streams, and token ids
with vLLM alone: ids that others put beside probabilities are not always those drawn.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from models.engines.fitting import oldest_exchange
from models.engines.openai_http import Refused, Server, ServerLost
from models.engines.openai_llama import sampling_seed, without_surrogates
from models.engines.openai_wire import Chunk, Counted, entropy, parse_chunk
from models.engines.protocol import Delta, Finish, Message, Prompt, Role, Usage
from models.engines.utf8 import Utf8Assembler
from models.errors import EngineError

_LIKELIEST = 10  # mlx_lm.server takes no more
_FORBIDDEN = -100  # OpenAI's least bias
_TOLD_BY_IDS = ("vllm", "sglang")
_OPTIONAL = ("logprobs", "seed", "usage")  # what a server may refuse to hear of, given up in this order
_REMEMBERED_REPLIES = 64
_ECHO = 12  # characters; a shorter repetition may be the reply's own, of a server that has made no longer one
_EVENT_BYTES = 64 << 10
_OVERHEAD_BYTES = 8 << 20
_CHARACTER = 4  # tokens at most, a byte each
_CHARACTERS = 256  # more than any token has


class GenericServer:
    """A server that speaks OpenAI's language and perhaps no other; fulfils ``Speaker``."""

    def __init__(self, model: str, owner: str) -> None:
        self._model = model
        self._goes_on_when_told = owner in _TOLD_BY_IDS
        self._tells_ids = owner == "vllm"
        self._begins_anew = False
        self._optional = list(_OPTIONAL)
        self._spelled: OrderedDict[tuple[int, ...], str] = OrderedDict()

    async def reply(self, server: Server, prompt: Prompt) -> AsyncGenerator[Delta, None]:
        """Yield the reply; a conversation that the server finds too long loses its oldest messages."""
        dropped = 0
        while True:
            try:
                async with aclosing(self._write(server, prompt)) as deltas:
                    async for delta in deltas:
                        if delta.usage:
                            delta = replace(delta, usage=replace(delta.usage, dropped_messages=dropped))
                        yield delta
                return
            except Refused as refusal:
                first = 1 if prompt.messages and prompt.messages[0].role is Role.SYSTEM else 0
                count = oldest_exchange(prompt.messages[first:])
                if not (refusal.complaint.is_context and refusal.status and count):
                    raise
                dropped += count
                kept = prompt.messages[:first] + prompt.messages[first + count :]
                prompt = replace(prompt, messages=kept)

    async def _write(self, server: Server, prompt: Prompt) -> AsyncGenerator[Delta, None]:
        accepted = without_surrogates(self._text_of(prompt.prefix))
        if not prompt.messages and not accepted:
            raise EngineError("The conversation is empty: ask something.")
        left = prompt.sampling.max_tokens
        if left <= 0:
            yield Delta("", finish=Finish.LENGTH, usage=Usage())
            return
        told = _Told(tuple(prompt.prefix) if not isinstance(prompt.prefix, str) else ())
        try:
            if any(token >= 0 for token in prompt.forbidden_first):
                async with aclosing(self._first(server, prompt, accepted, told)) as deltas:
                    async for delta in deltas:
                        accepted += delta.text
                        left -= len(delta.tokens) or 1
                        yield delta
            if left > 0 and told.finish is not Finish.STOP:
                async with aclosing(self._stream(server, prompt, accepted, left, {}, told)) as deltas:
                    async for delta in deltas:
                        yield delta
        finally:
            self._remember(told)  # one that is left early, or breaks off, is gone on with all the more
        usage = told.counted or Counted(0, 0, 0)
        cached = min(usage.cached, usage.prompt)
        yield Delta("", finish=told.finish or Finish.STOP, usage=Usage(usage.prompt, cached))

    async def _first(
        self, server: Server, prompt: Prompt, accepted: str, told: "_Told"
    ) -> AsyncGenerator[Delta, None]:
        """Yield the first token, none of the forbidden; with those after it that end its character.

        What repeats the accepted text is no first token, and dropped.
        """
        bias = {str(token): _FORBIDDEN for token in prompt.forbidden_first if token >= 0}
        for size in range(1, min(_CHARACTER, prompt.sampling.max_tokens) + 1):
            stream = self._stream(server, prompt, accepted, size, {"logit_bias": bias}, told)
            async with aclosing(stream) as deltas:
                first = [delta async for delta in deltas]
            text = "".join(delta.text for delta in first)
            is_whole = bool(text) and not text.endswith("\ufffd")
            if is_whole or told.finish is Finish.STOP or size == _CHARACTER or told.is_echo:
                break
        for delta in [] if told.is_echo else first:
            told.add(delta)
            yield delta

    async def _stream(
        self,
        server: Server,
        prompt: Prompt,
        accepted: str,
        left: int,
        more: dict[str, object],
        told: "_Told",
    ) -> AsyncGenerator[Delta, None]:
        """Yield what the server writes after ``accepted``; ``told`` learns how it ended."""
        least = 1 if self._begins_anew else _ECHO
        echo = _Echo(accepted if not self._goes_on_when_told else "", least)
        text = Utf8Assembler()
        told.finish, characters = None, 0
        barred = frozenset(prompt.forbidden_first) if more else frozenset[int]()
        held: tuple[int, ...] = ()
        async with aclosing(
            self._to_finish(self._events(server, prompt, accepted, left, more), told)
        ) as events:
            async for event in events:
                with server.parsing():
                    chunk = parse_chunk(event)
                told.count(chunk.counted)
                told.finish = chunk.finish or told.finish
                characters += len(chunk.text)
                if characters > left * _CHARACTERS + len(accepted):
                    raise server.sentence("it does not end")
                piece = echo.cut(_whole(text, chunk))
                self._begins_anew = self._begins_anew or echo.is_cut
                entropies = tuple(entropy(drawn, barred) for drawn in chunk.drawn if drawn.likeliest)
                held += chunk.tokens if self._tells_ids else ()
                if piece:  # tokens without text end within a character, or the turn
                    delta = Delta(piece, held, entropies[-1] if entropies else 0.0, entropies=entropies)
                    held = ()
                    if not more:
                        told.add(delta)
                    yield delta
                if told.finish and told.counted:
                    break  # some leave the line open
        if told.finish is None:
            raise server.broke_off()
        told.is_echo = bool(more) and echo.is_open
        if rest := echo.end() + text.end():
            delta = Delta(rest, held)
            if not more:
                told.add(delta)
            yield delta

    async def _to_finish(
        self, events: AsyncGenerator[object, None], told: "_Told"
    ) -> AsyncGenerator[object, None]:
        """Yield the events; that the connection breaks after the end of the reply is no loss."""
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        except ServerLost:
            if told.finish is None:
                raise

    async def _events(
        self, server: Server, prompt: Prompt, accepted: str, left: int, more: dict[str, object]
    ) -> AsyncGenerator[object, None]:
        """Yield the events, asked for again with less where the server refuses what not all know."""
        most = _OVERHEAD_BYTES + left * _EVENT_BYTES
        while True:
            body = self._request(prompt, accepted, left) | more
            try:
                async with aclosing(server.events(f"{server.api}/chat/completions", body, most)) as events:
                    async for event in events:
                        yield event
                return
            except Refused as refusal:
                if refusal.status not in (400, 422) or refusal.complaint.is_context or not self._optional:
                    raise
                if any(name in refusal.complaint.words for name in more):
                    raise
                given_up = next((name for name in self._optional if name in refusal.complaint.words), None)
                self._optional.remove(given_up or self._optional[0])

    def _request(self, prompt: Prompt, accepted: str, left: int) -> dict[str, object]:
        messages = [*prompt.messages, *([Message(Role.ASSISTANT, accepted)] if accepted else [])]
        body: dict[str, object] = {
            "model": self._model,
            "messages": [
                {"role": message.role.value, "content": without_surrogates(message.text)}
                for message in messages
            ],
            "stream": True,
            "max_tokens": left,
            "temperature": max(0.0, prompt.sampling.temperature),
            "top_p": prompt.sampling.top_p,
        }
        if "logprobs" in self._optional:
            body |= {"logprobs": True, "top_logprobs": _LIKELIEST}
        if "seed" in self._optional:
            body["seed"] = sampling_seed(prompt.sampling.seed)
        if "usage" in self._optional:
            body["stream_options"] = {"include_usage": True}
        if accepted and self._goes_on_when_told:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        if self._tells_ids:
            body["return_token_ids"] = True
        return body

    def _text_of(self, prefix: str | tuple[int, ...]) -> str:
        if isinstance(prefix, str):
            return prefix
        if (text := self._spelled.get(prefix)) is not None:
            return text
        if not prefix:
            return ""
        raise EngineError("This server does not go on from token ids that it has not told: give the text.")

    def _remember(self, told: "_Told") -> None:
        """Keep what each beginning of the reply that a caller may go on from spells."""
        text, tokens = self._spelled.get(told.accepted, ""), told.accepted
        if not self._tells_ids:
            return
        for piece, ids in told.deltas:
            text, tokens = text + piece, tokens + ids
            self._spelled[tokens] = text
        while len(self._spelled) > _REMEMBERED_REPLIES * 100:
            self._spelled.popitem(last=False)


@dataclass
class _Told:
    """What a server has told of a reply."""

    accepted: tuple[int, ...]
    deltas: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    counted: Counted | None = None
    finish: Finish | None = None
    is_echo: bool = False

    def add(self, delta: Delta) -> None:
        """Take what the caller is told."""
        self.deltas.append((delta.text, delta.tokens))

    def count(self, counted: Counted | None) -> None:
        """Take a count of the prompt; those of the same reply's later parts count its beginning, too."""
        self.counted = self.counted or counted


class _Echo:
    """Cuts off the accepted text where a server begins the reply anew; holds back what may be it.

    ``is_open`` says that all there was may be it, ``is_cut`` that it was cut off.
    """

    def __init__(self, accepted: str, least: int) -> None:
        self._accepted = accepted
        self._held = ""
        self.is_open = len(accepted) >= least
        self.is_cut = False

    def cut(self, text: str) -> str:
        """Return what is no repetition."""
        if not self.is_open:
            return text
        self._held += text
        if self._accepted.startswith(self._held) and self._held != self._accepted:
            return ""
        self.is_open, self.is_cut = False, self._held.startswith(self._accepted)
        return self._held.removeprefix(self._accepted)

    def end(self) -> str:
        """Return what was held back in vain."""
        return self._held if self.is_open else ""


def _whole(text: Utf8Assembler, chunk: Chunk) -> str:
    """Return the chunk's text, of whole characters: by its bytes, where the server cut through one."""
    spelled = [drawn.piece for drawn in chunk.drawn]
    if "\ufffd" in chunk.text and spelled and all(piece is not None for piece in spelled):
        return "".join(text.feed(piece) or "" for piece in spelled if piece is not None)
    return text.feed(chunk.text.encode("utf-8", errors="replace")) or ""

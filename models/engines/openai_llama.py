"""llama-server by its own, native interface: exact tokens in, tokens with their entropies out.

The server renders the conversation and cuts it into tokens, so that its template and vocabulary are the
model's own; ``Chat`` mends around it what it mends for all engines. Then ``/completion`` goes on from tokens.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from models.engines.chat import Chat
from models.engines.fitting import Fitted
from models.engines.openai_http import Server
from models.engines.openai_vocabulary import ServerVocabulary
from models.engines.openai_wire import Piece, Properties, entropy, parse_piece
from models.engines.protocol import Delta, Finish, Message, Prompt
from models.engines.reply import Reply
from models.errors import EngineError

_LIKELIEST = 20  # tokens whose probabilities are asked for; the others are one lump in the entropy
_EVENT_BYTES = 64 << 10  # and more than any token's event has
_OVERHEAD_BYTES = 8 << 20  # the last event repeats the prompt


class LlamaServer:
    """A llama-server with one model; fulfils ``Speaker``. It outlives the loops that it serves."""

    def __init__(self, properties: Properties, vocabulary_size: int, capacity: int, name: str) -> None:
        self._vocabulary = ServerVocabulary(vocabulary_size, properties.bos)
        self._chat = Chat(self._vocabulary, self._vocabulary.render, None, name)
        self._capacity = capacity

    async def reply(self, server: Server, prompt: Prompt) -> AsyncGenerator[Delta, None]:
        """Yield the reply, exactly from its prefix on."""
        fitted = await self._fit(server, prompt)
        writing = _Writing(server, prompt, fitted, self._vocabulary, self._capacity)
        try:
            async with aclosing(writing.deltas()) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            if self._vocabulary.knows(writing.reply.tokens):
                self._chat.remember(writing.reply.tokens)

    async def _fit(self, server: Server, prompt: Prompt) -> Fitted:
        prompt = replace(
            prompt,
            messages=tuple(Message(one.role, without_surrogates(one.text)) for one in prompt.messages),
            prefix=without_surrogates(prompt.prefix) if isinstance(prompt.prefix, str) else prompt.prefix,
        )
        return await self._vocabulary.in_thread(server, lambda: self._chat.fit(prompt, self._capacity))


class _Writing:
    """One reply in the making.

    In a stream the server tells no tokens that end within a character, and when it is whole only the last of
    them. Where that shows, the stream is left for single tokens, up to the end of the character. A sampled
    character that its vocabulary would cut into as many tokens is taken to be those: to draw it anew would
    make it rarer than it is.
    """

    def __init__(
        self, server: Server, prompt: Prompt, fitted: Fitted, vocabulary: ServerVocabulary, capacity: int
    ) -> None:
        self.reply = Reply(fitted.accepted)
        self._server = server
        self._sampling = prompt.sampling
        self._forbidden = frozenset(prompt.forbidden_first)
        self._fitted = fitted
        self._vocabulary = vocabulary
        self._room = min(prompt.sampling.max_tokens, capacity - len(fitted.tokens) + 1)
        self._written = 0
        self._held: list[tuple[int, bytes]] = []
        self._is_whole = True
        self._cached: int | None = None
        self._finish: Finish | None = None

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """Yield the reply to its last delta."""
        if self._forbidden and self._room > 0 and (delta := await self._single()):
            yield delta
        while self._finish is None and self._written < self._room:
            if self._is_whole:
                async with aclosing(self._stream()) as deltas:
                    async for delta in deltas:
                        yield delta
            if self._finish is None and self._written < self._room and (delta := await self._single()):
                yield delta
        for token, data in self._held:
            self.reply.add(token, 0.0, data)
        cached = min(self._cached or 0, len(self._fitted.tokens))
        yield self.reply.end(self._finish or Finish.LENGTH, self._fitted.usage(cached))

    async def _single(self) -> Delta | None:
        """Draw one token, which is told whatever it is; return what can be told of it."""
        body = self._request(1) | {"stream": False, "return_tokens": True}
        forbidden, self._forbidden = self._forbidden, frozenset[int]()
        if forbidden:
            body["logit_bias"] = [[token, False] for token in self._barred(forbidden)]
        answer = await self._server.post("/completion", body)
        with self._server.parsing():
            piece = parse_piece(answer)
        self._count_cached(piece)
        if piece.finish is Finish.STOP or not piece.tokens:
            self._finish = piece.finish
            return None
        return await self._add_single(piece, forbidden)

    async def _stream(self) -> AsyncGenerator[Delta, None]:
        """Yield what the server writes, up to tokens that it keeps for itself, or to the end."""
        start, withheld = self._written, None  # a token without text may be the one that ends the turn
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                self._count_cached(piece)
                is_stop = piece.is_end and piece.finish is Finish.STOP
                if withheld and not is_stop and (delta := self._add([(withheld.tokens[-1], b"")], withheld)):
                    yield delta
                told = self._written - start + (1 if piece.text or (withheld and is_stop) else 0)
                withheld = None if piece.text or not piece.tokens else piece
                if piece.is_end:
                    if piece.predicted <= told:
                        self._finish = piece.finish
                elif piece.text:
                    spelled = await self._spelling(piece, piece.predicted - told)
                    if not spelled:
                        return
                    if delta := self._add(spelled, piece):
                        yield delta

    async def _pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield what the server streams, to the last piece."""
        left = self._room - self._written
        most_bytes = _OVERHEAD_BYTES + left * _EVENT_BYTES
        async with aclosing(self._server.events("/completion", self._request(left), most_bytes)) as events:
            async for event in events:
                with self._server.parsing():
                    piece = parse_piece(event)
                yield piece
                if piece.is_end:
                    return
        raise self._server.broke_off()

    async def _spelling(self, piece: Piece, hidden: int) -> list[tuple[int, bytes]]:
        """Return the tokens that a piece's text is of; none where only drawing them anew tells."""
        if not piece.tokens:
            return []
        token, text = piece.tokens[-1], piece.text
        alone = piece.drawn[-1].piece_of(token) if piece.drawn else None
        is_broken = "\ufffd" in text
        if alone == text.encode() or (hidden < 1 and not is_broken):
            return [(token, text.encode())]
        if hidden < 1:
            return [(token, await self._vocabulary.bytes_of(self._server, token) if alone is None else alone)]
        if is_broken:
            return []
        cut = await self._vocabulary.in_thread(
            self._server, lambda: self._vocabulary.tokenize(text, special=False)
        )
        is_likely = len(cut) == hidden + 1 and cut[-1] == token
        if not is_likely and self._sampling.temperature <= 0:
            return []
        return [*((part, b"") for part in cut[:-1]), (cut[-1], text.encode())]

    async def _add_single(self, piece: Piece, barred: frozenset[int]) -> Delta | None:
        """Add a token drawn alone; of one that ends within a character only the id is told."""
        token = piece.tokens[-1]
        if spelled := await self._spelling(replace(piece, tokens=(token,)), 0) if piece.drawn else []:
            return self._add(spelled, piece, barred)
        self._held.append((token, await self._vocabulary.bytes_of(self._server, token)))
        self._written += 1
        self._is_whole = False
        return None

    def _add(
        self, spelled: Sequence[tuple[int, bytes]], piece: Piece, barred: frozenset[int] = frozenset()
    ) -> Delta | None:
        """Add tokens to the reply; return what can be told now.

        Tokens within a character are told no probabilities of, and take the entropy of its last one.
        """
        undecided = entropy(piece.drawn[-1], barred) if piece.drawn else 0.0
        if len(spelled) == 1:
            self._vocabulary.learn(*spelled[0])
        delta = None
        for token, part in (*self._held, *spelled):
            delta = _joined(delta, self.reply.add(token, undecided, part))
        self._held.clear()
        self._written += len(spelled)
        self._is_whole = delta is not None
        return delta

    def _count_cached(self, piece: Piece) -> None:
        if self._cached is None and piece.cached >= 0:
            self._cached = piece.cached

    def _barred(self, forbidden: frozenset[int]) -> list[int]:
        barred = sorted(token for token in forbidden if 0 <= token < self._vocabulary.size)
        if len(barred) >= self._vocabulary.size:
            raise EngineError("No token can come first (all tokens are forbidden): allow some.")
        return barred

    def _request(self, left: int) -> dict[str, object]:
        return {
            "prompt": [*self._fitted.conversation, *self.reply.tokens, *(token for token, _ in self._held)],
            "n_predict": left,
            "stream": True,
            "temperature": max(0.0, self._sampling.temperature),
            "top_p": self._sampling.top_p,
            "samplers": ["temperature", "top_p"],  # in the order of our own engines, and no others
            "seed": sampling_seed(self._sampling.seed, self._written),
            "n_probs": _LIKELIEST,
            "cache_prompt": True,
            "timings_per_token": True,  # a stream may be left before its end, which tells the cache's share
        }


def sampling_seed(seed: int, written: int = 0) -> int:
    """Return a seed that servers take, another for another seed or place in the reply.

    llama-server would draw its own for 2³² - 1.
    """
    if written == 0 and 0 <= seed < 2**31:
        return seed
    return ((seed + written * 0xD1342543DE82EF95) * 0x9E3779B97F4A7C15 >> 20) % (2**31 - 1)


def without_surrogates(text: str) -> str:
    """JSON could carry half a surrogate pair, and most servers choke on it."""
    return text.encode("utf-8", errors="replace").decode()


def _joined(first: Delta | None, second: Delta | None) -> Delta | None:
    if first is None or second is None:
        return first or second
    return Delta(
        first.text + second.text,
        first.tokens + second.tokens,
        second.entropy,
        entropies=first.entropies + second.entropies,
    )

"""llama-server's vocabulary and template, asked for over HTTP where ``Chat`` wants functions.

``Chat`` runs on a thread, and each of its questions goes through the loop that serves the connections.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from models.engines.openai_http import Refused, Server
from models.engines.openai_wire import parse_prompt, parse_tokens
from models.engines.protocol import Message
from models.errors import EngineError

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_REMEMBERED_TEXTS = 512


class ServerVocabulary:
    """The server's vocabulary, for ``Chat``; fulfils ``Vocabulary`` within ``in_thread``."""

    eos = -1  # only templates want it, and the server renders

    def __init__(self, size: int, bos: str) -> None:
        self.size = size
        self._local = threading.local()
        self._pieces: dict[int, bytes] = {}
        self._bos = bos
        self._adds_bos: bool | None = None
        self._texts: dict[int, str] = {}
        self._cut: OrderedDict[tuple[str, bool], list[int]] = OrderedDict()
        self._lock = threading.Lock()

    async def in_thread(self, server: Server, work: Callable[[], T]) -> T:
        """Run what asks the server as if that were a function."""
        bridge = _Bridge(server)

        def run() -> T:
            self._local.bridge = bridge
            try:
                return work()
            except Exception:
                if bridge.failure:  # which a template's refusal would hide
                    raise bridge.failure from None
                raise

        try:
            return await asyncio.to_thread(run)
        finally:
            bridge.stop()

    async def bytes_of(self, server: Server, token: int) -> bytes:
        """Return the bytes that a token which is no command writes."""
        if token not in self._pieces:
            answer = await server.post("/tokenize", {"content": [token], "with_pieces": True})
            with server.parsing():
                self._pieces[token] = b"".join(piece for _, piece in parse_tokens(answer))
        return self._pieces[token]

    def learn(self, token: int, piece: bytes) -> None:
        """Keep what a token writes."""
        self._pieces.setdefault(token, piece)

    @property
    def bos(self) -> int:
        """The token that begins a text."""
        tokens = self.tokenize(self._bos, special=True) if self._bos else []
        return tokens[0] if len(tokens) == 1 else -1

    @property
    def adds_bos(self) -> bool:
        """Whether the server begins a text with BOS."""
        if self._adds_bos is None:
            self._adds_bos = bool(self._ask("", special=True, whole=True))
        return self._adds_bos

    def render(self, messages: Sequence[Message]) -> str:
        """Return the conversation as the server's template has it."""
        turns = [{"role": message.role.value, "content": message.text} for message in messages]
        bridge = self._bridge
        answer = bridge.post("/apply-template", {"messages": turns})
        with bridge.server.parsing():
            return parse_prompt(answer)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text."""
        if not text:
            return []
        if (known := self.known(text, special)) is None:
            known = self._ask(text, special=special)
            with self._lock:
                self._cut[text, special] = known
                while len(self._cut) > _REMEMBERED_TEXTS:
                    self._cut.popitem(last=False)
        return known

    def known(self, text: str, special: bool) -> list[int] | None:
        """Return the tokens of a text that was cut lately."""
        return self._cut.get((text, special))

    def knows(self, tokens: Sequence[int]) -> bool:
        """Whether the bytes of all these tokens have been seen."""
        return all(token in self._pieces for token in tokens)

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token writes, as far as it was seen."""
        return self._pieces.get(token, b"")

    def text(self, token: int) -> str:
        """Return a token's own text, as far as it was seen."""
        return self._texts.get(token, "")

    def is_control(self, token: int) -> bool:
        """Whether a token's text is cut to pieces when it is no command."""
        text = self.text(token)
        return self.tokenize(text, special=True) == [token] != self.tokenize(text, special=False)

    def ends_turn(self, _: int) -> bool:
        """Nobody asks: the server ends the turn."""
        return False

    def _ask(self, text: str, *, special: bool, whole: bool = False) -> list[int]:
        body = {"content": text, "add_special": whole, "parse_special": special, "with_pieces": True}
        bridge = self._bridge
        answer = bridge.post("/tokenize", body)
        with bridge.server.parsing():
            cut = parse_tokens(answer)
        for token, piece in cut:
            self._texts.setdefault(token, piece.decode("utf-8", errors="replace"))
            if not special:
                self._pieces.setdefault(token, piece)
        return [token for token, _ in cut]

    @property
    def _bridge(self) -> "_Bridge":
        bridge: _Bridge = self._local.bridge
        return bridge


class _Bridge:
    """Lets a thread ask a server through the loop that it came from; stopped, it lets go of the thread."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.failure: EngineError | None = None
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._asked: Future[object] | None = None
        self._stopped = False

    def post(self, path: str, body: object) -> object:
        """Return the answer; whatever fails but a refusal of the conversation is kept as ``failure``."""
        with self._lock:
            if self._stopped:
                raise RuntimeError("nobody waits for the answer any more")
            self._asked = asyncio.run_coroutine_threadsafe(self.server.post(path, body), self._loop)
        try:
            return self._asked.result()
        except Refused as refusal:
            if refusal.status not in (400, 500):
                self.failure = refusal
            raise RuntimeError(refusal.complaint.words) from None
        except EngineError as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Let go of the thread."""
        with self._lock:
            self._stopped = True
            if self._asked:
                self._asked.cancel()

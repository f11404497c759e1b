"""The llama.cpp engine, as it runs in the child process: load a GGUF file, go on with conversations."""

import glob
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from models.engines import machine
from models.engines.backend import Interrupt
from models.engines.draw import Drawer
from models.engines.llama_chat import Chat
from models.engines.llama_native import Context, Library, Model, Vocabulary
from models.engines.options import EngineOptions
from models.engines.protocol import Delta, Finish, Usage
from models.engines.utf8 import Utf8Assembler
from models.engines.wire import Generate
from models.errors import EngineError, ModelError
from models.gguf_header import GGUFHeader, read_gguf_header

_BATCH_ON_CPU = 128  # tokens; measured: 98 % of the speed at 512, and a cancel is heard in 30 ms
_BATCH_ON_GPU = 256  # tokens; a GPU cannot be interrupted within a batch
_LONGEST_TOKEN = 256  # characters, and more than any has; to cut up megabytes of text takes seconds


@dataclass(frozen=True, slots=True)
class _Loaded:
    path: Path
    options: EngineOptions
    model: Model
    context: Context
    chat: Chat

    def free(self) -> None:
        self.context.free()
        self.model.free()


class LlamaBackend:
    """Runs one GGUF model through llama.cpp; fulfils ``Backend``."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._library = Library()
        self._loaded: _Loaded | None = None

    def load(self, path: Path, options: EngineOptions) -> None:
        """Load the file with ``options``, unless that is what is loaded."""
        if self._loaded and (self._loaded.path, self._loaded.options) == (path, options):
            return
        if self._loaded:
            self._loaded.free()
            self._loaded = None
        header = _read_header(path)
        layers = machine.gpu_layers() if options.gpu_layers is None else options.gpu_layers
        tokens = _context_tokens(header, options)
        _refuse_too_big(path, header, tokens, options)
        model = self._library.load(path, layers)
        try:
            self._loaded = self._open(path, options, model, min(tokens, model.trained_context or tokens))
        except Exception:
            model.free()
            raise

    def generate(self, request: Generate) -> Iterator[Delta]:
        """Yield the reply to a conversation, from its accepted prefix on."""
        if self._loaded is None:
            raise EngineError("No model is loaded: load one first.")
        model, chat, context = self._loaded.model, self._loaded.chat, self._loaded.context
        _refuse_endless(request, context.capacity)
        prompt, accepted = chat.tokens(request.messages, request.prefix)
        tokens = prompt + accepted
        if not tokens:
            raise EngineError("The conversation is empty: ask something.")
        if len(tokens) >= context.capacity:
            raise EngineError(
                f"The prompt has {len(tokens)} tokens and the context holds {context.capacity}, "
                "reply included: shorten it or load the model with a larger context."
            )
        usage = Usage(prompt_tokens=len(tokens), cached_tokens=context.rewind_to(tokens))
        if not context.read_prompt(tokens[usage.cached_tokens :]):
            yield Delta("", finish=Finish.CANCELLED, usage=usage)
            return
        reply = _Reply(accepted)
        finish = yield from self._draw(request, model.vocabulary, context, reply)
        chat.remember(reply.tokens)
        yield reply.end(finish, usage)

    def _open(self, path: Path, options: EngineOptions, model: Model, tokens: int) -> _Loaded:
        chat = Chat(model, options.fallback_format, path.name)
        context = Context(
            model,
            tokens=tokens,
            batch=options.batch_tokens or (_BATCH_ON_GPU if self._library.has_gpu else _BATCH_ON_CPU),
            threads=options.threads or machine.compute_threads(),
            interrupt=self._interrupt,
        )
        if not context.can_write:
            context.free()
            raise EngineError(f"{path.name} cannot go on with a conversation: choose a chat model.")
        return _Loaded(path, options, model, context, chat)

    def _draw(
        self, request: Generate, vocabulary: Vocabulary, context: Context, reply: "_Reply"
    ) -> Generator[Delta, None, Finish]:
        """Draw and read token after token; return why that ended."""
        drawer = Drawer(request.sampling, vocabulary.size, request.forbidden_first)
        for left in range(request.sampling.max_tokens, 0, -1):
            token, entropy = drawer.draw(context.logits())
            if vocabulary.ends_turn(token):
                return Finish.STOP
            delta = reply.add(token, entropy, vocabulary.piece(token))
            is_last = left == 1 or context.is_full
            # Read first, tell then: so the parent wakes while one core draws the next token and the others
            # idle, and not when all of them compute (on two cores 0.98 of the bare library's speed, now 1.0).
            is_read = not is_last and context.read([token])
            if delta:
                yield delta
            if is_last:
                return Finish.LENGTH
            if not is_read:
                return Finish.CANCELLED
        return Finish.LENGTH


class _Reply:
    """The reply so far, cut into deltas that hold whole characters."""

    def __init__(self, accepted: Sequence[int]) -> None:
        self.tokens = list(accepted)
        self._text = Utf8Assembler()
        self._held: list[int] = []
        self._entropies: list[float] = []

    def add(self, token: int, entropy: float, piece: bytes) -> Delta | None:
        """Take a token; return a delta unless the token ends within a character."""
        self.tokens.append(token)
        self._held.append(token)
        self._entropies.append(entropy)
        text = self._text.feed(piece)
        return None if text is None else self._delta(text)

    def end(self, finish: Finish, usage: Usage) -> Delta:
        """Return the last delta."""
        return replace(self._delta(self._text.end()), finish=finish, usage=usage)

    def _delta(self, text: str) -> Delta:
        entropies = tuple(self._entropies)
        delta = Delta(text, tuple(self._held), entropies[-1] if entropies else 0.0, entropies=entropies)
        self._held.clear()
        self._entropies.clear()
        return delta


def _read_header(path: Path) -> GGUFHeader:
    try:
        header = read_gguf_header(path)
    except ModelError as error:
        raise EngineError(str(error)) from error
    if header.tensor_count == 0 and header.split_count <= 1:
        raise EngineError(f"{path.name} holds a vocabulary and no weights: name the model's own file.")
    if header.is_truncated:
        raise EngineError(
            f"{path.name} is truncated ({header.file_size:,} of {header.data_end:,} bytes): fetch it again."
        )
    if header.kind != "model":
        raise EngineError(
            f"{path.name} holds no model but a part of one (its type is {header.kind}): choose a model."
        )
    return header


def _context_tokens(header: GGUFHeader, options: EngineOptions) -> int:
    if options.context_tokens < 1:
        raise EngineError(f"A context of {options.context_tokens} tokens holds nothing: ask for 4096, say.")
    return min(options.context_tokens, header.context_length or options.context_tokens)


def _refuse_too_big(path: Path, header: GGUFHeader, tokens: int, options: EngineOptions) -> None:
    """Before loading: swapping to death, or the kernel's killer, tells the user nothing."""
    needed = header.memory(tokens, _weights_bytes(path))
    free = machine.free_memory_bytes() if options.memory_bytes is None else options.memory_bytes
    if needed > free:
        raise EngineError(
            f"{path.name} needs about {_gigabytes(needed)} of memory with a context of {tokens} tokens and "
            f"{_gigabytes(free)} are free: close other programs, or choose a smaller model or context."
        )


def _weights_bytes(path: Path) -> int:
    """Return the size of the file, or of all files when the weights are split over several."""
    split = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path.name)
    if split is None:
        return path.stat().st_size
    return sum(
        part.stat().st_size for part in path.parent.glob(f"{glob.escape(split[1])}-?????-of-{split[2]}.gguf")
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _refuse_endless(request: Generate, capacity: int) -> None:
    size = len(request.prefix) + sum(len(message.text) for message in request.messages)
    if size > capacity * _LONGEST_TOKEN:
        raise EngineError(
            f"The prompt has {size:,} characters and the context holds {capacity} tokens, "
            "reply included: shorten it."
        )

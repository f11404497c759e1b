"""The llama.cpp engine, as it runs in the child process: load a GGUF file, go on with conversations."""

import importlib
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from models.catalogue import Format
from models.choice import memory_here
from models.engines import machine
from models.engines.backend import Interrupt
from models.engines.chat import Chat
from models.engines.llama_native import Library, Model
from models.engines.options import EngineOptions
from models.engines.plan import plan_memory, refuse_too_big
from models.engines.protocol import BatchDelta, Delta, Footprint, Message, Prompt, Role
from models.engines.states import WORTH_TOKENS, States, fingerprint, state_key
from models.errors import EngineError, ModelError
from models.gguf_header import read_gguf_header

if TYPE_CHECKING:
    from models.engines.llama_context import Context, Lane
    from models.engines.llama_writing import LaneWriter

_BATCH_ON_CPU = 128  # tokens; measured: 98 % of the speed at 512, and a cancel is heard in 30 ms
_BATCH_ON_GPU = 256  # tokens; a GPU cannot be interrupted within a batch


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model, ready; ``state_facts`` are what the states of system prompts depend on, the tokens aside."""

    path: Path
    options: EngineOptions
    model: Model
    context: "Context"
    chat: Chat
    states: States | None
    state_facts: tuple[str, ...]

    def free(self) -> None:
        self.context.free()
        self.model.free()


class LlamaBackend:
    """Runs one GGUF model through llama.cpp; fulfils ``Backend``."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._library = Library()
        self._loaded: _Loaded | None = None
        self._system: tuple[Message | None, int] = (None, 0)

    def load(self, path: Path, options: EngineOptions) -> Footprint:
        """Load the file with ``options``, unless that is what is loaded."""
        if not (self._loaded and (self._loaded.path, self._loaded.options) == (path, options)):
            self._replace(path, options)
        return self._footprint()

    def generate(self, prompt: Prompt) -> Iterator[Delta]:
        """Yield the reply to a conversation, from its accepted prefix on."""
        from models.engines.llama_writing import write_alone  # imported already, while the weights were read

        loaded = self._require_loaded()
        (writer,) = self._writers([prompt])
        return write_alone(loaded.context, writer, self._read_prompt, loaded.chat.remember)

    def batch(self, prompts: Sequence[Prompt]) -> Iterator[BatchDelta]:
        """Yield the replies side by side.

        Computed together, numbers are rounded otherwise than for a reply alone, by other kernels; it does not
        matter how many are computed together. Where two tokens are as good as equal the text may part.
        """
        from models.engines.llama_writing import LlamaBatch

        loaded = self._require_loaded()
        writers = self._writers(prompts)
        batch = LlamaBatch(loaded.context, self._interrupt, writers, self._read_prompt, loaded.chat.remember)
        return batch.write()

    def _writers(self, prompts: Sequence[Prompt]) -> "list[LaneWriter]":
        from models.engines.llama_writing import LaneWriter

        loaded = self._require_loaded()
        capacity = loaded.context.capacity
        return [
            LaneWriter(index, prompt, loaded.chat.fit(prompt, capacity), loaded.model.vocabulary, capacity)
            for index, prompt in enumerate(prompts)
        ]

    def _read_prompt(self, writer: "LaneWriter", stop: Callable[[], bool]) -> bool:
        """Take a lane for a reply and read all of its prompt but the last token; False when interrupted.

        The system's part is read by itself, so that the rest gets the same numbers also when the system's
        are those of an earlier process.
        """
        context, tokens = self._require_loaded().context, writer.tokens
        lane = context.take(tokens)
        writer.begin_on(lane)
        system = min(self._system_tokens(writer.prompt.messages), len(tokens) - 1)
        if len(lane.tokens) < system and system >= WORTH_TOKENS:
            if self._restore(lane, tokens[:system]):
                writer.begin_on(lane)
            elif not self._read_system(lane, tokens[:system], stop):
                return False
        return context.read(lane, tokens[len(lane.tokens) : -1], stop)

    def _system_tokens(self, messages: Sequence[Message]) -> int:
        """How many tokens the system's message is; remembered, because cutting it up takes its time."""
        if len(messages) < 2 or messages[0].role is not Role.SYSTEM:
            return 0
        if self._system[0] != messages[0]:
            self._system = messages[0], self._require_loaded().chat.system_tokens(messages)
        return self._system[1]

    def _restore(self, lane: "Lane", tokens: Sequence[int]) -> bool:
        loaded = self._require_loaded()
        if loaded.states is None:
            return False
        path = loaded.states.find(state_key(loaded.state_facts, tokens))
        if path is None:
            return False
        if loaded.context.restore(lane, path, tokens):
            return True
        loaded.states.discard(path)
        return False

    def _read_system(self, lane: "Lane", tokens: Sequence[int], stop: Callable[[], bool]) -> bool:
        loaded = self._require_loaded()
        if not loaded.context.read(lane, tokens[len(lane.tokens) :], stop):
            return False
        if loaded.states:
            key = state_key(loaded.state_facts, tokens)
            loaded.states.write(key, lambda path: loaded.context.save(lane, path))
        return True

    def _require_loaded(self) -> _Loaded:
        if self._loaded is None:
            raise EngineError("No model is loaded: load one first.")
        return self._loaded

    def _replace(self, path: Path, options: EngineOptions) -> None:
        if self._loaded:
            self._loaded.free()
            self._loaded = None
        self._system = (None, 0)
        _check_header(path)
        layers = _gpu_layers(options)
        tokens = self._fitting_context(path, options, layers)
        imports = threading.Thread(target=_import_what_comes_later, name="imports")
        imports.start()
        model = self._library.load(path, layers)
        imports.join()
        try:
            self._loaded = self._open(path, options, model, min(tokens, model.trained_context or tokens))
        except Exception:
            model.free()
            raise

    def _fitting_context(self, path: Path, options: EngineOptions, layers: int) -> int:
        plan = plan_memory(
            path,
            Format.GGUF,
            options,
            free=machine.free_memory_bytes(),
            total=memory_here(),
            on_gpu=self._library.has_gpu and layers != 0,
        )
        refuse_too_big(plan, path.name)
        return plan.context_tokens

    def _footprint(self) -> Footprint:
        import psutil

        # Pages of the mapped weights are among the resident ones as soon as they have been read.
        return Footprint(self._require_loaded().context.capacity, psutil.Process().memory_info().rss)

    def _open(self, path: Path, options: EngineOptions, model: Model, tokens: int) -> _Loaded:
        from models.engines.llama_context import Context

        template = model.metadata("tokenizer.chat_template")
        chat = Chat(model.vocabulary, template, options.fallback_format, path.name)
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
        states = _states(options)
        facts = _state_facts(path, model, tokens, options) if states else ()
        return _Loaded(path, options, model, context, chat, states if facts else None, facts)


def _gpu_layers(options: EngineOptions) -> int:
    return machine.gpu_layers() if options.gpu_layers is None else options.gpu_layers


def _import_what_comes_later() -> None:
    """Import what reading the weights, on one core and outside of Python, leaves time for: some 0.15 s."""
    for name in ("models.engines.llama_writing", "jinja2.sandbox", "importlib.metadata"):
        importlib.import_module(name)


def _check_header(path: Path) -> None:
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


def _states(options: EngineOptions) -> States | None:
    if options.states is None:
        return None
    states = States(Path(options.states), options.states_bytes)
    states.sweep()
    return states


def _state_facts(path: Path, model: Model, tokens: int, options: EngineOptions) -> tuple[str, ...]:
    """What a state depends on; nothing where the weights cannot be told from others."""
    from importlib import metadata

    try:
        weights = fingerprint(path)
    except OSError:
        return ()
    # Some models turn positions by other angles once the context is larger than they were first trained for.
    kind = model.metadata("general.architecture")
    original = model.metadata(f"{kind}.rope.scaling.original_context_length") or "0"
    is_stretched = original.isdecimal() and 0 < int(original) < tokens
    return (
        "llama",
        metadata.version("llama_cpp_python"),
        platform.machine(),
        weights,
        str(_gpu_layers(options)),
        str(is_stretched),
    )

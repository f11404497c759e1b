"""The mlx engine, as it runs in the child process: MLX goes on with conversations, best on Apple silicon.

Everything happens in the thread that made the backend, as MLX's streams are each a thread's own.
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx

from models.engines.backend import Interrupt
from models.engines.chat import Chat
from models.engines.hf_folder import FolderVocabulary
from models.engines.mlx_loading import Network, Plan, is_out_of_memory, load_network, plan
from models.engines.mlx_memory import Memory, Row
from models.engines.mlx_writing import AheadBatch
from models.engines.options import EngineOptions
from models.engines.protocol import BatchDelta, Delta, Footprint, Message, Prompt, Role
from models.engines.states import WORTH_TOKENS, States, fingerprint, state_key
from models.engines.writer import Writer
from models.errors import EngineError
from models.weights import folder_template

_CHUNK_ON_CPU = 64  # tokens of a prompt that are read in one go: a cancel is heard between two
_CHUNK_ON_GPU = 512
_MOST_CONTEXTS = 8  # that the rows of a batch may take together, where there is memory
_KEPT_BUFFERS_BYTES = 256 << 20  # that a GPU has let go and keeps for reuse; without a limit, all


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model, ready. ``capacity`` bounds a row and ``room`` all of them together, in tokens.

    ``state_facts`` are what the states of system prompts depend on, the tokens aside.
    """

    path: Path
    options: EngineOptions
    network: Network
    vocabulary: FolderVocabulary
    chat: Chat
    memory: Memory
    capacity: int
    room: int
    states: States | None
    state_facts: tuple[str, ...]


class MlxBackend:
    """Runs one network through MLX; fulfils ``Backend``."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._loaded: _Loaded | None = None
        self._system: tuple[Message | None, int] = (None, 0)
        self._bare_bytes = _resident_bytes()

    def load(self, path: Path, options: EngineOptions) -> Footprint:
        """Load the folder with ``options``, unless that is what is loaded."""
        if not (self._loaded and (self._loaded.path, self._loaded.options) == (path, options)):
            self._loaded = None  # its memory is free before the next one is reckoned
            self._system = (None, 0)
            mx.clear_cache()
            self._loaded = self._open(path, options)
        return self._footprint()

    def generate(self, prompt: Prompt) -> Iterator[Delta]:
        """Yield the reply to a conversation, from its accepted prefix on."""
        return (part.delta for part in self.batch([prompt]))

    def batch(self, prompts: Sequence[Prompt]) -> Iterator[BatchDelta]:
        """Yield the replies side by side.

        Computed together, a token's numbers differ in their last digits from those of a reply alone, so that
        replies may part where two tokens are nearly as likely.
        """
        loaded = self._require_loaded()
        writers = [self._writer(index, prompt) for index, prompt in enumerate(prompts)]
        systems = [self._system_tokens(prompt.messages) for prompt in prompts]

        def read(writer: Writer, row: Row, stop: Callable[[], bool]) -> tuple[Row, bool]:
            return self._read_prompt(writer, row, systems[writer.index], stop)

        batch = AheadBatch(
            loaded.network,
            loaded.memory,
            self._interrupt,
            writers,
            read,
            room=loaded.room,
            remember=loaded.chat.remember,
        )
        return self._guarded(batch.write())

    def _guarded(self, parts: Iterator[BatchDelta]) -> Iterator[BatchDelta]:
        loaded = self._require_loaded()
        try:
            yield from parts
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            loaded.memory.clear()
            mx.clear_cache()
            raise EngineError(
                "There is not enough memory for the replies: ask for fewer at a time, "
                "or choose a smaller model or context."
            ) from error

    def _writer(self, index: int, prompt: Prompt) -> Writer:
        loaded = self._require_loaded()
        fitted = loaded.chat.fit(prompt, loaded.capacity)
        if (most := max(fitted.tokens)) >= loaded.network.size:
            raise EngineError(
                f"The tokenizer of {loaded.path.name} has a token {most}, and its weights have "
                f"{loaded.network.size}: copy the tokenizer that belongs to them."
            )
        return Writer(
            index, prompt, fitted, loaded.vocabulary, capacity=loaded.capacity, size=loaded.network.size
        )

    def _system_tokens(self, messages: Sequence[Message]) -> int:
        """How many tokens the system's message is; remembered, because cutting it up takes its time."""
        if len(messages) < 2 or messages[0].role is not Role.SYSTEM:
            return 0
        if self._system[0] != messages[0]:
            self._system = messages[0], self._require_loaded().chat.system_tokens(messages)
        return self._system[1]

    def _read_prompt(
        self, writer: Writer, row: Row, system: int, stop: Callable[[], bool]
    ) -> tuple[Row, bool]:
        """Read on in a row to the last but one token of a prompt; return it, and False when interrupted.

        The system's part is read by itself, so that the rest gets the same numbers also when the system's
        are those of an earlier process.
        """
        memory, tokens = self._require_loaded().memory, writer.tokens
        system = min(system, len(tokens) - 1)
        if len(row.tokens) < system and system >= WORTH_TOKENS:
            if restored := self._restore(tokens[:system]):
                row = restored
            writer.begin(len(row.tokens))
            if not restored and not self._read_system(row, tokens[:system], stop):
                return row, False
        else:
            writer.begin(len(row.tokens))
        return row, memory.read(row, tokens[len(row.tokens) : -1], stop)

    def _restore(self, tokens: Sequence[int]) -> Row | None:
        loaded = self._require_loaded()
        if loaded.states is None:
            return None
        path = loaded.states.find(state_key(loaded.state_facts, tokens))
        if path is None:
            return None
        if (row := loaded.memory.restore(path, tokens)) is None:
            loaded.states.discard(path)
        return row

    def _read_system(self, row: Row, tokens: Sequence[int], stop: Callable[[], bool]) -> bool:
        loaded = self._require_loaded()
        if not loaded.memory.read(row, tokens[len(row.tokens) :], stop):
            return False
        if loaded.states:
            key = state_key(loaded.state_facts, tokens)
            loaded.states.write(key, lambda path: loaded.memory.save(row, path))
        return True

    def _require_loaded(self) -> _Loaded:
        if self._loaded is None:
            raise EngineError("No model is loaded: load one first.")
        return self._loaded

    def _open(self, path: Path, options: EngineOptions) -> _Loaded:
        known = plan(path, options)
        if known.is_on_gpu:
            mx.set_cache_limit(_KEPT_BUFFERS_BYTES)
        # Before the weights, which take their time: a tokenizer that is missing is told at once.
        vocabulary = FolderVocabulary(path)
        chat = Chat(vocabulary, folder_template(path), options.fallback_format, path.name)
        network = load_network(known)
        room = _room(known)
        chunk = options.batch_tokens or (_CHUNK_ON_GPU if known.is_on_gpu else _CHUNK_ON_CPU)
        facts = _state_facts(path, network) if options.states is not None else ()
        states = (
            States(Path(options.states), options.states_bytes, ".safetensors") if options.states else None
        )
        if states:
            states.sweep()
        return _Loaded(
            path=path,
            options=options,
            network=network,
            vocabulary=vocabulary,
            chat=chat,
            memory=Memory(network, room=room, chunk=chunk, interrupt=self._interrupt),
            capacity=known.memory.context_tokens,
            room=room,
            states=states if facts else None,
            state_facts=facts,
        )

    def _footprint(self) -> Footprint:
        """What Metal holds for us need not be among what the system calls resident: the larger counts."""
        held = self._bare_bytes + mx.get_active_memory() + mx.get_cache_memory()
        return Footprint(self._require_loaded().capacity, max(_resident_bytes(), held))


def _resident_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _room(known: Plan) -> int:
    """How many tokens all rows may have: the context's, and more with half of the memory that stays free."""
    memory = known.memory
    spare = max(0, memory.free_bytes - memory.needed_bytes) // 2
    a_token = max(1, memory.cache_bytes // memory.context_tokens)
    return min(_MOST_CONTEXTS * memory.context_tokens, memory.context_tokens + spare // a_token)


def _state_facts(path: Path, network: Network) -> tuple[str, ...]:
    """What a state depends on; nothing where the weights cannot be told from others."""
    try:
        weights = fingerprint(path)
    except OSError:
        return ()
    device = "gpu" if network.is_on_gpu else "cpu"
    versions = mx.__version__, version("mlx-lm")
    return ("mlx", *versions, platform.machine(), device, network.numbers, weights)

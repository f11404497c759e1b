"""The transformers engine, as it runs in the child process: PyTorch goes on with conversations.

For checkpoints in training: a Hugging Face folder, or a LoRA adapter on its base, as they lie there. Not for
speed on a CPU, where it computes in float32.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from models.engines import machine
from models.engines.backend import Interrupt
from models.engines.chat import Chat
from models.engines.hf_folder import FolderVocabulary
from models.engines.options import EngineOptions
from models.engines.protocol import BatchDelta, Delta, Footprint, Prompt
from models.engines.transformers_batch import RowsBatch
from models.engines.transformers_loading import (
    Device,
    Plan,
    device_here,
    is_out_of_memory,
    load_network,
    plan,
    release_memory,
)
from models.engines.transformers_rows import Network, Remembered
from models.engines.writer import Writer
from models.errors import EngineError
from models.weights import folder_template

_CHUNK_ON_CPU = 256  # tokens of a prompt that are read in one go; a cancel is heard within it
_CHUNK_ON_GPU = 512
_MOST_CONTEXTS = 8  # that the rows of a batch may take together, where there is memory


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model, ready. ``capacity`` bounds a row and ``room`` all of them together, in tokens."""

    path: Path
    options: EngineOptions
    device: Device
    network: Network
    vocabulary: FolderVocabulary
    chat: Chat
    remembered: Remembered
    capacity: int
    room: int
    chunk: int


class TransformersBackend:
    """Runs one network through PyTorch; fulfils ``Backend``. ``device`` is by default the best there is."""

    def __init__(self, interrupt: Interrupt, device: Device | None = None) -> None:
        self._interrupt = interrupt
        self._device = device
        self._loaded: _Loaded | None = None

    def load(self, path: Path, options: EngineOptions) -> Footprint:
        """Load the folder with ``options``, unless that is what is loaded."""
        if not (self._loaded and (self._loaded.path, self._loaded.options) == (path, options)):
            self._unload()
            self._loaded = self._open(path, options)
        return self._footprint()

    def generate(self, prompt: Prompt) -> Iterator[Delta]:
        """Yield the reply to a conversation, from its accepted prefix on."""
        return (part.delta for part in self.batch([prompt]))

    def batch(self, prompts: Sequence[Prompt]) -> Iterator[BatchDelta]:
        """Yield the replies side by side.

        Computed together, a token's numbers differ from those of a reply alone: in float32 in their last
        digits, which no text but one between two equals shows; in bfloat16 in the third, so that replies
        may part where two tokens are nearly as likely.
        """
        loaded = self._require_loaded()
        writers = [self._writer(index, prompt) for index, prompt in enumerate(prompts)]
        batch = RowsBatch(
            loaded.network,
            loaded.remembered,
            self._interrupt,
            writers,
            room=loaded.room,
            chunk=loaded.chunk,
            remember=loaded.chat.remember,
        )
        return self._guarded(batch.write())

    def _writer(self, index: int, prompt: Prompt) -> Writer:
        loaded = self._require_loaded()
        fitted = loaded.chat.fit(prompt, loaded.capacity)
        if (most := max(fitted.tokens)) >= loaded.network.vocabulary:
            raise EngineError(
                f"The tokenizer of {loaded.path.name} has a token {most}, and its weights have "
                f"{loaded.network.vocabulary}: copy the tokenizer that belongs to them."
            )
        return Writer(
            index,
            prompt,
            fitted,
            loaded.vocabulary,
            capacity=loaded.capacity,
            size=loaded.network.vocabulary,
        )

    def _guarded(self, parts: Iterator[BatchDelta]) -> Iterator[BatchDelta]:
        loaded = self._require_loaded()
        try:
            yield from parts
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            loaded.remembered.clear()
            release_memory(loaded.device)
            raise EngineError(
                "There is not enough memory for the replies: ask for fewer at a time, "
                "or choose a smaller model or context."
            ) from error

    def _require_loaded(self) -> _Loaded:
        if self._loaded is None:
            raise EngineError("No model is loaded: load one first.")
        return self._loaded

    def _unload(self) -> None:
        """Free the memory of what is loaded, before that of the next one is reckoned."""
        if self._loaded:
            device, self._loaded = self._loaded.device, None
            release_memory(device)

    def _open(self, path: Path, options: EngineOptions) -> _Loaded:
        torch.set_num_threads(options.threads or machine.compute_threads())
        device = self._device or device_here(use_gpu=options.gpu_layers != 0)
        known = plan(path, options, device)
        # Before the weights, which take their time: a tokenizer that is missing is told at once.
        folder = path if (path / "tokenizer.json").is_file() else known.base
        vocabulary = FolderVocabulary(folder, known.base)
        template = folder_template(path) or folder_template(known.base)
        chat = Chat(vocabulary, template, options.fallback_format, path.name)
        network = Network(load_network(known), device.name)
        trained = getattr(network.config, "max_position_embeddings", None) or 0
        planned = known.memory.context_tokens
        capacity = min(planned, trained) if trained > 0 else planned
        room = _room(known, capacity)
        return _Loaded(
            path=path,
            options=options,
            device=device,
            network=network,
            vocabulary=vocabulary,
            chat=chat,
            remembered=Remembered(network, room),
            capacity=capacity,
            room=room,
            chunk=options.batch_tokens or (_CHUNK_ON_GPU if device.is_gpu else _CHUNK_ON_CPU),
        )

    def _footprint(self) -> Footprint:
        import psutil

        loaded = self._require_loaded()
        size = psutil.Process().memory_info().rss
        if loaded.device.name == "cuda":
            size += torch.cuda.memory_allocated()
        elif loaded.device.name == "mps":
            size += torch.mps.current_allocated_memory()
        return Footprint(loaded.capacity, size)


def _room(known: Plan, capacity: int) -> int:
    """How many tokens all rows may have: the context's, and more with half of the memory that stays free."""
    memory = known.memory
    spare = max(0, memory.free_bytes - memory.needed_bytes) // 2
    a_token = max(1, memory.cache_bytes // memory.context_tokens)
    return min(_MOST_CONTEXTS * capacity, capacity + spare // a_token)

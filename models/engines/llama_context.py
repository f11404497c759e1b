"""The memory of a llama.cpp model: lanes of tokens side by side, and the logits after the last of each.

All lanes share one cache of cells, and the start that two of them have in common lies there once. A lane
keeps what it read after its reply has ended, so that a later prompt with the same start goes on from
there, until another needs the cells.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from models.engines.backend import Interrupt
from models.engines.draw import Logits
from models.engines.llama_bindings import native
from models.engines.llama_native import Model
from models.errors import EngineError

_LANES = 8  # a lone reply is as fast as with one (measured, Qwen 0.5B); their logits take 5 MB
_NO_CELLS = 1  # llama_decode: nothing was read
_ABORTED = 2  # llama_decode: ended by the abort callback; the batches before stay in the memory


@dataclass(slots=True, eq=False)
class Lane:
    """A sequence of tokens that was read. Lanes with a start in common hold the same ``cells`` for it."""

    number: int
    tokens: list[int] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    is_busy: bool = False
    used: int = 0

    def shares(self, tokens: Sequence[int]) -> int:
        """Return how many tokens at the start are the same; never the last of ``tokens``.

        That one is always read again, alone, for its logits: alone, because then a prompt gives the same
        numbers whether or not its start was remembered.
        """
        length = min(len(self.tokens), len(tokens) - 1)
        if self.tokens[:length] == tokens[:length]:
            return length
        return next(i for i in range(length) if self.tokens[i] != tokens[i])


class Context:
    """The lanes of a model. The flag of ``interrupt`` ends reading between two operations of the network."""

    def __init__(self, model: Model, *, tokens: int, batch: int, threads: int, interrupt: Interrupt) -> None:
        self._batch_size = min(batch, tokens)
        lanes = min(_LANES, self._batch_size) if model.remembers_every_token else 1
        parameters = native.llama_context_default_params()
        parameters.n_ctx = tokens
        parameters.n_batch = parameters.n_ubatch = self._batch_size
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.n_seq_max = lanes
        parameters.kv_unified = True  # else each lane could use its share of the cells alone
        self._handle: Any = native.llama_init_from_model(model.handle, parameters)
        if not self._handle:
            raise EngineError(
                f"There is not enough memory for a context of {tokens} tokens: ask for a smaller one."
            )
        self.capacity = tokens
        self._memory: Any = native.llama_get_memory(self._handle)
        # Embedders have no memory.
        self.can_write = bool(self._memory) and model.goes_on_with_text
        self._vocabulary_size = model.vocabulary.size
        self._batch = native.llama_batch_init(self._batch_size, 0, 1)
        self._lanes = [Lane(number) for number in range(lanes)]
        self._cell_names = count()
        self._cells_taken = 0
        self._turns = count(1)
        self._interrupt = interrupt
        # ggml asks this before each operation, some thousand times a token: libc's strlen, over the flag,
        # answers in C what a Python function could only answer after it has waited for the interpreter.
        self._abort = ctypes.cast(ctypes.CDLL(None).strlen, native.ggml_abort_callback)
        native.llama_set_abort_callback(self._handle, self._abort, ctypes.c_void_p(interrupt.address))

    @property
    def lanes(self) -> int:
        """How many replies can be written side by side."""
        return len(self._lanes)

    @property
    def has_free_lane(self) -> bool:
        """Whether one more can begin."""
        return not all(lane.is_busy for lane in self._lanes)

    @property
    def free_cells(self) -> int:
        """How many tokens fit beside those of the busy lanes."""
        return self.capacity - len(self._busy_cells())

    def remembered(self, tokens: Sequence[int]) -> int:
        """Return how many tokens of a prompt need not be read."""
        return self._closest(tokens)[1]

    def cells_for(self, tokens: Sequence[int]) -> int:
        """Return how many cells a prompt takes that no busy lane holds already."""
        lane, shared = self._closest(tokens)
        return len(tokens) - len(self._busy_cells().intersection(lane.cells[:shared]))

    def take(self, tokens: Sequence[int]) -> Lane:
        """Return a free lane, now busy, that holds as much of the start of ``tokens`` as is remembered."""
        closest, shared = self._closest(tokens)
        lane = closest if not closest.is_busy else self._least_useful()
        if lane is closest:
            self._forget_after(lane, shared)
        else:
            self._forget_after(lane, 0)
            native.llama_memory_seq_cp(self._memory, closest.number, lane.number, 0, shared)
            lane.tokens, lane.cells = closest.tokens[:shared], closest.cells[:shared]
        lane.is_busy = True
        return lane

    def give_back(self, lane: Lane) -> None:
        """Let the lane go; what it holds stays remembered while there is room."""
        lane.is_busy = False
        lane.used = next(self._turns)

    def read(self, lane: Lane, tokens: Sequence[int], stop: Callable[[], bool] = lambda: False) -> bool:
        """Read tokens, not for their logits; return False when interrupted, or stopped between batches."""
        for start in range(0, len(tokens), self._batch_size):
            if stop() or not self._decode([(lane, tokens[start : start + self._batch_size])], logits=False):
                return False
            # A GPU queues work: wait, so that a cancel finds at most one batch to be finished.
            native.llama_synchronize(self._handle)
        return True

    def step(self, following: Sequence[tuple[Lane, int]]) -> bool:
        """Read one token in each lane, for their logits; return False, with none read, when interrupted."""
        return self._decode([(lane, [token]) for lane, token in following], logits=True)

    def logits(self, index: int) -> Logits:
        """Return the logits after the last step's token number ``index``; good until the next step."""
        pointer = native.llama_get_logits_ith(self._handle, index)
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))

    def save(self, lane: Lane, path: Path) -> None:
        """Write the state of what the lane holds into a file; raise ``OSError`` where that fails."""
        state = (ctypes.c_uint8 * native.llama_state_seq_get_size(self._handle, lane.number))()
        if native.llama_state_seq_get_data(self._handle, state, len(state), lane.number) != len(state):
            raise OSError("llama.cpp gives no state")
        path.write_bytes(state)

    def restore(self, lane: Lane, path: Path, tokens: Sequence[int]) -> bool:
        """Let the lane hold ``tokens``, whose state ``save`` wrote; False, with none held, where that fails.

        Not by ``llama_state_seq_load_file``: that one aborts on a file of the wrong length.
        """
        self._forget_after(lane, 0)
        try:
            data = path.read_bytes()
        except OSError:
            return False
        state = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        read = self._make_room(len(tokens)) and native.llama_state_seq_set_data(
            self._handle, state, len(data), lane.number
        )
        last = native.llama_memory_seq_pos_max(self._memory, lane.number)
        if read != len(data) or last != len(tokens) - 1:
            self._forget_after(lane, 0)
            return False
        self._note_read(lane, tokens)
        return True

    def free(self) -> None:
        """Give the memory back."""
        native.llama_batch_free(self._batch)
        native.llama_free(self._handle)

    def _closest(self, tokens: Sequence[int]) -> tuple[Lane, int]:
        """The lane with the longest start of ``tokens``, and its length; of equals a free one, used last."""
        shared = {lane: lane.shares(tokens) for lane in self._lanes}
        best = max(self._lanes, key=lambda lane: (shared[lane], not lane.is_busy, lane.used))
        return best, shared[best]

    def _least_useful(self) -> Lane:
        """A free lane that holds nothing, or else the one that was used longest ago."""
        free = (lane for lane in self._lanes if not lane.is_busy)
        return min(free, key=lambda lane: (bool(lane.tokens), lane.used))

    def _busy_cells(self) -> set[int]:
        return {cell for lane in self._lanes if lane.is_busy for cell in lane.cells}

    def _make_room(self, cells: int) -> bool:
        """Forget idle lanes, oldest first, until so many cells are free; False if they never will be."""
        while self._cells_taken + cells > self.capacity:
            idle = [lane for lane in self._lanes if lane.tokens and not lane.is_busy]
            if not idle:
                return False
            self._forget_after(min(idle, key=lambda lane: lane.used), 0)
        return True

    def _decode(self, parts: Sequence[tuple[Lane, Sequence[int]]], *, logits: bool) -> bool:
        """Read tokens in lanes, with the logits after the last of each; False, none read, if interrupted."""
        if self._interrupt.raised:
            return False
        self._make_room(sum(len(tokens) for _, tokens in parts))
        self._fill_batch(parts, logits=logits)
        answer = native.llama_decode(self._handle, self._batch)
        if answer == _ABORTED:
            for lane, _ in parts:
                self._forget_after(lane, len(lane.tokens))
            return False
        if answer != 0:
            self._forget_all()
            why = "it has no room left" if answer == _NO_CELLS else f"llama_decode says {answer}"
            raise EngineError(f"The model could not read its prompt ({why}): try a shorter one.")
        for lane, tokens in parts:
            self._note_read(lane, tokens)
        return True

    def _fill_batch(self, parts: Sequence[tuple[Lane, Sequence[int]]], *, logits: bool) -> None:
        batch = self._batch
        i = 0
        for lane, tokens in parts:
            for position, token in enumerate(tokens, len(lane.tokens)):
                batch.token[i] = token
                batch.pos[i] = position
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = lane.number
                batch.logits[i] = False
                i += 1
            batch.logits[i - 1] = logits
        batch.n_tokens = i

    def _note_read(self, lane: Lane, tokens: Sequence[int]) -> None:
        lane.tokens.extend(tokens)
        lane.cells.extend(next(self._cell_names) for _ in tokens)
        self._cells_taken += len(tokens)

    def _forget_after(self, lane: Lane, length: int) -> None:
        if not native.llama_memory_seq_rm(self._memory, lane.number, length, -1):
            # Recurrent models remember no single tokens: all or nothing. They have one lane alone.
            native.llama_memory_clear(self._memory, True)
            length = 0
        if length < len(lane.tokens):
            del lane.tokens[length:], lane.cells[length:]
            self._cells_taken = len({cell for other in self._lanes for cell in other.cells})

    def _forget_all(self) -> None:
        native.llama_memory_clear(self._memory, True)
        for lane in self._lanes:
            lane.tokens, lane.cells = [], []
        self._cells_taken = 0

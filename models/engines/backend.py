"""What the child process asks of a library that runs models: load, generate, and heed the interrupt.

A backend lives in one thread of the child, which makes it by the engine's name (``child``).
"""

import ctypes
import threading
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from models.engines.options import EngineOptions
from models.engines.protocol import BatchDelta, Delta, Footprint, Prompt

_REMEMBERED_CANCELS = 64  # of requests that wait their turn


class Interrupt:
    """The flag that ends a running request, raised by the listening thread and seen also by C code.

    A cancel names its request, so that one that comes too early or too late hits no other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Hashable = None
        self._cancelled: deque[Hashable] = deque(maxlen=_REMEMBERED_CANCELS)
        self._dropped: frozenset[int] = frozenset()
        # Read as a C string: empty while all is well, one character long when raised.
        self._flag = ctypes.create_string_buffer(2)

    def begin(self, request: Hashable) -> None:
        """Note that ``request`` runs now, and lower the flag unless that very request is cancelled."""
        with self._lock:
            self._running = request
            self._dropped = frozenset()
            self._flag[0] = b"\1" if request in self._cancelled else b"\0"

    def cancel(self, request: Hashable) -> None:
        """Raise the flag if ``request`` runs, or as soon as it does."""
        with self._lock:
            self._cancelled.append(request)
            if self._running == request:
                self._flag[0] = b"\1"

    def drop(self, request: Hashable, index: int) -> None:
        """End one reply of a batch, if ``request`` runs: none could be seen before it does."""
        with self._lock:
            if self._running == request:
                self._dropped |= {index}

    @property
    def dropped(self) -> frozenset[int]:
        """The replies of the running batch that are to end."""
        return self._dropped

    @property
    def raised(self) -> bool:
        """Whether the running request is to end."""
        return self._flag[0] != b"\0"

    @property
    def address(self) -> int:
        """Where the flag lies, for C code."""
        return ctypes.addressof(self._flag)


class Backend(Protocol):
    """A library that runs models, in the one thread that made it.

    A request that fails raises ``EngineError``; after that, as after an interrupt, the backend is ready for
    the next one. Replies end with a delta that has a finish: ``CANCELLED`` once the interrupt is raised.
    """

    def load(self, path: Path, options: EngineOptions) -> Footprint:
        """Load the model, or nothing when it is loaded so already; a model loaded before is given back."""

    def generate(self, prompt: Prompt) -> Iterator[Delta]:
        """Yield the reply."""

    def batch(self, prompts: Sequence[Prompt]) -> Iterator[BatchDelta]:
        """Yield the replies side by side; those whose index is in ``Interrupt.dropped`` end at once."""

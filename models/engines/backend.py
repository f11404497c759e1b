"""What the child process asks of a library that runs models: load, generate, and heed the interrupt.

A backend lives in one thread of the child. ``llama`` is the first; another is a file beside it and
a line in ``child``.
"""

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from models.engines.options import EngineOptions
from models.engines.protocol import Delta
from models.engines.wire import Generate


class Interrupt:
    """The flag that ends a running request, raised by the listening thread and seen also by C code.

    A cancel names its request, so that one that comes too early or too late hits no other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._cancelled = 0
        # Read as a C string: empty while all is well, one character long when raised.
        self._flag = ctypes.create_string_buffer(2)

    def begin(self, request: int) -> None:
        """Note that ``request`` runs now, and lower the flag unless that very request is cancelled."""
        with self._lock:
            self._running = request
            self._flag[0] = b"\1" if self._cancelled == request else b"\0"

    def cancel(self, request: int) -> None:
        """Raise the flag if ``request`` runs, or as soon as it does."""
        with self._lock:
            self._cancelled = request
            if self._running == request:
                self._flag[0] = b"\1"

    @property
    def raised(self) -> bool:
        """Whether the running request is to end."""
        return self._flag[0] != b"\0"

    @property
    def address(self) -> int:
        """Where the flag lies, for C code."""
        return ctypes.addressof(self._flag)


class Backend(Protocol):
    """A library that runs models, in the one thread that made it."""

    def load(self, path: Path, options: EngineOptions) -> None:
        """Load the model, or nothing when it is loaded so already; raise ``EngineError``."""

    def generate(self, request: Generate) -> Iterator[Delta]:
        """Yield the reply; the last delta has a finish, ``CANCELLED`` once the interrupt is raised.

        Raises ``EngineError``. After either the backend is ready for the next request.
        """

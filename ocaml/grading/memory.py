"""What one grading learns and the next can use: the same tests judge many answers."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ocaml.grading.assertions import Suite
from ocaml.interface import Standard

KEPT = 256  # sets of tests; the least recently used are forgotten

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A mapping of the ``KEPT`` entries used last."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Return the entry and note its use."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Keep an entry."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > KEPT:
            self._entries.popitem(last=False)


@dataclass(slots=True)
class Memory:
    """What a judge remembers, for one compiler.

    ``suites`` are the claims of tests by their source; ``expected`` are the values of right sides by the
    program that computes them and the answer's types, which is all of the answer that they depend on;
    ``fitting`` are tests, in their scope, that type-check beside answers with a certain signature.
    """

    standard: Standard | None = None
    suites: Recent[str, Suite] = field(default_factory=Recent)
    fitting: Recent[tuple[str, str], bool] = field(default_factory=Recent)
    expected: Recent[tuple[str, str], Mapping[int, tuple[str, ...]]] = field(default_factory=Recent)

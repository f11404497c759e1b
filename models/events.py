"""What happens while a problem is solved, as data: every face of the program consumes these.

``V`` is the verdict's type: this room knows nothing of OCaml, its users name it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

V = TypeVar("V")


class How(StrEnum):
    """How an attempt came about."""

    GREEDY = "greedy"
    SAMPLE = "sample"
    REPAIR = "repair"
    REWIND = "rewind"
    RULE = "rule"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class Started:
    """An attempt begins; ``attempt`` counts from 1, ``why`` is a sentence for ``--verbose``."""

    attempt: int
    how: How
    why: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """New text of the attempt, not judged yet. ``entropy`` is in nats."""

    attempt: int
    text: str
    entropy: float = 0.0


@dataclass(frozen=True, slots=True)
class Dropped:
    """The conversation exceeded the model's context: its oldest messages were not read in this attempt."""

    attempt: int
    messages: int
    tokens: int


@dataclass(frozen=True, slots=True)
class CodeReady:
    """The code taken from the completion, about to be judged."""

    attempt: int
    code: str


@dataclass(frozen=True, slots=True)
class Attempt(Generic[V]):
    """One attempt as it is reported: code, verdict, generated tokens, wall seconds.

    So many messages of the conversation, of so many tokens, did not fit into the context and were dropped.
    """

    code: str
    verdict: V
    tokens: int
    seconds: float
    how: How
    dropped_messages: int = 0
    dropped_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Judged(Generic[V]):
    """OCaml's verdict on attempt ``number``."""

    number: int
    attempt: Attempt[V]


@dataclass(frozen=True, slots=True)
class Repairing:
    """The attempt is given back to the model with what OCaml said."""

    attempt: int
    because: str


@dataclass(frozen=True, slots=True)
class Finished(Generic[V]):
    """The end: the best attempt of all and every attempt in order."""

    best: Attempt[V]
    attempts: tuple[Attempt[V], ...]
    seconds: float


Event: TypeAlias = Started | Token | Dropped | CodeReady | Judged[V] | Repairing | Finished[V]

"""The messages between an engine and its child process: one JSON object a line, typed on both sides.

Every message carries the number of its request, so that a late answer to a cancelled
request is recognised and dropped.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar, cast

from models.catalogue import PromptFormat
from models.engines.options import EngineOptions
from models.engines.protocol import Delta, Finish, Footprint, Message, Prompt, Role, Sampling, Usage

E = TypeVar("E", bound=StrEnum)


class WireError(Exception):
    """A line that is none of our messages."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load the model at ``path``; answered by ``Loaded`` or ``Failed``."""

    id: int
    path: str
    options: EngineOptions


@dataclass(frozen=True, slots=True)
class Generate:
    """Reply to prompts; answered by ``Piece``s, one of them with a finish for each prompt, or ``Failed``.

    ``is_batch`` is false for the one prompt of a plain generation.
    """

    id: int
    prompts: tuple[Prompt, ...]
    is_batch: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """End request ``id`` now, or of a batch the one reply; it is answered all the same, to its end."""

    id: int
    index: int | None = None


@dataclass(frozen=True, slots=True)
class KeepWarm:
    """Stay for ``seconds`` after the last client has gone; only a warm child hears it. No answer."""

    id: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Welcome:
    """A warm child's first words to a client: its process id."""

    id: int
    pid: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is ready."""

    id: int
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a reply: that to prompt number ``index``."""

    id: int
    delta: Delta
    index: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed; ``message`` is a sentence for the user."""

    id: int
    message: str


Request: TypeAlias = Load | Generate | Cancel | KeepWarm
Response: TypeAlias = Welcome | Loaded | Piece | Failed


def encode(message: Request | Response) -> bytes:
    """Return the message as one line, its newline included.

    ASCII only: lone surrogates, as in file names that are not UTF-8, survive the trip.
    """
    return _ENCODER.encode({"is": type(message).__name__, **_fields(message)}).encode("ascii") + b"\n"


def decode_request(line: bytes) -> Request:
    """Parse what the parent sent; raise ``WireError`` when it is no request."""
    fields = _Fields.of_line(line)
    match fields.text("is"):
        case "Load":
            return Load(fields.integer("id"), fields.text("path"), _options(fields.record("options")))
        case "Generate":
            prompts = tuple(_prompt(entry) for entry in fields.records("prompts"))
            return Generate(fields.integer("id"), prompts, fields.boolean("is_batch"))
        case "Cancel":
            return Cancel(fields.integer("id"), fields.integer_or_none("index"))
        case "KeepWarm":
            return KeepWarm(fields.integer("id"), fields.number("seconds"))
        case other:
            raise WireError(f"no such request: {other}")


def decode_response(line: bytes) -> Response:
    """Parse what the child sent; raise ``WireError`` when it is no response."""
    fields = _Fields.of_line(line)
    match fields.text("is"):
        case "Piece":
            return Piece(fields.integer("id"), _delta(fields.record("delta")), fields.integer("index"))
        case "Loaded":
            return Loaded(fields.integer("id"), _footprint(fields.record("footprint")))
        case "Welcome":
            return Welcome(fields.integer("id"), fields.integer("pid"))
        case "Failed":
            return Failed(fields.integer("id"), fields.text("message"))
        case other:
            raise WireError(f"no such response: {other}")


def _fields(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields, not copied: ``dataclasses.asdict`` costs ten times as much a token."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_fields)


class _Fields:
    """A JSON object whose fields are taken out by type."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values

    @classmethod
    def of_line(cls, line: bytes) -> "_Fields":
        try:
            return cls.of(json.loads(line))
        except (ValueError, RecursionError) as error:  # the latter of brackets without end
            raise WireError(f"not JSON: {line[:80]!r}") from error

    @classmethod
    def of(cls, value: object) -> "_Fields":
        if not isinstance(value, dict):
            raise WireError(f"not an object: {value!r:.80}")
        return cls(cast("dict[str, object]", value))

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise WireError(f"{name} is not text: {value!r:.80}")
        return value

    def integer(self, name: str) -> int:
        return _integer(self.get(name), name)

    def number(self, name: str) -> float:
        return _number(self.get(name), name)

    def boolean(self, name: str) -> bool:
        value = self.get(name)
        if not isinstance(value, bool):
            raise WireError(f"{name} is not true or false: {value!r:.80}")
        return value

    def integer_or_none(self, name: str) -> int | None:
        return None if self.get(name) is None else self.integer(name)

    def text_or_none(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(_integer(value, name) for value in self.items(name))

    def numbers(self, name: str) -> tuple[float, ...]:
        return tuple(_number(value, name) for value in self.items(name))

    def record(self, name: str) -> "_Fields":
        return _Fields.of(self.get(name))

    def records(self, name: str) -> tuple["_Fields", ...]:
        return tuple(_Fields.of(value) for value in self.items(name))

    def items(self, name: str) -> list[object]:
        value = self.get(name)
        if not isinstance(value, list):
            raise WireError(f"{name} is not a list: {value!r:.80}")
        return value

    def get(self, name: str) -> object:
        try:
            return self._values[name]
        except KeyError:
            raise WireError(f"{name} is missing") from None


def _integer(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError(f"{name} is not a whole number: {value!r:.80}")
    return value


def _number(value: object, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WireError(f"{name} is not a number: {value!r:.80}")
    try:
        return float(value)
    except OverflowError:
        raise WireError(f"{name} is too large") from None


def _options(fields: _Fields) -> EngineOptions:
    fallback = fields.text_or_none("fallback_format")
    return EngineOptions(
        context_tokens=fields.integer_or_none("context_tokens"),
        threads=fields.integer_or_none("threads"),
        gpu_layers=fields.integer_or_none("gpu_layers"),
        batch_tokens=fields.integer_or_none("batch_tokens"),
        fallback_format=None if fallback is None else _enum(PromptFormat, fallback),
        memory_bytes=fields.integer_or_none("memory_bytes"),
        home=fields.text_or_none("home"),
        states=fields.text_or_none("states"),
        states_bytes=fields.integer("states_bytes"),
    )


def _prompt(fields: _Fields) -> Prompt:
    return Prompt(
        tuple(_message(entry) for entry in fields.records("messages")),
        _prefix(fields),
        fields.integers("forbidden_first"),
        _sampling(fields.record("sampling")),
    )


def _message(fields: _Fields) -> Message:
    return Message(_enum(Role, fields.text("role")), fields.text("text"))


def _prefix(fields: _Fields) -> str | tuple[int, ...]:
    return fields.text("prefix") if isinstance(fields.get("prefix"), str) else fields.integers("prefix")


def _sampling(fields: _Fields) -> Sampling:
    return Sampling(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_tokens=fields.integer("max_tokens"),
        seed=fields.integer("seed"),
    )


def _delta(fields: _Fields) -> Delta:
    finish = fields.text_or_none("finish")
    return Delta(
        text=fields.text("text"),
        tokens=fields.integers("tokens"),
        entropy=fields.number("entropy"),
        finish=None if finish is None else _enum(Finish, finish),
        entropies=fields.numbers("entropies"),
        usage=None if fields.get("usage") is None else _usage(fields.record("usage")),
    )


def _usage(fields: _Fields) -> Usage:
    return Usage(
        prompt_tokens=fields.integer("prompt_tokens"),
        cached_tokens=fields.integer("cached_tokens"),
        dropped_messages=fields.integer("dropped_messages"),
        dropped_tokens=fields.integer("dropped_tokens"),
    )


def _footprint(fields: _Fields) -> Footprint:
    return Footprint(fields.integer("context_tokens"), fields.integer("memory_bytes"))


def _enum(kind: type[E], value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise WireError(f"no such {kind.__name__}: {value!r:.80}") from None

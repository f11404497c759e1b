"""What servers answer, typed at the door: their models, their properties, pieces of replies, complaints.

Whoever listens at an address may send anything; what is not as it should be raises ``Malformed``.
"""

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias, cast

from models.engines.protocol import Finish

Record: TypeAlias = dict[str, object]

_LARGEST = 2**53  # no count of anything here
_QUOTED = 200  # characters of a server's own words
_TOO_LONG = ("length", "max_tokens", "MAX_TOKENS")


class Malformed(Exception):
    """An answer that is none of those expected, in a few words for a sentence."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that a server has; 0 and "" stand for what it does not say."""

    name: str
    owner: str = ""
    vocabulary: int = 0
    context: int = 0


@dataclass(frozen=True, slots=True)
class Properties:
    """What llama-server says of itself: a context's tokens, how many it holds, and the text of BOS."""

    context: int
    slots: int
    bos: str


@dataclass(frozen=True, slots=True)
class Likely:
    """A token that might have come: the logarithm of its probability, and what it writes if that is told."""

    token: int
    logprob: float
    piece: bytes | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A token that came: what it writes (llama-server: what could be told with it), and the likeliest."""

    piece: bytes | None
    likeliest: tuple[Likely, ...]

    def piece_of(self, token: int) -> bytes | None:
        """Return what a token writes if it is among the likeliest."""
        return next((likely.piece for likely in self.likeliest if likely.token == token), None)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of llama-server's own kind of reply. ``predicted`` counts its tokens; -1 is untold."""

    text: str
    tokens: tuple[int, ...]
    drawn: tuple[Drawn, ...]
    is_end: bool
    finish: Finish
    cached: int
    predicted: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What a server counted."""

    prompt: int
    cached: int
    completion: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a chat completion."""

    text: str
    tokens: tuple[int, ...]
    drawn: tuple[Drawn, ...]
    finish: Finish | None
    counted: Counted | None


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a server refuses."""

    words: str
    is_context: bool


def parse_json(data: bytes | str) -> object:
    """Parse JSON of a stranger."""
    try:
        return cast("object", json.loads(data))
    except (ValueError, RecursionError):
        shown = data[:60].decode("utf-8", errors="replace") if isinstance(data, bytes) else data[:60]
        raise Malformed(f"it is not JSON: {_shown(shown)}") from None


def parse_models(value: object) -> list[Listed]:
    """Parse the answer to ``GET /v1/models``."""
    return [_listed(_record(entry, "a model")) for entry in _items(_record(value, "the list"), "data")]


def parse_properties(value: object) -> Properties | None:
    """Parse the answer to ``GET /props``; None where it is another program's, or one of many models'."""
    if not isinstance(value, dict) or not isinstance(value.get("default_generation_settings"), dict):
        return None
    context = _count(value["default_generation_settings"], "n_ctx")
    return Properties(context, _count(value, "total_slots"), _text(value, "bos_token")) if context else None


def parse_tokens(value: object) -> list[tuple[int, bytes]]:
    """Parse the answer to ``POST /tokenize`` with pieces."""
    entries = (_record(entry, "a token") for entry in _items(_record(value, "the answer"), "tokens"))
    return [(_count(entry, "id"), _bytes(entry.get("piece")) or b"") for entry in entries]


def parse_prompt(value: object) -> str:
    """Parse the answer to ``POST /apply-template``."""
    record = _record(value, "the answer")
    if "prompt" not in record:
        raise Malformed("it holds no prompt")
    return _text(record, "prompt")


def parse_piece(value: object) -> Piece:
    """Parse a part of the answer to ``POST /completion``."""
    record = _record(value, "a part")
    timings = record.get("timings")
    return Piece(
        text=_text(record, "content"),
        tokens=_counts(record, "tokens"),
        drawn=tuple(_drawn(entry) for entry in _items(record, "completion_probabilities")),
        is_end=record.get("stop") is True,
        finish=Finish.LENGTH if record.get("stop_type") == "limit" else Finish.STOP,
        cached=_count(timings, "cache_n", -1) if isinstance(timings, dict) else -1,
        predicted=_count(record, "tokens_predicted", -1),
    )


def parse_chunk(value: object) -> Chunk:
    """Parse a part of the answer to ``POST /v1/chat/completions``, streamed or whole."""
    record = _record(value, "a part")
    choices = _items(record, "choices")
    choice = _record(choices[0], "a choice") if choices else {}
    said = choice.get("delta", choice.get("message"))
    logprobs = choice.get("logprobs")
    reason = choice.get("finish_reason") or None  # "" as long as it goes on, some say
    return Chunk(
        text=_text(_record(said, "a delta"), "content") if said is not None else "",
        tokens=_counts(choice, "token_ids"),
        drawn=tuple(_drawn(entry) for entry in _items(logprobs, "content"))
        if isinstance(logprobs, dict)
        else (),
        finish=None if reason is None else Finish.LENGTH if reason in _TOO_LONG else Finish.STOP,
        counted=_counted(record.get("usage")),
    )


def parse_complaint(data: bytes) -> Complaint:
    """Parse the body of a refusal, whatever it is."""
    try:
        return complaint(parse_json(data))
    except Malformed:
        return Complaint("", False)


def complaint(value: object) -> Complaint:
    """Parse a refusal: ``{"error": {"message": …}}``, or one of its kin."""
    error = value.get("error", value) if isinstance(value, dict) else value
    kinds: set[object] = set()
    if isinstance(error, dict):
        kinds = {kind for key in ("type", "code") if isinstance(kind := error.get(key), str)}
        error = error.get("message", error.get("detail", ""))
    words = error if isinstance(error, str) else json.dumps(error)
    lowered = words.lower()
    is_context = (
        bool(kinds & {"context_length_exceeded", "exceed_context_size_error"})
        or "maximum context length" in lowered
        or ("context" in lowered and any(word in lowered for word in ("exceed", "too long", "too large")))
    )
    return Complaint(_shown(words), is_context)


def is_complaint(value: object) -> bool:
    """Whether an event of a stream is a refusal."""
    if not isinstance(value, dict):
        return False
    return bool(value.get("error")) or value.get("object") == "error"  # the latter: vLLM before 0.10


def entropy(drawn: Drawn, without: Collection[int] = ()) -> float:
    """Return about how undecided the model was, in nats, from the few likeliest tokens it tells of.

    All the others are taken for one lump, of what remains to 1: so the number is at most the true one.
    Tokens of ``without`` could not be drawn, and the rest is scaled to 1.
    """
    shares = [(likely.token, math.exp(min(likely.logprob, 0.0))) for likely in drawn.likeliest]
    weights = [share for token, share in shares if token not in without]
    barred = sum(share for token, share in shares if token in without)
    if not weights:
        return 0.0
    weights.append(max(0.0, 1.0 - barred - sum(weights)))
    total = sum(weights)
    return -sum(weight / total * math.log(weight / total) for weight in weights if weight > 0.0) + 0.0


def _listed(record: Record) -> Listed:
    meta = record.get("meta")
    meta = cast("Record", meta) if isinstance(meta, dict) else {}
    name = _text(record, "id")
    if not name:
        raise Malformed("it lists a model without a name")
    context = _count(record, "max_model_len") or _count(meta, "n_ctx")
    return Listed(name, _text(record, "owned_by"), _count(meta, "n_vocab"), context)


def _counted(value: object) -> Counted | None:
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else 0
    return Counted(_count(value, "prompt_tokens"), cached, _count(value, "completion_tokens"))


def _drawn(value: object) -> Drawn:
    record = _record(value, "a probability")
    return Drawn(_spelled(record), tuple(_likeliest(_items(record, "top_logprobs"))))


def _likeliest(entries: Iterable[object]) -> Iterable[Likely]:
    for entry in entries:
        record = _record(entry, "a probability")
        logprob = record.get("logprob")
        # Infinity, or digits as text, tell nothing.
        if isinstance(logprob, int | float) and not isinstance(logprob, bool) and -1e9 < logprob < 1e9:
            yield Likely(_count(record, "id", -1), float(logprob), _spelled(record))


def _spelled(record: Record) -> bytes | None:
    spelled = record.get("bytes")
    return _bytes(spelled) if isinstance(spelled, list) else None


def _record(value: object, what: str) -> Record:
    if not isinstance(value, dict):
        raise Malformed(f"{what} in it is no object: {_shown(repr(value)[:60])}")
    return cast("Record", value)


def _items(record: Record, name: str) -> list[object]:
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{name} in it is no list: {_shown(repr(value)[:60])}")
    return value


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{name} in it is no text: {_shown(repr(value)[:60])}")
    return value


def _count(record: Record, name: str, absent: int = 0) -> int:
    value = record.get(name)
    return absent if value is None else _whole(value, name)


def _counts(record: Record, name: str) -> tuple[int, ...]:
    return tuple(_whole(value, name) for value in _items(record, name))


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise Malformed(f"{name} in it is no count: {_shown(repr(value)[:60])}")
    return value


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace")
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value)
    return None


def _shown(words: str) -> str:
    """Return a stranger's words fit for a sentence of ours: one line, short, no control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    line = line.rstrip(".")
    return line if len(line) <= _QUOTED else line[: _QUOTED - 1] + "…"

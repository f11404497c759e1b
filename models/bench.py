"""How fast an engine is with a model, and what it takes: measured through the protocol alone.

Every figure is the median of several runs; one that an engine cannot give is None.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from models.address import Server, is_address
from models.catalogue import ENGINE_FORMATS, Format, Model
from models.choice import engine_for
from models.engines import Engine, EngineOptions, Footprint, Message, Role, Sampling, Usage, open_engine
from models.engines.plan import MemoryPlan, plan_here
from models.errors import EngineError, ModelError
from models.store import Store

ROUNDS = 3
SERVER = "openai"
"""The engine that is a client of a server."""

_PEAK_SECONDS = 0.05  # between two looks at the memory of the process


@dataclass(frozen=True, slots=True)
class Contender:
    """A model and one engine that loads it."""

    model: Model | Server
    engine: str

    @property
    def format(self) -> Format | None:
        """The format of the weights; a server keeps it to itself."""
        return None if isinstance(self.model, Server) else self.model.format


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what was expected, what was free then, what the loaded model took, and the most it ever did."""

    planned_bytes: int | None = None
    free_bytes: int | None = None
    loaded_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds from the question to the first token of its answer, the model being loaded.

    ``cold`` in a new process; ``saved`` in a new process with the system prompt's state on disk; ``warm``
    after another question under the same system prompt; ``exact`` after the very same question.
    """

    cold: float | None = None
    saved: float | None = None
    warm: float | None = None
    exact: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one contender, as far as they were taken; ``error`` is why there are no more."""

    model: str
    engine: str
    format: str | None
    prompt_tokens: int | None
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    load_seconds: float | None
    first_token_seconds: FirstToken
    context_tokens: int | None
    memory: Memory
    error: str | None

    @property
    def ran(self) -> bool:
        """Whether the engine has answered at all."""
        return self.generation_tokens_per_second is not None or self.prompt_tokens is not None


@dataclass(slots=True)
class Record:
    """What was measured of a contender so far."""

    contender: Contender
    plan: MemoryPlan | None = None
    footprint: Footprint | None = None
    peak_bytes: int = 0
    prompt_tokens: int = 0
    error: str | None = None
    loads: list[float] = field(default_factory=list)
    firsts: dict[str, list[float]] = field(default_factory=dict)
    prompt_speeds: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def row(self) -> Row:
        """Return the medians so far."""
        footprint = self.footprint or Footprint()
        gap = _median(self.gaps)
        return Row(
            model=self.contender.model.name,
            engine=self.contender.engine,
            format=self.contender.format,
            prompt_tokens=self.prompt_tokens or None,
            prompt_tokens_per_second=_median(self.prompt_speeds),
            generation_tokens_per_second=1 / gap if gap else None,
            load_seconds=_median(self.loads),
            first_token_seconds=FirstToken(**{how: _median(times) for how, times in self.firsts.items()}),
            context_tokens=footprint.context_tokens or None,
            memory=Memory(
                planned_bytes=self.plan.needed_bytes if self.plan else None,
                free_bytes=self.plan.free_bytes if self.plan else None,
                loaded_bytes=footprint.memory_bytes or None,
                peak_bytes=max(self.peak_bytes, footprint.memory_bytes) or None,
            ),
            error=self.error,
        )


def contenders(store: Store, names: Sequence[str], engine: str | None = None) -> list[Contender]:
    """Return each model in each format that is here with each engine here that loads it, or with ``engine``.

    ``names`` are models, paths or servers' addresses. Raises ``ModelError`` for one that is not here.
    """
    return [contender for name in names for contender in _of_name(store, name, engine)]


async def measure(
    record: Record, options: EngineOptions, *, tokens: int, rounds: int, say: Callable[[str], None]
) -> None:
    """Take a contender's figures into ``record``; what is wrong with it ends in its ``error``.

    ``tokens`` is the length of the answers whose speed counts. ``say`` is told what is being done.
    """
    if record.contender.engine == SERVER:
        steps = _measure_server(record, options, tokens, rounds)
    else:
        steps = _measure_processes(record, options, tokens, rounds)
    name = f"{record.contender.model.name} by {record.contender.engine}"
    try:
        async with aclosing(steps):
            async for step in steps:
                say(f"{name}: {step}")
    except EngineError as error:
        record.error = str(error)
    except Exception as error:  # a fault of ours in one engine is no reason to lose what the others gave
        record.error = f"The engine failed ({error!r}): please report this."


def to_json(records: Iterable[Record], *, tokens: int, rounds: int, interrupted: bool) -> dict[str, Any]:
    """Return what ``ocamler models bench --json`` prints.

    ``{"tokens", "rounds", "interrupted", "rows": [{"model", "engine": "llama|mlx|transformers|openai",
    "format": "gguf|mlx|hf|lora"|null, "prompt_tokens", "prompt_tokens_per_second",
    "generation_tokens_per_second", "load_seconds", "first_token_seconds": {"cold", "saved", "warm", "exact"},
    "context_tokens", "memory": {"planned_bytes", "free_bytes", "loaded_bytes", "peak_bytes"}, "error"}]}``;
    a figure that the engine cannot give, or that was not taken, is null.
    """
    from dataclasses import asdict

    return {
        "tokens": tokens,
        "rounds": rounds,
        "interrupted": interrupted,
        "rows": [_rounded(asdict(record.row())) for record in records],
    }


def _of_name(store: Store, name: str, engine: str | None) -> list[Contender]:
    if is_address(name):
        if engine not in (None, SERVER):
            raise EngineError(f"{Server(name).name} is a server, which {engine} does not load: leave it out.")
        return [Contender(Server(name), SERVER)]
    models = [model for model in store.installed() if model.name.casefold() == name.casefold()]
    models = models or [store.resolve(name, tuple(Format))]
    found: list[Contender] = []
    for model in models:
        able = [one for one, formats in ENGINE_FORMATS.items() if model.format in formats]
        if engine is not None:
            chosen = [one for one in able if one == engine]
        else:
            # Where none is here, the best of all says itself what it lacks.
            chosen = [one for one in able if one in store.engines] or [engine_for(model.format, ())]
        found += [Contender(model, one) for one in chosen]
    if not found:
        forms = " and ".join(model.format.value for model in models)
        raise EngineError(f"{name} is {forms}, which {engine} does not load: choose another engine.")
    return found


async def _measure_processes(
    record: Record, options: EngineOptions, tokens: int, rounds: int
) -> AsyncGenerator[str, None]:
    """Start a process for each cold start; whatever is warm is measured in the same."""
    contender = record.contender
    if isinstance(contender.model, Server):
        raise TypeError("a server has no processes of ours")
    record.plan = _plan(contender.model, contender.engine, options)
    for number in range(1, rounds + 1):
        yield f"cold, warm and exact, {number} of {rounds}"
        async with _opened(record, replace(options, states=None)) as engine:
            cold = await _ask(engine, _conversation(0), tokens)
            _note(record, "cold", cold)
            record.gaps += cold.gaps
            _note(record, "warm", await _ask(engine, _conversation(number), 1))
            _note(record, "exact", await _ask(engine, _conversation(number), 1))
    with tempfile.TemporaryDirectory(prefix="ocamler-bench-") as folder:
        kept = replace(options, states=folder)
        yield "saving the state of the system prompt"
        async with _opened(record, kept) as engine:
            await _ask(engine, _conversation(0), 1)
        if not any(Path(folder).rglob("*")):
            return
        for number in range(1, rounds + 1):
            yield f"cold with the saved state, {number} of {rounds}"
            async with _opened(record, kept) as engine:
                asked = await _ask(engine, _conversation(number), 1)
            if asked.usage.cached_tokens:  # else the state was of no use, and this a cold start
                _note(record, "saved", asked)


async def _measure_server(
    record: Record, options: EngineOptions, tokens: int, rounds: int
) -> AsyncGenerator[str, None]:
    """Ask a server, which is always warm: only a prompt that it never saw shows how fast it reads."""
    engine = _open(record.contender, options)
    try:
        record.footprint = await engine.load()
        fresh = time.time_ns()
        for number in range(1, rounds + 1):
            yield f"{number} of {rounds}"
            unseen = await _ask(engine, _conversation(0, f"(* {fresh + number} *)\n"), tokens)
            _note(record, None, unseen)
            record.gaps += unseen.gaps
            warm = _conversation(number, f"(* {fresh + number} *)\n")
            _note(record, "warm", await _ask(engine, warm, 1))
            _note(record, "exact", await _ask(engine, warm, 1))
    finally:
        await engine.close()


@asynccontextmanager
async def _opened(record: Record, options: EngineOptions) -> AsyncIterator[Engine]:
    """Start a process and load the model, and watch what it takes for as long as it runs."""
    engine = _open(record.contender, options)
    watching = asyncio.ensure_future(_watch(record, engine))
    try:
        began = time.perf_counter()
        record.footprint = await engine.load()
        record.loads.append(time.perf_counter() - began)
        yield engine
    finally:
        watching.cancel()
        await engine.close()


def _open(contender: Contender, options: EngineOptions) -> Engine:
    if isinstance(contender.model, Server):
        return open_engine(contender.model.address, options)
    return open_engine(contender.model, options, engine=contender.engine)


async def _watch(record: Record, engine: Engine) -> None:
    import psutil

    while True:
        pid: int | None = getattr(engine, "pid", None)
        if pid is not None:
            with suppress(psutil.Error):
                record.peak_bytes = max(record.peak_bytes, psutil.Process(pid).memory_info().rss)
        await asyncio.sleep(_PEAK_SECONDS)


@dataclass(frozen=True, slots=True)
class _Asked:
    """An answer's times: seconds to its first token, and between the tokens after it."""

    first: float
    gaps: list[float]
    usage: Usage


async def _ask(engine: Engine, messages: Sequence[Message], tokens: int) -> _Asked:
    began = last = time.perf_counter()
    first: float | None = None
    gaps: list[float] = []
    usage = Usage()
    async for delta in engine.generate(messages, sampling=Sampling(max_tokens=tokens)):
        now = time.perf_counter()
        usage = delta.usage or usage
        # A server may send text alone: then a delta counts as a token.
        count = len(delta.tokens) or (1 if delta.text else 0)
        if count == 0:
            continue
        if first is None:
            first = now - began
        else:
            gaps += [(now - last) / count] * count
        last = now
    return _Asked(time.perf_counter() - began if first is None else first, gaps, usage)


def _note(record: Record, how: str | None, asked: _Asked) -> None:
    """Take an answer into the record; the speed of reading shows where all of the prompt was read."""
    if how is not None:
        record.firsts.setdefault(how, []).append(asked.first)
    if how in (None, "cold") and asked.usage.prompt_tokens:
        record.prompt_tokens = asked.usage.prompt_tokens
        record.prompt_speeds.append((asked.usage.prompt_tokens - asked.usage.cached_tokens) / asked.first)


def _plan(model: Model, engine: str, options: EngineOptions) -> MemoryPlan | None:
    try:
        return plan_here(model.path, model.format, engine, options, base=model.base)
    except ModelError:
        return None  # loading it will say why


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _rounded(value: Any) -> Any:
    """Return a table with numbers of four digits that mean something."""
    match value:
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case float():
            return float(f"{value:.4g}")
        case _:
            return value


# About 400 tokens of Qwen's, most of them in the system prompt: what an assistant asks again and again.
_SYSTEM = """You write OCaml. Answer with one block of code. Here is a module that you may use.

type 'a tree = Leaf | Node of 'a tree * 'a * 'a tree

let rec insert compare value tree =
  match tree with
  | Leaf -> Node (Leaf, value, Leaf)
  | Node (left, here, right) ->
    let order = compare value here in
    if order < 0 then Node (insert compare value left, here, right)
    else if order > 0 then Node (left, here, insert compare value right)
    else tree

let rec fold f tree state =
  match tree with
  | Leaf -> state
  | Node (left, here, right) -> fold f right (f here (fold f left state))

let to_list tree = List.rev (fold (fun value found -> value :: found) tree [])

let of_list compare values =
  List.fold_left (fun tree value -> insert compare value tree) Leaf values

let rec height = function
  | Leaf -> 0
  | Node (left, _, right) -> 1 + max (height left) (height right)

let rec member compare value = function
  | Leaf -> false
  | Node (left, here, right) ->
    let order = compare value here in
    if order = 0 then true
    else member compare value (if order < 0 then left else right)

let rec smallest = function
  | Leaf -> None
  | Node (Leaf, here, _) -> Some here
  | Node (left, _, _) -> smallest left

let map compare f tree =
  fold (fun value mapped -> insert compare (f value) mapped) tree Leaf
"""
_QUESTIONS = (
    "Explain each function with a long example, then write the function that removes a value.",
    "Write the union of two trees.",
    "Write the largest value of a tree, as an option.",
    "Write a function that counts the leaves.",
)


def _conversation(number: int, start: str = "") -> tuple[Message, Message]:
    """Return question ``number`` under the one system prompt, which may be made new by its start."""
    question = _QUESTIONS[number] if number < len(_QUESTIONS) else f"{_QUESTIONS[1]} Call it union{number}."
    return Message(Role.SYSTEM, start + _SYSTEM), Message(Role.USER, question)

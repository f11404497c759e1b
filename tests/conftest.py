"""Models for the tests of all rooms: nano ones made on the spot, and a small real one for the slow tests.

A nano model is a real GGUF file of the Qwen2 architecture, 64 wide, which llama.cpp loads in
milliseconds. With random weights it babbles; with ``says`` its weights make it say a given text.
"""

import asyncio
import os
import re
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Started in the background, a shell's child ignores Ctrl-C, and so would every command that is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the check server from run to run: a second to build it in every test would be the most of all."""
    cache = getattr(config, "cache", None)
    kept = cache.mkdir("ocamler") if cache is not None else Path(tempfile.gettempdir(), "ocamler-tests")
    os.environ["OCAMLER_CACHE"] = str(kept)


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|bos|>")
WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 64, 2, 4, 2, 128


@dataclass(frozen=True)
class Nano:
    """What a nano model is made of.

    ``says`` is what it answers to anything, as text or, to say how it is cut into tokens, as bytes;
    ``ends`` is the token it then draws: a control token, or for an endless song its first piece.
    Without it the weights are random, from ``seed``.
    """

    says: str | Sequence[bytes] | None = None
    ends: str = "<|im_end|>"
    eos: str = "<|im_end|>"
    bos: str | None = None
    adds_bos: bool = False
    template: str | None = CHATML
    context: int = 65536
    seed: int = 0
    architecture: str = "qwen2"


@pytest.fixture(scope="session")
def make_nano(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that takes the fields of ``Nano`` and returns the model file; made once each."""
    folder = tmp_path_factory.mktemp("nano")
    numbers = count()
    made: dict[Any, Path] = {}

    def make(**fields: Any) -> Path:
        if isinstance(says := fields.get("says"), list):
            fields["says"] = tuple(says)
        nano = Nano(**fields)
        if nano not in made:
            made[nano] = folder / f"nano-{next(numbers)}.gguf"
            write_nano(nano, made[nano])
        return made[nano]

    return make


@pytest.fixture(scope="session")
def nano(make_nano: Callable[..., Path]) -> Path:
    """Return a nano model that babbles."""
    return make_nano()


@pytest.fixture(scope="session")
def endless_nano(make_nano: Callable[..., Path]) -> Path:
    """Return a nano model that never stops."""
    return make_nano(says=[b"ha ha", b" ho ho "], ends="ha ha")


@pytest.fixture(scope="module")
def engine(nano: Path) -> Iterator[Any]:
    """Yield an engine whose model babbles, shared: a loaded model outlives the loops of the tests."""
    from models.engines import EngineOptions, open_engine

    engine = open_engine(nano, EngineOptions(context_tokens=32768))
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
async def engine_for() -> AsyncIterator[Callable[..., Any]]:
    """Yield a function that opens an engine with a model file and options; all are closed at the end."""
    from models.engines import Engine, EngineOptions, open_engine

    opened: list[Engine] = []

    def open_one(path: Path, **options: Any) -> Engine:
        opened.append(open_engine(path, EngineOptions(**options)))
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()


@pytest.fixture(scope="session")
def real_model() -> Path:
    """Return a small real model, pulled on first use."""
    from models import store

    return store.pull("smollm2-135m").path


def write_nano(nano: Nano, path: Path) -> None:
    """Write a nano model as a GGUF file."""
    import gguf
    import numpy as np

    pieces = [] if nano.says is None else cut(nano.says)
    base, merges = byte_pairs()
    own = [spelled for piece in pieces if (spelled := spell(piece)) not in base]
    tokens = base + own + list(CONTROLS)  # each once: llama.cpp aborts on twins
    kinds = [gguf.TokenType.NORMAL] * (len(tokens) - len(CONTROLS)) + [gguf.TokenType.CONTROL] * len(CONTROLS)
    writer = gguf.GGUFWriter(path, nano.architecture)
    writer.add_context_length(nano.context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index(nano.eos))
    if nano.bos is not None:
        writer.add_bos_token_id(tokens.index(nano.bos))
    writer.add_add_bos_token(nano.adds_bos)
    if nano.template is not None:
        writer.add_chat_template(nano.template)
    ends = nano.ends if nano.ends in CONTROLS else spell(nano.ends.encode())
    chain = [tokens.index(spelled) for spelled in (spell(b"\n"), *map(spell, pieces), ends)]
    for name, tensor in weights(len(tokens), nano, chain).items():
        # As llama.cpp has it: matrices small, vectors exact.
        writer.add_tensor(name, tensor.astype(np.float16 if tensor.ndim == 2 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weights(vocabulary: int, nano: Nano, chain: Sequence[int]) -> dict[str, Any]:
    """Return random weights; with ``says``, layers add nothing and the head leads along ``chain``."""
    import numpy as np

    random = np.random.default_rng(nano.seed)

    def matrix(rows: int, columns: int) -> Any:
        return random.normal(0, columns**-0.5, (rows, columns))

    embedding = matrix(vocabulary, WIDTH) * WIDTH**0.5
    head = matrix(vocabulary, WIDTH) * 3
    if nano.says is not None:
        head[:] = 0
        for token, following in pairwise(chain):
            head[following] += 4 * embedding[token] / np.linalg.norm(embedding[token])
    tensors = {"token_embd.weight": embedding, "output.weight": head, "output_norm.weight": np.ones(WIDTH)}
    narrow = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        parts = {
            "attn_norm.weight": np.ones(WIDTH),
            "attn_q.weight": matrix(WIDTH, WIDTH),
            "attn_k.weight": matrix(narrow, WIDTH),
            "attn_v.weight": matrix(narrow, WIDTH),
            "attn_q.bias": np.zeros(WIDTH),
            "attn_k.bias": np.zeros(narrow),
            "attn_v.bias": np.zeros(narrow),
            "attn_output.weight": matrix(WIDTH, WIDTH) * (nano.says is None),
            "ffn_norm.weight": np.ones(WIDTH),
            "ffn_gate.weight": matrix(INNER, WIDTH),
            "ffn_up.weight": matrix(INNER, WIDTH),
            "ffn_down.weight": matrix(WIDTH, INNER) * (nano.says is None),
        }
        tensors |= {f"blk.{layer}.{name}": part for name, part in parts.items()}
    return tensors


def cut(text: str | Sequence[bytes]) -> list[bytes]:
    """Cut a text into pieces of which no two are alike, and none is a token already."""
    if not isinstance(text, str):
        return list(text)
    taken = set(byte_pairs()[0])
    pieces: list[bytes] = []
    piece = ""
    for character in text:
        piece += character
        if len(piece) > 2 and spell(piece.encode()) not in taken:
            pieces.append(piece.encode())
            taken.add(spell(piece.encode()))
            piece = ""
    if piece:
        pieces[-1:] = [b"".join(pieces[-1:]) + piece.encode()]
    return pieces


def byte_pairs() -> tuple[list[str], list[str]]:
    """Return the tokens and the merges of a byte-level BPE of some 400 tokens, learned from a little text."""
    text = (
        "let rec sum list = match list with [] -> 0 | x :: rest -> x + sum rest\n"
        "let twice f x = f (f x) in assert (twice succ 1 = 3); system user assistant\n"
        "the answer is one whole program that type checks: (* OCaml *) if then else fun function\n"
        "List.fold_left String.length Hashtbl.create Printf.printf Some None true false begin end while\n"
    )
    words = [
        [spell(bytes([byte])) for byte in word.encode()] for word in re.findall(r" ?\w+|\s|[^\w\s]+", text)
    ]
    tokens = [spell(bytes([byte])) for byte in range(256)]
    merges: list[str] = []
    while len(tokens) < 400:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        left, right = max(pairs, key=lambda pair: (pairs[pair], pair))
        tokens.append(left + right)
        merges.append(f"{left} {right}")
        words = [merged(word, left, right) for word in words]
    return tokens, merges


def merged(word: list[str], left: str, right: str) -> list[str]:
    """Return ``word`` with every ``left`` before a ``right`` joined to it."""
    result: list[str] = []
    for part in word:
        if result and result[-1] == left and part == right:
            result[-1] = left + right
        else:
            result.append(part)
    return result


def spell(data: bytes) -> str:
    """Return bytes as GPT-2's vocabulary spells them: printable characters for all 256."""
    return "".join(map(_SPELLING.__getitem__, data))


_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_SPELLING = {byte: chr(byte) for byte in _PRINTABLE} | {
    byte: chr(256 + place) for place, byte in enumerate(byte for byte in range(256) if byte not in _PRINTABLE)
}

"""Nano models, which the engines load in milliseconds: what they are made of, whatever file they become.

64 wide, of the Qwen2 architecture. With random weights one babbles; with ``says`` it says a given text.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
    theta: float = 10000.0


@dataclass(frozen=True)
class Tokens:
    """The tokens of a nano model in the order of their ids, and the merges; ``chain`` is what it says."""

    texts: list[str]
    merges: list[str]
    chain: list[int]


def tokens(nano: Nano) -> Tokens:
    """Return a nano model's tokens; the last of them are ``CONTROLS``."""
    pieces = [] if nano.says is None else cut(nano.says)
    base, merges = byte_pairs()
    own = [spelled for piece in pieces if (spelled := spell(piece)) not in base]
    texts = base + own + list(CONTROLS)  # each once: llama.cpp aborts on twins
    ends = nano.ends if nano.ends in CONTROLS else spell(nano.ends.encode())
    chain = [texts.index(spelled) for spelled in (spell(b"\n"), *map(spell, pieces), ends)]
    return Tokens(texts, merges, chain)


def weights(nano: Nano, vocabulary: int, chain: Sequence[int]) -> dict[str, Any]:
    """Return random weights by llama.cpp's names; with ``says``, the head leads along ``chain``."""
    import numpy as np  # not at the top: every test's conftest imports this module

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

"""Programs that nobody writes: mutated and oversized OCaml, made from a seed, so that each can be made again."""

import random
import re
from collections.abc import Callable, Sequence

MOST_DEEP = 10_000
LONG = 1_000_000  # characters of an identifier, a string or a comment

_TOKEN = re.compile(rb"\s+|[A-Za-z_][\w']*|\d[\w.]*|\"(?:[^\"\\]|\\.)*\"|.", re.DOTALL)
_ODD_BYTES = (
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\r",
    b"\x1a",
    b"\x0c",
    b"\xe2\x80\xa8",
)
_ODD_TOKENS = (
    b"(*", b"*)", b'"', b"'", b"{|", b"|}", b"{a|", b"\\", b"#", b";;", b"let", b"end", b"begin", b"(", b")", b"[|",
    b"99999999999999999999", b"0x", b"1e999", b"4611686018427387904", b"%", b"[%%x]", b"[@@@a]", b"'\\999'", b"~x:", b"?", b"`A",
    b"\n# 1 \"\"\n", b"\n# 0 \"/etc/passwd\"\n", b"\n# 4611686018427387904 \"a.ml\"\n", b"\n#use \"a\";;\n", b"\n# 3 \"a\\\"b\n",
)  # fmt: skip
_NESTED: dict[str, tuple[str, str, str]] = {
    "parentheses": ("(", "1", ")"),
    "lists": ("[", "1", "]"),
    "arrays": ("[|", "1", "|]"),
    "begins": ("begin ", "1", " end"),
    "lets": ("let x = 1 in ", "x", ""),
    "matches": ("match 1 with _ -> ", "1", ""),
    "functions": ("fun x -> ", "1", ""),
    "conditions": ("if true then 1 else ", "1", ""),
    "tuples": ("(1, ", "1", ")"),
    "modules": ("let module M = struct let x = ", "1", " end in 1"),
    "applications": ("f (", "1", ")"),
    "sums": ("1 + ", "1", ""),
    "negations": ("- ", "1", ""),
    "conses": ("1 :: ", "[]", ""),
    "sequences": ("(); ", "1", ""),
    "lazies": ("lazy (", "1", ")"),
    "constraints": ("((", "1", " : int))"),
    "comments": ("(* ", "", " *)"),
    "unclosed parentheses": ("(", "1", ""),
    "unclosed comments": ("(* ", "", ""),
    "closed too often": ("", "1", ")"),
}


def large_cases() -> dict[str, bytes]:
    """Programs of great depth or length, by name."""
    found = {
        f"{MOST_DEEP} {name}": f"let x = {opens * MOST_DEEP}{inner}{closes * MOST_DEEP}\n".encode()
        for name, (opens, inner, closes) in _NESTED.items()
    }
    patterns = "(Some " * MOST_DEEP + "_" + ")" * MOST_DEEP
    found |= {
        "deep pattern": f"let f {patterns} = 1".encode(),
        "deep type": ("type t = " + "(" * MOST_DEEP + "int" + ")" * MOST_DEEP).encode(),
        "deep type application": ("type t = int" + " list" * MOST_DEEP).encode(),
        "deep arrow": ("type t = " + "int -> " * MOST_DEEP + "int").encode(),
        "long identifier": b"let " + b"x" * LONG + b" = 1",
        "long unknown identifier": b"let y = " + b"x" * LONG,
        "long constructor": b"type t = " + b"X" * LONG,
        "long string": b'let s = "' + b"s" * LONG + b'"',
        "long quoted string": b"let s = {|" + b"s" * LONG + b"|}",
        "long comment": b"(* " + b"c" * LONG + b" *) let x = 1",
        "long number": b"let x = " + b"9" * LONG,
        "long float": b"let x = 0." + b"1" * LONG,
        "long line directive": b"# 1 \"" + b"f" * LONG + b"\"\nlet x = 1 + true",
        "long operator": b"let x = 1 " + b"+" * LONG + b" 2",
        "long label": b"let f ~" + b"l" * LONG + b" = 1",
        "long unterminated string": b'let s = "' + b"s" * LONG,
        "long unterminated comment": b"(* " + b"c" * LONG,
        "many lines": b"\n" * LONG + b"let x = 1 + true",
        "many items": b"".join(b"let x%d = %d\n" % (n, n) for n in range(MOST_DEEP)),
        "many constructors": b"type t = " + b" | ".join(b"C%d" % n for n in range(MOST_DEEP)),
        "many errors": b"let x = 1 + true\n" * MOST_DEEP,
        "many fields": b"type t = {" + b"; ".join(b"f%d : int" % n for n in range(MOST_DEEP // 2)) + b"}",
        "wide tuple": b"let t = (" + b", ".join([b"1"] * MOST_DEEP) + b")",
        "wide list": b"let t = [" + b"; ".join([b"1"] * MOST_DEEP) + b"]",
        "only NULs": b"\0" * 1000,
        "only a mark": b"\xef\xbb\xbf",
        "a mark first": b"\xef\xbb\xbflet x = 1",
        "carriage returns": b"let x = 1\r\nlet y = true\r\n",
        "NUL in a string": b'let s = "a\0b"',
        "NUL in a name": b"let a\0b = 1",
        "Latin-1": b"let \xe9t\xe9 = 1",
        "half a character": b'let s = "\xc3',
        "surrogate": b'let s = "\xed\xa0\x80"',
        "surrogate escape": b'let s = "\\u{D800}"',
        "no character": b'let s = "\\u{110000}"',
        "nothing": b"",
        "all bytes": bytes(range(256)),
    }  # fmt: skip
    return found


def mutated(seed: int, sources: Sequence[bytes]) -> bytes:
    """A program made of one of ``sources`` by a few mutations; the same for the same seed and sources."""
    chance = random.Random(seed)
    source = chance.choice(sources)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        source = chance.choice(_MUTATIONS)(chance, source)
    return source


def _flip_byte(chance: random.Random, source: bytes) -> bytes:
    at = chance.randrange(len(source) + 1)
    return source[:at] + bytes([chance.randrange(256)]) + source[at + 1 :]


def _cut(chance: random.Random, source: bytes) -> bytes:
    at = chance.randrange(len(source) + 1)
    return source[:at] if chance.random() < 0.5 else source[at:]


def _repeat(chance: random.Random, source: bytes) -> bytes:
    first, last = sorted(chance.randrange(len(source) + 1) for _ in range(2))
    return source[:last] + source[first:last] * chance.choice((1, 2, 20)) + source[last:]


def _insert_bytes(chance: random.Random, source: bytes) -> bytes:
    at = chance.randrange(len(source) + 1)
    return source[:at] + chance.choice(_ODD_BYTES) * chance.choice((1, 1, 50)) + source[at:]


def _tokens(
    change: Callable[[random.Random, list[bytes], int], None],
) -> Callable[[random.Random, bytes], bytes]:
    def apply(chance: random.Random, source: bytes) -> bytes:
        tokens = _TOKEN.findall(source)
        if tokens:
            change(chance, tokens, chance.randrange(len(tokens)))
        return b"".join(tokens)

    return apply


def _delete_token(chance: random.Random, tokens: list[bytes], at: int) -> None:
    del tokens[at : at + chance.choice((1, 1, 2, 10))]


def _double_token(chance: random.Random, tokens: list[bytes], at: int) -> None:
    tokens[at:at] = [tokens[at]] * chance.choice((1, 1, 2, 100))


def _swap_tokens(chance: random.Random, tokens: list[bytes], at: int) -> None:
    other = chance.randrange(len(tokens))
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _insert_token(chance: random.Random, tokens: list[bytes], at: int) -> None:
    tokens.insert(at, b" " + chance.choice(_ODD_TOKENS) + b" ")


def _nest(chance: random.Random, tokens: list[bytes], at: int) -> None:
    opens, _, closes = chance.choice(list(_NESTED.values()))
    depth = chance.choice((2, 30, 300))
    tokens[at] = (
        opens.encode() * depth + tokens[at] + closes.encode() * chance.choice((depth, depth, depth - 1))
    )


def _lengthen(chance: random.Random, tokens: list[bytes], at: int) -> None:
    tokens[at] *= chance.choice((3, 100, 5000))


_MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flip_byte,
    _cut,
    _repeat,
    _insert_bytes,
    *map(_tokens, (_delete_token, _double_token, _swap_tokens, _insert_token, _nest, _lengthen)),
)

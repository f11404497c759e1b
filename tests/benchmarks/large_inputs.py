"""How reading grows with the length of hostile text: one JSON line a case, with the ratio for 8 times the text.

A ratio near 8 is linear, near 64 quadratic. ``python -P tests/benchmarks/large_inputs.py``
"""

import json
import time
from collections.abc import Callable

from app.extract import extract
from ocaml.diagnostics.messages import parse, parse_runtime
from ocaml.lexing import lex
from ocaml.problem import Problem, parse_problem

HEADER = "`let f (x : int) : int`\n```ocaml\n"
PROBLEM = Problem("p", "Add.")
CASES: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "lex": (lex, ['(* " ', "(*", '"', "{a|", "'", "(* ok *)", "\\"]),
    "problem": (
        lambda text: parse_problem(HEADER + text, id="p"),
        [
            "assert (f 1 = 2)\n",
            "let t = 1\nassert (f t = 2)\n",
            ">>> f 1\n2\n",
            "`f 1` ",
            "Input: ",
            "| 1 | 2 |\n",
            "f (",
        ],
    ),
    "extract": (
        lambda text: extract(text, PROBLEM),
        [
            "let add a b = a\n",
            "```ocaml\nlet x = 1\n```\n",
            "let x = (",
            "a ",
            "# let x = 1;;\n- : int\n",
            '"',
        ],
    ),
    "messages": (
        lambda text: (parse(text), parse_runtime(text)),
        [
            'File "x.ml", line 1, characters 0-1:\n',
            'Fatal error: exception Failure("x")\n',
            "1 | let x = 1\n",
            "# ",
        ],
    ),
}
SHORT = 16_000  # characters


def seconds(read: Callable[[str], object], text: str) -> float:
    """CPU seconds of one reading."""
    began = time.process_time()
    read(text)
    return time.process_time() - began


def main() -> None:
    """Print the ratios."""
    for name, (read, pieces) in CASES.items():
        for piece in pieces:
            short = piece * (SHORT // len(piece))
            ratio = seconds(read, short * 8) / max(seconds(read, short), 1e-4)
            print(json.dumps({"reads": name, "piece": piece, "ratio": round(ratio, 1)}), flush=True)


if __name__ == "__main__":
    main()

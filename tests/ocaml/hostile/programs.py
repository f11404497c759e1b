"""The hostile programs beside this file, and what each may earn of the small problem it is graded by.

A program begins with a comment that says what it tries, at which stages it may stop (``stages``) and how
many assertions hold (``earns``: a number, or a range such as ``0-5``); ``problem`` names one of ``PROBLEMS``.
``@NAME@`` in a program stands for something that is known when it is judged: see ``fill``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ocaml.problem import Signature
from ocaml.verdict import Stage

FOLDER = Path(__file__).parent
_HEADER = re.compile(
    r"\(\*(?P<what>.*?)(?:\n\s*problem: (?P<problem>\w+))?\n\s*stages: (?P<stages>[a-z ]+)\n\s*earns: "
    r"(?P<least>\d+)(?:-(?P<most>\d+))?\s*\*\)\n",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Task:
    """A small problem: what is asked for, its tests, how many they are, and an honest answer."""

    asked: Signature
    tests: str
    total: int
    honest: str


@dataclass(frozen=True, slots=True)
class Program:
    """A hostile program, before ``@NAME@`` is filled in."""

    name: str
    text: str
    what: str
    task: Task
    stages: frozenset[Stage]
    least: int
    most: int

    def fill(self, known: Mapping[str, str]) -> str:
        """The program with ``@NAME@`` replaced: HOME, CWD, PID, DECOY, PORT, SLEEP (seconds), MARK."""
        return re.sub(r"@([A-Z]+)@", lambda found: known[found[1]], self.text)


def _task(name: str, of_type: str, honest: str, *claims: str) -> Task:
    tests = "".join(f"{claim}\n" for claim in claims)
    total = sum(claim.startswith("let ()") for claim in claims)
    return Task(Signature(name, f"val {name} : {of_type}", of_type), tests, total, honest)


PROBLEMS = {
    "double": _task(
        "double",
        "int -> int",
        "let double x = x + x",
        "let () = assert (double 1 = 2)",
        "let () = assert (double 21 = 42)",
        "let () = assert (double (-3) = -6)",
        # The weaker kind: these are decided where the answer runs.
        "let () = assert (try abs (double 5 - 10) < 1 with Not_found -> false)",
        "let () = List.iter (fun n -> assert (double n = 2 * n)) [0; 7; 100]",
    ),
    "mostly_zero": _task(
        "zero",
        "int -> int",
        "let zero n = if n = 7 then 1 else 0",
        *(f"let () = assert (zero {n} = {int(n == 7)})" for n in range(1, 8)),
    ),
    "lookup": _task(
        "lookup",
        "int -> int",
        "let lookup n = if n = 1 then 10 else raise Not_found",
        "let () = assert (lookup 1 = 10)",
        "let () = assert (try ignore (lookup 2); false with Not_found -> true)",
    ),
    "sorted": _task(
        "sorted",
        "int array -> int array",
        "let sorted a = let b = Array.copy a in Array.sort compare b; b",
        "let input = [|3; 1; 2|]",
        "let () = assert (sorted input = [|1; 2; 3|])",
        "let () = assert (input = [|3; 1; 2|])",
        "let () = assert (sorted [|2; 1|] = [|1; 2|])",
    ),
    "kept": _task(
        "kept",
        "int list -> int list",
        "let kept l = l",
        "let () = assert (kept [1; 2] = [1; 2])",
        "let () = assert (kept [] = [])",
        "let () = assert (kept [5] = [5])",
    ),
    "upto": _task(
        "upto",
        "int -> int Seq.t",
        "let upto n = List.to_seq (List.init n Fun.id)",
        "let () = assert (List.of_seq (upto 3) = [0; 1; 2])",
        "let () = assert (List.of_seq (upto 1) = [0])",
        "let () = assert (List.of_seq (upto 2) = [0; 1])",
    ),
    "later": _task(
        "later",
        "int -> int Lazy.t",
        "let later n = lazy (2 * n)",
        "let () = assert (Lazy.force (later 2) = 4)",
        "let () = assert (Lazy.force (later 3) = 6)",
    ),
}


def programs() -> list[Program]:
    """Read all programs, by name."""
    return [_program(path) for path in sorted(FOLDER.glob("*.ml"))]


def _program(path: Path) -> Program:
    text = path.read_text(encoding="utf-8")
    header = _HEADER.match(text)
    assert header is not None, f"{path} does not begin with what it tries, its stages and what it earns"
    return Program(
        path.stem,
        text,
        " ".join(header["what"].split()),
        PROBLEMS[header["problem"] or "double"],
        frozenset(Stage[word.upper()] for word in header["stages"].split()),
        int(header["least"]),
        int(header["most"] or header["least"]),
    )

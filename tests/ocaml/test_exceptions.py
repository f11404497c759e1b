"""What the runtime says of uncaught exceptions, in every form, and by the one installed here."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ocaml.diagnostics import Kind, Span
from ocaml.diagnostics.messages import parse_runtime
from ocaml.toolchain import Toolchain, environment


def place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"start": None, "end": None}
    return {"start": [span.start.line, span.start.column], "end": [span.end.line, span.end.column]}


UNCAUGHT = [
    ("Fatal error: exception Stack_overflow", Kind.STACK_OVERFLOW, "Stack_overflow", None),
    ("Stack overflow during evaluation (looping recursion?).", Kind.STACK_OVERFLOW, "Stack_overflow", None),
    ("# Stack overflow during evaluation (looping recursion?).", Kind.STACK_OVERFLOW, "Stack_overflow", None),
    ("Fatal error: exception Out_of_memory", Kind.OUT_OF_MEMORY, "Out_of_memory", None),
    ("Out of memory during evaluation.", Kind.OUT_OF_MEMORY, "Out_of_memory", None),
    ("Fatal error: out of memory.", Kind.OUT_OF_MEMORY, "Out_of_memory", None),
    ("Fatal error: Not enough heap memory to reserve minor heaps", Kind.OUT_OF_MEMORY, "Out_of_memory", None),
    ('Fatal error: exception Assert_failure("a.ml", 3, 2)', Kind.ASSERTION, "Assert_failure", [3, 2]),
    ('Exception: Assert_failure ("//toplevel//", 1, 0).', Kind.ASSERTION, "Assert_failure", [1, 0]),
    ('Exception:\nAssert_failure\n ("./a/long/name.ml", 12, 4).', Kind.ASSERTION, "Assert_failure", [12, 4]),
    (
        'Fatal error: exception File "a.ml", line 2, characters 9-14: Pattern matching failed',
        Kind.EXCEPTION,
        "Match_failure",
        [2, 9],
    ),
    (
        'Fatal error: exception File "a.ml", line 2, characters 9-15: Undefined recursive module',
        Kind.EXCEPTION,
        "Undefined_recursive_module",
        [2, 9],
    ),
    ("Fatal error: exception Stdlib.Exit", Kind.EXCEPTION, "Exit", None),
    ('some outputFatal error: exception Failure("x")', Kind.EXCEPTION, "Failure", None),
    ('some outputException: Failure "x".\n', Kind.EXCEPTION, "Failure", None),
    ("Fatal error: unknown C primitive `unix_fork'", Kind.OTHER, None, None),
]


@pytest.mark.parametrize(("text", "kind", "name", "start"), UNCAUGHT)
def test_every_form_of_an_uncaught_exception_is_known(
    text: str, kind: Kind, name: str | None, start: Any
) -> None:
    [error] = parse_runtime(text)
    assert (error.kind, error.name, place(error.span)["start"]) == (kind, name, start)


MESSAGES = [
    ('Fatal error: exception Failure("boom")', 'Failure "boom"'),
    ('Exception: Failure "boom".', 'Failure "boom"'),
    ('Fatal error: exception Failure("two\nlines, "q", here")\n', 'Failure "two\nlines, "q", here"'),
    ('Fatal error: exception Failure("a, b")', 'Failure "a, b"'),
    ('Fatal error: exception M.Bad(3, "why")', 'M.Bad (3, "why")'),
    ("Fatal error: exception M.E(_)", "M.E _"),
    ('Fatal error: exception Stdlib.Sys_error("x: No such file")', 'Sys_error "x: No such file"'),
    ('Fatal error: exception Unix.Unix_error(Unix.EPERM, "f", "")', 'Unix.Unix_error (Unix.EPERM, "f", "")'),
    ('Exception: Fun.Finally_raised: Failure("fin")', 'Fun.Finally_raised: Failure("fin")'),
    ('Fatal error: exception my\nown\n(Program not linked with -g, cannot print)', "my\nown"),
    ("Exception:\nLong\n ({name = \"a  b\";\n   l = [1; 2]}).\nnext", 'Long ({name = "a  b"; l = [1; 2]})'),
    ("Exception: Foo.\nval y : int = 4", "Foo"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), MESSAGES)
def test_an_exception_reads_as_ocaml_writes_values(text: str, wanted: str) -> None:
    assert parse_runtime(text)[0].message == f"Uncaught exception: {wanted}"


def test_the_module_of_the_users_own_file_is_left_out() -> None:
    text = 'Fatal error: exception Answer.M.Bad(3, "why")'
    assert parse_runtime(text, {"answer.ml": ""})[0].message == 'Uncaught exception: M.Bad (3, "why")'


def test_an_exception_within_the_handler_is_told_too() -> None:
    text = (
        "Fatal error: exception A7.M.E(3)\n"
        'Raised at A7 in file "a7.ml", line 3, characters 9-22\n'
        'Fatal error in uncaught exception handler: exception Failure("handler")\n'
        'Raised at Stdlib.failwith in file "stdlib.ml", line 29, characters 17-33\n'
    )
    first, second = parse_runtime(text)
    assert (first.name, place(first.span)["start"]) == ("E", [3, 9])
    assert second.message == 'In the handler of uncaught exceptions: Uncaught exception: Failure "handler"'
    assert second.span is None


NOWHERE = "Raised by primitive operation at unknown location"
LIBRARY = 'Raised at Stdlib__List.hd in file "list.ml", line 1, characters 1-2'
FRAMES = [
    ('Raised at X.f in file "x.ml" (inlined), line 2, characters 4-9', [2, 4], [2, 9]),
    ('Raised at f in file "./x.ml", lines 2-3, characters 4-9', [2, 4], [3, 9]),
    (f'{NOWHERE}\nCalled from <unknown> in file "./x.ml", line 2, characters 1-2', [2, 1], [2, 2]),
    ('\nRaised at file "x.ml", line 2, characters 4-9', [2, 4], [2, 9]),
    ("(Program not linked with -g, cannot print stack backtrace)", None, None),
    (f'{LIBRARY}\nCalled from X.( + ) in file "x.ml", line 3, characters 0-5', [3, 0], [3, 5]),
    (LIBRARY, None, None),
    ('Called from Topeval.load_lambda in file "topeval.ml", line 93, characters 4-14', None, None),
]  # fmt: skip


@pytest.mark.parametrize(("frames", "start", "end"), FRAMES)
def test_every_form_of_a_backtrace_is_known(frames: str, start: Any, end: Any) -> None:
    [error] = parse_runtime(f"Fatal error: exception Not_found\n{frames}\n")
    assert place(error.span) == {"start": start, "end": end}
    assert error.message == "Uncaught exception: Not_found"


def test_a_file_of_the_users_named_like_a_library_is_the_users() -> None:
    text = 'Fatal error: exception Exit\nRaised at Stdlib.f in file "stdlib.ml", line 1, characters 8-9\n'
    assert parse_runtime(text)[0].span is None
    assert parse_runtime(text, {"stdlib.ml": "let f = raise Exit"})[0].span is not None


def test_before_5_2_a_frame_counts_on_over_line_ends() -> None:
    text = 'Fatal error: exception Exit\nRaised at B in file "b.ml", line 5, characters 2-40\n'
    source = "\n\n\n\n  assert (List.length [1] =\n          2)\n"
    assert place(parse_runtime(text, {"b.ml": source})[0].span) == {"start": [5, 2], "end": [6, 12]}


PROGRAMS = [
    ("let rec f n = 1 + f (n + 1)\nlet () = print_int (f 0)", Kind.STACK_OVERFLOW, "Stack_overflow"),
    ("let () = ignore (Array.make (1 lsl 40) 0)", Kind.OUT_OF_MEMORY, "Out_of_memory"),
    ('let () = prerr_string "é open line"\nlet () =\n  assert (1 = 2)', Kind.ASSERTION, "Assert_failure"),
    ('let () = invalid_arg "two\\nlines"', Kind.EXCEPTION, "Invalid_argument"),
    ("exception Odd of int * string\nlet () = raise (Odd (3, \"é\"))", Kind.EXCEPTION, "Odd"),
    ("let () = at_exit (fun () -> failwith \"late\")", Kind.EXCEPTION, "Failure"),
    ("let f = function 0 -> 1 [@@warning \"-8\"]\nlet () = ignore (f 1)", Kind.EXCEPTION, "Match_failure"),
    ("let () = Printexc.record_backtrace true\nlet () = ignore (List.hd [])", Kind.EXCEPTION, "Failure"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "kind", "name"), PROGRAMS)
@pytest.mark.parametrize("how", ["script", "program"])
def test_the_installed_runtime_is_understood(
    source: str, kind: Kind, name: str, how: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tmp_path / "p.ml").write_text(source, "utf-8")
    command: list[str | Path] = [toolchain.ocaml, "p.ml"]
    if how == "program":
        compiler = [toolchain.ocamlc, "-g", "-o", "p.byte", "p.ml"]
        subprocess.run(compiler, cwd=tmp_path, env=environment(toolchain), check=True)
        command = [toolchain.ocamlc.parent / "ocamlrun", "p.byte"]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(toolchain),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    [error] = parse_runtime(ended.stderr.decode(errors="replace"), {"p.ml": source})
    assert (ended.returncode, error.kind, error.name) == (2, kind, name)

"""What a harness tells is heard, and nothing else; claims go on behind one that ends the process."""

import os
import sys
import time
from pathlib import Path

import pytest

from ocaml.compiler import Workbench
from ocaml.grading import outcomes
from ocaml.grading.outcomes import Attempted, Progress, Result, attempt_program, run_claims
from ocaml.sandbox import MIB, Execution, Limits
from ocaml.toolchain import Toolchain
from ocaml.verdict import Limit

LIMITS = Limits(seconds=4, memory_bytes=256 * MIB)
HARNESS = Path(outcomes.__file__).parent / "harness"


def told(*lines: str, nonce: str = "N") -> Progress:
    progress = Progress("N")
    progress.feed("".join(f"{nonce} {line}\n" for line in lines).encode())
    return progress


@pytest.mark.parametrize(
    ("lines", "results"),
    [
        (["begin 0", "value 0 0.5 i1 i2"], {0: Result(("i1", "i2"), seconds=0.5)}),
        (["begin 0", "raised 0 0.1 4e6f"], {0: Result(raised="No", seconds=0.1)}),
        (["begin 0", "raised 0 0.1 4e6"], {0: Result(raised="an exception", seconds=0.1)}),
        (["begin 0", "limit 0 0.1 memory"], {0: Result(limit=Limit.MEMORY, seconds=0.1)}),
        (["value 0 0.1 i1", "value 0 0.1 i2"], {0: Result(("i1",), seconds=0.1)}),
        (["value 0 nothing i1"], {0: Result(("i1",))}),
        (["value 0 -1 i1"], {0: Result(("i1",))}),
        (["value", "value x 1 i1", "value -1 1 i1", "value ² 1 i1", "limit 0 1 time", "", "x 0 1"], {}),
        ([f"value {'9' * 5000} 1 i1"], {}),
    ],
)
def test_lines_are_read(lines: list[str], results: dict[int, Result]) -> None:
    assert told(*lines).results == results


@pytest.mark.parametrize("nonce", ["", "M", "NN", "n", " N", "N\t"])
def test_lines_without_the_nonce_are_nothing(nonce: str) -> None:
    progress = told("begin 0", "value 0 0.1 i1", "done", nonce=nonce)
    assert (progress.results, progress.begun, progress.done) == ({}, None, False)


def test_lines_come_in_pieces() -> None:
    progress = Progress("N")
    for byte in b"N begin 3\nN value 3 0.1 i1\nN done":
        progress.feed(bytes([byte]))
    assert (progress.begun, set(progress.results), progress.done) == (3, {3}, False)
    progress.feed(b"\n")
    assert progress.done


def test_bytes_that_are_no_text_are_nothing() -> None:
    progress = Progress("N")
    progress.feed(b"\xff\xfe\x00 begin 1\nN \xff begin\nN begin 2\n")
    assert progress.begun == 2


def test_a_long_result_costs_no_more_than_its_length() -> None:
    progress = Progress("N")
    started = time.monotonic()
    progress.feed(b"N value 0 0.1")
    for _ in range(400):
        progress.feed(b" i1" * 10_000)
    progress.feed(b"\n")
    assert len(progress.results[0].tokens or ()) == 4_000_000
    assert time.monotonic() - started < 10


def test_a_claim_is_stuck_when_its_time_is_over() -> None:
    progress = Progress("N", claim_seconds=0.05)
    assert not progress.stuck()
    progress.feed(b"N begin 0\n")
    assert not progress.stuck()
    time.sleep(0.06)
    assert progress.stuck()
    progress.feed(b"N value 0 0.1 i1\nN begin 1\n")
    assert not progress.stuck()


async def test_claims_go_on_behind_one_that_ends_the_process() -> None:
    asked: list[int] = []
    ends = {
        0: ["begin 0", "value 0 0.1 i1", "begin 1"],
        2: ["begin 2"],
        3: ["begin 3", "value 3 0.1 i1", "done"],
    }

    async def attempt(first: int) -> Attempted:
        asked.append(first)
        execution = Execution(-9, b"out", b"", False, Limit.MEMORY if first == 2 else None, 0.1)
        return Attempted(execution, "".join(f"N {line}\n" for line in ends[first]).encode(), "N")

    ran = await run_claims(attempt, 4, LIMITS)
    assert asked == [0, 2, 3]
    assert ran.results[1] == Result(raised="the program ended here", seconds=0.1)
    assert ran.results[2].limit is Limit.MEMORY
    assert ran.results[3].tokens == ("i1",)
    assert (ran.started, ran.limit, ran.stdout) == (True, Limit.MEMORY, "outoutout")


async def test_a_process_that_begins_nothing_has_not_started() -> None:
    async def attempt(first: int) -> Attempted:
        return Attempted(Execution(2, b"", b"", False, None, 0.1), b"M begin 0\n", "N")

    ran = await run_claims(attempt, 4, LIMITS)
    assert (ran.started, ran.results) == (False, {})


async def test_a_process_that_begins_again_what_is_over_does_not_go_on_for_ever() -> None:
    async def attempt(first: int) -> Attempted:
        return Attempted(Execution(0, b"", b"", False, None, 0.0), b"N begin 0\n", "N")

    assert set((await run_claims(attempt, 4, LIMITS)).results) == {0}


# The harness itself, under answers that do all they can within the type system.

BEGINNING = "let f x = x + 1\n"
ATTACKS = {
    "honest": "",
    "writes on every descriptor": """
let () = for n = 0 to 255 do
  try
    let out = open_out_gen [ Open_wronly ] 0 (Printf.sprintf "/dev/fd/%d" n) in
    output_string out "N value 0 0.1 i9\\nvalue 0 0.1 i9\\n"; close_out out
  with Sys_error _ -> () done""",
    "closes the streams": "let () = close_out stdout; close_out stderr; close_in stdin",
    "closes the streams when called": "let f x = close_out stdout; close_in_noerr stdin; x + 1",
    "reads standard input": "let () = assert (try ignore (input_char stdin); false with End_of_file -> true)",
    "flushes all": "let () = for _ = 1 to 100 do flush_all () done",
    "changes the arguments": 'let () = Array.fill Sys.argv 0 (Array.length Sys.argv) "x"',
    "moves": 'let () = Sys.mkdir "d" 0o700; Sys.chdir "d"',
    "prints a lot": "let () = print_string (String.make 100_000 'x')",
    "prints when it ends": 'let () = at_exit (fun () -> print_string "bye")',
    "has printers of exceptions that raise": "let () = Printexc.register_printer (fun _ -> raise Not_found)",
    "handles signals": "let () = List.iter (fun s -> try Sys.set_signal s Sys.Signal_ignore with _ -> ()) [ Sys.sigterm; Sys.sigpipe; Sys.sigint ]",
    "has modules of the same names": 'module Sys = struct let time () = failwith "no" end module Printf = struct let sprintf _ = failwith "no" end',
}


async def claims(
    toolchain: Toolchain, folder: Path, answer: str, driver: str, limits: Limits = LIMITS
) -> outcomes.Ran:
    bench = Workbench(toolchain, limits)
    for name in ("ocamler_dump.mli", "ocamler_dump.ml"):
        (folder / name).write_bytes((HARNESS / name).read_bytes())
    (folder / "answer.ml").write_text(answer)
    (folder / "driver.ml").write_text(driver)
    made = await bench.ocamlc(
        folder, "-w", "-a", "-o", "d.byte", "ocamler_dump.mli", "ocamler_dump.ml", "answer.ml", "driver.ml"
    )
    assert made.ok, made.stderr.decode()
    count = driver.count("Ocamler_dump.claim")
    return await run_claims(lambda first: attempt_program(bench, folder / "d.byte", first), count, limits)


def driver(*thunks: str) -> str:
    lines = [
        f"let () = Ocamler_dump.claim {index} (fun () -> Ocamler_dump.repr ({thunk}))"
        for index, thunk in enumerate(thunks)
    ]
    return "\n".join([*lines, "let () = Ocamler_dump.finish ()"])


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_an_answer_changes_nothing_in_what_is_told(
    toolchain: Toolchain, tmp_path: Path, attack: str
) -> None:
    ran = await claims(toolchain, tmp_path, BEGINNING + attack, driver("Answer.f 1", "Answer.f 2"))
    assert [ran.results[index].tokens for index in (0, 1)] == [("i2",), ("i3",)], ran


@pytest.mark.parametrize(
    "loses",
    [
        "raise Not_found",
        "exit 0",
        "at_exit (fun () -> exit 0); exit 1",
        "let rec down x = 1 + down x in down 0",
        "raise Out_of_memory",
        "raise Stack_overflow",
        "Array.length (Array.make Sys.max_array_length 1)",
        "let rec more list = more (Bytes.make 1_000_000 'x' :: list) in more []",
        "while true do () done; 1",
        'while true do print_string "xxxxxxxxxxxxxxxxxxxxxxxx" done; 1',
        "let rec r = 1 :: r in List.length r",
        "Ocamler_dump.exit 3",
        "Gc.finalise (fun _ -> raise Exit) (ref 1); Gc.full_major (); 1",
    ],
)
async def test_a_claim_loses_itself_alone(toolchain: Toolchain, tmp_path: Path, loses: str) -> None:
    limits = Limits(seconds=1, memory_bytes=128 * MIB)
    ran = await claims(
        toolchain, tmp_path, BEGINNING, driver("Answer.f 1", f"({loses})", "Answer.f 2"), limits
    )
    assert [ran.results[index].tokens for index in (0, 1, 2)] == [("i2",), None, ("i3",)], ran


async def test_a_claim_that_is_endless_is_told_while_the_others_have_their_time(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    loop = "while true do () done; 1"
    ran = await claims(
        toolchain, tmp_path, BEGINNING, driver(loop, "Answer.f 1", loop, "Answer.f 2"), Limits(seconds=0.5)
    )
    assert [ran.results[index].limit for index in range(4)] == [Limit.TIME, None, Limit.TIME, None]


async def test_the_harness_starts_once(toolchain: Toolchain, tmp_path: Path) -> None:
    attack = 'let () = Ocamler_dump.start ~first:1 ~nonce:"N" (Ocamler_dump.on_channel stdout)'
    (tmp_path / "order").mkdir()
    ran = await claims(toolchain, tmp_path, BEGINNING + attack, driver("Answer.f 1", "Answer.f 2"))
    assert [ran.results[index].tokens for index in (0, 1)] == [("i2",), ("i3",)]
    assert ran.stdout == ""


async def test_a_harness_that_was_not_started_runs_and_tells_no_one(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    await claims(toolchain, tmp_path, BEGINNING, driver("Answer.f 1"))
    bench = Workbench(toolchain, LIMITS)
    ran = await bench.run_bytecode(tmp_path / "d.byte", limits=LIMITS)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, b"", b"")


async def test_the_nonce_is_nowhere_that_an_answer_looks(toolchain: Toolchain, tmp_path: Path) -> None:
    answer = BEGINNING + (
        "let () = Array.iter print_endline Sys.argv\n"
        'let () = List.iter (fun n -> try print_endline (Sys.getenv n) with Not_found -> ()) [ "NONCE"; "OCAMLRUNPARAM"; "TMPDIR" ]\n'
        "let rec show d = Array.iter (fun n -> print_endline n; try show (Filename.concat d n) with Sys_error _ -> ()) (Sys.readdir d)\n"
        'let () = show "."\n'
        "let () = try while true do print_endline (input_line stdin) done with End_of_file -> ()\n"
    )
    bench = Workbench(toolchain, LIMITS)
    await claims(toolchain, tmp_path, answer, driver("Answer.f 1"))
    attempted = await attempt_program(bench, tmp_path / "d.byte", 0)
    assert attempted.told.startswith(attempted.nonce.encode())
    assert attempted.nonce.encode() not in attempted.execution.stdout
    assert len(attempted.nonce) >= 32


@pytest.mark.skipif(
    sys.platform != "linux" or not os.path.exists("/proc/self/mem"), reason="there is no such file"
)
async def test_an_answer_does_not_read_its_own_memory(toolchain: Toolchain, tmp_path: Path) -> None:
    answer = (
        BEGINNING
        + 'let () = try ignore (open_in_bin "/proc/self/mem"); print_string "open" with Sys_error _ -> ()'
    )
    assert (await claims(toolchain, tmp_path, answer, driver("Answer.f 1"))).stdout == ""

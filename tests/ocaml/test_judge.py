"""Checking and running files with the real compiler."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from ocaml.diagnostics import Kind, Position
from ocaml.judge import PlainJudge, Source
from ocaml.verdict import Limit, Stage


def source(text: str, name: str = "a.ml") -> Source:
    return Source(name, text.encode())


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("let x = 1", Stage.PASS),
        ("", Stage.PASS),
        ("let x =", Stage.SYNTAX),
        ("let x = 'ab", Stage.SYNTAX),
        ("let x : int = true", Stage.TYPE),
        ("let x = y", Stage.TYPE),
        ("let r = ref []", Stage.TYPE),
        ("let f = function Some _ -> 1", Stage.PASS),
    ],
)
async def test_a_file_is_checked_to_its_stage(judge: PlainJudge, text: str, stage: Stage) -> None:
    (checked,) = await judge.check([source(text)])
    assert checked.stage is stage
    assert checked.ok == (not any(found.is_error for found in checked.diagnostics))


async def test_a_signature_comes_with_what_type_checks(judge: PlainJudge) -> None:
    (checked,) = await judge.check([source("let twice x = 2 * x")])
    assert checked.signature == "val twice : int -> int\n"


async def test_columns_are_characters(judge: PlainJudge) -> None:
    (checked,) = await judge.check([source('let s = "éé" ^ 1')])
    span = checked.diagnostics[0].span
    assert span is not None
    assert (span.start, span.end) == (Position(1, 15), Position(1, 16))


@pytest.mark.parametrize("name", ["-dash.ml", "with space.ml", "é.ml", "answer.txt", "no_ending", "2.ml"])
async def test_a_file_may_be_called_anything(judge: PlainJudge, name: str) -> None:
    (checked,) = await judge.check([source("let x = 1 + true", name)])
    assert checked.stage is Stage.TYPE
    assert checked.diagnostics[-1].span is not None


async def test_files_are_checked_in_the_order_of_their_dependencies(judge: PlainJudge) -> None:
    given = [source("let y = A.x + 1", "b.ml"), source("let x = 1"), source("val x : int", "a.mli")]
    assert [checked.stage for checked in await judge.check(given)] == [Stage.PASS] * 3


async def test_what_depends_on_a_refused_file_says_so(judge: PlainJudge) -> None:
    refused, waits = await judge.check([source("let x ="), source("let y = A.x", "b.ml")])
    assert refused.stage is Stage.SYNTAX
    assert "depends on a.ml" in waits.diagnostics[0].message


async def test_a_file_that_its_interface_belies_is_refused(judge: PlainJudge) -> None:
    interface, implementation = await judge.check([source("val x : string", "a.mli"), source("let x = 1")])
    assert interface.ok
    assert implementation.stage is Stage.TYPE


async def test_files_that_need_each_other_are_refused_not_lost(judge: PlainJudge) -> None:
    results = await judge.check([source("let x = B.y"), source("let y = A.x", "b.ml")])
    assert not any(checked.ok for checked in results)


async def test_warnings_are_chosen_by_the_compilers_own_flags(judge: PlainJudge) -> None:
    text = "let f x = 1"
    assert (await judge.check([source(text)]))[0].diagnostics == ()
    (warned,) = await judge.check([source(text)], warnings=["-w", "+27"])
    assert [found.code for found in warned.diagnostics] == [27]
    assert warned.ok
    (refused,) = await judge.check([source(text)], warnings=["-w", "+27", "-warn-error", "+27"])
    assert not refused.ok


async def test_a_type_that_keeps_the_compiler_busy_is_a_limit(judge: PlainJudge) -> None:
    bomb = "let f0 x = (x, x)\n" + "\n".join(f"let f{n} x = f{n - 1} (f{n - 1} x)" for n in range(1, 8))
    (checked,) = await judge.check([source(bomb)])
    assert checked.limit in {Limit.TIME, Limit.MEMORY}
    assert checked.stage is Stage.TYPE


@pytest.mark.parametrize(
    ("text", "stage", "kind"),
    [
        ("print_string", Stage.PASS, None),
        ('let () = failwith "no"', Stage.RUN, Kind.EXCEPTION),
        ("let () = assert (1 = 2)", Stage.RUN, Kind.ASSERTION),
        ("let () = exit 3", Stage.RUN, Kind.OTHER),
        ("let rec f x = 1 + f x let () = print_int (f 1)", Stage.RUN, Kind.STACK_OVERFLOW),
        ('let () = ignore (Str.regexp "a")', Stage.LINK, Kind.OTHER),
        ("let () = ignore (Unix.getpid ())", Stage.LINK, Kind.OTHER),
        ("let x = 1 +", Stage.SYNTAX, Kind.SYNTAX),
        ("let x = 1 + true", Stage.TYPE, Kind.TYPE),
        ("(* nothing *)", Stage.EMPTY, Kind.OTHER),
        ("", Stage.EMPTY, Kind.OTHER),
    ],
)
async def test_a_program_is_run_to_its_stage(
    judge: PlainJudge, text: str, stage: Stage, kind: Kind | None
) -> None:
    verdict = await judge.run(source(text))
    assert verdict.stage is stage
    assert [found.kind for found in verdict.errors] == ([] if kind is None else [kind])


async def test_an_exception_is_shown_where_it_was_raised(judge: PlainJudge) -> None:
    verdict = await judge.run(source("let f x =\n  List.hd x\n\nlet () = print_int (f [])"))
    assert verdict.errors[0].kind is Kind.EXCEPTION
    assert "hd" in verdict.errors[0].message


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("let () = while true do () done", Limit.TIME),
        ("let () = while true do print_string (String.make 1000 'x') done", Limit.OUTPUT),
        ("let l = ref [] let () = while true do l := Bytes.make 100000 'x' :: !l done", Limit.MEMORY),
        ("let () = ignore (Bytes.create 1_000_000_000_000)", Limit.MEMORY),
    ],
)
async def test_limits_hold_while_a_program_runs(judge: PlainJudge, text: str, limit: Limit) -> None:
    verdict = await judge.run(source(text))
    assert (verdict.stage, verdict.limit) == (Stage.RUN, limit)


async def test_output_that_is_no_text_is_shown_all_the_same(judge: PlainJudge) -> None:
    verdict = await judge.run(source('let () = print_string "a\\255b"'))
    assert verdict.stdout == "a\N{REPLACEMENT CHARACTER}b"


async def test_a_program_reads_the_input_it_is_given(judge: PlainJudge, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("hello\n")
    with (tmp_path / "in").open() as given:
        verdict = await judge.run(source("let () = print_string (read_line ())"), stdin=given.fileno())
    assert verdict.stdout == "hello"


async def test_a_program_finds_an_empty_folder(judge: PlainJudge) -> None:
    text = 'let () = Array.iter print_endline (Sys.readdir ".")'
    assert (await judge.run(source(text))).stdout == ""


async def test_a_program_sees_nothing_of_our_environment(
    judge: PlainJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    text = 'let () = print_string (try Sys.getenv "SECRET_KEY" with Not_found -> "nothing")'
    assert (await judge.run(source(text))).stdout == "nothing"


async def test_no_folder_is_left_behind(
    plain_judge: PlainJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None  # read the variable again

    await plain_judge.run(source("let () = exit 1"))
    task = asyncio.create_task(plain_judge.run(source("let () = while true do () done")))
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (parent,) = tmp_path.iterdir()
    assert os.listdir(parent) == [".lock"]  # it goes when the process does

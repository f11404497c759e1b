"""``check``, ``run`` and ``grade`` as they are typed: what they print where, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import app

SCHEMAS = json.loads((Path(app.__file__).parent / "schemas" / "output.schema.json").read_text())
BAD = "let f x =\n  List.lenght [x]\n"


def conforms(shape: str, value: Any) -> None:
    jsonschema.validate(value, {**SCHEMAS, "$ref": f"#/$defs/{shape}"})


class TestCheck:
    def test_a_right_file_is_done(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let x = 1\n")
        ran = ocamler("check", "a.ml")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "✓ a.ml type-checks\n")

    def test_an_error_stands_beside_the_code(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text(BAD)
        ran = ocamler("check", "a.ml")
        assert (ran.returncode, ran.stdout) == (3, "")
        for part in (
            "a.ml:2:3",
            "2 |   List.lenght [x]",
            "^^^^^^^^^^^",
            "Unbound value",
            "Did you mean",
            "1 error",
        ):
            assert part in ran.stderr

    def test_a_warning_alone_is_no_failure(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let f = function Some _ -> 1\n")
        ran = ocamler("check", "a.ml")
        assert ran.returncode == 0
        assert "1 warning" in ran.stderr

    def test_warnings_are_chosen_as_with_the_compiler(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let f x = 1\n")
        assert "27" in ocamler("check", "-w", "+27", "a.ml").stderr
        assert ocamler("check", "-w", "+27", "--warn-error", "+27", "a.ml").returncode == 3

    def test_json_has_the_documented_shape(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text(BAD)
        (tmp_path / "b.ml").write_text("let y = 1\n")
        ran = ocamler("check", "--json", "a.ml", "b.ml")
        found = json.loads(ran.stdout)
        conforms("check", found)
        assert (ran.returncode, found["ok"], [file["path"] for file in found["files"]]) == (
            3,
            False,
            ["a.ml", "b.ml"],
        )
        assert found["files"][0]["diagnostics"][0]["start"] == {"line": 2, "column": 2}
        assert found["files"][1]["signature"] == "val y : int\n"

    def test_the_interface_beside_a_file_counts(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let x = 1\n")
        (tmp_path / "a.mli").write_text("val x : string\n")
        assert ocamler("check", "a.ml").returncode == 3

    def test_files_of_the_same_name_in_two_folders_do_not_meet(self, ocamler: Any, tmp_path: Path) -> None:
        for name, text in (("one", "let x = 1\n"), ("two", "let x = \n")):
            (tmp_path / name).mkdir()
            (tmp_path / name / "a.ml").write_text(text)
        ran = ocamler("check", "--json", "one/a.ml", "two/a.ml")
        assert [file["signature"] is not None for file in json.loads(ran.stdout)["files"]] == [True, False]

    def test_standard_input_is_a_file_too(self, ocamler: Any) -> None:
        assert ocamler("check", "-", stdin="let x = 1").returncode == 0
        assert ocamler("check", "-", stdin="let x = ").returncode == 3

    def test_a_signature_is_printed_when_asked_for(self, ocamler: Any) -> None:
        assert ocamler("check", "--signature", "-", stdin="let x = 1").stdout == "val x : int\n"

    def test_a_source_cannot_drive_the_terminal(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text('let x = "\x1b[2J" + 1\n')
        assert "\x1b" not in ocamler("check", "a.ml").stderr


class TestRun:
    def test_output_goes_where_the_program_sent_it(self, ocamler: Any) -> None:
        ran = ocamler("run", "-", stdin='let () = print_string "out"; prerr_string "err\n"')
        assert (ran.returncode, ran.stdout) == (0, "out")
        assert ran.stderr.startswith("err\n")

    @pytest.mark.parametrize(
        ("program", "code"),
        [
            ("let x = 1", 0),
            ("let x = ", 3),
            ("let x = 1 + true", 3),
            ("let x = Str.regexp", 3),
            ("", 3),
            ('let () = failwith "no"', 4),
            ("let () = exit 7", 4),
            ("let () = while true do () done", 5),
            ("let () = while true do print_string (String.make 999 'x') done", 5),
        ],
    )
    def test_the_exit_code_says_how_far_it_came(self, ocamler: Any, program: str, code: int) -> None:
        assert ocamler("run", "--seconds", "1", "-", stdin=program).returncode == code

    def test_an_exception_stands_beside_the_code(self, ocamler: Any) -> None:
        ran = ocamler("run", "-", stdin='let f () =\n  failwith "no"\n\nlet () = f ()\n')
        assert "Failure" in ran.stderr
        assert "Fatal error" not in ran.stderr

    def test_standard_input_reaches_the_program(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let () = print_string (String.uppercase_ascii (read_line ()))")
        assert ocamler("run", "a.ml", stdin="hello\n").stdout == "HELLO"

    def test_the_memory_limit_can_be_chosen(self, ocamler: Any) -> None:
        program = (
            "let l = List.init 60_000 (fun _ -> Bytes.make 1_000_000 'x') let () = print_int (List.length l)"
        )
        assert ocamler("run", "--memory", "16", "-", stdin=program).returncode == 5

    def test_json_has_the_documented_shape(self, ocamler: Any) -> None:
        found = json.loads(ocamler("run", "--json", "-", stdin='let () = failwith "no"').stdout)
        conforms("grade", found)
        assert found["stage"] == "run"


class TestGrade:
    TESTS = "let () = assert (f 1 = 2)\nlet () = assert (f 2 = 3)\n"

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            ("let f x = x + 1", 0),
            ("let f x = x", 4),
            ("let f x = x ^ 1", 3),
            ("let f x = ", 3),
            ("let rec f x = f x", 5),
        ],
    )
    def test_the_exit_code_is_the_verdict(self, ocamler: Any, tmp_path: Path, answer: str, code: int) -> None:
        (tmp_path / "a.ml").write_text(answer)
        (tmp_path / "t.ml").write_text(self.TESTS)
        assert ocamler("grade", "a.ml", "--tests", "t.ml").returncode == code

    def test_a_failing_assertion_is_shown_with_both_values(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let f x = 2")
        (tmp_path / "t.ml").write_text(self.TESTS)
        told = ocamler("grade", "a.ml", "--tests", "t.ml").stderr
        assert "f 2 = 3" in told
        assert "expected  3" in told
        assert "actual    2" in told

    def test_json_has_the_documented_shape(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_text("let f x = 2")
        (tmp_path / "t.ml").write_text(self.TESTS)
        found = json.loads(ocamler("grade", "a.ml", "--tests", "t.ml", "--json").stdout)
        conforms("grade", found)
        assert (found["stage"], found["passed"], found["total"], found["constant_passed"]) == (
            "tests",
            1,
            2,
            1,
        )

    def test_rows_come_back_in_their_order(self, ocamler: Any) -> None:
        codes = [
            "let f x = x + 1",
            "let rec f x = f x",
            "let f x = x",
            "let f =",
            "let f x = if x = 2 then exit 0 else x + 1",
        ]
        rows = [json.dumps({"id": n, "code": code, "tests": self.TESTS}) for n, code in enumerate(codes)]
        ran = ocamler("grade", "--jsonl", "-", "--workers", "3", stdin="\n".join(rows) + "\n")
        found = [json.loads(line) for line in ran.stdout.splitlines()]
        for verdict in found:
            conforms("grade", verdict)
        assert ran.returncode == 0
        assert [(v["id"], v["stage"], v["passed"], v["limit"]) for v in found] == [
            (0, "pass", 2, None),
            (1, "tests", 0, "time"),
            (2, "tests", 0, None),
            (3, "syntax", 0, None),
            (4, "tests", 1, None),
        ]

    def test_a_row_whose_tests_are_wrong_is_told_and_the_others_are_judged(self, ocamler: Any) -> None:
        rows = [{"id": "bad", "code": "let f x = x", "tests": "let () = assert ("},
                {"id": "good", "code": "let f x = x + 1", "tests": self.TESTS}]  # fmt: skip
        ran = ocamler("grade", "--jsonl", "-", stdin="\n".join(map(json.dumps, rows)))
        bad, good = map(json.loads, ran.stdout.splitlines())
        assert ran.returncode == 2
        conforms("refused", bad)
        assert "do not parse" in bad["error"]
        assert good["stage"] == "pass"

    def test_a_problem_brings_its_signature_and_examples(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "p.md").write_text(
            "Add one.\n\n```ocaml\nlet f (x : int) : int =\n```\n\n```ocaml\nassert (f 1 = 2)\n```\n"
        )
        (tmp_path / "a.ml").write_text("let f x = x + 1")
        assert ocamler("grade", "a.ml", "--problem", "p.md").returncode == 0
        (tmp_path / "a.ml").write_text("let f x = string_of_int x")
        assert ocamler("grade", "a.ml", "--problem", "p.md").returncode == 3

    @pytest.mark.parametrize(
        "row", ["not json", "[1]", '{"id": 1, "code": "let x = 1"}', '{"id": 1, "code": 2, "tests": ""}']
    )
    def test_a_row_that_is_none_is_named_by_its_line(self, ocamler: Any, row: str) -> None:
        ran = ocamler("grade", "--jsonl", "-", stdin=f"\n{row}\n")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "line 2" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1


class TestBadInput:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("check", "nosuch.ml"),
            ("check", "."),
            ("check",),
            ("run", "nosuch.ml"),
            ("run", "."),
            ("grade",),
            ("grade", "a.ml"),
            ("grade", "nosuch.ml", "--tests", "nosuch.ml"),
            ("grade", "--jsonl", "nosuch.jsonl"),
            ("grade", "a.ml", "--jsonl", "b.jsonl"),
            ("models",),
            ("chekc", "a.ml"),
            ("check", "--nosuch", "a.ml"),
        ],
    )
    def test_it_gets_one_sentence_and_code_2(self, ocamler: Any, arguments: tuple[str, ...]) -> None:
        ran = ocamler(*arguments)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert len(ran.stderr.splitlines()) == 1
        assert ran.stderr.startswith("ocamler: ")

    def test_a_mistyped_command_is_guessed(self, ocamler: Any) -> None:
        assert "Did you mean `check`?" in ocamler("chekc").stderr

    def test_without_ocaml_it_says_so_with_code_7(
        self, ocamler: Any, environment: dict[str, str], tmp_path: Path
    ) -> None:
        (tmp_path / "a.ml").write_text("let x = 1")
        ran = ocamler("check", "a.ml", env={**environment, "OCAMLER_OCAML": str(tmp_path / "nowhere")})
        assert ran.returncode == 7
        assert len(ran.stderr.splitlines()) == 1

    @pytest.mark.parametrize("data", [b"\x00\x01\x02", b"let x = \xff", b"\xef\xbb\xbflet x = 1"])
    def test_bytes_that_are_no_text_are_the_compilers_to_judge(
        self, ocamler: Any, tmp_path: Path, data: bytes
    ) -> None:
        (tmp_path / "a.ml").write_bytes(data)
        ran = ocamler("check", "a.ml")
        assert ran.returncode in {0, 3}
        assert "Traceback" not in ran.stderr

    def test_a_file_of_ten_megabytes_and_more_is_refused(self, ocamler: Any, tmp_path: Path) -> None:
        (tmp_path / "a.ml").write_bytes(b"let x = 1\n" * 1_100_000)
        assert "larger than 10 MiB" in ocamler("check", "a.ml").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(ocamler: Any, shell: str) -> None:
    ran = ocamler("completion", shell)
    assert ran.returncode == 0
    assert "_OCAMLER_COMPLETE" in ran.stdout


def test_completion_completes(ocamler: Any, environment: dict[str, str]) -> None:
    asked = {
        **environment,
        "_OCAMLER_COMPLETE": "bash_complete",
        "COMP_WORDS": "ocamler ch",
        "COMP_CWORD": "1",
    }
    assert "check" in ocamler(env=asked).stdout

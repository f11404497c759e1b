"""``ocamler solve`` with real engines on nano models that say what they are made to say."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import app

SCHEMAS = json.loads((Path(app.__file__).parent / "schemas" / "output.schema.json").read_text())
PROBLEM = """Add one to a number.

```ocaml
(** [succ_of x] is one more than [x].
    >>> succ_of 1
    2
    >>> succ_of (-1)
    0
*)
let succ_of (x : int) : int =
```
"""
RIGHT = "let succ_of (x : int) : int = x + 1"
WRONG = "let succ_of (x : int) : int = x + 2"
ILL_TYPED = 'let succ_of (x : int) : int = x + "1"'

Model = Callable[..., Path]


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.md"
    path.write_text(PROBLEM)
    return path


@pytest.fixture
def says(make_nano: Model) -> Callable[[str], Path]:
    """A model that answers with a fenced block of the given code."""
    return lambda code: make_nano(says=f"```ocaml\n{code}\n```")


class TestAnswers:
    def test_a_right_answer_is_printed_alone(self, ocamler: Any, problem: Path, says: Any) -> None:
        ran = ocamler("solve", problem, "--model", says(RIGHT))
        assert (ran.returncode, ran.stdout) == (0, RIGHT + "\n")
        assert "2/2 examples hold" in ran.stderr

    def test_a_wrong_answer_is_marked_and_shown_with_its_failing_example(
        self, ocamler: Any, problem: Path, says: Any
    ) -> None:
        ran = ocamler("solve", problem, "--model", says(WRONG), "--attempts", "1")
        first, rest = ran.stdout.split("\n", 1)
        assert ran.returncode == 4
        assert first == "(* ocamler: NOT ACCEPTED, 0 of 2 assertions hold *)"
        assert rest == WRONG + "\n"
        assert "succ_of 1 = 2" in ran.stderr

    def test_an_ill_typed_answer_is_shown_with_its_error_beside_it(
        self, ocamler: Any, problem: Path, says: Any
    ) -> None:
        ran = ocamler("solve", problem, "--model", says(ILL_TYPED), "--attempts", "1")
        assert ran.returncode == 3
        assert f"2 | {ILL_TYPED}" in ran.stderr  # the mark is line 1 of what is printed

    def test_json_is_one_documented_object(self, ocamler: Any, problem: Path, says: Any) -> None:
        ran = ocamler("solve", problem, "--model", says(WRONG), "--json", "--attempts", "2")
        found = json.loads(ran.stdout)
        jsonschema.validate(found, {**SCHEMAS, "$ref": "#/$defs/solve"})
        assert (found["code"], found["verdict"]["stage"], len(found["attempts"])) == (WRONG, "tests", 2)
        assert [attempt["how"] for attempt in found["attempts"]] == ["greedy", "repair"]
        assert all(attempt["tokens"] > 0 for attempt in found["attempts"])

    def test_an_answer_that_comes_back_is_asked_for_afresh(
        self, ocamler: Any, problem: Path, says: Any
    ) -> None:
        ran = ocamler("solve", problem, "--model", says(WRONG), "--json")
        assert [a["how"] for a in json.loads(ran.stdout)["attempts"]] == ["greedy", "repair", "sample"]

    def test_prose_is_no_answer(self, ocamler: Any, problem: Path, make_nano: Model) -> None:
        model = make_nano(says="I am sorry, I cannot do that.")
        ran = ocamler("solve", problem, "--model", model, "--attempts", "1")
        assert ran.returncode == 3

    def test_a_problem_without_examples_says_that_nothing_was_tested(
        self, ocamler: Any, tmp_path: Path, says: Any
    ) -> None:
        (tmp_path / "p.md").write_text("Add one: `let succ_of (x : int) : int`.\n")
        ran = ocamler("solve", "p.md", "--model", says(WRONG))
        assert ran.returncode == 0
        assert "nothing to test it with" in ran.stderr

    def test_tests_given_beside_the_problem_count(
        self, ocamler: Any, problem: Path, tmp_path: Path, says: Any
    ) -> None:
        (tmp_path / "t.ml").write_text("let () = assert (succ_of 5 = 7)\n")
        ran = ocamler("solve", problem, "--tests", "t.ml", "--model", says(RIGHT), "--attempts", "1")
        assert ran.returncode == 4
        assert "succ_of 5 = 7" in ran.stderr

    def test_the_problem_may_come_from_standard_input(self, ocamler: Any, says: Any) -> None:
        assert ocamler("solve", "-", "--model", says(RIGHT), stdin=PROBLEM).returncode == 0

    def test_verbose_tells_what_is_tried_and_why(self, ocamler: Any, problem: Path, says: Any) -> None:
        told = ocamler("solve", problem, "--model", says(ILL_TYPED), "-v", "--attempts", "2").stderr
        assert "attempt 1 (greedy)" in told
        assert "attempt 2 (repair)" in told
        assert "asking again:" in told

    def test_verbose_tells_what_the_model_needs_and_what_it_took(
        self, ocamler: Any, problem: Path, says: Any
    ) -> None:
        told = ocamler("solve", problem, "--model", says(RIGHT), "-v").stderr
        assert re.search(
            r"^Loading nano-\d+: needs about .+ weights, .+ for 8192 tokens\); .+ are free\.$", told, re.M
        )
        assert re.search(r"^It takes .+, with a context of 8192 tokens\.$", told, re.M)

    def test_messages_that_did_not_fit_into_the_context_are_told(
        self, ocamler: Any, environment: dict[str, str], problem: Path, says: Any
    ) -> None:
        ran = ocamler(
            *("solve", problem, "--model", says(WRONG), "--attempts", "2", "--json"),
            env={**environment, "OCAMLER_CONTEXT": "400"},
        )
        found = json.loads(ran.stdout)
        jsonschema.validate(found, {**SCHEMAS, "$ref": "#/$defs/solve"})
        assert [attempt["dropped_messages"] for attempt in found["attempts"]] == [0, 2]
        assert found["attempts"][1]["dropped_tokens"] > 0
        assert ran.stderr.count("the 2 oldest messages") == 1

    def test_a_server_that_is_not_there_is_one_sentence(self, ocamler: Any, problem: Path) -> None:
        ran = ocamler("solve", problem, "--model", "http://127.0.0.1:9")
        assert (ran.returncode, ran.stdout) == (6, "")
        assert "127.0.0.1:9" in ran.stderr

    def test_a_limit_on_time_ends_with_the_best_so_far(
        self, ocamler: Any, problem: Path, make_nano: Model
    ) -> None:
        ran = ocamler(
            "solve", problem, "--model", make_nano(), "--max-seconds", "1", "--max-tokens", "100000"
        )
        assert ran.returncode == 3
        assert "NOT ACCEPTED" in ran.stdout


class TestOutput:
    def test_a_file_gets_the_code_and_stdout_nothing(
        self, ocamler: Any, problem: Path, tmp_path: Path, says: Any
    ) -> None:
        ran = ocamler("solve", problem, "--model", says(RIGHT), "-o", "answer.ml")
        assert (ran.returncode, ran.stdout) == (0, "")
        assert (tmp_path / "answer.ml").read_text() == RIGHT + "\n"

    @pytest.mark.parametrize("output", [".", "nowhere/answer.ml"])
    def test_a_place_that_takes_no_file_is_told_before_anything_runs(
        self, ocamler: Any, problem: Path, output: str
    ) -> None:
        ran = ocamler("solve", problem, "-o", output)
        assert ran.returncode == 2
        assert len(ran.stderr.splitlines()) == 1

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
    def test_a_full_disk_loses_nothing(self, ocamler: Any, problem: Path, says: Any) -> None:
        ran = ocamler("solve", problem, "--model", says(RIGHT), "-o", "/dev/full")
        assert (ran.returncode, ran.stdout) == (2, RIGHT + "\n")
        assert "no space left on device" in ran.stderr

    def test_a_reader_that_left_loses_nothing(
        self, problem: Path, environment: dict[str, str], home: Path, says: Any
    ) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-P", "-m", "app", "solve", str(problem), "--model", str(says(RIGHT))]
        ran = subprocess.run(
            command, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(writing)
        (kept,) = (home / "kept").iterdir()
        assert ran.returncode == 0
        assert str(kept) in ran.stderr
        assert "Traceback" not in ran.stderr
        assert kept.read_text() == RIGHT + "\n"

    def test_a_closed_stdout_loses_nothing(
        self, problem: Path, environment: dict[str, str], home: Path, says: Any
    ) -> None:
        command = f'"{sys.executable}" -P -m app solve "{problem}" --model "{says(RIGHT)}" >&-'
        ran = subprocess.run(
            command, shell=True, env=environment, stderr=subprocess.PIPE, text=True, check=False
        )
        (kept,) = (home / "kept").iterdir()
        assert kept.read_text() == RIGHT + "\n"
        assert "Traceback" not in ran.stderr


class TestBadProblems:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (b"", "empty"),
            (b"  \n\n", "empty"),
            (b"\x00\x01binary", "text"),
            (b"caf\xe9 is one word", "UTF-8"),
            (b"x" * 10_000_000, "10,000,000 bytes"),
            (b"```ocaml\nlet f (x : int : int =\n```\n", ""),
            (b"```ocaml\nlet f (x : nosuch) : int =\n```\n", "nosuch"),
            (b"```ocaml\nlet f (x : int) : int =\n```\n\n>>> f 1\n2\n\n>>> f 1\n3\n", "f 1"),
        ],
    )
    def test_it_gets_one_sentence_and_code_2(
        self, ocamler: Any, tmp_path: Path, text: bytes, words: str
    ) -> None:
        (tmp_path / "p.md").write_bytes(text)
        ran = ocamler("solve", "p.md", "--model", "nosuch")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert len(ran.stderr.splitlines()) == 1
        assert words in ran.stderr

    @pytest.mark.parametrize("path", ["nosuch.md", "."])
    def test_a_file_that_is_none_too(self, ocamler: Any, path: str) -> None:
        ran = ocamler("solve", path)
        assert ran.returncode == 2
        assert len(ran.stderr.splitlines()) == 1

    def test_an_example_that_cannot_be_true_is_left_out_and_told(
        self, ocamler: Any, tmp_path: Path, says: Any
    ) -> None:
        (tmp_path / "p.md").write_text(PROBLEM.replace("    0\n", "    succ_of true\n"))
        ran = ocamler("solve", "p.md", "--model", says(RIGHT))
        assert ran.returncode == 0
        assert "left out" in ran.stderr
        assert "1/1 example" in ran.stderr


class TestModels:
    def test_a_name_that_nobody_knows(self, ocamler: Any, problem: Path) -> None:
        ran = ocamler("solve", problem, "--model", "qwen2.5-coder-2.5b")
        assert ran.returncode == 6
        assert "qwen2.5-coder" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1

    @pytest.mark.parametrize("data", [b"", b"no model", b"GGUF\x03\x00\x00\x00"])
    def test_a_file_that_is_no_model(self, ocamler: Any, problem: Path, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "m.gguf").write_bytes(data)
        ran = ocamler("solve", problem, "--model", "./m.gguf")
        assert ran.returncode == 6
        assert "m.gguf" in ran.stderr
        assert "Traceback" not in ran.stderr


class TestInterruption:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("delay", [0.05, 0.3, 1.0, 2.0, 3.0])
    def test_at_any_moment_it_ends_with_130_and_leaves_no_child(
        self, problem: Path, environment: dict[str, str], make_nano: Model, delay: float, number: int
    ) -> None:
        endless = make_nano(says="let x = 1 in x +", ends="\n")  # the newline that it began with
        command = [sys.executable, "-P", "-m", "app", "solve", str(problem), "--model", str(endless),
                   "--max-tokens", "100000"]  # fmt: skip
        process = subprocess.Popen(
            command,
            env={**environment, "OCAMLER_CONTEXT": "65536", "MARK": str(problem)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(delay)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
        if delay >= 1:  # earlier, Python itself may still be starting
            assert process.returncode == 130
            assert b"Traceback" not in stderr
        assert children_marked(str(problem)) == []


def children_marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark, a little after the command has gone."""
    import psutil

    left: list[int] = []
    for _ in range(50):
        left = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process.pid)
            except (psutil.Error, OSError):
                continue
        if not left:
            return []
        time.sleep(0.1)
    return left

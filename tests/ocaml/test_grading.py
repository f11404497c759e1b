"""Answers are graded assertion by assertion, and nothing an answer redefines or prints helps it."""

import pytest

from ocaml.diagnostics import Kind
from ocaml.errors import UnsoundTests
from ocaml.judge import PlainJudge
from ocaml.problem import Signature
from ocaml.verdict import Limit, Outcome, Stage, Verdict

SUCC = Signature("f", "let f (x : int) : int =", "int -> int")
TESTS = "let () = assert (f 1 = 2)\nlet () = assert (f 2 = 3)\nlet () = assert (f 7 = 8)"
HONEST = "let f x = x + 1"


def outcomes(verdict: Verdict) -> list[str]:
    return [assertion.outcome.value for assertion in verdict.assertions]


async def test_a_right_answer_passes(judge: PlainJudge) -> None:
    verdict = await judge.grade(HONEST, TESTS, asked=SUCC)
    assert (verdict.stage, verdict.passed, verdict.total) == (Stage.PASS, 3, 3)
    assert all(assertion.compared for assertion in verdict.assertions)


async def test_a_wrong_value_is_shown_beside_the_expected_one(judge: PlainJudge) -> None:
    verdict = await judge.grade("let f x = if x = 2 then 9 else x + 1", TESTS, asked=SUCC)
    second = verdict.assertions[1]
    assert (verdict.stage, verdict.passed) == (Stage.TESTS, 2)
    assert (second.text, second.expected, second.actual) == ("f 2 = 3", "3", "9")


@pytest.mark.parametrize(
    ("body", "outcome", "limit"),
    [
        ('failwith "no"', Outcome.RAISED, None),
        ("(let rec g n = 1 + g n in g 1)", Outcome.RAISED, None),
        ("(let rec g n = g n in g 1)", Outcome.LIMIT, Limit.TIME),
        ("exit 0", Outcome.RAISED, None),
        ("(Obj.magic 0).(0)", Outcome.RAISED, None),
        ("(while true do print_string (String.make 9999 'x') done; 3)", Outcome.LIMIT, Limit.OUTPUT),
        (
            "(let l = ref [] in while true do l := Bytes.make 9_999_999 'x' :: !l done; 3)",
            Outcome.LIMIT,
            Limit.MEMORY,
        ),
    ],
)
async def test_an_assertion_that_ends_badly_loses_itself_alone(
    judge: PlainJudge, body: str, outcome: Outcome, limit: Limit | None
) -> None:
    verdict = await judge.grade(f"let f x = if x = 2 then {body} else x + 1", TESTS, asked=SUCC)
    assert [a.outcome for a in verdict.assertions] == [Outcome.PASSED, outcome, Outcome.PASSED]
    assert (verdict.stage, verdict.limit) == (Stage.TESTS, limit)


@pytest.mark.parametrize(
    ("answer", "stage", "kind"),
    [
        ("", Stage.EMPTY, Kind.OTHER),
        ("(* soon *)", Stage.EMPTY, Kind.OTHER),
        ("I apologize, I cannot do that.", Stage.SYNTAX, Kind.SYNTAX),
        ("let f x =", Stage.SYNTAX, Kind.SYNTAX),
        ("let f x = x + true", Stage.TYPE, Kind.TYPE),
        ("let g x = x + 1", Stage.TYPE, Kind.UNBOUND),
        ("let f x = string_of_int x", Stage.TYPE, Kind.TYPE),
        ("let f x y = x + y", Stage.TYPE, Kind.TYPE),
        ('let f x = ignore (Str.regexp "a"); x + 1', Stage.LINK, Kind.OTHER),
        ('let () = failwith "early" let f x = x + 1', Stage.RUN, Kind.EXCEPTION),
        ("let () = exit 0 let f x = x + 1", Stage.RUN, Kind.OTHER),
    ],
)
async def test_an_answer_stops_at_its_stage(judge: PlainJudge, answer: str, stage: Stage, kind: Kind) -> None:
    verdict = await judge.grade(answer, TESTS, asked=SUCC)
    assert (verdict.stage, verdict.passed, verdict.total) == (stage, 0, 3)
    assert [found.kind for found in verdict.errors] == [kind]


async def test_another_type_is_told_with_both(judge: PlainJudge) -> None:
    verdict = await judge.grade("let unrelated = 1\nlet f x = string_of_int x", TESTS, asked=SUCC)
    (error,) = verdict.errors
    assert error.message == "f has type int -> string but the type asked for is int -> int."
    assert error.span is not None
    assert error.span.start.line == 2


async def test_a_near_name_is_offered(judge: PlainJudge) -> None:
    asked = Signature("run_length", "let run_length (x : int) : int =", "int -> int")
    verdict = await judge.grade("let run_lenght x = x + 1", "", asked=asked)
    assert verdict.errors[0].hints == ("Did you mean run_lenght?",)


async def test_a_more_general_answer_is_accepted(judge: PlainJudge) -> None:
    asked = Signature("id", "let id (x : int) : int =", "int -> int")
    assert (await judge.grade("let id x = x", "let () = assert (id 3 = 3)", asked=asked)).stage is Stage.PASS


async def test_a_less_general_answer_is_not(judge: PlainJudge) -> None:
    asked = Signature("id", "let id (x : 'a) : 'a =", "'a -> 'a")
    verdict = await judge.grade("let id x = x + 0", "let () = assert (id 3 = 3)", asked=asked)
    assert verdict.stage is Stage.TYPE


@pytest.mark.parametrize(
    "attack",
    [
        "let (=) _ _ = true let f _ = 0",
        "let not _ = true let compare _ _ = 0 let f _ = 0",
        "module List = struct let for_all _ _ = true end let f _ = 0",
        "module Stdlib = struct let (=) _ _ = true end let f _ = 0",
        "module Printf = struct let printf _ = () end let f _ = 0",
        "exception Assert_failure of (string * int * int) let f _ = 0",
        "type bool = True | False let f _ = 0",
        'let f _ = print_endline "value 0 0.0 i2"; 0',
        "let () = at_exit (fun () -> exit 0) let f _ = 0",
        'let f _ = at_exit (fun () -> print_endline "done"); 0',
        'let () = print_string "3 passed, 0 failed"; exit 0 let f _ = 0',
        "let f _ = close_out stdout; close_out stderr; 0",
        'let f : int -> int = fun _ -> Obj.magic "2"',
        'external f : int -> int = "%identity"',
    ],
)
async def test_an_attack_earns_nothing(judge: PlainJudge, attack: str) -> None:
    verdict = await judge.grade(attack, TESTS, asked=SUCC)
    assert verdict.stage is not Stage.PASS
    assert verdict.passed == 0


async def test_writing_results_for_the_judge_needs_the_right_values(judge: PlainJudge) -> None:
    forged = (
        'let () = let c = open_out "ocamler_result" in '
        'output_string c "begin 0\\nvalue 0 0.0 i9\\nvalue 1 0.0 i9\\nvalue 2 0.0 i9\\ndone\\n"; close_out c; exit 0\n'
        "let f _ = 0"
    )
    assert (await judge.grade(forged, TESTS, asked=SUCC)).passed == 0


async def test_the_best_constant_is_counted(judge: PlainJudge) -> None:
    tests = "".join(f"let () = assert (f {n} = {n % 2})\n" for n in range(7))
    verdict = await judge.grade("let f _ = 0", tests, asked=SUCC)
    assert (verdict.passed, verdict.constant_passed) == (4, 4)


@pytest.mark.parametrize(
    ("answer", "tests", "expected"),
    [
        ("let f x = x > 1", "let () = assert (f 2); assert (not (f 1)); assert (f 0 = false)", ["passed"] * 3),
        ("let f x = x + 1", "let () = assert (3 = f 2)", ["passed"]),
        ("let f x = x + 1", "let c = f\nlet () = assert (c 1 = 2)", ["passed"]),
        ("let f x = x + 1", "let tests = let candidate = f in (assert (candidate 1 = 2)); ()", ["passed"]),
        ("let f x = x + 1", "let k = 4\nlet () = assert (f 1 = k - 2)", ["passed"]),
        ("let f x = x + 1", "let () = List.iter (fun (a, b) -> assert (f a = b)) [1, 2; 2, 2]", ["failed"]),
        ("let f x = x + 1", "let check a b = assert (f a = b)\nlet () = check 1 2\nlet () = check 1 3",
         ["passed", "failed"]),
        ("let f x = x + 1", 'let () = if f 1 <> 2 then failwith "no"', ["passed"]),
        ("let f x = x + 2", 'let () = if f 1 <> 2 then failwith "no"', ["raised"]),
        ("let f x = x + 1", "let () = if f 1 <> 2 then exit 1 else exit 0", ["passed"]),
        ("let f x = x +. 0.1", "let () = assert (abs_float (f 0.2 -. 0.3) < 1e-9)", ["passed"]),
        ("let f () = nan", "let () = assert (f () = nan)", ["failed"]),
        ("let f x = [x]", "let () = assert (f 0. = [-0.])", ["passed"]),
        ("let f x y = x + y", "let () = assert (f 1 2 = 3);; assert (f 2 2 = 4)", ["passed"] * 2),
        ("let f x = raise Not_found",
         "let () = assert (try ignore (f 1); false with Not_found -> true)", ["passed"]),
        ("type t = A | B of int\nlet f x = B x", "let () = assert (f 1 = B 1); assert (f 2 = A)",
         ["passed", "failed"]),
        ("let f x = (fun y -> x + y)", "let () = assert (f 1 2 = 3)", ["passed"]),
        ("let f x = lazy x", "let () = assert (Lazy.force (f 1) = 1)", ["passed"]),
        ("module M = Map.Make (Int)\nlet f x = M.singleton x 1", "let () = assert (M.find 1 (f 1) = 1)", ["passed"]),
        ("let rec f n = if n = 0 then [] else n :: f (n - 1)", "let () = assert (List.length (f 3) = 3)", ["passed"]),
    ],
)  # fmt: skip
async def test_assertions_in_every_form(
    judge: PlainJudge, answer: str, tests: str, expected: list[str]
) -> None:
    assert outcomes(await judge.grade(answer, tests)) == expected


async def test_assertions_over_state_run_in_their_order(judge: PlainJudge) -> None:
    answer = "let make () = ref 0 let next r = incr r; !r"
    tests = "let () = let r = make () in assert (next r = 1); ignore (next r); assert (next r = 3)"
    assert outcomes(await judge.grade(answer, tests)) == ["passed", "passed"]


async def test_an_early_exit_in_the_tests_hides_nothing(judge: PlainJudge) -> None:
    tests = "let () = assert (f 1 = 3)\nlet () = exit 0\nlet () = assert (f 1 = 4)"
    verdict = await judge.grade(HONEST, tests)
    assert verdict.stage is not Stage.PASS


async def test_a_name_of_the_standard_library_means_the_standard_librarys(judge: PlainJudge) -> None:
    answer = "let abs x = 0 let f x = x"
    assert outcomes(await judge.grade(answer, "let () = assert (f (abs (-3)) = 3)")) == ["passed"]


async def test_the_function_asked_for_may_be_called_as_one_of_the_standard_librarys(
    judge: PlainJudge,
) -> None:
    asked = Signature("abs", "let abs (x : int) : int =", "int -> int")
    tests = "let () = assert (abs (-3) = 3)"
    assert (await judge.grade("let abs x = 0", tests, asked=asked)).passed == 0
    assert (await judge.grade("let abs x = 0", tests)).passed == 0


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ("let () = assert (f 1 = )", "do not parse at line 1"),
        ('let () =\n  assert (f 1 = "a")', "do not type-check against the signature at line 2"),
        ("let () = assert (g 1 = 2)", "do not type-check against the signature at line 1"),
    ],
)
async def test_tests_that_no_answer_can_pass_are_refused(judge: PlainJudge, tests: str, words: str) -> None:
    with pytest.raises(UnsoundTests, match=words):
        await judge.grade(HONEST, tests, asked=SUCC)


async def test_without_a_signature_a_type_error_in_the_tests_is_the_answers(judge: PlainJudge) -> None:
    verdict = await judge.grade("let f x = string_of_int x", TESTS)
    assert verdict.stage is Stage.TYPE
    assert verdict.errors[0].path == "tests.ml"


async def test_without_tests_an_answer_that_runs_passes(judge: PlainJudge) -> None:
    verdict = await judge.grade('let f x = x\nlet () = print_string "hi"', "")
    assert (verdict.stage, verdict.total, verdict.stdout) == (Stage.PASS, 0, "hi")
    assert (await judge.grade("let () = raise Exit", "")).stage is Stage.RUN


async def test_what_an_answer_prints_is_kept_apart_from_its_verdict(judge: PlainJudge) -> None:
    verdict = await judge.grade('let f x = print_string "debug "; x + 1', TESTS, asked=SUCC)
    assert (verdict.stage, verdict.stdout) == (Stage.PASS, "debug debug debug ")

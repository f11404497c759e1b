"""What tests see of an answer: its names, with the standard library as it was; and tests in the shapes people write."""

import pytest

from ocaml.errors import UnsoundTests
from ocaml.judge import Judge, PlainJudge
from ocaml.problem import Signature
from ocaml.verdict import Outcome, Stage, Verdict


def outcomes(verdict: Verdict) -> list[bool]:
    return [assertion.outcome is Outcome.PASSED for assertion in verdict.assertions]


@pytest.mark.parametrize(
    ("answer", "tests"),
    [
        ("module M = struct let f _ = 7 end  let (=) _ _ = true", "let () = assert (M.f 1 = 2)"),
        ("module M = struct let f _ = false end  let not _ = true", "let () = assert (not (not (M.f 1)))"),
        ("module M = struct let f _ = 7 end  let (<>) _ _ = true", "let () = assert (M.f 1 <> 7)"),
        (
            'module Stack = struct type \'a t = \'a list ref let create () : \'a t = ref [] let push _ _ = failwith "todo" let pop _ = failwith "todo" end',
            "let () = let s = Stack.create () in Stack.push 1 s; assert (Stack.pop s = 1)",
        ),
        ("let rec abs x = -1  let sign x = 0", "let () = assert (abs (-5) = 5); assert (sign 1 = 1)"),
        (
            'module Ocamler_dump = struct let repr _ = Obj.repr 0 let claim _ _ = () let finish () = print_string "done" end let f _ = 0',
            "let () = assert (f 1 = 2)",
        ),
        ("module Ocamler_kept = struct let (=) _ _ = true end let f _ = 0", "let () = assert (f 1 = 2)"),
        ("let (&&) _ _ = true let f _ = 0", "let () = assert (f 1 = 2 && f 2 = 3)"),
        ("let fst _ = 3 let f _ = (0, 0)", "let () = assert (fst (f 1) = 3)"),
        ("let max _ _ = 0 let f _ = 0", "let () = assert (f 3 = max 1 3)"),
        ("module M = struct let (=) _ _ = true let f _ = 0 end", "let () = assert M.(f 1 = 2)"),
        ("module M = struct let (=) _ _ = true let f _ = 0 end", "open M let () = assert (f 1 = 2)"),
        (
            "module M = struct let not _ = true let f _ = true end",
            "let () = let open M in assert (not (f 1))",
        ),
        (
            "module M = struct module Ocamler_h = struct let block _ = true end let f _ = 0 end",
            "let () = let open M in (try ignore (f 0); assert false with Not_found -> ())",
        ),
        ('external f : int -> int -> int = "ocamler_left"', "let () = assert (f 1 2 = 1)"),
        ("type t = A | B type u = B | A let f _ : t = A", "let () = assert (f 1 = B)"),
        ('let g _ = "no" let f x = x', "let () = assert (f 1 = 2); print_int (g 1)"),
        (
            "exception Not_found let f x = if x < 0 then raise Not_found else x",
            "let () = assert (try ignore (f (-1)); false with Not_found -> true)",
        ),
        (
            "module List = struct let for_all _ _ = true end let f _ = [0]",
            "let () = assert (List.for_all (fun x -> x > 1) (f 1))",
        ),
    ],
)
async def test_an_answer_that_is_wrong_is_not_accepted(judge: PlainJudge, answer: str, tests: str) -> None:
    verdict = await judge.grade(answer, tests)
    assert verdict.stage is not Stage.PASS
    assert verdict.passed == 0


@pytest.mark.parametrize(
    ("answer", "tests"),
    [
        ("let ( |+| ) a b = a + b let dot a b = a * b", "let () = assert (1 |+| 2 = 3); assert (dot 2 3 = 6)"),
        ("let ( let* ) = Option.bind let half x = if x mod 2 = 0 then Some (x / 2) else None",
         "let () = assert ((let* x = half 8 in half x) = Some 2)"),
        ("type result = Ok of int | Error of string let f x = if x > 0 then Ok x else Error \"no\"",
         "let () = assert (f 1 = Ok 1); assert (f 0 = Error \"no\")"),
        ("type status = Ok | Failed of string let f x = if x then Ok else Failed \"no\"", "let () = assert (f true = Ok)"),
        ("type shape = Circle of float | Error let area = function Circle r -> r | Error -> 0.", "let () = assert (area (Circle 2.) = 2.)"),
        ("module Set = Set.Make (Int) type g = { nodes : Set.t } let make l = { nodes = Set.of_list l } let size g = Set.cardinal g.nodes",
         "let () = assert (size (make [1; 2; 1]) = 2)"),
        ("module List = struct include List let rec take n = function x :: r when n > 0 -> x :: take (n - 1) r | _ -> [] end",
         "let () = assert (List.take 2 [1; 2; 3] = [1; 2])"),
        ("module Stack = struct let create () = ref [] let push x s = s := x :: !s let pop s = match !s with x :: r -> s := r; x | [] -> raise Not_found end",
         "let () = let s = Stack.create () in Stack.push 1 s; assert (Stack.pop s = 1)"),
        ("let min l = List.fold_left Stdlib.min max_int l let max l = List.fold_left Stdlib.max min_int l let span l = max l - min l",
         "let () = assert (min [2; 1] = 1); assert (span [1; 5] = 4)"),
        ("let fst (a, _, _) = a let fst3 = fst", "let () = assert (fst3 (1, 2, 3) = 1); assert (fst (4, 5, 6) = 4)"),
        ("module type S = sig val x : int end module F (M : S) = struct let y = M.x + 1 end",
         "module N = F (struct let x = 1 end)\nlet () = assert (N.y = 2)"),
        ("class counter = object val mutable n = 0 method tick = n <- n + 1; n end",
         "let () = let c = new counter in assert (c#tick = 1); assert (c#tick = 2)"),
        ("type t = A | B type u = B | A let f _ : t = B", "let () = assert (f 1 = B)"),
        ("type r = Ok of int | Error of int let g = Ok 1 let f x = match x with Stdlib.Ok n -> n | Stdlib.Error _ -> 0",
         "let cases = [Ok 3, 3; Error \"a\", 0]\nlet () = List.iter (fun (x, y) -> assert (f x = y)) cases"),
        ("type z = { contents : string } let f (r : int ref) = !r",
         "let () = assert (f { contents = 3 } = 3)"),
        ("let area r = 3.14159 *. r *. r", "let (=) a b = abs_float (a -. b) < 1e-2\nlet () = assert (area 1. = 3.1416)"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_right_is_accepted(judge: PlainJudge, answer: str, tests: str) -> None:
    verdict = await judge.grade(answer, tests)
    assert [found.message for found in verdict.errors] == []
    assert verdict.stage is Stage.PASS
    assert verdict.total > 0


@pytest.mark.parametrize(
    ("answer", "tests"),
    [
        ("let create () = ref [] let push s x = s := x :: !s let size s = List.length !s",
         "let s = create ();;\npush s 1;;\nassert (size s = 1);;\npush s 2;;\nassert (size s = 2)"),
        ("let my_sort a = let b = Array.copy a in Array.sort compare b; b",
         "let a = [|3; 1; 2|]\nlet b = Array.copy a\nlet () = Array.sort compare b\nlet () = assert (my_sort a = b)"),
        ("let f x = x", "let r = ref 0\nlet () = r := 5\nlet () = assert (f 5 = !r)"),
        ("let f x = 2 * x", "let () = Random.self_init ()\nlet x = Random.int 1000\nlet () = assert (f x = x * 2)"),
        ("let fill r = r := 2 let f x = x", "let r = ref 0\nlet () = fill r\nlet () = assert (f 2 = !r)"),
        ("let f x = x + 1", "let e = 6\nlet () = assert (f 5 = e)\nlet e = 9\nlet () = assert (f 8 = e)"),
        ("let f x = x", "assert (f 1 = 1)"),
        ("let f x = x", "let () = assert (f 1 = 1) and () = assert (f 2 = 2)"),
        ("let f x = x", "let _ = assert (f 1 = 1) in ()"),
        ("let f x = x", "let () = let check a b = assert (f a = b) in check 1 1; check 2 2"),
        ("let f x = x", "module Test = struct let eq a b = assert (a = b) end\nlet () = Test.eq (f 1) 1"),
        ("let f x = x", "let () = assert (f 1 = 1)\n" * 1500),
        ("let f x = x", "assert (f 1 = 1);;\nassert (f 2 = 2);;"),
        ("let f x = x", "let () = begin (let x = 1 in assert (f x = 1)) end"),
        ("let f x = x", "let () = begin begin let x = 1 in assert (f x = 1); assert (f 2 = x + 1) end end"),
        ("let f x = x", "let () = ( (* why *) let x = 1 in assert (f x = 1))"),
        ("let f x = x", "let () = List.(iter (fun (a, b) -> assert (f a = b)) [1, 1; 2, 2])"),
        ("module V = struct let add a b = a + b end", "let () = V.(assert (add 1 2 = 3))"),
        ("let f x = x", "let () = let open List in assert (map f [1] = [1])"),
        ("let f x = x", "let () = match f 1 with 1 -> () | _ -> assert false"),
        ("let f x = x", "let () = try assert (f 1 = 1) with Not_found -> assert false"),
        ("let f x = x", "let () = for i = 1 to 3 do assert (f i = i) done"),
        ("let f x = x", "let () = Array.iteri (fun i x -> assert (f x = i)) [|0; 1; 2|]"),
        ("let f ?(by = 1) x = x + by", "let () = assert (f 1 = 2); assert (f ~by:3 1 = 4)"),
        ("let f x = [x]", "let rec check = function [] -> () | x :: r -> assert (f x = [x]); check r\nlet () = check [1; 2]"),
        ("let f x = x", "module T = struct let x = 3 end\nlet () = assert (f T.x = T.x)"),
        ("let f x = x", "open List\nlet () = assert (f (length [1]) = 1)"),
        ("let f x = x", "let%test _ = true [@@@ocaml.text \"\"]\nlet () = assert (f 1 = 1)"),
    ],
)  # fmt: skip
async def test_tests_of_every_shape_are_as_ocaml_runs_them(
    judge: PlainJudge, answer: str, tests: str
) -> None:
    if "let%" in tests:
        with pytest.raises(UnsoundTests):
            await judge.grade(answer, tests, asked=Signature("f", "let f (x : int) : int =", "int -> int"))
        return
    verdict = await judge.grade(answer, tests)
    assert outcomes(verdict) == [True] * verdict.total
    assert verdict.total > 0


async def test_tests_with_an_equality_of_their_own_mean_it(judge: PlainJudge) -> None:
    tests = "let (=) a b = compare (List.sort compare a) b = 0\nlet () = assert (f 1 = [2; 1])"
    assert outcomes(await judge.grade("let f _ = [1; 2]", tests)) == [False]


@pytest.mark.parametrize(
    "tests",
    [
        "let test1 = f 1 = 2",
        'let check b = print_string (if b then "ok" else "no")\nlet () = check (f 1 = 2)',
        "(* soon *)",
    ],
)
async def test_tests_that_assert_nothing_are_refused(judge: PlainJudge, tests: str) -> None:
    with pytest.raises(UnsoundTests, match="assert nothing"):
        await judge.grade("let f x = 7", tests)


async def test_tests_may_hold_bytes_that_are_no_text(judge: PlainJudge) -> None:
    tests = b'(* caf\xe9 *) let () = assert (f 1 = "\xe9")'.decode(errors="surrogateescape")
    assert outcomes(await judge.grade('let f _ = "\\233"', tests)) == [True]


async def test_a_call_in_the_tests_that_looks_like_a_claim_is_none(judge: Judge) -> None:
    tests = (
        "let t = List.init 0 (fun _ -> string_of_int 3)\nlet () = assert (f 1 = 2); assert (max 1 2 3 = 3)"
    )
    verdict = await judge.grade("let f x = 3 let max a b c = 3", tests)
    assert (verdict.stage, verdict.passed) == (Stage.TESTS, 1)


async def test_an_ill_typed_answer_is_not_made_well_typed_by_taking_tests_apart(judge: Judge) -> None:
    verdict = await judge.grade(
        'let g _ = "no" let f x = x + 1', "let () = assert (f 1 = 2); print_int (g 1)"
    )
    assert verdict.stage is Stage.TYPE


async def test_tests_that_fit_the_type_asked_for_are_not_blamed(judge: Judge) -> None:
    answer = "type z = Some of string | None let f (x : int Stdlib.Option.t) = match x with Stdlib.Option.Some n -> n | _ -> 0"
    verdict = await judge.grade(
        answer, "let () = assert (f (Some 3) = 3)", asked=Signature("f", "", "int option -> int")
    )
    assert verdict.stage in {Stage.TYPE, Stage.PASS}

"""The check server reads the claims of tests from the compiler's tree; it reads what `read_suite` reads."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import ocaml.server
from ocaml.grading.assertions import Piece, Suite, read_suite
from ocaml.grading.parsetree import parse
from ocaml.grading.suite_json import suite_from_json
from ocaml.toolchain import Toolchain

STANDARD = frozenset(
    {"List", "Array", "Hashtbl", "String", "Option", "Printf", "Stdlib", "Map", "Int", "Float"}
)
PROGRAM = Path(ocaml.server.__file__).parent / "program"
FORMS = ("parsetree_many", "parsetree_single")
MODULES = (
    "json.mli", "json.ml", "syntax.mli", "syntax.ml", "source_text.mli", "source_text.ml",
    "suite.mli", "suite.ml",
)  # fmt: skip
MAIN = """
let source = In.all Sys.argv.(1)
let () =
  let lexbuf = Lexing.from_string source in
  Location.init lexbuf "tests.ml";
  let standard_modules name = List.mem name (String.split_on_char ' ' Sys.argv.(2)) in
  let items = Parse.implementation lexbuf in
  let read whole = Suite.to_json (Suite.read ~source ~standard_modules ~whole items) in
  print_string (Json.to_string (Json.List [ read false; read true ]))
"""
IN = """
let all name =
  let channel = open_in_bin name in
  let text = really_input_string channel (in_channel_length channel) in
  close_in channel;
  text
"""


@pytest.fixture(scope="session")
def reader(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    for name in MODULES:
        shutil.copy(PROGRAM / name, folder)
    (folder / "in.ml").write_text(IN)
    (folder / "main.ml").write_text(MAIN)
    sources = ["parsetree_api.ml", *MODULES, "in.ml", "main.ml"]
    told = ""
    for form in FORMS:
        shutil.copy(PROGRAM / "compat" / f"{form}.ml", folder / "parsetree_api.ml")
        command = [toolchain.ocamlc.parent / "ocamlopt", "-I", "+compiler-libs", "ocamlcommon.cmxa", *sources]
        built = subprocess.run([*command, "-o", "reader"], cwd=folder, capture_output=True, check=False)
        if built.returncode == 0:
            return folder / "reader"
        told += built.stderr.decode()
    raise AssertionError(told)


def from_text(toolchain: Toolchain, folder: Path, source: bytes) -> list[Suite]:
    """Read with Python, from what ocamlc prints: taken apart, and whole."""
    (folder / "tests.ml").write_bytes(source)
    command = [toolchain.ocamlc, "-w", "-a", "-stop-after", "parsing", "-dparsetree", "tests.ml"]
    told = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr
    items = parse(told.stderr.decode(errors="surrogateescape"))
    return [read_suite(source, items, STANDARD, whole=whole) for whole in (False, True)]


def from_tree(reader: Path, folder: Path, source: bytes) -> list[Suite]:
    """Read with the server's program: taken apart, and whole."""
    (folder / "source").write_bytes(source)
    told = subprocess.run([reader, folder / "source", " ".join(STANDARD)], capture_output=True, check=True)
    return [suite_from_json(read) for read in json.loads(told.stdout)]


# Each is a test source; what matters is that both readers say the same of it.
SOURCES: dict[str, str | bytes] = {
    "nothing": "",
    "a comment": "(* nothing *)",
    "a floating doc comment": "(** about *)\n\nlet () = assert (f 1 = 2)",
    "doc comments": "(** first *)\nlet a = 1\n(** second *)\n\nlet () = assert (f a = 2) (** third *)",
    "a bare assert": "assert (f 1 = 2)",
    "bare asserts": "assert (f 1 = 2);; assert (f 2 = 3);;\n;; assert (not (g 1))",
    "a sequence": "let () = assert (f 1 = 2); assert (f 2 = 3); assert (g 1)",
    "a sequence in parentheses": "let () = (assert (f 1 = 2); (assert (f 2 = 3); assert (f 3 = 4)))",
    "a sequence to the left": "let () = ((assert (f 1 = 2); assert (f 2 = 3)); assert (f 3 = 4)); ()",
    "begin and end": "let () = begin assert (f 1 = 2); begin let x = 3 in assert (f 2 = x) end end",
    "nested lets": "let () = let a = 1 in let b = a + 1 in assert (f a = b); let c = f b in assert (c = 3)",
    "lets with and": "let () = let a = 1 and b = 2 in assert (f a = b)",
    "let rec": "let () = let rec g n = if n = 0 then 0 else g (n - 1) in assert (f (g 2) = 1)",
    "a let that hides the equality": "let () = let (=) a b = a == b in assert (f 1 = 2)",
    "an item that hides the equality": "let (=) a b = a == b\nlet () = assert (f 1 = 2)",
    "an external equality": 'external ( = ) : \'a -> \'a -> bool = "%equal"\nlet () = assert (f 1 = 2)',
    "a let that hides not": "let () = let not x = x in assert (not (f 1))",
    "a let whose value asserts": "let () = let x = (assert (f 1 = 2); 3) in assert (f 2 = x)",
    "a let with a comment": "let () = (* why (* so *) *) (* and *) let x = 1 in (* here *) assert (f x = 2)",
    "a let in parentheses with a comment": "let () = ( (* a *) let x = 1 in assert (f x = 2))",
    "patterns": "let () = let (a, b), { M.c; d = [e] } = g 1 in assert (f a b c e = 2)",
    "an alias": "let (a, b) as p = g 1\nlet () = assert (f p = a)",
    "a module in a pattern": "let (module N : S) = m\nlet () = assert (f N.x = 1)",
    "state": "let () = let r = make () in assert (next r = 1); ignore (next r); assert (next r = 3); assert (ok r)",
    "state and a block": "let () = let r = make () in List.iter (fun x -> assert (next r = x)) [1; 2]; assert (next r = 3)",
    "state in a sequence to the left": "let () = let r = ref 0 in (assert (f r = 1); g r); assert (f r = 2)",
    "effects before": "let () = print_string \"x\"; reset (); assert (f 1 = 2)",
    "effects alone": "let () = print_string \"x\"\nlet _ = reset ()\nlet () = assert (f 1 = 2)",
    "a local open": "let () = let open List in assert (length (f 1) = 2)",
    "a local open in short": "let () = List.(assert (length (f 1) = 2); assert (f 2 = []))",
    "a path opened in short": "let () = A . B.(assert (f 1 = 2))",
    "an open of one's own": "module M = struct let x = 1 end\nopen M\nlet () = assert (f x = 2)",
    "an open of a structure": "let () = let open struct let x = 1 end in assert (f x = 2)",
    "an include": "include struct let x = 1 end\ninclude Map.Make (Int)\nlet () = assert (f x = 2)",
    "an open of the standard library": "open Printf\nopen! Stdlib.List\nlet () = assert (f (length [1]) = 2)",
    "a local module": "let () = let module M = struct let x = f 1 end in assert (M.x = 2)",
    "a local name for a module": "let () = let module M = N in assert (M.x = f 2)",
    "a local module that asserts": "let () = let module M = struct let () = assert (f 1 = 2) end in assert (f 2 = 3)",
    "a local exception": "let () = let exception E of int in assert (try f 1 with E n -> n = 2)",
    "a module": "module T = struct let a = 1 let () = assert (f a = 2) end\nlet () = assert (f T.a = 3)",
    "a module of checks": "module T = struct let check x = assert (f x = 2) end\nlet () = T.check 1; T.check 2",
    "recursive modules": "module rec A : S = struct let x = 1 end and B : S = A\nlet () = assert (f A.x = 2)",
    "a functor": "module F (X : S) = struct let y = X.x end\nmodule G = F (M)\nlet () = assert (f G.y = 2)",
    "a module type": "module type S = sig val x : int end\nmodule type T = module type of List\nlet () = assert (f 1 = 2)",
    "types and exceptions": "type t = A | B of int\nexception E of t\nexception F = M.E\nlet () = assert (f A = B 1)",
    "a class": "class c x = object (self) val y = x method get = f y end\nlet () = assert ((new c 1)#get = 2)",
    "an object": "let o = object method get = f 1 end\nlet () = assert (o#get = 2)",
    "a loop": "let () = for i = 1 to 3 do assert (f i = i) done",
    "a while loop": "let () = let i = ref 0 in while !i < 3 do assert (f !i = 1); incr i done; assert (f 9 = 8)",
    "cases": "let () = List.iter (fun (a, b) -> assert (f a = b)) [1, 2; 2, 3]",
    "cases with a label": "let cases = [1, 2]\nlet () = ListLabels.iter cases ~f:(fun (a, b) -> assert (f a = b))",
    "a match": "let () = match f 1 with Some M.X -> assert (g 1 = 2) | None -> assert false",
    "a try": "let () = try ignore (f 1); assert false with Invalid_argument _ -> ()",
    "a try as a value": "let () = assert (try f 1 = 2 with Not_found -> false)",
    "failwith": 'let () = if f 1 <> 2 then failwith "no"',
    "failwith by its path": 'let () = if f 1 <> 2 then Stdlib.failwith "no"',
    "raise": "let check b = if not b then raise Exit\nlet () = check (f 1 = 2); check (f 2 = 3)",
    "a check": "let check a b = assert (f a = b)\nlet () = check 1 2\nlet () = check 1 3; check 2 2",
    "a check of a check": "let one a = assert a\nlet two a b = one (a = b)\nlet () = two (f 1) 2",
    "an operator that checks": "let ( ==> ) a b = assert (f a = b)\nlet () = 1 ==> 2; 2 ==> 3",
    "an operator like another": "let ( + ) a b = assert (a = b); a\nlet x = 1. +. 2.\nlet () = ignore (1 + 2)",
    "a check with a type": "let check : int -> int -> unit = fun a b -> assert (f a = b)\nlet () = check 1 2",
    "a check that is never called": "let check a b = assert (f a = b)\nlet x = f 1",
    "a named test": "let tests = let candidate = f in (assert (candidate 1 = 2)); ()",
    "a named test with a type": "let tests : unit = assert (f 1 = 2); assert (f 2 = 3)",
    "a value that may fail": 'let five : int = if f 1 = 2 then 5 else failwith "no"\nlet () = assert (f five = 6)',
    "an optional value": 'let (Some x) = if f 1 = 2 then Some 3 else failwith "no"\nlet () = assert (f x = 3)',
    "a unit with a type": "let () : unit = assert (f 1 = 2)\nlet (_ : unit) = assert (f 2 = 3)",
    "two units": "let () = assert (f 1 = 2) and () = assert (f 2 = 3)",
    "two bindings": "let a = 1 and b = assert (f 1 = 2); 2\nlet () = assert (f a = b)",
    "a literal as a pattern": "let true = f 1 = 2\nlet () = assert (f 2 = 3)",
    "a constraint": "let () = (assert (f 1 = 2) : unit); assert ((f 2 : int) = 3)",
    "a coercion": "let () = assert ((f 1 :> t) = 2)",
    "operators": "let () = assert (f 1 > 2); assert (f 1 <> 2 && f 2 = 3 || g 1); assert (1 |> f = 2); assert (!x)",
    "an equation of booleans": "let () = assert (f 1); assert (not (f 2)); assert ok; assert (M.ok 1); assert M.good",
    "the equality as a function": "let () = assert ((=) (f 1) 2); assert (Stdlib.(=) (f 1) 2); assert (Stdlib.( = ) 3 (f 4))",
    "a half equality": "let () = assert (List.for_all ((=) 1) (f 1)); assert (not (List.mem 1 (f 2)))",
    "labels": "let () = assert (f ~x:1 ?y:None ~z 2 = g ~h:(fun ~a ?(b = f 1) () -> a + b) ())",
    "an equation with parentheses": "let () = assert ((f 1) = (2)); assert ((f (1)) = (g (2))); assert (((f 1) = 2))",
    "an equation over lines": "let () = assert\n  (f 1\n     2\n   =\n   [ 1;\n     2 ])",
    "an equation with strings": 'let () = assert (f "(" = ")"); assert (f {|a "b" |} = {x|)|x}); assert (f "\\"\\n" = \'(\')',
    "fields": "let () = assert ((f 1).size = 2); assert ((f 1).M.size = 2); r.M.x <- 3; assert (f { M.a = 1; b } = 2)",
    "indexing": "let () = assert ((f 1).(0) = 2); assert ((f 1).[0] = 'a'); assert ((f 1).%{0} = 2)",
    "constructors": "let () = assert (f 1 = M.A); assert (f 2 = M.B 1); assert (f 3 = `C 1); assert (f 4 = M.(::) (1, []))",
    "a let operator": "let ( let* ) = Option.bind\nlet () = assert ((let* x = f 1 and* y = g 1 in Some (x + y)) = Some 2)",
    "a function of cases": "let g = function 0 -> 1 | n -> f n\nlet h = fun x -> x\nlet k x y = x\nlet () = assert (g 1 = 2)",
    "a newtype": "let g (type a) (x : a) : a = x\nlet h : type a. a -> a = fun x -> x\nlet () = assert (f (g 1) = h 2)",
    "laziness": "let l = lazy (f 1)\nlet () = assert (Lazy.force l = 2); assert (f (lazy 3) = 4)",
    "a package": "let m = (module struct let x = 1 end : S)\nlet () = let (module N) = m in assert (f N.x = 1)",
    "mutable values": "let a = [| 1 |] and b = ref 2\nlet c = [1; 2]\nlet () = assert (f a = !b); let d = \"x\" in assert (g d = c)",
    "attributes": "let[@inline] g x = x [@@warning \"-32\"]\nlet () = assert ((f [@foo fun bar -> assert baz]) 1 = 2) [@@qux let quux = 1]",
    "attributes on expressions": "let x = f 1 [@note assert (g 1)]\nlet () = assert ((f [@inlined]) 1 = (2 [@a b]))",
    "attributes with bindings": "let x = f 1 [@@note let y = raise z]\nlet () = assert (x = 1)",
    "floating attributes": "[@@@warning \"-a\"]\n[@@@note let y = assert z]\nlet () = assert (f 1 = 2)",
    "a floating attribute in a module": "module M = struct [@@@note raise x] let a = 1 end\nlet () = assert (f M.a = 2)",
    "an extension": "let () = [%test assert (f 1 = 2)]\nlet%test x = f 1 = 2\n[%%run let z = f 1]",
    "if": "let () = if f 1 = 2 then () else exit 1",
    "if and sequence": "let () = if f 1 = 2 then assert (g 1 = 2); assert (f 2 = 3)",
    "unit": "let () = ()\nlet x = ()\nlet () = (); assert (f 1 = 2); ()",
    "a pipe": "let () = [f 1; f 2] |> List.iter (fun x -> assert (x = 2))",
    "primes and keywords": "let f' x = f x\nlet () = assert (f' 1 = 2); assert (f'' 1); assert (1 mod 2 = f 1)",
    "line directives": '# 10 "other(a).ml"\nlet x = 1\n# 5 "a[1,2+3]..[4].ml"\nlet () = assert (f x = 2)\n# 1 "tests.ml"\nlet () = assert (f 3 = x)',
    "a string that looks like a place": 'let () = assert (f "(t.ml[1,900+3]..[1,900+9])" = g "(t.ml[1,0+3]..[1,0+9])" 1)',
    "CRLF": "let x = 1\r\nlet () =\r\n  assert (f x = 2);\r\n  assert (f\r\n 2 = 3)\r\n",
    "tabs and form feeds": "let\tx = 1\x0clet () = (\x0clet y =\t1 in assert (f x y\t=\x0c2))",
    "text beyond ASCII": 'let () = assert (f "é→😀" = "\u00a0 \u2003x"); (* ü *) assert (f "\u2028" = "")',
    "bytes that are no text": b'(* caf\xe9 *) let () = assert (f "\xe9\xc3" = "\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf"); (* \xff *) let x = "\xe2\x82" in assert (f x = 1)',
    "control characters": b'let () = assert (f "\x00\x01\x1f\x7f" = "\x1b")',
    "a deep let": "let () = " + "".join(f"let x{n} = {n} in " for n in range(90)) + "assert (f x3 = 4); assert (f x4 = 5)",
    "a deep call": "let () = assert (f " + "(g " * 60 + "1" + ")" * 60 + " = 2); assert (f 1 = 3)",
    "a deep sequence": "let () = " + "; ".join(f"assert (f {n} = [{n}; {n}])" for n in range(120)),
    "a deep sequence under state": "let () = let r = g () in " + "; ".join(f"assert (f r {n} = {n})" for n in range(50)),
    "a deep match": "let () = match f 1 with 0 -> " + "begin " * 45 + "assert (f 1 = 2); assert (g 2)" + " end" * 45 + " | _ -> ()",
    "a long list": "let () = assert (f [" + "; ".join(map(str, range(150))) + "] 1 = 2)\nlet z = 3",
    "deep parentheses": "let () = " + "(" * 50 + "let x = 1 in assert (f x = 2)" + ")" * 50,
    "a deep function": "let g = " + "".join(f"fun a{n} -> " for n in range(50)) + "assert (a0 = a1)\nlet () = g 1 2",
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_both_readers_say_the_same(
    toolchain: Toolchain, reader: Path, tmp_path: Path, source: str | bytes
) -> None:
    data = source.encode() if isinstance(source, str) else source
    assert from_tree(reader, tmp_path, data) == from_text(toolchain, tmp_path, data)


@pytest.mark.parametrize(
    ("source", "claims"),
    [
        ("let () = assert (f 1 = 2); assert (not (g 1))", ["f 1 = 2", "g 1 = false"]),
        ("(** about *) let check x = assert (f x = 2)\nlet () = check 1; check 2", ["check 1", "check 2"]),
        (
            'let five : int = if f 1 = 2 then 5 else failwith "no"\nlet () = assert (f five = 6)',
            ["f five = 6"],
        ),
        ("let (Some x) = if f 1 then g 1 else raise Exit\nlet () = assert (f x = 3)", ["f x = 3"]),
        ("let tests : unit = assert (f 1 = 2); assert (f 2 = 3)", ["f 1 = 2", "f 2 = 3"]),
        ("let () = assert (f 1 [@note assert false] = 2)", ["f 1 = 2"]),
        ("let x = f 1 [@@note assert (g 1)]\nlet () = assert (x = 1)", ["x = 1"]),
        ("let g : type a b. a -> b = fun x -> assert (f x)\nlet () = g 1; g 2", ["g 1", "g 2"]),
        ("let () = 1 + 1 |> Stdlib.failwith", ["1 + 1 |> Stdlib.failwith"]),
        ("module type S\nlet () = assert (f 1 = 2)", ["f 1 = 2"]),
    ],
)
def test_claims_are_what_asserts(
    toolchain: Toolchain, tmp_path: Path, source: str, claims: list[str]
) -> None:
    apart, _ = from_text(toolchain, tmp_path, source.encode())
    assert [claim.text for claim in apart.claims] == claims


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("let (a, b) as c = d", {"a", "b", "c"}),
        ("module M = struct let x = 1 end", {"M", "x"}),
        ("module rec A : S = B and B : S = A", {"A", "B"}),
        ('external ( = ) : int -> int -> bool = "%equal"', {"="}),
        ("let (module M : S) = m", {"M"}),
        ("let x = 1 [@@note let y = 2]", {"x"}),
        ("let f x = let y = x in y", {"f"}),
    ],
)
def test_an_item_binds_what_it_defines(
    toolchain: Toolchain, tmp_path: Path, source: str, names: set[str]
) -> None:
    (piece,) = from_text(toolchain, tmp_path, source.encode())[0].steps
    assert isinstance(piece, Piece)
    assert piece.binds == names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("let x = (f 1).M.size", {"f", "M"}),
        ("let x = (f 1).size", {"f"}),
        ("let x = { M.a = g }", {"M", "g"}),
        ("let x = match y with M.A -> 1 | B -> 2", {"M", "y"}),
        ("let x = N.f (O.C 1) [@note z]", {"N", "O"}),
        ("module P = Q.R", {"Q"}),
    ],
)
def test_an_item_mentions_values_and_modules(
    toolchain: Toolchain, tmp_path: Path, source: str, names: set[str]
) -> None:
    assert from_text(toolchain, tmp_path, source.encode())[0].mentions == names


def test_a_local_module_is_mentioned_and_bound(toolchain: Toolchain, tmp_path: Path) -> None:
    apart, _ = from_text(toolchain, tmp_path, b"let () = let module M = N in assert (M.x = f 2)")
    (piece,) = apart.claims[0].context
    assert (piece.mentions, piece.binds) == ({"N"}, {"M"})


@pytest.mark.parametrize(
    "source",
    [
        "let () = " + "; ".join(f"assert (f {n} = {n})" for n in range(10_000)),
        "let () = " + "(" * 10_000 + "()" + "; assert (f 2 = 2))" * 10_000,
        "let () = " + "".join(f"let x{n} = {n} in assert (f x{n} = 2); " for n in range(10_000)),
    ],
)
def test_ten_thousand_claims_are_read(reader: Path, tmp_path: Path, source: str) -> None:
    (tmp_path / "source").write_text(source)
    told = subprocess.run([reader, tmp_path / "source", ""], capture_output=True, check=True)
    apart, whole = json.loads(told.stdout)
    assert sum("claim" in step for step in apart["steps"]) == 10_000
    assert sum("claim" in step for step in whole["steps"]) == 1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocaml.phrases import PhraseKind, split

K = PhraseKind


def kinds(text: str) -> list[tuple[PhraseKind, tuple[str, ...]]]:
    return [(phrase.kind, phrase.names) for phrase in split(text)]


SPLITS = [
    ("let x = 1\nlet y = 2", [(K.LET, ("x",)), (K.LET, ("y",))]),
    ("let f x =\nlet y = x in\ny", [(K.LET, ("f",))]),
    ("let f x = let y = 1 and z = 2 in y\nand g = 1", [(K.LET, ("f", "g"))]),
    ("let rec f = g and g = f", [(K.LET, ("f", "g"))]),
    ("let ( +: ) a b = a", [(K.LET, ("+:",))]),
    ("let (a, b) = c", [(K.LET, ("a", "b"))]),
    ("let () = ();; f 1;; let _ = 2", [(K.LET, ("()",)), (K.EXPRESSION, ()), (K.LET, ("_",))]),
    ("let x = 1 in f x;;", [(K.EXPRESSION, ())]),
    ("type 'a t = A\nand ('a, 'b) u = B", [(K.TYPE, ("t", "u"))]),
    ("type t = { x : int; mutable y : int }\nlet x = 1", [(K.TYPE, ("t",)), (K.LET, ("x",))]),
    ("exception E of int\nopen List", [(K.EXCEPTION, ("E",)), (K.OPEN, ("List",))]),
    ("module M = struct let x = 1 let y = 2 end\nlet z = 3", [(K.MODULE, ("M",)), (K.LET, ("z",))]),
    ("module type S = sig val x : int type t end", [(K.MODULE, ("S",))]),
    ("let f x = match x with exception Not_found -> 0 | y -> y", [(K.LET, ("f",))]),
    ("let f (type a) (x : a) : a = x", [(K.LET, ("f",))]),
    ("let f = let open List in let module M = List in map", [(K.LET, ("f",))]),
    ("val f : int -> int\nval g : int", [(K.VAL, ("f",)), (K.VAL, ("g",))]),
    ("let f x = x\nassert (f 1 = 1)", [(K.LET, ("f",)), (K.EXPRESSION, ())]),
    ("let f (x : int) : int =\nlet f x = x", [(K.LET, ("f",)), (K.LET, ("f",))]),
    ("let f (x : int) : int =\nf 1 = 2", [(K.LET, ("f",)), (K.EXPRESSION, ())]),
    ("let f x = (x\nlet g y = y", [(K.LET, ("f",)), (K.LET, ("g",))]),
    ('#use "x.ml";;\nlet x = 1', [(K.DIRECTIVE, ()), (K.LET, ("x",))]),
    ("(* only *) (* words *)", [(K.COMMENT, ())]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), SPLITS)
def test_text_is_split_into_phrases(text: str, expected: list[tuple[PhraseKind, tuple[str, ...]]]) -> None:
    assert kinds(text) == expected


def test_comments_go_to_the_phrase_that_they_stand_by() -> None:
    first, second = split("(* a *)\nlet x = 1;; (* b *)\n(* c *)\nlet y = 2")
    assert [token.text for token in (*first.before, *first.after)] == ["(* a *)", "(* b *)"]
    assert [token.text for token in second.before] == ["(* c *)"]
    assert first.text == "let x = 1"


def test_the_bindings_of_a_phrase_are_its_own() -> None:
    (phrase,) = split("let rec f x = let a = 1 and b = 2 in g a b\nand g a b = f a")
    assert [phrase.text[at : at + 5] for at in phrase.bindings] == ["let r", "and g"]


@given(st.text(alphabet="let in()=;\nx*\"'(", max_size=80))
def test_any_text_splits_and_nothing_is_lost(text: str) -> None:
    at = 0
    for phrase in split(text):
        assert not text[at : phrase.start].replace(";;", "").strip()
        at = phrase.end
    assert not text[at:].replace(";;", "").strip()

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocaml.lexing import TokenKind, comment_text, fault, lex, normalise

TOKENS = [
    ("let f' = 0xFFl", ["let", "f'", "=", "0xFFl"]),
    ("1_000. +. 1e-5", ["1_000.", "+.", "1e-5"]),
    ("x=-1", ["x", "=-", "1"]),
    ("a.(0) <- b.x", ["a", ".", "(", "0", ")", "<-", "b", ".", "x"]),
    ("[|1;2|] [||]", ["[|", "1", ";", "2", "|]", "[|", "|]"]),
    ("f ~x:1 ?y ~-2 ?(z = 3)", ["f", "~x:", "1", "?y", "~-", "2", "?", "(", "z", "=", "3", ")"]),
    ("x :: xs |> g;;", ["x", "::", "xs", "|>", "g", ";;"]),
    ("let* x = y", ["let", "*", "x", "=", "y"]),
    ("[@inline] [%test] [@@@warning]", ["[@", "inline", "]", "[%", "test", "]", "[@@@", "warning", "]"]),
    ("`A | `B", ["`", "A", "|", "`", "B"]),
    ("... ??", ["...", "??"]),
    ("( *) )", ["(", "*", ")", ")"]),
]


@pytest.mark.parametrize(("text", "expected"), TOKENS)
def test_text_is_cut_where_ocaml_cuts_it(text: str, expected: list[str]) -> None:
    assert [token.text for token in lex(text)] == expected


KINDS = [
    ("'a'", TokenKind.CHAR),
    ("'\\n'", TokenKind.CHAR),
    ("'\\''", TokenKind.CHAR),
    ("'\"'", TokenKind.CHAR),
    ("'\\065'", TokenKind.CHAR),
    ("'a", TokenKind.TYPE_VARIABLE),
    ("'_weak1", TokenKind.TYPE_VARIABLE),
    ('"a \\" (* b"', TokenKind.STRING),
    ('{|a " *) |}', TokenKind.STRING),
    ("{id|a |} |i} |id}", TokenKind.STRING),
    ("{%sql|x|}", TokenKind.STRING),
    ("(* (* nested *) *)", TokenKind.COMMENT),
    ('(* a string "*)" in it *)', TokenKind.COMMENT),
    ("(* a char '\"' in it *)", TokenKind.COMMENT),
    ("(* don't mind the apostrophe *)", TokenKind.COMMENT),
    ("(* {|*)|} *)", TokenKind.COMMENT),
    ('(* half a string " *)', TokenKind.COMMENT),
    ("Some", TokenKind.UPPER),
    ("_", TokenKind.LOWER),
    ("true", TokenKind.KEYWORD),
    ("3n", TokenKind.INT),
    ("3.", TokenKind.FLOAT),
    ("0x1.8p3", TokenKind.FLOAT),
    ('"open', TokenKind.ERROR),
    ("(* open", TokenKind.ERROR),
    ("{x|open|}", TokenKind.ERROR),
    ("…", TokenKind.ERROR),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_one_token_has_its_kind(text: str, kind: TokenKind) -> None:
    assert [token.kind for token in lex(text)] == [kind]


def test_a_token_knows_its_place() -> None:
    (*_, last) = lex('let x =\n  "a\nb" ^ y')
    assert (last.text, last.line, last.column, last.start, last.end) == ("y", 3, 5, 18, 19)


def test_normal_form_forgets_blanks_and_comments() -> None:
    assert normalise("f  1 (* one *)\n 2") == normalise("f 1 2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f (x", "'(' is not closed"),
        ("f x)", "')' closes nothing"),
        ("f (x]", "'(' is closed by ']'"),
        ('f "x', "a string is not closed"),
        ("f € x", "'€' means nothing in OCaml"),
        ("f [|x; (y)|]", None),
    ],
)
def test_a_fault_is_named_in_a_few_words(text: str, said: str | None) -> None:
    assert fault(lex(text)) == said


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("(** Adds. *)", " Adds."),
        ("(* a\n * b\n * c *)", " a\nb\nc"),
        ("(**a\n * b\nc*)", "a\n * b\nc"),
        ("(**)", ""),
    ],
)
def test_a_comment_gives_its_words(comment: str, words: str) -> None:
    assert comment_text(comment) == words


@given(st.text(alphabet="(*)\"'{|}a1 .;\\\n", max_size=60))
def test_tokens_and_blanks_are_the_whole_text(text: str) -> None:
    at = 0
    for token in lex(text):
        assert not text[at : token.start].strip()
        assert text[token.start : token.end] == token.text
        at = token.end
    assert not text[at:].strip()

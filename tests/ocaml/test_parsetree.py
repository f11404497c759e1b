"""The compiler's own tree, read from its text, however deep."""

import subprocess
from pathlib import Path

import pytest

from ocaml.grading.parsetree import Node, parse
from ocaml.toolchain import Toolchain


@pytest.fixture
def tree(toolchain: Toolchain, tmp_path: Path):  # type: ignore[no-untyped-def]
    def read(source: str) -> list[Node]:
        (tmp_path / "t.ml").write_text(source)
        command = [toolchain.ocamlc, "-w", "-a", "-stop-after", "parsing", "-dparsetree", "t.ml"]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return parse(told.stderr)

    return read


def test_places_are_byte_offsets(tree) -> None:  # type: ignore[no-untyped-def]
    source = 'let x = "é"\nlet y = x'
    second = tree(source)[1]
    assert source.encode()[second.start : second.end].decode() == "let y = x"


def test_an_empty_source_has_no_items(tree) -> None:  # type: ignore[no-untyped-def]
    assert tree("(* nothing *)") == []


@pytest.mark.parametrize("count", [1, 30, 40, 80, 200])
def test_a_sequence_of_any_length_keeps_its_nesting(tree, count: int) -> None:  # type: ignore[no-untyped-def]
    """The compiler indents by the depth modulo 36: the spans tell the rest."""
    source = "let () =\n  " + ";\n  ".join(f"assert (f {n} [{n}; {n}] = [[{n}]])" for n in range(count))
    node = tree(source)[0].expressions()[0]
    seen = 0
    while node.kind().word == "Pexp_sequence":
        first, node = node.expressions()
        assert first.kind().word == "Pexp_assert"
        seen += 1
    assert (node.kind().word, seen) == ("Pexp_assert", count - 1)


def test_a_long_list_ends_where_it_ends(tree) -> None:  # type: ignore[no-untyped-def]
    numbers = "; ".join(map(str, range(100)))
    source = f"let () = assert (f [{numbers}] 1 = 2)\nlet z = 3"
    first, second = tree(source)
    equation = first.expressions()[0].expressions()[0]
    assert [source[e.start : e.end] for e in equation.expressions()][2] == "2"
    assert source[second.start : second.end] == "let z = 3"

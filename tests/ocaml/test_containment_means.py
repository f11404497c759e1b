"""Which means there are to shut a program in, and what each is told to do: nothing is run in them here."""

import json
import sys
from pathlib import Path

import pytest

from ocaml.containment import Container, Means, layers, strongest
from ocaml.containment.layers import Layer, strength
from ocaml.containment.seatbelt import profile
from ocaml.containment.seccomp import filter_program

PYTHON = Path(sys.executable).resolve()


def test_a_program_that_never_starts_has_no_container() -> None:
    assert strongest(Path("/nowhere/ocamlrun")).means == frozenset()


def test_a_platform_without_means_has_none() -> None:
    assert strongest(PYTHON, platform="plan9").means == frozenset()


def test_the_layers_are_told_with_what_is_missing() -> None:
    found = layers()
    assert [layer.name for layer in found][-2:] == ["holder", "limits"]
    assert all(layer.holds != bool(layer.missing) for layer in found)


def test_a_platform_without_layers_has_limits() -> None:
    assert [layer.name for layer in layers("plan9")] == ["limits"]


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is")
def test_the_means_of_macos_is_told_as_missing_elsewhere() -> None:
    assert [(layer.name, layer.holds) for layer in layers("darwin")] == [
        ("sandbox-exec", False),
        ("holder", True),
        ("limits", True),
    ]


@pytest.mark.parametrize(
    ("holding", "strong"),
    [
        (["bubblewrap"], True),
        (["landlock", "seccomp"], True),
        (["landlock"], False),
        (["seccomp"], False),
        (["holder", "limits"], False),
        (["sandbox-exec"], True),
    ],
)
def test_strong_is_what_hides_files_and_network(holding: list[str], strong: bool) -> None:
    assert strength([Layer(name, holds=True, does="") for name in holding]) is strong


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("signals", [True, False])
def test_a_filter_is_whole_instructions_whose_jumps_stay_inside(machine: str, signals: bool) -> None:
    program = filter_program(machine, signals=signals)
    assert program is not None
    steps = [program[at : at + 8] for at in range(0, len(program), 8)]
    assert len(program) % 8 == 0
    assert len(steps) < 4096
    for at, step in enumerate(steps):
        if step[0] & 7 == 5:  # a jump
            assert at + 1 + max(step[2], step[3]) < len(steps)
    assert steps[-1] == bytes.fromhex("06000000 0000ff7f")


def test_another_machine_has_no_filter() -> None:
    assert filter_program("riscv64", signals=True) is None


def test_the_rules_of_macos_name_what_is_allowed(tmp_path: Path) -> None:
    rules = profile(
        "/opt/homebrew/bin/ocamlrun",
        folder=tmp_path,
        readable=[Path("/opt/homebrew/lib/ocaml")],
        home=Path("/Users/ada"),
    ).splitlines()
    assert rules[:3] == ["(version 1)", "(allow default)", "(deny network*)"]
    assert "(deny process-fork)" in rules
    assert rules.index("(deny file-write*)") < rules.index(
        next(r for r in rules if r.startswith("(allow file-write*"))
    )
    assert f'(subpath "{tmp_path}")' in next(rule for rule in rules if rule.startswith("(allow file-write*"))
    assert '(subpath "/Users/ada")' in next(rule for rule in rules if rule.startswith("(deny file-read*"))
    assert '(subpath "/opt/homebrew/lib/ocaml")' in rules[-1]
    assert rules[-1].startswith("(allow file-read*")


@pytest.mark.parametrize("name", ['qu"ote', "back\\slash", "(paren)", "é ü"])
def test_the_rules_of_macos_quote_odd_names(tmp_path: Path, name: str) -> None:
    rules = profile("/bin/ocamlrun", folder=tmp_path / name, readable=[], home=Path("/Users/ada"))
    assert json.dumps(str(tmp_path / name), ensure_ascii=False) in rules
    assert rules.count("(") - rules.count(")") == 0


def test_on_macos_the_program_is_held_in_its_sandbox(tmp_path: Path) -> None:
    container = Container(frozenset({Means.HOLDER, Means.SEATBELT}), (Path("/lib/ocaml"),), "darwin")
    command = container.wrap(["/bin/ocamlrun", "a.byte"], tmp_path, status=7)
    settings = json.loads(command[5])
    assert command[6:8] == ["/usr/bin/sandbox-exec", "-p"]
    assert command[9:] == ["/bin/ocamlrun", "a.byte"]
    assert (settings["status"], settings["landlock"], settings["namespaces"], settings["filter"]) == (
        7,
        False,
        False,
        "",
    )

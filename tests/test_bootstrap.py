import ast
import io
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import bootstrap
from bootstrap import Consent, Exit, Need, Places, Progress, SetupError

ROOT = Path(bootstrap.__file__).parent


@pytest.fixture
def checkout(tmp_path: Path) -> Places:
    """A checkout that is set up, as far as set-up looks."""
    places = bootstrap.places_in(tmp_path / "my code")
    (places.venv / "bin").mkdir(parents=True)
    for name in ("python", "ocamler"):
        (places.venv / "bin" / name).write_text("#!/bin/sh\n")
        (places.venv / "bin" / name).chmod(0o755)
    (places.venv / "pyvenv.cfg").write_text("version = 3.11.2\n")
    (places.root / "pyproject.toml").write_text("[project]\n")
    (places.root / "bootstrap.py").write_text("pass\n")
    places.stamp.write_text(bootstrap.fingerprint(places))
    return places


@pytest.mark.parametrize(
    ("environment", "terminal", "root", "decision"),
    [
        ({}, True, False, Consent.ASK),
        ({}, True, True, Consent.ASK),
        ({}, False, True, Consent.RUN),
        ({}, False, False, Consent.REFUSE),
        ({"CI": "true"}, False, False, Consent.RUN),
        ({"CI": "1"}, True, False, Consent.RUN),
        ({"CI": ""}, False, False, Consent.REFUSE),
        ({"CI": "false"}, True, False, Consent.ASK),
    ],
)
def test_the_machine_is_changed_after_a_yes_or_in_ci_or_by_root_without_a_terminal(
    environment: dict[str, str], terminal: bool, root: bool, decision: Consent
) -> None:
    assert bootstrap.consent(environment, terminal=terminal, root=root) is decision


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("  [57/178] Building CXX object src/CMakeFiles/llama.dir/llama.cpp.o", "building llama.cpp 57/178"),
        ("[1/83] /usr/bin/g++ -O3 -o x.o", "building llama.cpp 1/83"),
        ("Collecting click<9,>=8.1.7", "fetching click"),
        ("  Downloading llama_cpp_python-0.3.36.tar.gz (76.6 MB)", "fetching llama-cpp-python"),
        (
            "Downloading https://host/packages/a1/typing_extensions-4.15.0-py3-none-any.whl",
            "fetching typing-extensions",
        ),
        ("  Installing build dependencies: started", "fetching the tools of the build"),
        ("  *** Configuring CMake...", "preparing llama.cpp"),
        ("Installing collected packages: wcwidth, click", "installing"),
        ("  warning: unused parameter [-Wunused]", None),
        ("  note: see [1/2] above", None),
        ("", None),
    ],
)
def test_a_line_of_pip_says_how_far_it_is(line: str, progress: str | None) -> None:
    assert bootstrap.read_progress(line) == progress


def test_a_terminal_sees_one_line_that_moves_and_fits() -> None:
    stream = io.StringIO()
    progress = Progress(stream, width=24)
    progress.show("building llama.cpp 57/178")
    progress.clear()
    assert stream.getvalue() == "\r\x1b[Kbuilding llama.cpp 57/1\r\x1b[K"


def test_a_log_sees_a_line_for_each_step_and_not_for_each_object() -> None:
    stream = io.StringIO()
    progress = Progress(stream, width=0)
    for text in (
        "fetching click",
        "fetching tqdm",
        *(f"building llama.cpp {done}/83" for done in range(1, 84)),
    ):
        progress.show(text)
    progress.clear()
    assert stream.getvalue() == "fetching click\nbuilding llama.cpp 1/83\n"


def test_a_finished_set_up_is_current(checkout: Places) -> None:
    assert bootstrap.is_current(checkout)


def test_tests_need_more_than_solving_does(checkout: Places) -> None:
    assert not bootstrap.is_current(checkout, dev=True)
    checkout.stamp.write_text(f"{bootstrap.fingerprint(checkout)} dev")
    assert bootstrap.is_current(checkout, dev=True)
    assert bootstrap.is_current(checkout)


def test_the_extras_it_installs_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*bootstrap.ENGINES.split(","), bootstrap.DEV} <= extras.keys()


@pytest.mark.parametrize("changed", ["pyproject.toml", "bootstrap.py", ".venv/pyvenv.cfg"])
def test_set_up_runs_again_when_what_it_depends_on_changed(checkout: Places, changed: str) -> None:
    (checkout.root / changed).write_text("other\n")
    assert not bootstrap.is_current(checkout)


@pytest.mark.parametrize("lost", ["bin/python", "bin/ocamler", "setup.stamp"])
def test_set_up_runs_again_when_a_part_of_the_environment_is_gone(checkout: Places, lost: str) -> None:
    (checkout.venv / lost).unlink()
    assert not bootstrap.is_current(checkout)


def test_set_up_runs_again_when_the_python_below_it_is_gone(checkout: Places) -> None:
    checkout.python.unlink()
    checkout.python.symlink_to("/nowhere/python3.11")
    assert not bootstrap.is_current(checkout)


def test_set_up_runs_again_when_the_checkout_was_moved(checkout: Places) -> None:
    moved = checkout.root.rename(checkout.root.with_name("elsewhere"))
    assert not bootstrap.is_current(bootstrap.places_in(moved))


def test_the_path_of_a_checkout_with_spaces_reaches_the_build_whole() -> None:
    cmake = Path("/home/me/it's my code/llama.cmake")
    arguments = shlex.split(bootstrap.pip_environment({"CMAKE_ARGS": "-DGGML_CUDA=ON"}, cmake)["CMAKE_ARGS"])
    assert arguments == ["-DGGML_CUDA=ON", "-DLLAVA_BUILD=OFF", f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={cmake}"]


def test_pip_is_not_led_out_of_our_environment() -> None:
    led = {"PYTHONPATH": "/x", "PIP_TARGET": "/x", "PIP_USER": "1", "MAKEFLAGS": "-j --jobserver-auth=3,4"}
    kept = bootstrap.pip_environment({**led, "PIP_INDEX_URL": "https://mirror"}, Path("llama.cmake"))
    assert kept.keys() & led.keys() == {"PIP_USER"}
    assert (kept["PIP_USER"], kept["PIP_INDEX_URL"]) == ("0", "https://mirror")


def test_an_interpreter_is_chosen_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    own = "python{}.{}".format(*sys.version_info)
    for name, body in (("python3.13", "exit 127"), (own, f'exec {shlex.quote(sys.executable)} "$@"')):
        if name == own or own != "python3.13":
            (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / name).chmod(0o755)
    assert bootstrap.find_python(str(tmp_path)) == str(tmp_path / own)
    assert bootstrap.find_python(str(tmp_path / "empty")) is None


def test_the_pythons_it_looks_for_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    assert sorted(bootstrap.SUPPORTED) == [(3, 11), (3, 12), (3, 13)]


def test_an_old_python_can_read_it_far_enough_to_refuse() -> None:
    ast.parse((ROOT / "bootstrap.py").read_text(), feature_version=(3, 8))


def test_the_cmake_file_that_it_names_is_there() -> None:
    assert bootstrap.places_in(ROOT).cmake.is_file()


APT = ("sudo", "apt-get", "update")
NEEDS = [
    Need("OCaml", (APT, ("sudo", "apt-get", "install", "-y", "ocaml")), "Install OCaml.", Exit.NO_OCAML),
    Need("a C++ compiler", (APT, ("sudo", "apt-get", "install", "-y", "g++")), "Install a compiler."),
]


@pytest.mark.parametrize("answer", ["y\n", "Yes\n", " YES "])
def test_a_yes_runs_each_command_once_in_order(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = bootstrap.agree_on_commands(NEEDS, Consent.ASK, lambda question: answer)
    assert [command[-1] for command in commands] == ["update", "ocaml", "g++"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "OCaml and a C++ compiler" in shown.err
    assert "    sudo apt-get install -y ocaml\n" in shown.err


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "what?\n"])
def test_anything_but_a_yes_installs_nothing(answer: str) -> None:
    with pytest.raises(SetupError, match="Nothing was installed") as refused:
        bootstrap.agree_on_commands(NEEDS, Consent.ASK, lambda question: answer)
    assert refused.value.ending is Exit.NO_OCAML


def test_in_ci_nothing_is_asked() -> None:
    def never(question: str) -> str:
        raise AssertionError(question)

    assert len(bootstrap.agree_on_commands(NEEDS, Consent.RUN, never)) == 3


@pytest.mark.parametrize(("needs", "ending"), [(NEEDS, Exit.NO_OCAML), (NEEDS[1:], Exit.REFUSED)])
def test_where_it_may_not_ask_it_names_the_command_and_what_is_missing(
    needs: list[Need], ending: Exit
) -> None:
    with pytest.raises(SetupError, match=r"apt-get install -y g\+\+") as refused:
        bootstrap.agree_on_commands(needs, Consent.REFUSE, lambda question: "y")
    assert refused.value.ending is ending

"""What each command costs before it does anything, and whose modules it takes.

A fresh interpreter runs each entry point; heavy packages may be loaded only by the commands that need them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

HEAVY = {"torch", "transformers", "mlx", "llama_cpp", "textual", "prompt_toolkit"}
FETCHING = {"huggingface_hub", "numpy", "requests", "httpx", "httpx2", "tqdm"}
OURS = ("app", "convert", "models", "ocaml", "training", "tests", "bootstrap")

# Runs a command as its console script does, and leaves the names of what it imported in a file.
PROGRAM = """
import json, sys
modules = sys.argv[1]
sys.argv = ["ocamler", *sys.argv[2:]]
try:
    from app.cli import main
    main()
finally:
    with open(modules, "w") as file:
        json.dump(sorted({name.partition(".")[0] for name in sys.modules}), file)
"""


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str
    modules: set[str]


PROBLEM = """
Write `one`, which returns 1.

```ocaml
let one () : int =
```

>>> one ()
1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_nano: Callable[..., Path]) -> Path:
    """A folder with sources, a problem and a tiny model that solves it; settings and store are empty."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "OCAMLER_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    kept = ("OCAMLER_HOME", "OCAMLER_CACHE")  # a check server is built once for all
    for name in [name for name in os.environ if name.startswith("OCAMLER_") and name not in kept]:
        monkeypatch.delenv(name)
    (tmp_path / "good.ml").write_text("let rec length = function [] -> 0 | _ :: rest -> 1 + length rest\n")
    (tmp_path / "bad.ml").write_text('let n : int = "one"\n')
    (tmp_path / "hello.ml").write_text('let () = print_endline "hello"\n')
    (tmp_path / "one.md").write_text(PROBLEM)
    (tmp_path / "nano.gguf").symlink_to(make_nano(says="```ocaml\nlet one () : int = 1\n```"))
    (tmp_path / "tests.ml").write_text("assert (length [1; 2] = 2)\n")
    return tmp_path


def run(here: Path, *arguments: str) -> Ran:
    modules = here / "modules.json"
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(modules), *arguments],
        cwd=here,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, set(json.loads(modules.read_text())))


LIGHT = [
    ("--help", 0),
    ("check --help", 0),
    ("solve --help", 0),
    ("models --help", 0),
    ("nonsense", 2),
    ("check good.ml", 0),
    ("check --json bad.ml", 3),
    ("run hello.ml", 0),
    ("grade good.ml --tests tests.ml", 0),
    ("settings", 0),
    ("completion bash", 0),
]


@pytest.mark.parametrize(("command", "code"), LIGHT)
def test_what_needs_no_model_loads_no_engine_and_nothing_that_fetches(
    here: Path, command: str, code: int
) -> None:
    ran = run(here, *command.split())
    assert ran.code == code, ran.stderr
    assert ran.modules & (HEAVY | FETCHING) == set()


@pytest.mark.parametrize(
    "command", ["models list", "doctor", "solve absent.md", "solve one.md --model nano.gguf"]
)
def test_the_command_line_never_loads_an_engine_into_its_own_process(here: Path, command: str) -> None:
    assert run(here, *command.split()).modules & HEAVY == set()


def test_help_does_not_start_an_event_loop(here: Path) -> None:
    assert "asyncio" not in run(here, "--help").modules


@pytest.mark.parametrize(
    ("command", "code"),
    [*LIGHT, ("models list", 0), ("solve absent.md", 2), ("solve one.md --model nano.gguf", 0)],
)
def test_a_users_own_modules_of_our_names_are_left_alone(here: Path, command: str, code: int) -> None:
    for name in (*OURS, "click", "llama_cpp", "psutil", "json", "asyncio"):
        (here / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the user was imported')\n")
    ran = run(here, *command.split())
    assert "of the user was imported" not in ran.stderr + ran.stdout
    assert ran.code == code, ran.stderr

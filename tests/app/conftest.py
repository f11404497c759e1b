"""The command as its users run it: a process of its own, in an empty folder, with an empty home."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """What a command of the tests sees: no settings, no models, no colours, and the tests' own cache."""
    ours = [name for name in os.environ if name.startswith("OCAMLER_") and name != "OCAMLER_CACHE"]
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "OCAMLER_HOME": str(home), "OCAMLER_CONFIG": str(home / "config.toml"), "NO_COLOR": "1"}


@pytest.fixture
def ocamler(tmp_path: Path, environment: dict[str, str]) -> Run:
    def run(*arguments: str | Path, stdin: str = "", **options: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-m", "app", *map(str, arguments)]
        settings = {"cwd": tmp_path, "env": environment, "input": stdin, "timeout": 120, **options}
        return subprocess.run(command, capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload,no-any-return]

    return run

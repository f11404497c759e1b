"""``solve --keep-warm``: the model stays in memory from one command to the next, for who asked."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

PROBLEM = "Write `one`.\n\n```ocaml\nlet one () : int =\n```\n\n>>> one ()\n1\n"


@pytest.fixture
def runtime(environment: dict[str, str]) -> Iterator[Path]:
    """A runtime folder of the test's own, short as a socket's path must be; what is warm ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="ocamler-", dir="/tmp"))
    environment["XDG_RUNTIME_DIR"] = str(folder)
    yield folder
    for process in warm_ones(folder):
        process.kill()
    shutil.rmtree(folder)


def warm_ones(folder: Path) -> list[psutil.Process]:
    """Return the processes that serve a socket in ``folder``."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(str(folder) in argument for argument in process.cmdline()):
                found.append(process)
    return found


def test_the_model_stays_for_the_next_solve_and_goes_when_told(
    ocamler: Any, make_nano: Callable[..., Path], tmp_path: Path, runtime: Path
) -> None:
    (tmp_path / "one.md").write_text(PROBLEM)
    asked = ("solve", tmp_path / "one.md", "--model", make_nano(says="```ocaml\nlet one () : int = 1\n```"))
    assert ocamler(*asked).returncode == 0
    assert warm_ones(runtime) == []
    assert ocamler(*asked, "--keep-warm", "5").returncode == 0
    kept = warm_ones(runtime)
    assert len(kept) == 1
    ran = ocamler(*asked)
    assert (ran.returncode, ran.stdout) == (0, "let one () : int = 1\n")
    assert warm_ones(runtime) == kept
    assert ocamler(*asked, "--keep-warm", "0").returncode == 0
    psutil.wait_procs(kept, timeout=5)
    assert warm_ones(runtime) == []


def test_the_setting_keeps_it_too(
    ocamler: Any,
    make_nano: Callable[..., Path],
    tmp_path: Path,
    runtime: Path,
    environment: dict[str, str],
) -> None:
    (tmp_path / "one.md").write_text(PROBLEM)
    environment["OCAMLER_KEEP_WARM"] = "5"
    model = make_nano(says="```ocaml\nlet one () : int = 1\n```")
    assert ocamler("solve", tmp_path / "one.md", "--model", model).returncode == 0
    assert len(warm_ones(runtime)) == 1

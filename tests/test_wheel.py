"""What `uv tool install .` and `pipx install .` would install."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it builds, for which pip fetches hatchling

ROOT = Path(__file__).parents[1]
ROOMS = ("app", "convert", "models", "ocaml", "training")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (built,) = folder.glob("ocamler-*.whl")
    return built


def test_it_holds_every_file_of_the_rooms_and_no_other(wheel: Path) -> None:
    here = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert there == here
    assert "models/catalogue.toml" in there


def test_a_command_runs_from_it_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(install, check=True)
    program = "import app; print(app.__file__); from app.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(site), "OCAMLER_HOME": str(tmp_path / "home")}
    for arguments in (["models", "list"], ["check", "good.ml"]):
        (tmp_path / "good.ml").write_text("let one = 1\n")
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.splitlines()[0]).is_relative_to(site)

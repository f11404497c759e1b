"""The main job with the default model: slow, and the point of it all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import app

SCHEMAS = json.loads((Path(app.__file__).parent / "schemas" / "output.schema.json").read_text())
EXAMPLE = Path(__file__).parents[2] / "examples" / "run_length.md"


@pytest.mark.slow
def test_the_readmes_example_is_solved_by_the_real_model(tmp_path: Path) -> None:
    """Weights stay where users have them, so that they are fetched once."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "app",
        "solve",
        str(EXAMPLE),
        "--json",
        "--model",
        "qwen2.5-coder-1.5b",
    ]
    settings = {**os.environ, "OCAMLER_CONFIG": str(tmp_path / "config.toml")}
    ran = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=1500)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    jsonschema.validate(found, {**SCHEMAS, "$ref": "#/$defs/solve"})
    assert found["verdict"]["stage"] == "pass"
    assert found["verdict"]["passed"] == found["verdict"]["total"] > 0
    (tmp_path / "answer.ml").write_text(found["code"])
    check = [sys.executable, "-P", "-m", "app", "check", str(tmp_path / "answer.ml")]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0

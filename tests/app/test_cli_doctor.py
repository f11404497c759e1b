"""``ocamler doctor`` on a machine that has all, and on ones that lack something."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any


def test_a_machine_that_has_all_is_well(
    ocamler: Any, environment: dict[str, str], make_nano: Callable[..., Path]
) -> None:
    ran = ocamler("doctor", env={**environment, "OCAMLER_MODEL": str(make_nano())})
    assert ran.returncode == 0
    assert "✗" not in ran.stdout
    assert "time, memory and output hold" in ran.stdout


def test_each_engine_that_is_here_is_named_with_its_version(ocamler: Any) -> None:
    found = {one["subject"]: one for one in json.loads(ocamler("doctor", "--json").stdout)["findings"]}
    assert found["engine"]["ok"]
    assert found["engine, llama"]["found"] == f"llama-cpp-python {version('llama-cpp-python')}"
    missing = found["engine, transformers"]["mend"]
    assert missing is None or "-m pip install" in missing


def test_a_server_may_be_the_model(ocamler: Any, environment: dict[str, str]) -> None:
    ran = ocamler("doctor", env={**environment, "OCAMLER_MODEL": "http://localhost:8080"})
    assert "✓ model: a server, http://localhost:8080" in ran.stdout


def test_without_a_model_it_names_the_command_that_brings_one(ocamler: Any) -> None:
    ran = ocamler("doctor")
    assert ran.returncode == 6
    assert "ocamler models pull" in ran.stdout


def test_without_ocaml_the_code_is_7_and_the_rest_is_still_looked_at(
    ocamler: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    ran = ocamler("doctor", "--json", env={**environment, "OCAMLER_OCAML": str(tmp_path / "nowhere")})
    found = {finding["subject"]: finding["ok"] for finding in json.loads(ran.stdout)["findings"]}
    assert ran.returncode == 7
    assert found["OCaml"] is False
    assert found["engine"] is True


def test_settings_that_cannot_be_read_are_told(ocamler: Any, environment: dict[str, str], home: Path) -> None:
    (home / "config.toml").write_text("nosuch = 1\n")
    ran = ocamler("doctor")
    assert "✗ settings" in ran.stdout
    assert "nosuch" in ran.stdout

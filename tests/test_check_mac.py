"""The Mac's own checks, as far as another machine can tell: it declines there; its report is whole."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def check_mac() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_mac", Path(__file__).with_name("check_mac.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["check_mac"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_elsewhere_it_says_in_one_sentence_that_it_is_for_a_mac(
    check_mac: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_mac.main("linux") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "is for a Mac" in shown.err


def test_the_report_names_every_result_and_one_failure_hides_no_other(
    check_mac: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> str:
        raise check_mac.SeenError("it found nothing | at all")

    def breaks() -> str:
        raise ValueError("boom")

    checks = [
        check_mac.Check("first", fails),
        check_mac.Check("second", breaks),
        check_mac.Check("third", lambda: "found"),
    ]
    assert check_mac.main("darwin", checks) == 1
    report = capsys.readouterr().out
    assert "| first | **failed** | 0.0 s | it found nothing \\| at all |" in report
    assert "| second | **failed** | 0.0 s | ValueError: boom |" in report
    assert "| third | ok | 0.0 s | found |" in report
    assert report.endswith("1 of 3 checks passed.\n")


def test_it_succeeds_when_all_checks_do(check_mac: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_mac.main("darwin", [check_mac.Check("only", lambda: "seen")]) == 0

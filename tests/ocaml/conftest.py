"""The real judge, shared by the tests of this room."""

import pytest

from ocaml.judge import PlainJudge
from ocaml.sandbox import MIB, Limits
from ocaml.toolchain import Toolchain, find


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return find()


@pytest.fixture(scope="session")
def judge(toolchain: Toolchain) -> PlainJudge:
    return PlainJudge(toolchain, Limits(seconds=5, memory_bytes=256 * MIB))

"""The real judges, shared by the tests of this room: one suite runs over both."""

from collections.abc import Iterator

import pytest
from attacker import folder, means, token, working

from app.judging import servers_folder
from ocaml.judge import Judge, PlainJudge
from ocaml.sandbox import MIB, Limits
from ocaml.served import ServedJudge
from ocaml.server.build import Built, built
from ocaml.server.launch import launcher
from ocaml.server.pool import Pool
from ocaml.toolchain import Toolchain, find

# Little memory: the first touch of a page can take long on a virtual machine.
__all__ = ["folder", "means", "token", "working"]  # fixtures of the containment tests

LIMITS = Limits(seconds=5, memory_bytes=128 * MIB)


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return find()


@pytest.fixture(scope="session")
def server(toolchain: Toolchain) -> Built:
    """The check server for this compiler; without it every test of the served judge fails."""
    return built(toolchain, servers_folder())


@pytest.fixture(scope="session")
def plain_judge(toolchain: Toolchain) -> PlainJudge:
    return PlainJudge(toolchain, LIMITS)


@pytest.fixture(scope="session")
def served_judge(toolchain: Toolchain, server: Built) -> Iterator[ServedJudge]:
    pool = Pool(launcher(server, toolchain), size=2)
    yield ServedJudge(PlainJudge(toolchain, LIMITS), pool, LIMITS)
    pool.close()


@pytest.fixture(scope="session", params=["plain", "served"])
def judge(request: pytest.FixtureRequest) -> Judge:
    found: Judge = request.getfixturevalue(f"{request.param}_judge")
    return found

"""What a program that is shut in may use, leave and tell, in each way that works on this machine."""

import sys
from pathlib import Path

import pytest
from attacker import ENVIRONMENT, PYTHON, SEEN, attack

from ocaml.containment import Container, Means
from ocaml.sandbox import MIB, RESULT, Limits, execute
from ocaml.scratch import scratch_folder
from ocaml.verdict import Limit


async def test_memory_is_bounded(means: frozenset[Means], folder: Path) -> None:
    code = "x = []\nwhile True: x.append(b'x' * 1_000_000)"
    ran = await attack(code, means, folder, memory_bytes=96 * MIB, seconds=20)
    assert ran.limit is Limit.MEMORY or b"MemoryError" in ran.stderr, ran


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is looked at, not bounded")
async def test_memory_that_is_not_yet_written_to_is_bounded(means: frozenset[Means], folder: Path) -> None:
    ran = await attack(
        "import mmap; mmap.mmap(-1, 2 << 30, mmap.MAP_PRIVATE)", means, folder, memory_bytes=96 * MIB
    )
    assert b"Cannot allocate memory" in ran.stderr, ran


async def test_output_is_bounded(means: frozenset[Means], folder: Path) -> None:
    ran = await attack("while True: print('x' * 1000)", means, folder, output_bytes=50_000)
    assert (ran.limit, ran.truncated, len(ran.stdout)) == (Limit.OUTPUT, True, 50_000)


@pytest.mark.parametrize(
    "code",
    [
        "n = 0\nwhile True: n += 1; open(str(n), 'w').write('x' * 1_000_000)",
        "n = 0\nwhile True: n += 1; open(str(n), 'w')",
        "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
        "import os\nwhile True: os.mkdir('d' * 250); os.chdir('d' * 250)",
    ],
    ids=["bytes", "files", "folders", "long names"],
)
async def test_what_it_may_leave_in_its_folder_is_bounded(working: set[frozenset[Means]], code: str) -> None:
    for means in working:
        async with scratch_folder() as folder:
            ran = await attack(code, means, folder, folder_bytes=20 * MIB, folder_entries=300)
            assert ran.limit is Limit.OUTPUT, (means, ran)
        assert not folder.exists()


async def test_it_holds_no_descriptor_but_its_streams(means: frozenset[Means], folder: Path) -> None:
    code = "import os\nfor fd in range(3, 256):\n    try: os.fstat(fd); print(fd)\n    except OSError: pass"
    assert (await attack(code, means, folder)).stdout == b""


async def test_what_it_tells_comes_as_it_tells_it(means: frozenset[Means], folder: Path) -> None:
    heard: list[bytes] = []
    ran = await execute(
        [
            PYTHON,
            "-I",
            "-S",
            "-c",
            "import os, sys; os.write(int(sys.argv[1]), b'told'); print(sys.stdin.read())",
            RESULT,
        ],
        cwd=folder,
        environment=ENVIRONMENT,
        limits=Limits(),
        stdin=b"nonce",
        take=heard.append,
        container=Container(means, SEEN),
    )
    assert (b"".join(heard), ran.stdout, ran.exit_code) == (b"told", b"nonce\n", 0)


async def test_what_it_told_cannot_be_read_back(means: frozenset[Means], folder: Path) -> None:
    """On Linux opening /dev/fd/N opens a pipe anew, from whichever end."""
    code = (
        "import os, sys\n"
        "os.write(int(sys.argv[1]), b'told')\n"
        "for name in ('/dev/fd/', '/proc/self/fd/'):\n"
        "    try: print(os.read(os.open(name + sys.argv[1], os.O_RDONLY | os.O_NONBLOCK), 10))\n"
        "    except OSError: pass"
    )
    ran = await execute(
        [PYTHON, "-I", "-S", "-c", code, RESULT],
        cwd=folder,
        environment=ENVIRONMENT,
        limits=Limits(),
        take=lambda told: None,
        container=Container(means, SEEN),
    )
    assert b"told" not in ran.stdout


async def test_telling_too_much_ends_it(means: frozenset[Means], folder: Path) -> None:
    heard = bytearray()
    ran = await execute(
        [
            PYTHON,
            "-I",
            "-S",
            "-c",
            "import os, sys\nwhile True: os.write(int(sys.argv[1]), b'x' * 1000)",
            RESULT,
        ],
        cwd=folder,
        environment=ENVIRONMENT,
        limits=Limits(result_bytes=50_000),
        take=heard.extend,
        container=Container(means, SEEN),
    )
    assert (ran.limit, len(heard)) == (Limit.OUTPUT, 50_000)

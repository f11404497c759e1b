"""Real attacks against each way of shutting a program in that works on this machine."""

import asyncio
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from attacker import APART, ENVIRONMENT, HIDING, PYTHON, SEEN, alive, all_gone, attack, works

from ocaml.containment import Container, Means, contained, strongest
from ocaml.containment.container import COMBINATIONS
from ocaml.errors import ContainmentFailed
from ocaml.sandbox import Limits, execute
from ocaml.verdict import Limit


def test_some_way_works_here(working: set[frozenset[Means]]) -> None:
    assert any(Means.HOLDER in means for means in working)


async def test_a_program_ends_as_it_would_outside(means: frozenset[Means], folder: Path) -> None:
    ran = await attack("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", means, folder)
    assert (ran.exit_code, ran.stdout, ran.stderr, ran.limit) == (3, b"out\n", b"err\n", None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
async def test_a_signal_that_ends_a_program_is_told(
    means: frozenset[Means], folder: Path, number: int
) -> None:
    ran = await attack(f"import os; os.kill(os.getpid(), {int(number)})", means, folder)
    assert ran.exit_code == -number


async def test_the_folder_can_be_written_to_and_is_where_it_starts(
    means: frozenset[Means], folder: Path
) -> None:
    code = "import os; os.mkdir('a'); open('a/b', 'w').write('x'); os.rename('a/b', 'c'); os.rmdir('a'); print(os.getcwd())"
    ran = await attack(code, means, folder)
    assert (ran.stderr, ran.stdout.decode().strip()) == (b"", str(folder))
    assert (folder / "c").read_text() == "x"


DEEDS = (
    "open(outside + '/new', 'w')",
    "open(outside + '/file', 'a')",
    "os.remove(outside + '/file')",
    "os.rename(outside + '/file', 'stolen')",
    "os.symlink(outside + '/file', 'link'); open('link', 'w')",
    "os.link(outside + '/file', 'hard')",
    "os.mkdir('/tmp/' + sys.argv[1])",
    "os.mkdir('/' + sys.argv[1])",
    "os.truncate(outside + '/file', 0)",
    "os.rmdir(outside)",
    "os.chmod(outside, 0)",
    "os.chmod(outside + '/file', 0)",
    "os.utime(outside + '/file', (0, 0))",
    "os.mkfifo(outside + '/fifo')",
    "open(outside + '/file').read()",
    "os.listdir(outside)",
    "os.listdir(os.path.expanduser('~root'))",
    "open('/etc/passwd').read()",
    "open('/proc/self/environ').read()",
    "open('/proc/self/mem', 'rb')",
    "open('/proc/self/mem', 'r+b')",
    "open('../x', 'w')",
    "open('/x', 'w')",
    "open('/dev/x', 'w')",
    "open('/dev/shm/x', 'w')",
    "os.execv('/bin/sh', ['sh', '-c', 'echo shell'])",
)


async def test_what_lies_outside_is_out_of_reach(means: frozenset[Means], folder: Path, token: str) -> None:
    if not means & HIDING:
        pytest.skip("nothing hides it")
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    code = "\n".join(
        (
            "import os, sys",
            f"outside = {str(outside)!r}",
            *(f"try: {deed}; print({deed!r})\nexcept OSError: pass" for deed in DEEDS),
            "print('end')",
        )
    )
    ran = await attack(code, means, folder, token)
    assert (ran.stdout.decode(), ran.stderr) == ("end\n", b"")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "secret"


@pytest.mark.parametrize("home", ["127.0.0.1", "::1"])
async def test_there_is_no_network(working: set[frozenset[Means]], folder: Path, home: str) -> None:
    family = socket.AF_INET6 if ":" in home else socket.AF_INET
    with socket.socket(family) as server:
        try:
            server.bind((home, 0))
        except OSError:
            pytest.skip("this machine has no such address itself")
        server.listen()
        code = (
            f"import socket; socket.create_connection(({home!r}, {server.getsockname()[1]}), 2); print('in')"
        )
        for means in working:
            if means & {*APART, Means.SECCOMP, Means.SEATBELT}:
                ran = await attack(code, means, folder)
                assert b"in" not in ran.stdout, means


async def test_nor_the_sockets_of_the_machine(working: set[frozenset[Means]], folder: Path) -> None:
    name = f"\0ocamler-{secrets.token_hex(8)}"
    if sys.platform != "linux":
        pytest.skip("abstract names are Linux's")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({name!r}); print('in')"
        for means in working:
            if means & {*APART, Means.SECCOMP}:
                assert b"in" not in (await attack(code, means, folder)).stdout, means


async def test_no_one_is_signalled(working: set[frozenset[Means]], folder: Path, token: str) -> None:
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    deeds = (
        f"os.kill({victim.pid}, 9)",
        "os.kill(os.getppid(), 9)",
        "os.getpgid(os.getppid()) > 1 and os.killpg(os.getpgid(os.getppid()), 9)",
        "os.setpgid(0, 0); os.setsid()",
    )
    try:
        for means in working:
            if means & {*APART, Means.SECCOMP}:
                for deed in deeds:
                    ran = await attack(
                        f"import os\ntry: {deed}\nexcept OSError: pass\nprint('on')", means, folder
                    )
                    assert (ran.exit_code, ran.stdout) == (0, b"on\n"), (means, deed, ran)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.parametrize(
    "fork", ["os.fork()", "os.posix_spawn('/bin/true', ['true'], {})", "os.system('true') and exit(1)"]
)
async def test_a_second_process_is_refused(working: set[frozenset[Means]], folder: Path, fork: str) -> None:
    for means in working:
        if means & {Means.SECCOMP, Means.SEATBELT}:
            ran = await attack(f"import os; {fork}", means, folder)
            assert ran.exit_code == 1, (means, ran)


async def test_threads_are_not(means: frozenset[Means], folder: Path) -> None:
    code = "import threading; t = threading.Thread(target=print, args=('on',)); t.start(); t.join()"
    ran = await attack(code, means, folder)
    assert (ran.exit_code, ran.stdout) == (0, b"on\n"), ran


DAEMON = """
import os, time
try:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setpgid(0, 0) if os.getpid() != os.getsid(0) else None
            for fd in (0, 1, 2): os.close(fd)
            time.sleep(60)
        os._exit(0)
except OSError:
    pass
time.sleep({rest})
"""


@pytest.mark.parametrize("rest", [0.1, 60], ids=["ends", "is ended"])
async def test_no_daemon_survives(means: frozenset[Means], folder: Path, token: str, rest: float) -> None:
    await attack(DAEMON.format(rest=rest), means, folder, token, seconds=0.8)
    assert await all_gone(token)


BOMB = """
import os, sys, time
for _ in range(5):  # no more than 32 at once, should nothing hold them
    try: os.fork()
    except OSError: pass
try: os.setsid()
except OSError: pass
print('.', flush=True)
time.sleep(60)
"""


async def test_a_fork_bomb_is_cleared_away(means: frozenset[Means], folder: Path, token: str) -> None:
    ran = await attack(BOMB, means, folder, token, seconds=0.6)
    assert ran.limit is Limit.TIME
    assert await all_gone(token)


async def test_a_cancelled_program_is_ended_with_its_daemons(
    means: frozenset[Means], folder: Path, token: str
) -> None:
    task = asyncio.create_task(attack(DAEMON.format(rest=60), means, folder, token, seconds=60))
    while not alive(token):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await all_gone(token)


async def test_ignoring_signals_and_stopping_oneself_is_no_way_out(
    means: frozenset[Means], folder: Path, token: str
) -> None:
    code = (
        "import os, signal\n"
        "for n in range(1, 65):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "while True: pass"
    )
    ran = await attack(code, means, folder, token, seconds=0.7)
    assert ran.limit is Limit.TIME
    assert await all_gone(token)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_outlives_the_judge(
    means: frozenset[Means], folder: Path, token: str, number: int
) -> None:
    """The judge's process is killed while a program of its runs, and a daemon of that."""
    app = (
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from pathlib import Path\n"
        "from ocaml.containment import Container, Means\n"
        "from ocaml.sandbox import Limits, execute\n"
        f"container = Container(frozenset(map(Means, {[one.value for one in means]!r})), {SEEN!r})\n"
        f"asyncio.run(execute([Path({str(PYTHON)!r}), '-I', '-S', '-c', sys.argv[1], sys.argv[2]], cwd=Path({str(folder)!r}),\n"
        f"    environment={ENVIRONMENT!r}, limits=Limits(seconds=60), container=container))\n"
    ).replace("PosixPath", "Path")
    judge = subprocess.Popen([sys.executable, "-c", app, f"open('up', 'w')\n{DAEMON.format(rest=60)}", token])
    while not (folder / "up").exists():
        assert judge.poll() is None
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    judge.send_signal(number)
    judge.wait()
    assert await all_gone(token)


async def test_killing_its_holder_gains_nothing(
    working: set[frozenset[Means]], folder: Path, token: str
) -> None:
    """Where nothing forbids it: the program ends with it, and it counts as the program's own end."""
    weakest = frozenset({Means.HOLDER})
    assert weakest in working
    ran = await attack("import os, time; os.kill(os.getppid(), 9); time.sleep(60)", weakest, folder, token)
    assert ran.exit_code == -signal.SIGKILL
    assert await all_gone(token)


@pytest.mark.parametrize("program", ["/nowhere/ocamlrun", "/etc/passwd"])
async def test_a_container_that_does_not_start_is_no_end_of_the_program(
    means: frozenset[Means], folder: Path, program: str
) -> None:
    with pytest.raises(ContainmentFailed, match=r"did not start \(.+\): .*doctor"):
        await execute(
            [program], cwd=folder, environment=ENVIRONMENT, limits=Limits(), container=Container(means, SEEN)
        )


async def test_a_program_that_says_what_a_broken_container_says_is_believed_nothing(
    means: frozenset[Means], folder: Path
) -> None:
    code = "import sys; print('bwrap: no', file=sys.stderr); print('failed x'); sys.exit(1)"
    assert (await attack(code, means, folder)).exit_code == 1


def test_the_strongest_that_works_is_taken(tmp_path: Path) -> None:
    chosen = strongest(PYTHON, SEEN, trial=("-I", "-S", "-c", ""))
    assert chosen.means == next(m for m in map(frozenset, COMBINATIONS[sys.platform]) if works(m, tmp_path))


def test_any_command_can_be_put_into_the_strongest(folder: Path) -> None:
    command = contained(
        [str(PYTHON), "-I", "-S", "-c", "print('in')"],
        folder=folder,
        readable=SEEN,
        trial=("-I", "-S", "-c", ""),
    )
    assert subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout == b"in\n"

"""`make check-mac`: what only a Mac can show, as one Markdown report to paste.

The report goes to stdout, how far it is to stderr. It exits 1 when a check failed, and 2 on another machine.
"""

import asyncio
import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
SMALL_MODEL = "smollm2-135m"
LOOP = "let rec loop n = loop (n + 1)\nlet () = loop 0\n"
ALLOCATE = "let rec grow kept = grow (Bytes.make 50_000_000 'x' :: kept)\nlet () = grow []\n"
PRINT = "let rec say () = print_endline (String.make 1000 'x'); say ()\nlet () = say ()\n"


class SeenError(Exception):
    """What a check saw instead of what it should have seen."""


@dataclass(frozen=True)
class Check:
    """One question to the machine; ``ask`` returns what was seen, or raises."""

    name: str
    ask: Callable[[], str]


@dataclass(frozen=True)
class Result:
    """What became of a check."""

    name: str
    passed: bool
    seen: str
    seconds: float


def main(platform_name: str = sys.platform, checks: Sequence[Check] | None = None) -> int:
    """Run the checks and print the report; return the exit code."""
    if platform_name != "darwin":
        print(
            "`make check-mac` is for a Mac: here, `make test` and `make test-slow` say what there is to say.",
            file=sys.stderr,
        )
        return 2
    results = [run(check) for check in (CHECKS if checks is None else checks)]
    print(report(describe_machine(), results))
    return 0 if all(result.passed for result in results) else 1


def run(check: Check) -> Result:
    """Ask, and keep whatever comes of it: one failure must not hide the other checks."""
    print(f"{check.name} …", file=sys.stderr, flush=True)
    begun = time.monotonic()
    passed = False
    try:
        seen = check.ask()
        passed = True
    except SeenError as failure:
        seen = str(failure)
    except Exception as fault:  # the report names it
        seen = f"{type(fault).__name__}: {fault}"
    return Result(check.name, passed, seen, time.monotonic() - begun)


def report(machine: str, results: Sequence[Result]) -> str:
    """Write the results as Markdown."""
    passed = sum(result.passed for result in results)
    rows = [_row(result) for result in results]
    head = [
        "## ocamler on a Mac",
        "",
        machine,
        "",
        "| check | result | time | seen |",
        "| --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *rows, "", f"{passed} of {len(results)} checks passed."])


def describe_machine() -> str:
    """Say in a line what machine this is."""
    chip = _output(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()
    memory = int(_output(["sysctl", "-n", "hw.memsize"]) or 0) / 2**30
    commit = _output(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]) or "unknown"
    system = f"macOS {platform.mac_ver()[0] or '?'} ({platform.machine()})"
    return f"{chip}, {memory:.0f} GB · {system} · Python {platform.python_version()} · commit {commit}"


def native() -> str:
    """Python must not run under Rosetta: llama.cpp would be built for the wrong processor."""
    if _output(["sysctl", "-n", "sysctl.proc_translated"]) == "1":
        raise SeenError("Python runs under Rosetta: set up with a Python for Apple silicon")
    return f"{platform.machine()}, {sys.executable}"


def second_setup() -> str:
    """A checkout that is set up must cost next to nothing."""
    begun = time.monotonic()
    done = subprocess.run(["python3", "bootstrap.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode or done.stderr:
        raise SeenError(f"exit {done.returncode}: {done.stderr}")
    if seconds > 0.5:
        raise SeenError(f"{seconds:.2f} s instead of 0.5")
    return f"{seconds * 1000:.0f} ms"


def homebrew_ocaml() -> str:
    """Homebrew's OCaml must be found, also where PATH is the bare one of a program started from the Dock."""
    from ocaml import toolchain

    brew = _output(["brew", "--prefix"])
    if not brew:
        raise SeenError("there is no Homebrew on this Mac")
    bare = toolchain.find({"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": os.environ["HOME"]})
    found = toolchain.find()
    if not str(bare.ocamlc).startswith(brew):
        raise SeenError(f"with a bare PATH it found {bare.ocamlc}")
    return f"OCaml {found.version} at {found.ocamlc}"


def suite(folder: str) -> Callable[[], str]:
    """Return a check that runs the fast tests of one room."""

    def ask() -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            f"tests/{folder}",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines() or [done.stderr]
        if done.returncode:
            failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
            raise SeenError("; ".join([lines[-1], *failed[:8]]))
        return lines[-1]

    return ask


def limit(source: str, limit_word: str, seconds: float) -> Callable[[], str]:
    """Return a check that `ocamler run` ends a program at a limit, with exit 5, in good time."""

    def ask() -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "hostile.ml"
            file.write_text(source)
            begun = time.monotonic()
            done = subprocess.run(
                [BIN / "ocamler", "run", file], capture_output=True, check=False, timeout=120
            )
            took = time.monotonic() - begun
        told = done.stderr.decode(errors="replace").strip()
        if done.returncode != 5 or limit_word not in told.lower():
            raise SeenError(f"exit {done.returncode} instead of 5: {told[-300:]}")
        if took > seconds:
            raise SeenError(f"ended after {took:.1f} s instead of {seconds:.0f}")
        return f"{told.splitlines()[-1]} ({took:.1f} s)"

    return ask


def interrupted_run() -> str:
    """Ctrl-C must end `ocamler run` and the program in it, with exit 130 and no process left."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "loop.ml"
        file.write_text(LOOP)
        process = subprocess.Popen(
            [BIN / "ocamler", "run", file], stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        children = _children_when(process, lambda child: any("program" in part for part in child.cmdline()))
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=10)
    alive = _still_alive(children)
    if code != 130 or alive or not children:
        raise SeenError(f"exit {code}, {alive} of {len(children)} processes left")
    return f"exit 130, none of {len(children)} processes left"


def metal() -> str:
    """The engine must load with its layers on the GPU and generate there."""
    asked = "import llama_cpp; print(llama_cpp.llama_supports_gpu_offload())"
    if _output([sys.executable, "-P", "-c", asked]) != "True":
        raise SeenError("llama.cpp was built without Metal")
    _pull_small_model()
    rates = {layers: asyncio.run(_tokens_per_second(layers)) for layers in (-1, 0)}
    return f"{SMALL_MODEL}: {rates[-1]:.0f} tokens/s with Metal, {rates[0]:.0f} without"


def orphaned_engine() -> str:
    """A killed `ocamler solve` must not leave its engine behind."""
    _pull_small_model()
    example = ROOT / "examples" / "run_length.md"
    command = [str(BIN / "ocamler"), "solve", "--model", SMALL_MODEL, str(example)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = _children_when(process, lambda child: "python" in child.name().lower())
    process.kill()
    process.wait()
    alive = _still_alive(children)
    if not children or alive:
        raise SeenError(f"of {len(children)} child processes {alive} outlived a killed solve")
    return f"none of {len(children)} child processes outlived a killed solve"


def solved_example() -> str:
    """The main job, with the default model: pulled if it is not here."""
    done = subprocess.run(
        [BIN / "ocamler", "solve", "--json", ROOT / "examples" / "run_length.md"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 3, 4, 5):  # an honest failure of the model is no failure of the Mac
        raise SeenError(f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
    model = re.search(r'"model": "([^"]*)"', done.stdout)
    return f"exit {done.returncode} with {model[1] if model else 'an unnamed model'}"


CHECKS = (
    Check("Python is native", native),
    Check("a second set-up starts at once", second_setup),
    Check("Homebrew's OCaml is found", homebrew_ocaml),
    Check("tests of the judge", suite("ocaml")),
    Check("tests of models and engines", suite("models")),
    Check("tests of the command line", suite("app")),
    Check("the time limit ends a loop", limit(LOOP, "time", 30)),
    Check("the memory limit ends a hoarder", limit(ALLOCATE, "memory", 30)),
    Check("the output limit ends a chatterer", limit(PRINT, "output", 30)),
    Check("Ctrl-C leaves no process", interrupted_run),
    Check("Metal generates", metal),
    Check("a killed solve leaves no engine", orphaned_engine),
    Check("the first example, with the default model", solved_example),
)


def _children_when(
    process: subprocess.Popen[bytes], wanted: Callable[[psutil.Process], bool]
) -> list[psutil.Process]:
    """Wait for a child of that kind, and return all children a moment later."""
    for _ in range(200):
        with contextlib.suppress(psutil.Error):
            if any(map(wanted, psutil.Process(process.pid).children(recursive=True))):
                time.sleep(0.3)
                return psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.1)
    return []


def _still_alive(children: Sequence[psutil.Process]) -> int:
    _, alive = psutil.wait_procs(children, timeout=10)
    for child in alive:
        child.kill()
    return len(alive)


def _pull_small_model() -> None:
    done = subprocess.run(
        [BIN / "ocamler", "models", "pull", SMALL_MODEL], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SeenError(f"{SMALL_MODEL} could not be pulled: {done.stderr.strip()[-300:]}")


async def _tokens_per_second(gpu_layers: int) -> float:
    from models.catalogue import Format
    from models.engines import EngineOptions, Message, Role, Sampling, collect, open_engine
    from models.store import Store

    engine = open_engine(Store().resolve(SMALL_MODEL, (Format.GGUF,)), EngineOptions(gpu_layers=gpu_layers))
    try:
        await engine.load()
        messages = [Message(Role.USER, "Tell a long story about a camel.")]
        await collect(engine.generate(messages, sampling=Sampling(max_tokens=8)))  # warm
        begun = time.monotonic()
        told = await collect(engine.generate(messages, sampling=Sampling(max_tokens=200)))
        seconds = time.monotonic() - begun
    finally:
        await engine.close()
    if not told.tokens:
        raise SeenError("it generated nothing")
    return len(told.tokens) / seconds


def _output(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _row(result: Result) -> str:
    seen = " ".join(result.seen.split()).replace("|", "\\|")[:400]
    return f"| {result.name} | {'ok' if result.passed else '**failed**'} | {result.seconds:.1f} s | {seen} |"


if __name__ == "__main__":
    sys.exit(main())

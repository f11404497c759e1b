"""Holds one program: shuts it in as the first argument says, starts it, ends all that it leaves behind.

Run by the judge as a process of its own, ``python -I -S -P holder.py SETTINGS PROGRAM ARGUMENT…``; it
imports nothing of ours. SETTINGS is the JSON of ``Settings``. On the descriptor ``status`` it says
``started`` once the program runs, or ``failed WHY``; when the other end closes, the judge is gone, and
so is the program.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import NoReturn, TypedDict


class Settings(TypedDict):
    """What to do; a path that is not there is no fault."""

    status: int  # a socket to the judge, or -1
    folder: str  # the only place to write to, and the working folder
    readable: list[str]  # files and folders that may be read and executed
    devices: list[str]  # files that may be read and written
    namespaces: bool
    landlock: bool
    filter: str  # a seccomp filter in hexadecimal, "" for none; holds OWN_PID once a place
    own_pid: int  # what stands in the filter for the program's number
    processes: int  # how many more of the user's processes there may be, 0 for no limit


FAILED = 125
END_SECONDS = 5.0  # how long what is left may take to die

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECCOMP = 1, 24, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 4096, 16384, 1 << 18,
)  # fmt: skip
KEPT_FLAGS = {1: 1, 2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}  # of statvfs: of mount
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
MAKE_CHAR, MAKE_BLOCK, MAKE_SOCK, MAKE_FIFO = 1 << 6, 1 << 11, 1 << 9, 1 << 10
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE


def main(settings: Settings, command: list[str]) -> NoReturn:
    """Start ``command``, wait for it, end what it left, and end as it did."""
    status = settings["status"]
    if status >= 0:
        os.set_inheritable(status, False)
    elif sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    executed, execute = os.pipe()  # says why the program did not start; closed when it did
    ended, end = os.pipe()  # how it ended, where another process waits for it
    try:
        if sys.platform == "linux":
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
        if settings["namespaces"]:
            _leave_namespaces()
        child = os.fork()
    except OSError as error:
        _fail(status, str(error))
    if child == 0:
        try:
            _guarded(settings, command, execute, end)
        except BaseException as error:
            os.write(execute, f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(FAILED)
    os.close(execute)
    os.close(end)
    why = os.read(executed, 1000)
    if why:
        _fail(status, why.decode(errors="replace"))
    _tell(status, "started")
    code = _wait(child, status, woken)
    told = os.read(ended, 16) if settings["namespaces"] else b""
    _end_family()
    _end_as(int(told) if told else code)


def _fail(status: int, why: str) -> NoReturn:
    _tell(status, f"failed {' '.join(why.split())}")
    os._exit(FAILED)


def _tell(status: int, line: str) -> None:
    if status >= 0:
        with contextlib.suppress(OSError):
            os.write(status, f"{line}\n".encode())


def _wait(child: int, status: int, woken: int) -> int:
    """Reap until the program has ended; end it when the judge is gone."""
    poll = select.poll()
    if status >= 0:
        poll.register(status, select.POLLIN | select.POLLHUP)
    poll.register(woken, select.POLLIN)
    while True:
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == child:
                    return reaped[1]
        for descriptor, _ in poll.poll():
            with contextlib.suppress(BlockingIOError):
                if descriptor == woken:
                    os.read(woken, 512)
                elif not _hears(status):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                    _end_family()
                    os._exit(FAILED)


def _hears(status: int) -> bool:
    try:
        return bool(os.read(status, 64))
    except ConnectionError:
        return False


def _end_family() -> None:
    """Stop, then kill all descendants; those whose parent died are our children (Linux alone)."""
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        family = _descendants(os.getpid())
        if not family:
            return
        # Stopped first: one that is being killed can't outrun us by starting others.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for member in [*family, *_descendants(os.getpid())]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(member, number)
        time.sleep(0.001)


def _descendants(pid: int) -> list[int]:
    found = _children(pid)
    for one in found:
        found += _children(one)
    return found


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _end_as(code: int) -> NoReturn:
    """End as the program did, by the same signal or with the same exit code."""
    if os.WIFSIGNALED(code):
        number = os.WTERMSIG(code)
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(code) & 255)


def _guarded(settings: Settings, command: list[str], execute: int, end: int) -> NoReturn:
    """Become the program; in a namespace of processes the first one only waits for it."""
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if settings["namespaces"]:
        program = os.fork()
        if program:
            os.close(execute)
            while (reaped := os.wait())[0] != program:
                pass
            os.write(end, str(reaped[1]).encode())
            os._exit(0)  # the kernel ends the rest of the namespace
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform == "linux":
        os.setsid()  # a group of its own; elsewhere it is by ours that the judge finds it
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    if settings["processes"]:
        _limit_processes(settings["processes"])
    if settings["namespaces"]:
        _new_root(settings)
    os.chdir(settings["folder"])
    if sys.platform == "linux":
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        with contextlib.suppress(OSError):  # the end of those that there are, or not ours to drop
            for capability in range(64):
                _prctl(PR_CAPBSET_DROP, capability)
    if settings["landlock"]:
        _landlock(settings)
    if settings["filter"]:
        _seccomp(bytes.fromhex(settings["filter"]), settings["own_pid"])
    os.execv(command[0], command)


def _limit_processes(more: int) -> None:
    """Bound how many processes the user may have: for root the kernel doesn't look."""
    import resource

    tasks = _tasks_on_linux() if sys.platform == "linux" else _tasks_elsewhere()
    if tasks:
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = tasks + more if hard == resource.RLIM_INFINITY else min(tasks + more, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _tasks_on_linux() -> int:
    tasks = 0
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                    tasks += len(os.listdir(f"/proc/{name}/task"))
    return tasks


def _tasks_elsewhere() -> int:
    import subprocess

    command = ["ps", "-U", str(os.getuid()), "-o", "pid="]
    with contextlib.suppress(OSError):
        return len(subprocess.run(command, capture_output=True, check=False).stdout.splitlines())
    return 0


def _seccomp(program: bytes, own_pid: int) -> None:
    order = sys.byteorder
    program = program.replace(own_pid.to_bytes(4, order), os.getpid().to_bytes(4, order))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(program) // 8, program)))


def _landlock(settings: Settings) -> None:
    """Deny all files but those named; from the kernel's landlock(7)."""
    version = _syscall(LANDLOCK_CREATE, None, 0, 1)
    files = (1 << 13) - 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
        files |= right if version >= since else 0
    network = 3 if version >= 4 else 0  # bind, connect
    scopes = 3 if version >= 6 else 0  # abstract sockets, signals
    sizes = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = b"".join(number.to_bytes(8, sys.byteorder) for number in (files, network, scopes))
    rules = _syscall(LANDLOCK_CREATE, attributes, sizes, 0)
    of_folder = files & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK | MAKE_SOCK | MAKE_FIFO | IOCTL_DEVICE)
    for paths, rights in (
        ([settings["folder"]], of_folder),
        (settings["readable"], EXECUTE | READ_FILE | READ_DIR),
        (settings["devices"], READ_FILE | WRITE_FILE),
    ):
        for path in paths:
            _allow(rules, path, rights & files)
    _syscall(LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= OF_FILES
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    _syscall(LANDLOCK_ADD, rules, 1, rule, 0)
    os.close(place)


def _leave_namespaces() -> None:
    """Leave the machine's users, processes, networks and queues for empty ones of our own."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _new_root(settings: Settings) -> None:
    """Make a root of what the program may see, all of it read-only but the folder.

    /proc isn't there: through it a program reads its own memory.
    """
    base = os.path.dirname(settings["folder"])
    _check(_libc.unshare(CLONE_NEWNS))
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    # Taken now: what is mounted on the base hides them.
    sources = _descriptors([*settings["readable"], *settings["devices"], settings["folder"]])
    _mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m")
    for path, source in sources.items():
        writable = path == settings["folder"] or path in settings["devices"]
        _bind(f"/proc/self/fd/{source}", base + path, writable=writable)
        os.close(source)
    os.mkdir(f"{base}/.old")
    os.chdir(base)
    _check(_libc.syscall(ctypes.c_long(PIVOT_ROOT[os.uname().machine]), b".", b".old"))
    _check(_libc.umount2(b"/.old", MNT_DETACH))
    os.rmdir("/.old")
    _mount(None, "/", None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _descriptors(paths: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            found[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
    return found


def _bind(source: str, target: str, *, writable: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass
    _mount(source, target, None, MS_BIND | MS_REC)
    if not writable:
        given = os.statvfs(target).f_flag
        kept = sum(flag for bit, flag in KEPT_FLAGS.items() if given & bit)
        _mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | kept)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    texts = (text.encode() if text is not None else None for text in (source, target, kind))
    _check(_libc.mount(*texts, ctypes.c_ulong(flags), data.encode() or None))


def _prctl(option: int, *arguments: object) -> None:
    padded = [*arguments, *[0] * (4 - len(arguments))]
    longs = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in padded]
    _check(_libc.prctl(option, *longs))


def _syscall(number: int, *arguments: object) -> int:
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *longs))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


_libc = ctypes.CDLL(None, use_errno=True)

if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])

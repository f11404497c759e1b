"""The system calls that a contained program may not make, as a filter that the Linux kernel runs.

A program of OCaml's own needs none of them: it opens files, prints, takes memory, starts threads.
"""

import struct
from collections.abc import Iterable

__all__ = ["OWN_PID", "filter_program", "filters_in_turn"]

OWN_PID = 0x7E57A11D  # stands in the filter for the number of the process, which only that process knows

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column below, AUDIT_ARCH
_X32 = 0x40000000  # system calls of a third kind on x86_64, by other numbers

# Numbers on x86_64 and aarch64 (which lacks some); from the kernel's unistd.h.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # A second process
    "fork": (57, None),
    "vfork": (58, None),
    "execveat": (322, 281),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # Others: on the network, on this machine, in the kernel
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # Another view of the machine
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # What landlock does not look at: a file's length (before Linux 6.2), owner, permissions, times
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "mknod": (133, None),
    "mknodat": (259, 33),
    # What the kernel's own faults are found in
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    # The machine's settings
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_EXECVE = (59, 221)
_OF_FORKERS = frozenset({"fork", "vfork", "setsid", "setpgid"})
_KILL, _TGKILL = (62, 129), (234, 131)
_PRLIMIT64, _PRCTL, _IOCTL = (302, 261), (157, 167), (16, 29)

_CLONE_THREAD = 0x10000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # both type at the terminal

_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # classic BPF
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in seccomp_data
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38


def filter_program(machine: str, *, signals: bool) -> bytes | None:
    """Return the filter for ``machine`` as ``uname -m`` names it, None for one whose calls are not known.

    Without ``signals`` a program may signal itself alone: put its number in the place of ``OWN_PID``.
    With it, any that it sees: for a program that sees no other.
    """
    if machine not in _ARCHITECTURES:
        return None
    rules = [*_opening(machine), *_denied(machine, _DENIED), *_no_process(machine), *_arguments(machine)]
    if not signals:
        rules += _itself_alone(machine)
    return b"".join([*rules, *_allow()])


def filters_in_turn(machine: str) -> tuple[bytes, bytes] | None:
    """Return the filter in two parts, for a process that forks: one for it and its children, one for these.

    A filter costs by its length each time that it is put on. The second denies what the first process does
    itself: to fork, to signal, to lead a session; and to execute anything.
    """
    if machine not in _ARCHITECTURES:
        return None
    early = [*_opening(machine), *_denied(machine, _DENIED.keys() - _OF_FORKERS)]
    late = [
        *_opening(machine),
        *_denied(machine, _OF_FORKERS),
        *_when(_EQUAL, _EXECVE[_column(machine)], _refuse(_EPERM)),
        *_no_process(machine),
        *_arguments(machine),
        *_itself_alone(machine),
    ]
    return b"".join([*early, *_allow()]), b"".join([*late, *_allow()])


def _column(machine: str) -> int:
    return _ARCHITECTURES[machine][0]


def _opening(machine: str) -> list[bytes]:
    return [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, _ARCHITECTURES[machine][1], 1, 0),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _NUMBER),
        *_when(_AT_LEAST, _X32, _refuse(_ENOSYS)),
    ]


def _denied(machine: str, names: Iterable[str]) -> list[bytes]:
    numbers = (_DENIED[name][_column(machine)] for name in sorted(names))
    return [
        step for number in numbers if number is not None for step in _when(_EQUAL, number, _refuse(_EPERM))
    ]


def _no_process(machine: str) -> list[bytes]:
    """A thread is none.

    glibc tries clone3 first, whose flags a filter can't see, and takes clone where there is none.
    """
    clone, clone3 = _CLONE[_column(machine)], _CLONE3[_column(machine)]
    return [
        *_when(_EQUAL, clone3, _refuse(_ENOSYS)),
        *_with_argument(clone, _FIRST_ARGUMENT, _when(_HAS_BIT, _CLONE_THREAD, _allow())),
    ]


def _itself_alone(machine: str) -> list[bytes]:
    calls = (call[_column(machine)] for call in (_KILL, _TGKILL))
    to_itself = _when(_EQUAL, OWN_PID, _allow())
    return [step for call in calls for step in _with_argument(call, _FIRST_ARGUMENT, to_itself)]


def _arguments(machine: str) -> list[bytes]:
    """Calls of which some uses are refused."""
    column = _column(machine)
    rules = _with_argument(_PRLIMIT64[column], _FIRST_ARGUMENT, _when(_EQUAL, 0, _allow()))
    for call, values in ((_PRCTL, (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE)), (_IOCTL, (_TIOCSTI, _TIOCLINUX))):
        place = _FIRST_ARGUMENT if call is _PRCTL else _SECOND_ARGUMENT
        refused = [step for value in values for step in _when(_EQUAL, value, _refuse(_EPERM))]
        rules += _with_argument(call[column], place, [*refused, *_allow()])
    return rules


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _when(test: int, operand: int, then: list[bytes]) -> list[bytes]:
    return [_instruction(test, operand, 0, len(then)), *then]


def _with_argument(number: int, place: int, decide: list[bytes]) -> list[bytes]:
    """Decide a call by the low half of an argument; refuse it where that says nothing."""
    return _when(_EQUAL, number, [_instruction(_LOAD, place), *decide, *_refuse(_EPERM)])


def _refuse(error: int) -> list[bytes]:
    return [_instruction(_RETURN, _ERRNO | error)]


def _allow() -> list[bytes]:
    return [_instruction(_RETURN, _ALLOW)]

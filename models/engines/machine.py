"""What an engine asks of the machine: how many threads, whether to use the GPU, how much memory is free.

The one place in this room that knows platforms apart.
"""

import os
import platform
import subprocess
import sys

from models.choice import memory_here


def compute_threads() -> int:
    """How many threads compute best: one a physical core, on Apple silicon the performance cores alone.

    A thread on an efficiency core holds up all others at every barrier.
    """
    import psutil

    if is_apple_silicon() and (cores := _performance_cores()):
        return cores
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    # A container or taskset may leave us fewer than the machine has.
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else physical
    return max(1, min(physical, allowed))


def gpu_layers() -> int:
    """How many layers go to the GPU: all (-1), which is none where the library was built without one.

    Metal on an Intel Mac gives wrong results on many of its GPUs.
    """
    return 0 if sys.platform == "darwin" and not is_apple_silicon() else -1


def free_memory_bytes() -> int:
    """How much memory can be taken without swapping."""
    import psutil

    # A container's limit is not in what psutil says is available.
    return min(psutil.virtual_memory().available, memory_here())


def is_apple_silicon() -> bool:
    """Whether this is a Mac with an Apple processor."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def _performance_cores() -> int:
    try:
        answer = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "hw.perflevel0.physicalcpu"],
            capture_output=True,
            check=True,
            timeout=2,
            stdin=subprocess.DEVNULL,
        )
        return int(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0

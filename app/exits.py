"""The exit codes, the same for every command."""

from enum import IntEnum

from ocaml.verdict import Stage, Verdict


class Exit(IntEnum):
    """What a command's exit code says."""

    DONE = 0
    USAGE = 2
    REFUSED = 3
    FAILED = 4
    LIMIT = 5
    MODEL = 6
    TOOLCHAIN = 7
    OURS = 70
    INTERRUPTED = 130


def exit_for(verdict: Verdict) -> Exit:
    """Return the code for a verdict: a limit comes before the stage it was met at."""
    if verdict.limit is not None:
        return Exit.LIMIT
    if verdict.stage is Stage.PASS:
        return Exit.DONE
    return Exit.REFUSED if verdict.stage <= Stage.LINK else Exit.FAILED

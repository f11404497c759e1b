"""Our three standard streams, any of which may be closed, full or deserted by whoever read it."""

import os
import sys


def mend_closed_streams() -> None:
    """Put something harmless where stdin or stderr is closed; a closed stdout stays None and is told."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (it lives as long as we do)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def tell(message: str) -> None:
    """Write one sentence to stderr, if there is one and somebody listens."""
    if message:
        to_stderr(f"ocamler: {message}\n")


def to_stderr(text: str) -> None:
    """Write to stderr; when it takes nothing, what matters is that stdout still gets the answer."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def forget_stdout() -> None:
    """Point stdout nowhere, so that nothing more is flushed into a pipe without a reader."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != 1:
        os.dup2(nowhere, 1)
        os.close(nowhere)

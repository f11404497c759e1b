"""The one place where faults become a sentence on stderr and an exit code."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

import click

from app.exits import Exit


def run_guarded(command: Callable[[], object]) -> int:
    """Run ``command`` and return its exit code; whatever it raises is told in a sentence."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        result = command()
        _flush()
        return int(result) if isinstance(result, int) else Exit.DONE
    except (KeyboardInterrupt, click.Abort):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the end
        tell("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return _closed()
    except Exception as error:
        message, code = explain(error)
        tell(message)
        if code is Exit.OURS and os.environ.get("OCAMLER_DEBUG"):
            raise
        return code


def explain(error: Exception) -> tuple[str, int]:
    """Return the sentence and the exit code for an exception."""
    from app.files import FileProblem
    from app.settings import SettingsError
    from models.errors import ModelError
    from ocaml.errors import OCamlError
    from ocaml.toolchain import ToolchainMissing

    match error:
        case click.exceptions.Exit(exit_code=code):
            return "", code
        case click.ClickException():
            return _click_sentence(error), error.exit_code
        case ToolchainMissing():
            return str(error), Exit.TOOLCHAIN
        case OCamlError() | FileProblem() | SettingsError():
            return str(error), Exit.USAGE
        case ModelError():
            return str(error), Exit.MODEL
        case _:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            return (
                f"a fault of ours, {what[:300]}. Please report it; OCAMLER_DEBUG=1 shows where it happened.",
                Exit.OURS,
            )


def tell(message: str) -> None:
    """Write one sentence to stderr, if there is one and somebody listens."""
    if not message:
        return
    try:
        print(f"ocamler: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return


def _click_sentence(error: click.ClickException) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"name a command of `{error.ctx.command_path}`; `--help` lists them." if error.ctx else ""
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        ending = "" if message.endswith("?") else "."
        return f"{message.rstrip('.')}{ending} See `{error.ctx.command_path} --help`."
    return message


def _closed() -> int:
    """Whoever read our output has left (``| head -1``): end quietly, with nothing more to flush."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return Exit.DONE


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _terminate(_number: int, _frame: FrameType | None) -> None:
    """End on SIGTERM as on Ctrl-C, so that no child is left."""
    raise KeyboardInterrupt

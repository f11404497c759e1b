"""The one place where faults become a sentence on stderr and an exit code."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

import click

from app.exits import Exit
from app.streams import forget_stdout, mend_closed_streams, tell


def run_guarded(command: Callable[[], object]) -> int:
    """Run ``command`` and return its exit code; whatever it raises is told in a sentence."""
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _terminate)
        mend_closed_streams()
        result = command()
        _flush()
        return int(result) if isinstance(result, int) else Exit.DONE
    except (KeyboardInterrupt, click.Abort):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the end
        tell("interrupted")
        return Exit.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has left (`| head -1`) and had what it wanted; click says it by SystemExit.
        forget_stdout()
        return Exit.DONE
    except Exception as error:
        message, code = explain(error)
        if isinstance(error, OSError):
            forget_stdout()  # what could not be written must not be tried again at the end
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
        case OSError() if error.strerror:
            place = f"{error.filename}: " if error.filename else ""
            return (
                f"the system says: {place}{error.strerror.lower()}. Mend that and run it again.",
                Exit.USAGE,
            )
        case _:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            return (
                f"a fault of ours, {what[:300]}. Please report it; OCAMLER_DEBUG=1 shows where it happened.",
                Exit.OURS,
            )


def _click_sentence(error: click.ClickException) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"name a command of `{error.ctx.command_path}`; `--help` lists them." if error.ctx else ""
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        ending = "" if message.endswith("?") else "."
        return f"{message.rstrip('.')}{ending} See `{error.ctx.command_path} --help`."
    return message


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _terminate(_number: int, _frame: FrameType | None) -> None:
    """End on SIGTERM, and when the terminal goes, as on Ctrl-C, so that no child is left."""
    raise KeyboardInterrupt

"""A profile for macOS's ``sandbox-exec``: deprecated by Apple for years, and what there is."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

SANDBOX_EXEC = "/usr/bin/sandbox-exec"

# Where a user's files are, his home apart, and everyone's temporary ones.
PRIVATE = ("/Users", "/Volumes", "/Network", "/private/tmp", "/private/var/tmp", "/private/var/folders")


def wrapped(
    command: Sequence[str], *, folder: Path, readable: Sequence[Path], home: Path, forks: bool = False
) -> list[str]:
    """Put ``command`` into the sandbox of macOS."""
    rules = profile(command[0], folder=folder, readable=readable, home=home, forks=forks)
    return [SANDBOX_EXEC, "-p", rules, *command]


def profile(program: str, *, folder: Path, readable: Sequence[Path], home: Path, forks: bool = False) -> str:
    """Return the rules, of which the last that matches holds.

    A program that ``forks`` may have children, signal them and execute what lies beside it.
    """
    shown = [folder, *readable]
    above = {parent for path in _both(shown) for parent in Path(path).parents}
    return "\n".join(
        (
            "(version 1)",
            "(allow default)",
            "(deny network*)",
            "(deny appleevent-send)",
            "(deny signal)",
            *(
                (
                    "(allow signal (target same-sandbox))",
                    "(deny process-exec*)",
                    f"(allow process-exec* {_rules('subpath', _both([Path(program).parent]))})",
                )
                if forks
                else (
                    "(allow signal (target self))",
                    "(deny process-fork)",
                    "(deny process-exec*)",
                    f"(allow process-exec* {_rules('literal', _both([Path(program)]))})",
                )
            ),
            "(deny file-write*)",
            f"(allow file-write* {_rules('subpath', _both([folder]))} "
            '(literal "/dev/null") (literal "/dev/zero"))',
            f"(deny file-read* {_rules('subpath', dict.fromkeys((*_both([home]), *PRIVATE)))})",
            # A path is walked from the top: each folder on the way may be looked up, not listed.
            f"(allow file-read-metadata {_rules('literal', map(str, sorted(above)))})",
            f"(allow file-read* {_rules('subpath', _both(shown))})",
        )
    )


def _both(paths: Sequence[Path]) -> list[str]:
    """Return each path as it was named and as it really is: rules look at the real one."""
    return list(dict.fromkeys(str(form) for path in paths for form in (path, path.resolve())))


def _rules(kind: str, paths: Iterable[str]) -> str:
    return " ".join(f"({kind} {json.dumps(path, ensure_ascii=False)})" for path in paths)

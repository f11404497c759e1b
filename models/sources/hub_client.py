"""The child process that talks to the Hugging Face hub: it lists a repository, or fetches one file.

    python -m models.sources.hub_client list REPO REVISION SECONDS
    python -m models.sources.hub_client fetch REPO REVISION FILE TARGET SIZE

A process of its own, because a name server that does not answer cannot be interrupted in Python, and
because huggingface_hub reads its environment once, when it is imported. A fetch goes on from what TARGET
holds: ``hf_hub_download`` no longer can (huggingface_hub#4196). It dies with the process that started it.
"""

import json
import os
import sys
import threading
from pathlib import Path

REFUSED = 3
"""Exit code: the hub answered, and refuses."""


def main(arguments: list[str]) -> int:
    """Do what the arguments ask, and say the reason on stderr's last line when it fails."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # Imported here, after the thread runs: it costs 0.3 to 2 s.
    from huggingface_hub.errors import HfHubHTTPError

    try:
        match arguments:
            case ["list", repo, revision, seconds]:
                print(json.dumps(_list(repo, revision, float(seconds))))
            case ["fetch", repo, revision, file, target, size]:
                _fetch(repo, revision, file, Path(target), int(size))
            case _:
                raise ValueError(f"unknown arguments {arguments}")
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", 0)
        print(f"HTTP {status} {_first_line(error)}", file=sys.stderr)
        return REFUSED if 400 <= status < 500 else 1
    except Exception as error:
        # The boundary of the process: whatever it was becomes one line that our parent reads.
        print(_first_line(error), file=sys.stderr)
        return 1
    return 0


def _die_with_parent() -> None:
    # Our parent holds the other end and never writes: this returns when it is gone.
    sys.stdin.read()
    os._exit(1)


def _list(repo: str, revision: str, seconds: float) -> dict[str, object]:
    from huggingface_hub import HfApi

    info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=seconds)
    files = [
        {
            "path": sibling.rfilename,
            "size": sibling.size or 0,
            "sha256": sibling.lfs["sha256"] if sibling.lfs else None,
            "blob": sibling.blob_id,
        }
        for sibling in info.siblings or []
    ]
    return {"revision": info.sha, "files": files}


def _fetch(repo: str, revision: str, file: str, target: Path, size: int) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined, unused-ignore]

    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}  # ranges of the bytes themselves
    with target.open("ab") as growing:
        http_get(
            hf_hub_url(repo, file, revision=revision),
            growing,
            resume_size=growing.tell(),
            headers=headers,
            expected_size=size,
        )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Where the program keeps what it can make again: check servers, and the states of system prompts."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return ``OCAMLER_CACHE``, else our place in the user's folder for caches; it need not be there yet."""
    if chosen := environment.get("OCAMLER_CACHE", "").strip():
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ocamler", appauthor=False))

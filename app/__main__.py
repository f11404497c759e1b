"""``python -P -m app``: the same as ``ocamler``."""

from app.cli import main

main()

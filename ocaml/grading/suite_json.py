"""The check server's reading of tests, made a ``Suite``: what ``read_suite`` gives, from JSON."""

from collections.abc import Sequence
from typing import Any

from ocaml.grading.assertions import Claim, Piece, Side, Suite, display


def suite_from_json(read: dict[str, Any]) -> Suite:
    """Return the suite that ``suite.mli`` describes.

    Claims that follow each other share contexts: each piece in the table tells which one comes before it.
    """
    contexts: list[tuple[Piece, ...]] = []
    for row in read["pieces"]:
        contexts.append((*_context(contexts, row["after"]), _piece(row)))
    steps = (
        _claim(step["claim"], contexts) if "claim" in step else _piece(step["piece"])
        for step in read["steps"]
    )
    return Suite(tuple(steps), frozenset(read["mentions"]))


def _context(contexts: Sequence[tuple[Piece, ...]], place: int | None) -> tuple[Piece, ...]:
    return () if place is None else contexts[place]


def _claim(read: dict[str, Any], contexts: Sequence[tuple[Piece, ...]]) -> Claim:
    sides = read["sides"]
    return Claim(
        text=display(read["text"]),
        condition=read["condition"],
        context=_context(contexts, read["context"]),
        sides=None if sides is None else (_side(sides[0]), _side(sides[1])),
        block=read["block"],
        mentions=frozenset(read["mentions"]),
    )


def _side(read: dict[str, Any]) -> Side:
    return Side(read["text"], frozenset(read["mentions"]), read["head"])


def _piece(read: dict[str, Any]) -> Piece:
    return Piece(
        text=read["text"],
        mentions=frozenset(read["mentions"]),
        binds=frozenset(read["binds"]),
        effect=read["effect"],
        stateless=read["stateless"],
        opens=frozenset(read["opens"]),
    )

"""Verdicts and diagnostics on the terminal's stderr; a program's own output where it belongs."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from app.render import render_diagnostics
from app.streams import tell, to_stderr
from app.style import style_for
from app.verdict_lines import render_assertions, render_verdict_line
from ocaml.diagnostics import Diagnostic, Kind
from ocaml.verdict import Stage, Verdict

WIDEST = 120  # characters; wider lines are hard to read


def terminal_width() -> int:
    """The width to lay text out for."""
    return min(shutil.get_terminal_size((100, 24)).columns, WIDEST)


def show_diagnostics(found: Sequence[Diagnostic], texts: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Write diagnostics beside the code; ``names`` maps the judge's file names to the user's."""
    if not found:
        return
    sources = {names.get(name, name): text for name, text in texts.items()}
    renamed = [_renamed(diagnostic, names) for diagnostic in found]
    style = style_for(sys.stderr)
    to_stderr(render_diagnostics(renamed, sources, style=style, width=terminal_width()) + "\n")


def show_verdict(verdict: Verdict, texts: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Write what stopped an answer, then the verdict in a line."""
    show_diagnostics(verdict.diagnostics, texts, names)
    if verdict.stage is Stage.TESTS:  # before that none was run
        to_stderr(render_assertions(verdict, style=style_for(sys.stderr), width=terminal_width()) + "\n")
    to_stderr(render_verdict_line(verdict, style=style_for(sys.stderr)) + "\n")


def show_output(verdict: Verdict) -> None:
    """Pass a program's output on, and say when it was cut."""
    click.echo(verdict.stdout, nl=False)
    to_stderr(_without_the_runtimes_words(verdict))
    if verdict.output_truncated:
        tell("the output was cut here")


def _without_the_runtimes_words(verdict: Verdict) -> str:
    """The program's own stderr: an uncaught exception is shown beside the code instead."""
    told = any(found.kind in _RUNTIME_KINDS for found in verdict.errors)
    before, words, _ = verdict.stderr.rpartition("Fatal error: exception ")
    return before if told and words else verdict.stderr


_RUNTIME_KINDS = {Kind.EXCEPTION, Kind.ASSERTION, Kind.STACK_OVERFLOW, Kind.OUT_OF_MEMORY}


def _renamed(diagnostic: Diagnostic, names: Mapping[str, str]) -> Diagnostic:
    related = tuple(replace(other, path=_name(other.path, names)) for other in diagnostic.related)
    return replace(diagnostic, path=_name(diagnostic.path, names), related=related)


def _name(path: str | None, names: Mapping[str, str]) -> str | None:
    if path is None:
        return next(iter(names.values()), None)
    return names.get(path, names.get(Path(path).name, path))

"""Every prompt a model is given, in one place: training, evaluation and the assistant ask in the same words.

Short on purpose: a page of reminders and worked examples made a 1.5B model slightly worse at OCaml.
"""

from collections.abc import Sequence

from models.engines.protocol import Message, Role

VERSION = "1"
"""Changes with any word below: results are comparable only under one version."""

SYSTEM = (
    "You write OCaml. Answer with one ```ocaml block and nothing else: the complete definition with the "
    "given signature, and any helper functions before it. Use only the standard library. "
    "No tests, no printing, no explanation."
)


def solve(
    statement: str, signature: str = "", definitions: str = "", examples: Sequence[str] = ()
) -> list[Message]:
    """Ask for a program. ``signature``, ``definitions`` and ``examples`` are OCaml; each may be empty."""
    parts = [
        statement.strip(),
        _titled("Already defined, do not repeat:", _fenced(definitions)),
        _titled("Examples:", _fenced("\n".join(example.strip() for example in examples))),
        _titled("Signature:", _fenced(signature)),
    ]
    return [
        Message(Role.SYSTEM, SYSTEM),
        Message(Role.USER, "\n\n".join(part for part in parts if part)),
    ]


def repair(conversation: Sequence[Message], code: str, complaint: str) -> list[Message]:
    """Ask for the whole program again, after ``conversation`` led to ``code`` and OCaml to ``complaint``.

    ``complaint`` is OCaml's words at the place of the error: line, source, message and hint, or the
    example that fails with what was expected and what came out.
    """
    demand = f"OCaml rejects this:\n{complaint.strip()}\nWrite the whole corrected program."
    if code.strip():
        return [*conversation, Message(Role.ASSISTANT, _fenced(code)), Message(Role.USER, demand)]
    # Without an answer to stand between them there would be two user turns, which many templates refuse.
    *before, question = conversation
    return [*before, Message(question.role, f"{question.text}\n\n{complaint.strip()} Write the program.")]


def _titled(title: str, block: str) -> str:
    return f"{title}\n{block}" if block else ""


def _fenced(code: str) -> str:
    """Fence OCaml, with a fence that the code itself does not hold."""
    code = code.strip("\n")
    if not code.strip():
        return ""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}ocaml\n{code}\n{fence}"

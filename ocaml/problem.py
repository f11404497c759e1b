"""A problem as data, and the door where text becomes one: a Markdown file or a dataset row."""

from dataclasses import dataclass

__all__ = ["Example", "Problem", "Signature"]


@dataclass(frozen=True, slots=True)
class Signature:
    """The function asked for.

    ``text`` is what the problem wrote (``let f (x : int) : int =``, without a body). ``type`` is its
    OCaml type (``int -> int``) when every part of it is annotated, else None. ``parameters`` are the
    parameter patterns as written (``(x : int)``), which a body can be put behind.
    """

    name: str
    text: str
    type: str | None = None
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """One example of the statement: ``expression`` should give ``expected``, both OCaml text.

    ``expected`` is None for a plain boolean assertion. ``line`` is its 1-based line in the source.
    """

    expression: str
    expected: str | None = None
    line: int | None = None

    @property
    def assertion(self) -> str:
        """The example as an OCaml boolean expression."""
        return self.expression if self.expected is None else f"({self.expression}) = ({self.expected})"


@dataclass(frozen=True, slots=True)
class Problem:
    """A statement, the function asked for, the types it comes with, examples and tests.

    ``definitions`` is OCaml (types, exceptions, modules) that the answer may rely on. ``tests`` is
    OCaml source of assertions that is never shown to the model; examples are. ``unread`` says, a
    sentence each, which examples could not be read.
    """

    id: str
    statement: str
    signature: Signature | None = None
    definitions: str = ""
    examples: tuple[Example, ...] = ()
    tests: str = ""
    unread: tuple[str, ...] = ()

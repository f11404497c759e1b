"""What the tests see: everything the answer offers, with the standard library as it was.

A name of the standard library means the standard library's, whatever the answer redefines, unless it is
the function under test.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ocaml.grading.assertions import Suite
from ocaml.interface import VALUES, Item, Standard, quoted
from ocaml.problem import Signature

ANSWER = "ocamler_answer"
ANSWER_FILE = f"{ANSWER}.ml"
TESTS_FILE = "tests.ml"
HARNESS = "ocamler_dump"

# The types that every program has, as they are before an answer gives one of these names another meaning.
_TYPES = {
    **{name: f"type nonrec {name} = {name}" for name in (
        "int", "char", "string", "bytes", "float", "exn", "int32", "int64", "nativeint",
        "in_channel", "out_channel",
    )},
    **{name: f"type nonrec 'a {name} = 'a {name}" for name in ("array", "ref", "lazy_t")},
    "bool": "type nonrec bool = bool = false | true",
    "unit": "type nonrec unit = unit = ()",
    "list": "type nonrec 'a list = 'a list = [] | ( :: ) of 'a * 'a list",
    "option": "type nonrec 'a option = 'a option = None | Some of 'a",
}  # fmt: skip
# Under another name, a type brings its constructors and fields back and leaves the answer's type its own.
_CONSTRUCTORS = {
    "Some": "type 'a ocamler_option = 'a option = None | Some of 'a",
    "Ok": "type ('a, 'b) ocamler_result = ('a, 'b) result = Ok of 'a | Error of 'b",
    "contents": "type 'a ocamler_ref = 'a ref = { mutable contents : 'a }",
}
_ALIKE = {"None": "Some", "Error": "Ok"}
_CONSTRUCTOR = re.compile(r"(?:[=|]|\A)\s*([A-Z][\w']*)(?![\w'.])")
_FIELD = re.compile(r"[{;]\s*(?:mutable\s+)?([a-z_][\w']*)\s*:")
_EXCEPTIONS = {
    "Not_found", "Failure", "Invalid_argument", "Exit", "End_of_file", "Division_by_zero", "Match_failure",
    "Assert_failure", "Out_of_memory", "Stack_overflow", "Sys_error", "Sys_blocked_io",
    "Undefined_recursive_module",
}  # fmt: skip

# What assertions are made of is never the answer's.
DECIDING = {
    "not",
    "compare",
    "ignore",
    "raise",
    "raise_notrace",
    "exit",
    "at_exit",
    "failwith",
    "invalid_arg",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """OCaml to put in front of the tests, and the names in it that are the answer's."""

    prelude: str
    answer_names: frozenset[str]


def scope(
    items: Sequence[Item], standard: Standard, suite: Suite, asked: Signature | None, *, generous: bool
) -> Scope:
    """Build the scope; a ``generous`` one leaves the answer's meaning to names that the tests mention."""
    values = {item.names[0] for item in items if item.keyword in VALUES}
    modules = {name for item in items if item.keyword == "module" for name in item.names}
    others = {name for item in items if item.keyword in {"exception", "class"} for name in item.names}
    others -= _EXCEPTIONS
    kept_values = {name for name in values if name in standard.values}
    kept_modules = modules & standard.modules
    named = suite.mentions & ((values - kept_values) | (modules - kept_modules))
    if asked is not None:
        kept_values.discard(asked.name)
    elif not generous:
        kept_values -= _under_test(suite, values - kept_values) - DECIDING - _operators(standard)
    if generous or (asked is None and not named):
        kept_values -= suite.mentions - DECIDING - _operators(standard)
        kept_modules -= suite.mentions - {"Stdlib"}
    constructors_back = [] if generous else _kept_constructors(items)
    kept = [*_kept_types(items), *constructors_back, *_kept_names(kept_values, kept_modules, standard)]
    return Scope(_prelude(kept), frozenset(values - kept_values | modules - kept_modules | others))


def asked_source(asked: Signature, items: Sequence[Item]) -> str:
    """A program that type-checks when the answer's function has the type asked for.

    In that type ``int`` is OCaml's own, whatever the answer calls so.
    """
    variables = sorted(set(_variables(asked.type or "")))
    quantified = f"{' '.join(variables)}. " if variables else ""
    named = f"let ocamler_asked : {quantified}{asked.type} = {quoted(asked.name)}"
    return f"{_prelude(_kept_types(items))}\n{named}\n"


def _under_test(suite: Suite, own: set[str]) -> set[str]:
    """What equations apply that name nothing else of the answer's: ``abs (-5) = 5``, no ``fst (f 1) = 3``."""
    return {
        side.head
        for claim in suite.claims
        for side in claim.sides or ()
        if side.head is not None and claim.mentions.isdisjoint(own - {side.head})
    }


def stub_source(asked: Signature) -> str:
    """A function of the type asked for, whatever it is."""
    variables = sorted(set(_variables(asked.type or "")))
    quantified = f"{' '.join(variables)}. " if variables else ""
    body = "fun _ -> assert false" if "->" in (asked.type or "") else "assert false"
    return f"let {quoted(asked.name)} : {quantified}{asked.type} = {body}"


def _prelude(kept: Sequence[str]) -> str:
    # One line, so that the tests begin on the second.
    inside = " ".join(" ".join(item.split()) for item in kept)
    return f"module Ocamler_kept = struct {inside} end open {ANSWER.capitalize()} open Ocamler_kept;;"


def _kept_types(items: Sequence[Item]) -> list[str]:
    types = sorted({name for item in items if item.keyword == "type" for name in item.names})
    exceptions = sorted({name for item in items if item.keyword == "exception" for name in item.names})
    return [
        *(_TYPES[name] for name in types if name in _TYPES),
        *(f"exception {name} = {name}" for name in exceptions if name in _EXCEPTIONS),
    ]


def _kept_constructors(items: Sequence[Item]) -> list[str]:
    defined = {_ALIKE.get(name, name) for name in constructors(items)}
    return [kept for name, kept in _CONSTRUCTORS.items() if name in defined]


def constructors(items: Sequence[Item]) -> Counter[str]:
    """How often the answer's types define each constructor and field, those of every program counted once."""
    texts = [item.text for item in items if item.keyword in {"type", "module"}]
    found = [name for text in texts for pattern in (_CONSTRUCTOR, _FIELD) for name in pattern.findall(text)]
    counted = Counter(found)
    return counted + Counter(name for name in (*_CONSTRUCTORS, *_ALIKE) if name in counted)


def _kept_names(values: set[str], modules: set[str], standard: Standard) -> list[str]:
    return [
        *(_kept_value(name, standard) for name in sorted(values)),
        *(
            f"module {name} = {'Stdlib' if name == 'Stdlib' else f'Stdlib.{name}'}"
            for name in sorted(modules)
        ),
        f"module Ocamler_h = {HARNESS.capitalize()}",
        f"let exit = {HARNESS.capitalize()}.exit",
    ]


def _kept_value(name: str, standard: Standard) -> str:
    declared = standard.values[name]
    if declared.startswith("external"):
        return declared  # `&&` must stay lazy: copying the value would not do
    return f"let {quoted(name)} = Stdlib.{quoted(name)}"


def _operators(standard: Standard) -> set[str]:
    return {name for name in standard.values if not (name[0].isalpha() or name[0] == "_")}


def _variables(text: str) -> list[str]:
    return re.findall(r"(?<![\w'])'[a-z_]\w*", text)

"""The compiler's and the runtime's words, from four versions and from the one installed here."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ocaml.diagnostics import Diagnostic, Kind, Severity, Span
from ocaml.diagnostics.messages import parse, parse_runtime
from ocaml.toolchain import Toolchain, Version, environment

CORPUS = [json.loads(path.read_text("utf-8")) for path in sorted(Path(__file__).parent.glob("corpus/*.json"))]
CASES = {case["name"]: case for case in CORPUS}
INTERACTIVE = ("interactive", "noprompt")  # the toplevel says all on stdout
VERSIONS = ("4.13.1", "4.14.1", "5.3.0", "5.4.1")


@dataclass(frozen=True)
class Printed:
    """What one compiler version printed for a case, and what it should be read as."""

    case: Mapping[str, Any]
    version: str
    how: str
    stdout: str
    stderr: str

    @property
    def expected(self) -> list[dict[str, Any]]:
        return expected(self.case, self.version)

    def __str__(self) -> str:
        return f"{self.case['name']}-{self.how}-{self.version}"


def expected(case: Mapping[str, Any], version: str) -> list[dict[str, Any]]:
    return next(entry["diagnostics"] for entry in case["expected"] if version in entry["versions"])


def printed(*hows: str, names: str = "") -> list[Printed]:
    return [
        Printed(case, version, entry["how"], entry["stdout"], entry["stderr"])
        for case in CORPUS
        if case["name"].startswith(names)
        for entry in case["printed"]
        if entry["how"] in hows
        for version in entry["versions"]
    ]


def one(name: str, how: str, version: str) -> Printed:
    return next(text for text in printed(how, names=name) if text.version == version)


def fold(text: str) -> str:
    return " ".join(text.split())


def place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"start": None, "end": None}
    return {"start": [span.start.line, span.start.column], "end": [span.end.line, span.end.column]}


def seen(diagnostics: tuple[Diagnostic, ...]) -> list[dict[str, Any]]:
    return [
        {
            "severity": found.severity.value,
            "kind": found.kind.value,
            "code": found.code,
            "name": found.name,
            "path": found.path,
            **place(found.span),
            "message": fold(found.message),
            "hints": list(found.hints),
            "related": [
                {"path": other.path, **place(other.span), "message": fold(other.message)}
                for other in found.related
            ],
        }
        for found in diagnostics
    ]


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 89
    compiled = printed("ocamlc", "short", "ocaml", names="c")
    assert len(compiled) == 70 * 3 * len(VERSIONS)


@pytest.mark.parametrize("text", printed("ocamlc", "short", names="c"), ids=str)
def test_the_compilers_words_are_read(text: Printed) -> None:
    assert seen(parse(text.stderr, text.case["files"])) == text.expected


@pytest.mark.parametrize("text", printed("ocamlc", names="c"), ids=str)
def test_sources_may_be_bytes_and_lines_may_end_in_carriage_returns(text: Printed) -> None:
    sources = {name: source.replace("\n", "\r\n").encode() for name, source in text.case["files"].items()}
    assert seen(parse(text.stderr.replace("\n", "\r\n"), sources)) == text.expected


# What a script meets otherwise than a unit: it stops at the first phrase refused, has no interface,
# and warns of unused names in the phrases before.
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "c33_weak_type": [],
    "c58_mli_mismatch": [],
    "c68_bad_file_name": [],
    "c69_unused_open": [],
}
UNUSED_Z = {
    "severity": "warning",
    "kind": "warning",
    "code": 26,
    "name": "unused-var",
    "path": "c21_warnings_then_error.ml",
    "start": [2, 14],
    "end": [2, 15],
    "message": "unused variable z.",
    "hints": [],
    "related": [],
}


@pytest.mark.parametrize("text", printed("ocaml", names="c"), ids=str)
def test_the_words_of_the_toplevel_on_a_script_are_read(text: Printed) -> None:
    wanted = SCRIPTS.get(text.case["name"], text.expected)
    match text.case["name"]:
        case "c21_warnings_then_error":
            wanted = [wanted[0], UNUSED_Z, *wanted[1:]]
        case "c82_two_warn_errors":
            wanted = wanted[:1]
        case "c49_use_directive_in_ocamlc":
            told = [found.message for found in parse(text.stdout + text.stderr)]
            assert "Cannot find file topfind." in told
            return
    assert seen(parse(text.stderr, text.case["files"])) == wanted


def test_without_the_source_columns_stay_bytes() -> None:
    text = one("c46", "ocamlc", "5.3.0")
    assert [place(found.span)["start"] for found in parse(text.stderr)] == [[1, 30]]


def test_a_source_is_known_by_its_last_part_too() -> None:
    text = one("c46", "ocamlc", "5.3.0").stderr.replace('File "', 'File "/tmp/somewhere/')
    source = CASES["c46_utf8_column"]["files"]["c46_utf8_column.ml"]
    for key in ("c46_utf8_column.ml", "/tmp/somewhere/c46_utf8_column.ml", "other/c46_utf8_column.ml"):
        assert [place(found.span)["start"] for found in parse(text, {key: source})] == [[1, 26]]


def test_lines_keep_their_structure_without_the_compilers_margin() -> None:
    assert parse(one("c32", "ocamlc", "5.4.1").stderr)[0].message.split("\n") == [
        "Signature mismatch:",
        "Modules do not match:",
        "  sig val f : int -> int type t = int end",
        "is not included in",
        "  S",
        "Values do not match:",
        "  val f : int -> int",
        "is not included in",
        "  val f : int -> string",
        "The type int -> int is not compatible with the type int -> string",
        "Type int is not compatible with type string",
    ]


PHRASES = [
    ("t01_phrases", "file", ["t01_phrases.ml", [2, 12], [2, 15]]),
    ("t01_phrases", "stdin", ["(stdin)", [2, 12], [2, 15]]),
    ("t01_phrases", "interactive", [None, [1, 12], [1, 15]]),
    ("t01_phrases", "noprompt", [None, [1, 12], [1, 15]]),
    ("t04_syntax_phrase", "file", ["t04_syntax_phrase.ml", [1, 8], [1, 10]]),
    ("t04_syntax_phrase", "stdin", ["(stdin)", [1, 8], [1, 10]]),
    ("t04_syntax_phrase", "interactive", [None, [1, 8], [1, 10]]),
    ("t04_syntax_phrase", "noprompt", [None, [1, 8], [1, 10]]),
    ("t08_missing_sep", "file", ["t08_missing_sep.ml", [1, 8], [1, 9]]),
    ("t08_missing_sep", "stdin", ["(stdin)", [1, 8], [1, 9]]),
    ("t08_missing_sep", "interactive", [None, [3, 0], [3, 0]]),
    ("t08_missing_sep", "noprompt", [None, [3, 0], [3, 0]]),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "how", "wanted"), PHRASES)
def test_phrases_are_placed(name: str, how: str, wanted: list[Any], version: str) -> None:
    text = one(name, how, version)
    [error] = parse(text.stdout + text.stderr, text.case["files"])
    assert [error.path, *place(error.span).values()] == wanted
    assert error.kind is (Kind.SYNTAX if "Syntax" in error.message else Kind.TYPE)
    assert "val " not in error.message


@pytest.mark.parametrize("text", printed("file", "stdin", *INTERACTIVE, names="t03"), ids=str)
def test_complaints_of_directives_have_no_place(text: Printed) -> None:
    first = parse(text.stdout + text.stderr)[0]
    assert first.message.replace("`", "").replace("'", "").replace('"', "") == "Unknown directive require."
    assert (first.severity, first.kind, first.span) == (Severity.ERROR, Kind.OTHER, None)


@pytest.mark.parametrize("text", printed(*INTERACTIVE, names="t07"), ids=str)
def test_answers_of_the_toplevel_are_no_complaints(text: Printed) -> None:
    assert parse(text.stdout) == ()
    assert parse_runtime(text.stdout) == ()


@pytest.mark.parametrize(
    "text",
    printed("byte", "native", "ocaml", names="r19") + printed("byte", "native", "ocaml", names="r20"),
    ids=str,
)
def test_link_errors_are_of_kind_other(text: Printed) -> None:
    *alerts, error = parse(text.stderr)
    assert (error.severity, error.kind, error.span) == (Severity.ERROR, Kind.OTHER, None)
    assert ("Str" if "r19" in text.case["name"] else "Unix") in error.message
    assert {alert.name for alert in alerts} <= {"ocaml_deprecated_auto_include"}
    assert all(alert.path is None and alert.message.startswith("OCaml's lib directory") for alert in alerts)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kind_is_the_same_for_every_version(version: str) -> None:
    kinds = {
        name: {found["kind"] for found in expected(CASES[name], version)} for name in CASES if name[0] == "c"
    }
    assert kinds["c04_unbound_module"] == {"unbound"}
    assert kinds["c20_warn_error8"] == {"pattern"}
    assert kinds["c71_unclosed_bracket"] == {"syntax"}
    assert kinds["c54_object_method"] == {"type"}


# Exceptions: kind, name, message, and the start of the span where there is no backtrace, and where there is.
RUNS: dict[str, tuple[Kind, str, str, list[int] | None, list[int] | None]] = {
    "r01_failure": (Kind.EXCEPTION, "Failure", 'Uncaught exception: Failure "boom"', None, [1, 53]),
    "r04_assert": (Kind.ASSERTION, "Assert_failure", "Assertion failed", [3, 2], [3, 2]),
    "r05_match_failure": (
        Kind.EXCEPTION,
        "Match_failure",
        "Uncaught exception: Match_failure (no case matches the value)",
        [1, 8],
        [1, 8],
    ),
    "r06_index": (
        Kind.EXCEPTION,
        "Invalid_argument",
        'Uncaught exception: Invalid_argument "index out of bounds"',
        None,
        [2, 19],
    ),
    "r07_not_found": (Kind.EXCEPTION, "Not_found", "Uncaught exception: Not_found", None, [1, 19]),
    "r08_division": (
        Kind.EXCEPTION,
        "Division_by_zero",
        "Uncaught exception: Division_by_zero",
        None,
        [2, 19],
    ),
    "r10_custom_exn": (Kind.EXCEPTION, "Bad", 'Uncaught exception: Bad (3, "why")', None, [2, 9]),
    "r13_output_then_exn_unflushed": (
        Kind.EXCEPTION,
        "Invalid_argument",
        'Uncaught exception: Invalid_argument "bad"',
        None,
        [2, 9],
    ),
    "r15_assert_printexc": (Kind.ASSERTION, "Assert_failure", "Assertion failed", [2, 9], [2, 9]),
    "r16_at_exit_exn": (Kind.EXCEPTION, "Failure", 'Uncaught exception: Failure "in at_exit"', None, None),
    "r17_int_of_string": (
        Kind.EXCEPTION,
        "Failure",
        'Uncaught exception: Failure "int_of_string"',
        None,
        [1, 19],
    ),
    "t06_exn_phrase": (Kind.EXCEPTION, "Failure", 'Uncaught exception: Failure "here"', None, None),
}


@pytest.mark.parametrize(
    "text",
    [text for name in RUNS for text in printed("byte", "native", "ocaml", "file", *INTERACTIVE, names=name)],
    ids=str,
)
def test_the_runtimes_words_are_read(text: Printed) -> None:
    kind, name, message, bare, traced = RUNS[text.case["name"]]
    [error] = parse_runtime(text.stdout if text.how in INTERACTIVE else text.stderr, text.case["files"])
    wanted = traced if "Raised" in text.stderr else bare
    assert (error.severity, error.kind, error.name, error.message) == (Severity.ERROR, kind, name, message)
    assert place(error.span)["start"] == wanted
    assert (error.path is None) == (wanted is None)


def test_the_backtrace_gives_the_users_lines_once_each() -> None:
    [error] = parse_runtime(one("r01", "byte", "5.3.0").stderr)
    assert place(error.span) == {"start": [1, 53], "end": [1, 62]}
    assert [(other.message, *place(other.span).values()) for other in error.related] == [
        ("Called from here", [3, 19], [3, 24])
    ]


def test_a_match_failure_covers_the_word_where_the_source_is_known() -> None:
    text = one("r05", "ocaml", "5.3.0")
    assert place(parse_runtime(text.stderr)[0].span)["end"] == [1, 13]
    assert place(parse_runtime(text.stderr, text.case["files"])[0].span)["end"] == [1, 16]


def nearest(version: Version) -> tuple[str, bool]:
    """Return the version of the corpus nearest to this one, and whether its words are the same."""
    known = {Version.parse(text): text for text in VERSIONS}
    best = max((entry for entry in known if entry and entry <= version), default=Version(4, 13, 1))
    return known[best], (best.major, best.minor) == (version.major, version.minor)


def compile_here(toolchain: Toolchain, folder: Path, *arguments: str) -> str:
    told = subprocess.run(
        [toolchain.ocamlc, *arguments],
        cwd=folder,
        env=environment(toolchain),
        capture_output=True,
        check=False,
    )
    return told.stderr.decode(errors="replace")


def lay_out(case: Mapping[str, Any], folder: Path, toolchain: Toolchain) -> Iterator[str]:
    """Write a case's files, compile its interface, and yield the arguments that compile it."""
    for name, source in case["files"].items():
        (folder / name).write_bytes(source.encode())
        if name.endswith(".mli"):
            compile_here(toolchain, folder, "-c", name)
    yield from ("-c", *case["flags"], next(name for name in case["files"] if name.endswith(".ml")))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("c")])
def test_the_installed_compiler_is_understood(name: str, toolchain: Toolchain, tmp_path: Path) -> None:
    case = CASES[name]
    text = compile_here(toolchain, tmp_path, *lay_out(case, tmp_path, toolchain))
    version, same_words = nearest(toolchain.version)
    found, wanted = seen(parse(text, case["files"])), expected(case, version)
    if not same_words:  # what is said of a line may be worded and placed anew
        found, wanted = (
            [(entry["severity"], entry["kind"]) for entry in entries] for entries in (found, wanted)
        )
    assert found == wanted

"""Makes a whole program of an answer: the header over a body, the problem's definitions in front."""

import re
from collections.abc import Sequence

from ocaml.lexing import Token, TokenKind, at_depth_zero, lex, without_comments
from ocaml.phrases import Phrase, PhraseKind, split
from ocaml.problem import Problem, Signature
from ocaml.reading.calls import call_at
from ocaml.signature import SignatureError, parse_header

__all__ = ["complete", "problem_program"]


def complete(code: str, problem: Problem) -> tuple[str, tuple[str, ...]]:
    """Return an answer as a whole program, and notes on what was put in or taken out."""
    notes: list[str] = []
    signature = problem.signature
    if signature is not None:
        shorter = _without_empty_headers(code, signature.name)
        if shorter != code:
            code = shorter
            notes.append("a header without a body taken out")
        if _is_body(code, signature):
            code = _under_header(code, signature)
            notes.append("the body put under the header")
    program = problem_program(problem, code)
    if program != code.strip("\n"):
        notes.append("the problem's definitions put in front")
    return program, tuple(notes)


def problem_program(problem: Problem, code: str) -> str:
    """Return ``code`` with the problem's definitions in front, each once; what it defines anew is its own."""
    given = split(problem.definitions)
    if not given:
        return code.strip("\n")
    own = split(code)
    same = {_key(phrase) for phrase in given if phrase.defines}
    code = _without(code, [phrase for phrase in own if phrase.defines and _key(phrase) in same])
    slots = {slot for phrase in given for slot in _slots(phrase)}
    anew = [phrase for phrase in own if phrase.defines and _key(phrase) not in same]
    renewed = {slot for phrase in anew for slot in _slots(phrase)} & slots
    front: list[str] = []
    behind: list[str] = []
    for phrase in given:
        if not renewed.isdisjoint(_slots(phrase)):
            continue
        rests_on_renewed = any(name in phrase.words for _, name in renewed)
        (behind if rests_on_renewed else front).append(problem.definitions[phrase.start : phrase.end])
    if behind:
        code = _behind(code, behind, renewed)
    return "\n\n".join(part.strip("\n") for part in ["\n".join(front), code] if part.strip())


_NAMESPACES = {
    PhraseKind.TYPE: "type",
    PhraseKind.CLASS: "type",
    PhraseKind.EXCEPTION: "constructor",
    PhraseKind.MODULE: "module",
    PhraseKind.LET: "value",
    PhraseKind.EXTERNAL: "value",
    PhraseKind.OPEN: "open",
    PhraseKind.INCLUDE: "include",
}


def _slots(phrase: Phrase) -> set[tuple[str, str]]:
    """Return what a phrase defines: namespace and name."""
    return {(_NAMESPACES.get(phrase.kind, "nothing"), name) for name in phrase.names}


def _key(phrase: Phrase) -> tuple[str, ...]:
    """Return words that are the same for two spellings of one definition."""
    words = [token.text for token in without_comments(phrase.tokens)]
    return tuple(word for i, word in enumerate(words) if not (word == "|" and i and words[i - 1] == "="))


def _without(code: str, phrases: Sequence[Phrase]) -> str:
    kept: list[str] = []
    at = 0
    for phrase in phrases:
        kept.append(code[at : phrase.start].rstrip(" \t"))
        at = phrase.end
    return re.sub(r"\n{3,}", "\n\n", "".join([*kept, code[at:]])).strip("\n") if phrases else code


def _behind(code: str, given: Sequence[str], renewed: set[tuple[str, str]]) -> str:
    """Put definitions that rest on a type which the answer defines anew behind it."""
    last = [phrase.end for phrase in split(code) if not renewed.isdisjoint(_slots(phrase))]
    at = last[-1] if last else 0
    return "\n\n".join([code[:at].strip("\n"), "\n".join(given), code[at:].strip("\n")])


def _without_empty_headers(code: str, name: str) -> str:
    """Take out ``let f … =`` that stands alone over the whole definition."""
    phrases = [phrase for phrase in split(code) if phrase.kind is PhraseKind.LET and name in phrase.names]
    full = [phrase for phrase in phrases if not _empty(phrase)]
    return _without(code, [phrase for phrase in phrases if _empty(phrase)]) if full else code


def _empty(phrase: Phrase) -> bool:
    return phrase.tokens[-1].text == "="


def _is_body(code: str, signature: Signature) -> bool:
    """Whether a text is an expression to stand under the header, not a use of the function."""
    phrases = [phrase for phrase in split(code) if phrase.kind is not PhraseKind.COMMENT]
    if (
        not phrases
        or phrases[0].kind is not PhraseKind.EXPRESSION
        or not signature.text.startswith(("let", "val"))
    ):
        return False
    if any(signature.name in phrase.names for phrase in phrases) or phrases[0].tokens[0].text == "assert":
        return False
    call = call_at(phrases[0].text)
    return call is None or call.name != signature.name


def _under_header(body: str, signature: Signature) -> str:
    """Put a body under the header, with ``rec`` where it calls itself."""
    tokens = lex(body, comments=False)
    if tokens and tokens[0].text == "=":
        body = body[tokens[0].end :].lstrip(" \t")
        tokens = tokens[1:]
    header = _header(signature, _taken(tokens))
    calls_itself = any(token.kind is TokenKind.LOWER and token.text == signature.name for token in tokens)
    if calls_itself and not re.match(r"let\s+rec\b", header):
        header = re.sub(r"^let\b", "let rec", header)
    stripped = body.strip("\n")
    return (
        f"{header.rstrip()}\n{stripped}"
        if stripped[:1] in {" ", "\t"}
        else f"{header.rstrip()}\n{_indented(stripped)}"
    )


def _indented(body: str) -> str:
    """Indent a body that stands at the margin; lines inside strings and comments may not move."""
    frozen = {
        line for token in lex(body) for line in range(token.line + 1, token.line + token.text.count("\n") + 1)
    }
    lines = body.split("\n")
    return "\n".join(
        f"  {line}" if line and number not in frozen else line for number, line in enumerate(lines, 1)
    )


def _taken(tokens: Sequence[Token]) -> int:
    """Return how many parameters a body takes itself, with ``fun`` or ``function``."""
    if not tokens:
        return 0
    if tokens[0].text == "function":
        return 1
    if tokens[0].text != "fun":
        return 0
    arrows = at_depth_zero(tokens, "->")
    inner = "".join(f"{token.text} " for token in tokens[1 : arrows[0]]) if arrows else ""
    try:
        return len(parse_header(f"let f {inner} =").signature.parameters)
    except SignatureError:
        return 0


def _header(signature: Signature, taken: int) -> str:
    """Return the header without its last ``taken`` parameters, as far as its type says them."""
    name = signature.name if re.match(r"[a-z_]", signature.name) else f"( {signature.name} )"
    if signature.text.startswith("val"):
        return f"let {name} : {signature.type} ="
    kept = len(signature.parameters) - taken
    if not taken or not signature.parameters or kept < 0 or signature.type is None:
        return signature.text
    parts = _arrow_parts(signature.type)
    if len(parts) != len(signature.parameters) + 1:  # the result is a function itself
        return signature.text
    words = ["let", name, *signature.parameters[:kept], ":", " -> ".join(parts[kept:]), "="]
    return " ".join(words)


def _arrow_parts(kind: str) -> list[str]:
    tokens = lex(kind)
    arrows = at_depth_zero(tokens, "->")
    starts = [0, *(tokens[index].end for index in arrows)]
    ends = [*(tokens[index].start for index in arrows), len(kind)]
    return [kind[start:end].strip() for start, end in zip(starts, ends, strict=True)]

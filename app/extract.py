"""Takes the code out of a model's reply: fenced, bare, a body alone, a session. Never fails; linear time.

What is dropped is said in a note. Whether the code is right is the judge's business.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.program import complete, problem_program
from ocaml.lexing import Token, TokenKind, fault, lex, without_comments
from ocaml.markdown import Code, Prose
from ocaml.markdown import split as split_markdown
from ocaml.phrases import Phrase, PhraseKind, free_names
from ocaml.phrases import split as split_phrases
from ocaml.problem import Problem
from ocaml.prose import looks_like_prose, starts_code
from ocaml.reading.calls import call_at

__all__ = ["Extraction", "extract", "problem_program"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """The code of a reply (empty when it holds none), and what was done to get it, a few words each."""

    code: str
    notes: tuple[str, ...] = ()


def extract(reply: str, problem: Problem) -> Extraction:
    """Return the code that answers ``problem``, its definitions in front where the reply leaves them out."""
    names = _wanted(problem)
    parts = split_markdown(_cleaned(reply))
    notes: list[str] = []
    blocks = _blocks(parts, names, notes)
    if not blocks:
        return Extraction("", ("no code in the reply",))
    code = _chosen(blocks, names, notes)
    whole, more = complete(code, problem)
    return Extraction(whole, (*notes, *more))


_SPECIAL = re.compile(r"<\|(?:im_end|endoftext|im_start|eot_id)\|>")
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_TAG_LINE = re.compile(r"\A\s*(?:ocaml|ml)[ \t]*\n", re.IGNORECASE)
_FOREIGN = {
    "python",
    "py",
    "bash",
    "sh",
    "shell",
    "json",
    "console",
    "output",
    "dune",
    "diff",
    "markdown",
    "md",
}
_PROMPT = re.compile(r"\s*+(?:utop\s*(?:\[\d+\]>|#)|#)[ \t]+(?=\S)")
_SHOWN = re.compile(
    r"\s*(?:-\s*:\s|val\s+\S+\s*:.*=|Exception:|(?:Error|Warning\b.*):|Line \d+, "
    r"|type\s|module\s|exception\s)"
)
_SHOWN_ALONE = re.compile(r"-\s*:\s.*=|val\s+\S+\s*:.*=\s*<fun>\s*$|Exception:\s")


@dataclass(frozen=True, slots=True)
class _Block:
    """A piece of the reply that may be code."""

    text: str
    phrases: tuple[Phrase, ...]
    closed: bool = True

    @property
    def defines(self) -> bool:
        """Whether it defines something that something else may use."""
        return any(phrase.defines for phrase in self.phrases)

    def strength(self, names: frozenset[str]) -> int:
        """Return 2 when it defines one of ``names``, 1 when it only begins to (``let f x =``), else 0."""
        return max((_strength(phrase, names) for phrase in self.phrases), default=0)

    def whole(self) -> bool:
        """Whether it does not end in the middle of something."""
        if self.closed:
            return True
        tokens = lex(self.text, comments=False)
        return bool(tokens) and fault(tokens) is None and (tokens[-1].ends_operand or tokens[-1].text == ";;")


def _wanted(problem: Problem) -> frozenset[str]:
    """Return the names that an answer should define: the header's, else those that the examples call."""
    if problem.signature is not None:
        return frozenset({problem.signature.name})
    calls = (call_at(example.expression) for example in problem.examples)
    return frozenset(call.name for call in calls if call is not None)


def _cleaned(reply: str) -> str:
    text = reply.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = _THOUGHT.sub("", text, count=1)
    return _TAG_LINE.sub("", _SPECIAL.split(text, maxsplit=1)[0], count=1)


def _strength(phrase: Phrase, names: frozenset[str]) -> int:
    if phrase.kind is not PhraseKind.LET or names.isdisjoint(phrase.names):
        return 0
    return 1 if phrase.tokens[-1].text == "=" or any(t.text in {"...", "…"} for t in phrase.tokens) else 2


def _blocks(parts: Sequence[Prose | Code], names: frozenset[str], notes: list[str]) -> list[_Block]:
    """Return what may be code: the reply's fences, else what stands bare, else what stands in a sentence."""
    fences = [part for part in parts if isinstance(part, Code)]
    ours = [part for part in fences if part.tag not in _FOREIGN] or fences
    fenced = [
        block for block in (_block(part.text, closed=part.closed) for part in ours) if not _is_prose(block)
    ]
    if any(block.strength(names) for block in fenced):
        return fenced
    bare = [block for part in parts if isinstance(part, Prose) for block in _bare(part.text)]
    bare_defines = any(block.strength(names) for block in bare)
    if fenced and not bare_defines:
        return fenced
    if bare:
        notes.append("no fence around the code")
        return [*bare, *fenced] if bare_defines else bare
    spans = [
        span for part in parts if isinstance(part, Prose) for span in re.findall(r"`([^`\n]+)`", part.text)
    ]
    inline = [_block(span, closed=True) for span in spans if starts_code(span)]
    notes.extend(["the code stood in a sentence"] if inline else [])
    return inline


def _block(text: str, *, closed: bool) -> _Block:
    code = _without_session(text)
    phrases = tuple(split_phrases(code))
    if code != text:  # what a session only evaluated is no part of the program
        kept = [phrase for phrase in phrases if phrase.kind is not PhraseKind.EXPRESSION]
        code = "\n".join(code[phrase.start : phrase.end] for phrase in kept) if kept else code
        phrases = tuple(split_phrases(code))
    if any(phrase.kind is PhraseKind.VAL for phrase in phrases):  # a header repeated; no .ml may hold one
        kept = [phrase for phrase in phrases if phrase.kind is not PhraseKind.VAL]
        code = "\n".join(code[phrase.start : phrase.end] for phrase in kept) if kept else code
        phrases = tuple(split_phrases(code))
    return _Block(code, phrases, closed)


def _is_prose(block: _Block) -> bool:
    """Whether a fence holds nothing, or English: a fence that was meant to close opens such a block."""
    if not block.phrases:
        return True
    lines = [line for line in block.text.split("\n") if line.strip()]
    return not block.defines and sum(looks_like_prose(line) for line in lines) * 2 > len(lines)


def _without_session(text: str) -> str:
    """Take a toplevel's prompts and what it said off; text that is no session stays as it is."""
    if ";;" not in text:
        return text
    lines = text.split("\n")
    prompted = any(_PROMPT.match(line) for line in lines)
    if not prompted and not any(_SHOWN_ALONE.match(line) for line in lines):
        return text
    kept: list[str] = []
    answering = False
    for line in lines:
        prompt = _PROMPT.match(line) if prompted else None
        if prompt is not None:
            answering = False
            line = line[prompt.end() :]
        elif answering and (_SHOWN.match(line) or not line.strip() or (prompted and line[:1].isspace())):
            continue
        elif answering:
            answering = prompted and bool(kept) and line[:1] in "|}"
            if answering:
                continue
        kept.append(line)
        answering = answering or line.rstrip().endswith(";;")
    return "\n".join(kept)


def _bare(text: str) -> list[_Block]:
    """Find code that no fence marks; without a ``let`` or its like, all that is not English is one body."""
    lines = text.split("\n")
    starts = [index for index, line in enumerate(lines) if starts_code(_unprompted(line))]
    if not starts:
        return _bare_body(lines)
    blocks: list[_Block] = []
    inside = _lines_inside(lines, starts[0])
    at = 0
    while at < len(starts):
        begin = starts[at]
        end = begin + 1
        while end < len(lines) and (end in inside or not _is_sentence(lines[end])):
            end += 1
        blocks.append(_block("\n".join(lines[begin:end]).rstrip(), closed=end < len(lines)))
        while at < len(starts) and starts[at] < end:
            at += 1
    return blocks


def _unprompted(line: str) -> str:
    prompt = _PROMPT.match(line)
    return line.lstrip() if prompt is None else line[prompt.end() :]


def _is_sentence(line: str) -> bool:
    return not line[:1].isspace() and looks_like_prose(line)


def _lines_inside(lines: Sequence[str], first: int) -> set[int]:
    """Return the lines, from ``first`` on, that begin inside a comment or a string."""
    inside: set[int] = set()
    for token in lex("\n".join(lines[first:])):
        if token.kind in {TokenKind.COMMENT, TokenKind.STRING}:
            start = first + token.line - 1
            inside.update(range(start + 1, start + 1 + token.text.count("\n")))
    return inside


def _bare_body(lines: Sequence[str]) -> list[_Block]:
    kept = [index for index, line in enumerate(lines) if line.strip() and not looks_like_prose(line)]
    if not kept:
        return []
    text = "\n".join(line for line in lines[kept[0] : kept[-1] + 1] if not looks_like_prose(line))
    tokens = lex(text, comments=False)
    if not tokens or any(token.kind is TokenKind.ERROR for token in tokens):
        return []
    words = [token for token in tokens if token.kind in {TokenKind.LOWER, TokenKind.UPPER}]
    sentence = len(words) == len(tokens) and (len(words) > 3 or words[0].kind is TokenKind.UPPER)
    return [] if sentence else [_block(text, closed=True)]


def _chosen(blocks: Sequence[_Block], names: frozenset[str], notes: list[str]) -> str:
    """Return the block that defines what is asked, under those that it needs."""
    ranked = [(block.strength(names), block.whole(), index) for index, block in enumerate(blocks)]
    strength, _, main = max(ranked)
    if not strength:
        return _without_names(blocks, notes)
    if sum(1 for rank in ranked if rank[0]) > 1:
        notes.append("of several blocks that define it, one taken")
    if not blocks[main].whole():
        notes.append("the reply ends in the middle of the code")
    needed = _needed(blocks, main)
    if needed:
        notes.append("definitions from another block put in front")
    if any(index != main and not block.defines for index, block in enumerate(blocks)):
        notes.append("a block of usage left out")
    return "\n\n".join([*needed, blocks[main].text.strip("\n")])


def _without_names(blocks: Sequence[_Block], notes: list[str]) -> str:
    """Return the code of a reply that does not define what is asked: definitions together, else one body."""
    defining = [block for block in blocks if block.defines]
    if not defining:
        return blocks[0].text.strip("\n")
    if len(defining) < len(blocks):
        notes.append("a block of usage left out")
    last = {_signs(phrase): id(phrase) for block in defining for phrase in block.phrases if phrase.defines}
    kept = []
    for block in defining:
        again = [p for p in block.phrases if p.defines and last[_signs(p)] != id(p)]
        if len(again) < sum(phrase.defines for phrase in block.phrases):
            kept.append(block.text.strip("\n"))
    return "\n\n".join(kept)


def _signs(phrase: Phrase) -> tuple[str, ...]:
    return (phrase.kind.value, *phrase.names)


def _needed(blocks: Sequence[_Block], main: int) -> list[str]:
    """Return the definitions of other blocks that the main one rests on, in order, the last of each name."""
    offered: dict[tuple[str, ...], tuple[int, Phrase]] = {}
    own = {_signs(phrase) for phrase in blocks[main].phrases}
    for index, block in enumerate(blocks):
        for phrase in block.phrases if index != main else ():
            if phrase.defines and _signs(phrase) not in own:
                offered[_signs(phrase)] = (index, phrase)
    by_word: dict[str, list[tuple[str, ...]]] = {}
    for signs, (_, phrase) in offered.items():
        for word in _offers(phrase):
            by_word.setdefault(word, []).append(signs)
    bound = {
        name for phrase in blocks[main].phrases if phrase.kind is PhraseKind.LET for name in phrase.names
    }
    waiting = list(blocks[main].phrases)
    taken: set[tuple[str, ...]] = set()
    while waiting:
        for word in _rests_on(waiting.pop(), bound):
            for signs in by_word.pop(word, []):
                if signs not in taken:
                    taken.add(signs)
                    waiting.append(offered[signs][1])
    chosen = sorted((offered[signs] for signs in taken), key=lambda pair: (pair[0], pair[1].start))
    return [blocks[index].text[phrase.start : phrase.end] for index, phrase in chosen]


def _offers(phrase: Phrase) -> Iterator[str]:
    """Return what a phrase gives to others; a type's name is marked, since values have names of their own."""
    if phrase.kind is PhraseKind.TYPE:
        yield from (f"type {name}" for name in phrase.names)
        yield from phrase.provides - set(phrase.names)
    elif phrase.kind not in {PhraseKind.OPEN, PhraseKind.INCLUDE}:
        yield from phrase.names


def _rests_on(phrase: Phrase, bound: set[str]) -> Iterator[str]:
    """Return what a phrase takes from elsewhere: free values, types, constructors, modules."""
    code: Sequence[Token] = without_comments(phrase.tokens)
    yield from free_names(code) - bound
    yield from (token.text for token in code if token.kind is TokenKind.UPPER)
    yield from (f"type {token.text}" for token in code if token.kind is TokenKind.LOWER)

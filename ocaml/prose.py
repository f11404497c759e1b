"""Tells English from OCaml, a line at a time, where no fence does."""

import re

from ocaml.lexing import TokenKind, lex


def looks_like_prose(line: str) -> bool:
    """Whether a line that stands outside comments and strings is English (or Markdown), not OCaml."""
    text = line.strip()
    if not text:
        return False
    if _MARKDOWN.match(text):
        return True
    words = [word.lower().replace("’", "'") for word in _WORD.findall(_without_code(text))]
    english = {word for word in words if word in _ENGLISH}
    if _KEYWORD.match(text):
        return _starter_in_english(text, words, english)
    if re.match(r"[A-Z][a-z]*[,!:](?:\s|$)|[A-Z][a-z]*\s?!", text):
        return True
    if text.endswith((".", ":", "!", "?")) and len(words) > 1 and (english or text[0].isupper()):
        return len(english) >= 2 or not re.search(r"\d\.$", text)
    return len(english) >= 2 and len(words) >= 4 and not re.search(r"[;=|]|->|::", _without_code(text))


def starts_code(line: str) -> bool:
    """Whether a line without a fence around it begins OCaml: a keyword alone may begin a sentence."""
    if not _STARTER.match(line):
        return False
    if line.startswith("(*"):
        return True
    tokens = lex(line, comments=False)
    if len(tokens) < 2:
        return False
    second, texts = tokens[1], {token.text for token in tokens}
    match tokens[0].text:
        case "let":
            named = second.kind is TokenKind.LOWER or second.text in {"rec", "(", "%"}
            return named and not looks_like_prose(line) and (bool(texts & {"=", ":", "("}) or len(tokens) < 8)
        case "type":
            return "=" in texts or len(tokens) == 2
        case "val" | "external":
            return ":" in texts
        case "exception":
            return second.kind is TokenKind.UPPER and (
                len(tokens) == 2 or tokens[2].text in {"of", "=", ";;"}
            )
        case "module":
            return bool(texts & {"=", ":"}) and any(t.kind is TokenKind.UPPER for t in tokens)
        case "open":
            return second.kind is TokenKind.UPPER and all(token.text in {".", ";;"} for token in tokens[2::2])
        case _:
            return False


_STARTER = re.compile(r"(?:\(\*|let|val|type|exception|external|module|open|class)(?![\w'])")
# Words that English uses all the time and that OCaml text seldom has; no keywords, no common value names.
_WORDS = """
a an the this that these those it its is are was be been being has have had will would can could should may
we you i they he your our my me here's it's i'm i'll don't doesn't let's there here which what who how why
where and or but if so as at by for from in into of on to up out with without not no than then also each first
returns return takes uses using given write implement define computes function code solution answer following
above below example examples explanation note because since hope helps
"""
_ENGLISH = frozenset(_WORDS.split())
_KEYWORD = re.compile(
    r"(?:let|type|exception|module|open|include|external|val|and|in|match|function|fun|if|then|else|begin|try|with"
    r"|assert|for|while|do|done|end|class|when|lazy|not)\b|[|({\[\"'#;!]|\(\*"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_MARKDOWN = re.compile(
    r"(?:#{1,6} +\w(?!.*;;)|\*\*|__|[-*+] +[A-Z`*]|\d+[.)] +\D|> |---+\s*$|<[a-z/!][^>]*>)"
)


def _starter_in_english(text: str, words: list[str], english: set[str]) -> bool:
    """``If the list is empty, …``, ``let me explain``: a keyword in front, a sentence behind."""
    if not text[0].isalpha() or re.search(r"[=|;]|->|\(\*", _without_code(text)):
        return False
    plain = english - {"if", "then", "with", "and", "in", "for", "function", "as", "or", "of", "to"}
    return (len(plain) >= 2 and len(words) >= 4) or (len(plain) >= 1 and text.endswith((".", ":", "!")))


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`|\"[^\"]*\"", " ", text)

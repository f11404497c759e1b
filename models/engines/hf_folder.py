"""The tokens of a Hugging Face or MLX folder, by the ``tokenizers`` library, and its chat template."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from models.engines.vocabulary import STOP_TEXTS
from models.errors import EngineError


class FolderVocabulary:
    """The vocabulary of a folder with a ``tokenizer.json``; fulfils ``Vocabulary``.

    ``size`` counts the tokens that can be spelled: the model's logits may have a few rows more.
    ``model`` is where its configuration lies, if not there too: an adapter brings a tokenizer alone.
    Raises ``EngineError`` when the folder has no tokenizer that can be read.
    """

    def __init__(self, folder: Path, model: Path | None = None) -> None:
        self._tokenizer = _open(folder)
        # Some trainers save how they cut and filled their batches: here it would cut and fill prompts.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        config = _json(folder / "tokenizer_config.json")
        added = self._tokenizer.get_added_tokens_decoder()
        self._controls = {token for token, entry in added.items() if entry.special}
        self._added = {token: entry.content for token, entry in added.items()}
        self._writes_bytes = _is_byte_level(json.loads(self._tokenizer.to_str()).get("decoder"))
        self.size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        self.bos = self._id(_content(config.get("bos_token")))
        stops = _stop_ids(folder) or _stop_ids(model or folder)
        eos = self._id(_content(config.get("eos_token")))
        self.eos = eos if eos >= 0 else next(iter(stops), -1)
        self.adds_bos = self.bos >= 0 and self._tokenizer.encode("").ids[:1] == [self.bos]
        named = {token for text in STOP_TEXTS if (token := self._id(text)) in self._controls}
        self._stops = {self.eos, *stops, *named} - {-1}
        self._pieces: dict[int, bytes] = {}

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of ``text``; with ``special``, control tokens spelled in it become themselves."""
        self._tokenizer.encode_special_tokens = not special
        whole = text.encode("utf-8", errors="replace").decode("utf-8")  # no lone surrogates
        return list(self._tokenizer.encode(whole, add_special_tokens=False).ids)

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token writes; a control token writes none."""
        if (known := self._pieces.get(token)) is None:
            known = self._pieces[token] = b"" if token in self._controls else self._bytes(token)
        return known

    def text(self, token: int) -> str:
        """Return a token's own text, a control token's too."""
        return "" if token < 0 else self._bytes(token).decode("utf-8", errors="replace")

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model instead of writing text."""
        return token in self._controls

    def ends_turn(self, token: int) -> bool:
        """Whether the model has finished its reply when it draws ``token``."""
        return token in self._stops

    def _id(self, text: str) -> int:
        token = self._tokenizer.token_to_id(text) if text else None
        return -1 if token is None else int(token)

    def _bytes(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].encode()
        spelled = self._tokenizer.id_to_token(token) or ""
        if self._writes_bytes:
            return bytes(_BYTES[character] for character in spelled if character in _BYTES)
        if len(spelled) == 6 and spelled.startswith("<0x") and spelled.endswith(">"):
            return bytes([int(spelled[3:5], 16)])  # SentencePiece's bytes
        return spelled.replace("▁", " ").encode()


def _open(folder: Path) -> Tokenizer:
    try:
        if (folder / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
        from transformers import AutoTokenizer  # costs a second; older folders alone need it

        older = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer: Tokenizer = older.backend_tokenizer
        return tokenizer
    except Exception as error:  # tokenizers raises bare Exception
        reason = " ".join(str(error).split())[:200]
        raise EngineError(
            f"The tokenizer of {folder.name} cannot be read ({reason}): copy its tokenizer.json anew."
        ) from error


def _stop_ids(folder: Path) -> tuple[int, ...]:
    """Return what the folder's configuration calls the end; fine-tuned models often name only one of two."""
    found: list[int] = []
    for name in ("generation_config.json", "config.json"):
        value = _json(folder / name).get("eos_token_id")
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
    return tuple(dict.fromkeys(found))


def _json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))  # Windows' editors begin with a mark
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _content(token: object) -> str:
    """Return a token of tokenizer_config.json, which is written as text or as an object."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _is_byte_level(decoder: object) -> bool:
    if not isinstance(decoder, dict):
        return False
    parts = decoder.get("decoders")
    inner = parts if isinstance(parts, list) else []
    return decoder.get("type") == "ByteLevel" or any(map(_is_byte_level, inner))


# GPT-2 spells bytes as printable characters: those that are print themselves, the others follow from 256 on.
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + place): byte for place, byte in enumerate(_OTHERS)
}

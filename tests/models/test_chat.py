"""A conversation to tokens, where the template or the folder is an odd one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from models.engines import Message, Role
from models.engines.chat import Chat
from models.engines.hf_folder import FolderVocabulary


@pytest.mark.parametrize(
    ("way", "written"),
    [("upper", b"A <|im_end|> B"), ("lower", b"a <|im_end|> b"), ("trim", b"A <|im_end|> b")],
)
def test_a_control_token_in_a_message_stays_text_however_the_template_writes_it(
    make_nano_folder: Callable[..., Path], way: str, written: bytes
):
    vocabulary = FolderVocabulary(make_nano_folder())
    chat = Chat(vocabulary, f"{{{{ messages[0]['content'] | {way} }}}}", None, "nano")
    for _ in range(20):  # what goes through the template in its place is drawn anew each time
        tokens = chat.tokens([Message(Role.USER, "A <|im_end|> b")])
        assert b"".join(map(vocabulary.piece, tokens)) == written


def test_a_configuration_that_begins_with_a_mark_is_read(
    make_nano_folder: Callable[..., Path], tmp_path: Path
):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((make_nano_folder() / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|bos|>"}), encoding="utf-8-sig")
    vocabulary = FolderVocabulary(folder)
    assert vocabulary.text(vocabulary.eos) == "<|bos|>"


def test_a_tokenizer_saved_as_it_filled_batches_in_training_neither_cuts_nor_fills_prompts(
    make_nano_folder: Callable[..., Path], tmp_path: Path
):
    tokenizer = Tokenizer.from_file(str(make_nano_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=16)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = FolderVocabulary(tmp_path)
    for text in ("let", "let rec sum list = match list with [] -> 0"):
        tokens = vocabulary.tokenize(text, special=False)
        assert b"".join(map(vocabulary.piece, tokens)) == text.encode()


@pytest.fixture
def sentencepiece(tmp_path: Path) -> FolderVocabulary:
    """Return a vocabulary of bytes that puts a space before every text, as Llama 2's does."""
    spelled = ["<unk>", "▁", *(f"<0x{byte:02X}>" for byte in range(256)), "l", "e", "t", "▁l", "▁▁"]
    merges = [("▁", "l"), ("▁", "▁")]
    tokenizer = Tokenizer(
        models.BPE(
            {text: token for token, text in enumerate(spelled)}, merges, unk_token="<unk>", byte_fallback=True
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return FolderVocabulary(tmp_path)


@pytest.mark.parametrize(
    "prefix", ["let", " let", "  ", " " * 9 + "l", "\n  l", "é", "</s>l", "文 let", "\n", ""]
)
def test_a_prefix_is_spelled_exactly_also_where_a_vocabulary_puts_a_space_before_a_text(
    sentencepiece: FolderVocabulary, prefix: str
):
    tokens = Chat(sentencepiece, "{{ messages }}", None, "nano").accepted(prefix)
    assert b"".join(map(sentencepiece.piece, tokens)).decode() == prefix


def test_text_after_a_control_token_in_a_message_gets_no_space(sentencepiece: FolderVocabulary):
    chat = Chat(sentencepiece, "{{ messages[0]['content'] }}", None, "nano")
    tokens = chat.tokens([Message(Role.USER, "let </s>let</s> l")])
    assert b"".join(map(sentencepiece.piece, tokens)) == b" let </s>let</s> l"

"""A nano model as a Hugging Face folder: the same numbers and tokens as its GGUF file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from nano import CONTROLS, HEADS, INNER, KV_HEADS, LAYERS, WIDTH, Nano, Tokens, tokens, weights
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

# Qwen2's, as its own tokenizer.json has it.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_folder(nano: Nano, folder: Path) -> None:
    """Write a nano model as ``save_pretrained`` would."""
    folder.mkdir(parents=True)
    spelled = tokens(nano)
    tensors = {
        hf_name(name): tensor.astype(np.float16)
        for name, tensor in weights(nano, len(spelled.texts), spelled.chain).items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _config(nano, spelled))
    _tokenizer(nano, spelled).save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", {"eos_token": nano.eos, "bos_token": nano.bos})
    if nano.template is not None:
        (folder / "chat_template.jinja").write_text(nano.template)


def hf_name(name: str) -> str:
    """Return the Hugging Face name of a tensor that llama.cpp names ``name``."""
    match name.split("."):
        case ["blk", layer, part, kind]:
            return f"model.layers.{layer}.{_NAMES[part]}.{kind}"
        case [part, kind]:
            return f"{_NAMES[part]}.{kind}"
    raise ValueError(name)


def _config(nano: Nano, spelled: Tokens) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": nano.architecture,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": INNER,
        "vocab_size": len(spelled.texts),
        "rms_norm_eps": 1e-6,
        "rope_theta": nano.theta,
        "max_position_embeddings": nano.context,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "hidden_act": "silu",
        "eos_token_id": spelled.texts.index(nano.eos),
        "bos_token_id": None if nano.bos is None else spelled.texts.index(nano.bos),
    }


def _tokenizer(nano: Nano, spelled: Tokens) -> Tokenizer:
    vocabulary = {text: token for token, text in enumerate(spelled.texts)}
    merges = [tuple(merge.split(" ")) for merge in spelled.merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROLS])
    if nano.bos is not None and nano.adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{nano.bos} $A", special_tokens=[(nano.bos, vocabulary[nano.bos])]
        )
    return tokenizer


def _write_json(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=1))

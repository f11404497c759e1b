"""A nano model as a GGUF file."""

from pathlib import Path

import gguf
import numpy as np
from nano import CONTROLS, HEADS, INNER, KV_HEADS, LAYERS, WIDTH, Nano, tokens, weights


def write_gguf(nano: Nano, path: Path) -> None:
    """Write a nano model as a GGUF file."""
    spelled = tokens(nano)
    texts = spelled.texts
    kinds = [gguf.TokenType.NORMAL] * (len(texts) - len(CONTROLS)) + [gguf.TokenType.CONTROL] * len(CONTROLS)
    writer = gguf.GGUFWriter(path, nano.architecture)
    writer.add_context_length(nano.context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(nano.theta)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(spelled.merges)
    writer.add_eos_token_id(texts.index(nano.eos))
    if nano.bos is not None:
        writer.add_bos_token_id(texts.index(nano.bos))
    writer.add_add_bos_token(nano.adds_bos)
    if nano.template is not None:
        writer.add_chat_template(nano.template)
    for name, tensor in weights(nano, len(texts), spelled.chain).items():
        # As llama.cpp has it: matrices small, vectors exact.
        writer.add_tensor(name, tensor.astype(np.float16 if tensor.ndim == 2 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

"""A nano model without attention, as a GGUF file: it remembers one state, not every token."""

from pathlib import Path

import gguf
import numpy as np
from nano import CHATML, CONTROLS, WIDTH, Nano, tokens
from numpy.typing import NDArray

INNER, STATE, RANK, WINDOW, LAYERS = 2 * WIDTH, 16, 4, 4, 2


def write_mamba(path: Path) -> None:
    """Write a model of the Mamba architecture that babbles."""
    texts = tokens(Nano()).texts
    kinds = [gguf.TokenType.NORMAL] * (len(texts) - len(CONTROLS)) + [gguf.TokenType.CONTROL] * len(CONTROLS)
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_context_length(65536)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(WINDOW)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(tokens(Nano()).merges)
    writer.add_eos_token_id(texts.index(Nano().eos))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)
    for name, tensor in weights(len(texts)).items():
        writer.add_tensor(name, tensor.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weights(vocabulary: int) -> dict[str, NDArray[np.float64]]:
    """Return random weights by llama.cpp's names."""
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> NDArray[np.float64]:
        return random.normal(0, columns**-0.5, (rows, columns))

    tensors = {
        "token_embd.weight": matrix(vocabulary, WIDTH) * WIDTH**0.5,
        "output.weight": matrix(vocabulary, WIDTH) * 3,
        "output_norm.weight": np.ones(WIDTH),
    }
    for layer in range(LAYERS):
        parts = {
            "attn_norm.weight": np.ones(WIDTH),
            "ssm_in.weight": matrix(2 * INNER, WIDTH),
            "ssm_conv1d.weight": matrix(INNER, WINDOW),
            "ssm_conv1d.bias": np.zeros(INNER),
            "ssm_x.weight": matrix(RANK + 2 * STATE, INNER),
            "ssm_dt.weight": matrix(INNER, RANK),
            "ssm_dt.bias": np.zeros(INNER),
            "ssm_a": -np.ones((INNER, STATE)),
            "ssm_d": np.ones(INNER),
            "ssm_out.weight": matrix(WIDTH, INNER),
        }
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in parts.items()}
    return tensors

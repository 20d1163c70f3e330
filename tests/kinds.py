"""Tiny networks of several kinds, with random weights."""

from __future__ import annotations

from typing import Any

import torch
import transformers

WIDTH = 32
"""All widths are multiples of 32, as in published networks: PyTorch computes what is left over of an activation by
other code, so that its last bits would depend on the batch."""
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
CAUSAL = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0}


def network(kind: str, words: int, positions: int | None = None) -> Any:
    """A network of a kind with a vocabulary of `words`; token 0 is padding. `positions`: what it reads, else some 50.

    Its weights are so far from each other that no pooling or position looks like another.
    """
    torch.manual_seed(0)
    shape = {"vocab_size": words, "pad_token_id": 0, **SIZES}
    match kind:
        case "bert":
            config: Any = transformers.BertConfig(**shape, max_position_embeddings=64)
        case "roberta":
            config = transformers.RobertaConfig(**shape, max_position_embeddings=50)
        case "xlm-roberta":
            config = transformers.XLMRobertaConfig(**shape, max_position_embeddings=80)
        case "mpnet":
            config = transformers.MPNetConfig(vocab_size=words, **SIZES, max_position_embeddings=50)
        case "distilbert":
            sizes = {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
            config = transformers.DistilBertConfig(vocab_size=words, pad_token_id=0, **sizes)
        case "modernbert":
            config = transformers.ModernBertConfig(
                **shape, max_position_embeddings=64, global_attn_every_n_layers=2, local_attention=8
            )
        case "t5" | "t5-encoder":
            sizes = {"d_model": WIDTH, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
            config = transformers.T5Config(vocab_size=words, pad_token_id=0, **sizes)
        case "qwen3":
            config = transformers.Qwen3Config(vocab_size=words, **CAUSAL)
        case "llama":
            config = transformers.LlamaConfig(vocab_size=words, **CAUSAL)
        case "gemma":
            config = transformers.Gemma3TextConfig(
                vocab_size=words,
                **CAUSAL,
                layer_types=["sliding_attention", "full_attention"],
                sliding_window=8,
                query_pre_attn_scalar=16,
                use_bidirectional_attention=True,
            )
    if positions is not None:
        config.max_position_embeddings = positions
    made = transformers.T5EncoderModel if kind == "t5-encoder" else transformers.AutoModel.from_config
    model = made(config)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.ndim > 1:
                weight.mul_(6 if "embed" in name else 3)
    return model

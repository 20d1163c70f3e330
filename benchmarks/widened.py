"""Widens a masked LM to the shape of BERT base, without a change of what it predicts.

It proposes the words of the small network at the cost of the large one. So attacks that ask a masked LM search as they
do with real weights, where BERT base's own are not at hand.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

FOLD = 2
LAYERS = 12


def widened(small: BertForMaskedLM) -> BertForMaskedLM:
    """Return a network of twice the width and 12 layers with the same logits, up to rounding.

    Each vector v becomes [v, v], which LayerNorm leaves as it is. A head of attention has its numbers twice. The added
    layers change nothing: their last linear layers are zero, and they stand before the last LayerNorm's weights.

    Args:
        small: a BERT of at most 12 layers.
    """
    narrow = small.config
    config = BertConfig(
        **narrow.to_dict()
        | {
            "hidden_size": FOLD * narrow.hidden_size,
            "intermediate_size": FOLD * narrow.intermediate_size,
            "num_hidden_layers": LAYERS,
            "dtype": "float32",
        }
    )
    wide = BertForMaskedLM(config).eval()
    target, source = wide.state_dict(), {name: value.float() for name, value in small.state_dict().items()}
    for name, value in source.items():
        target[name].copy_(_widened(name, value, narrow.num_attention_heads))
    last = f"bert.encoder.layer.{narrow.num_hidden_layers - 1}.output.LayerNorm"
    for layer in range(narrow.num_hidden_layers, LAYERS):
        for part in ("attention.output", "output"):
            for kind in ("weight", "bias"):
                target[f"bert.encoder.layer.{layer}.{part}.dense.{kind}"].zero_()
    end = f"bert.encoder.layer.{LAYERS - 1}.output.LayerNorm"
    for kind, neutral in (("weight", 1.0), ("bias", 0.0)):
        kept = target[f"{last}.{kind}"].clone()
        target[f"{last}.{kind}"].fill_(neutral)
        target[f"{end}.{kind}"].copy_(kept)
    return wide


def _widened(name: str, value: Tensor, heads: int) -> Tensor:
    """Return a parameter of the wide network."""
    if name.startswith("cls.predictions.") and "transform" not in name and value.ndim == 1:
        return value  # the bias of each word
    if value.ndim == 2 and (".embeddings." in name or "decoder.weight" in name):
        return value.repeat(1, FOLD)
    if value.ndim == 2:
        wide = torch.block_diag(value, value)
        if ".self." in name:
            wide = wide[_by_head(len(value), heads)]
        elif "attention.output.dense" in name:
            wide = wide[:, _by_head(value.shape[1], heads)]
    else:
        wide = value.repeat(FOLD)
        if ".self." in name:
            wide = wide[_by_head(len(value), heads)]
    if ".self.query." in name:
        wide = wide / FOLD**0.5  # a product of [q, q] and [k, k] over the root of twice the width
    if "transform.LayerNorm" in name:
        wide = wide / FOLD  # a product of [t, t] and a word's [e, e]
    return wide


def _by_head(width: int, heads: int) -> Tensor:
    """Return the order of the rows in which each head has its own of both copies."""
    return torch.arange(FOLD * width).view(FOLD, heads, width // heads).transpose(0, 1).reshape(-1)

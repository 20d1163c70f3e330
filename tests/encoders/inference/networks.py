"""A tiny BERT with random weights, and how many threads PyTorch uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import Tensor


def build_bert() -> Any:
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    torch.manual_seed(0)
    return transformers.BertModel(config).eval()


BERT = build_bert()


def pooler_output(model: Any, **inputs: Tensor) -> Tensor:
    """What a batch of inputs is read as: the `read` of `choose_backend`."""
    pooled: Tensor = model(**inputs).pooler_output
    return pooled


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let PyTorch use `count` threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)

"""Fit a tokenizer to a network: the one place that decides what a network is given of a text, whoever opens it.

Folders, pairs of model and tokenizer, pipelines, saved victims and encoders all pass through `fitted` and
`longest_input`. So a model gives one answer, whichever way it came.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

from torch import nn

from rbench.inference import padding_of

VERSION = 1

LARGEST_REAL_LENGTH = 1_000_000
"""Larger limits of a tokenizer mean none: tokenizers saved without a limit have int(1e30)."""


def fitted(tokenizer: Any, network: nn.Module) -> Any:
    """Return a tokenizer that gives a network what it takes; a copy where the given one would give something else.

    - Inputs that the network's `forward` does not name are left out, such as the `token_type_ids` of BERT's tokenizer
      for a DistilBERT.
    - Padding is on the right. There it changes no position, whether the network reads in both directions or in one;
      on the left it moves the text to other positions.
    - A tokenizer without a token for padding (GPT-2, Llama) pads with the one that ends texts. Padding is masked.
    """
    inputs = [name for name in tokenizer.model_input_names if takes(network, name)]
    if inputs != list(tokenizer.model_input_names) or tokenizer.padding_side != "right" or tokenizer.pad_token is None:
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.model_input_names, tokenizer.padding_side = inputs, "right"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def padding(tokenizer: Any, network: nn.Module) -> tuple[int, int]:
    """Return token id and token type id of padding: the network's own token, if it has one, else the tokenizer's.

    Some networks recognise padding by its token: RoBERTa counts no position for it, heads of decoders read the token
    before it.
    """
    config: Any = network.config
    by_tokenizer, kind = padding_of(tokenizer)
    own = getattr(config, "pad_token_id", None)
    return (own if isinstance(own, int) and own >= 0 else by_tokenizer), kind


def takes(network: nn.Module, name: str) -> bool:
    """Return whether a network's `forward` names an input. One that names no inputs at all takes any."""
    named = inspect.signature(network.forward).parameters
    return name in named or "input_ids" not in named


def longest_input(model: nn.Module, tokenizer: Any, wanted: int | None = None) -> int:
    """Return how many tokens the network reads: `wanted`, or else the tokenizer's limit, but at most what it can read.

    It is 512 if nothing limits it. RoBERTa and MPNet number positions from padding_idx + 1, so they can read that much
    less than the number of rows of their position tables.
    """
    limits = [wanted] if wanted else []
    if not wanted and tokenizer.model_max_length < LARGEST_REAL_LENGTH:
        limits = [tokenizer.model_max_length]
    config: Any = model.config
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        table = next((m for p, m in model.named_modules() if p.endswith("position_embeddings")), None)
        padding = getattr(table, "padding_idx", None)
        limits.append(positions if padding is None else positions - padding - 1)
    return int(min(limits, default=512))

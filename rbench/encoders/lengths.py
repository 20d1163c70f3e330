"""Split a training batch into groups of rows of similar length, to save most of its padding.

A padded position costs as much as a token. Rows are independent inside a transformer, so the batch can be split before
the network and joined after it; losses still see the whole batch. Results are equal up to rounding and the draws of
dropout masks. On a GPU a batch stays whole, because there padding is cheaper than more calls.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

MAX_GROUPS = 4
"""Maximum number of groups of a batch. More groups save little padding, and each costs one more call."""
LEAST = 256, 1024
"""Approximate number of tokens of a group: for a network like BERT, and for one so small that the overhead of a call
dominates."""
WORK_OF_A_CALL = 3_000_000_000
"""Product of weights and tokens whose computation takes about as long as the overhead of one more call."""
WORTH_SPLITTING = 0.9
"""A batch stays whole if its groups would have more than this share of its tokens (padding included)."""


def count_linear_weights(network: nn.Module) -> int:
    """Return the number of weights in a network's linear layers, by which each token is multiplied."""
    return sum(part.weight.numel() for part in network.modules() if isinstance(part, nn.Linear))


def compute_in_groups(call: Callable[[dict[str, Tensor]], Tensor], inputs: dict[str, Tensor], weights: int) -> Tensor:
    """Return `call(inputs)`, computed in groups of rows of similar length without their padding on the right.

    Args:
        call: a network. Its output for a row must not depend on other rows or on padding. It returns one vector for
            each row, (rows, dim), or for each token, (rows, length, dim); vectors of padding are then zero.
        inputs: `attention_mask`, (rows, length), and others whose first two dimensions are the same. With any other
            input, and on a GPU, the batch stays whole.
        weights: `count_linear_weights` of the network.
    """
    mask = inputs.get("attention_mask")
    if mask is None or mask.device.type != "cpu" or any(tensor.shape[:2] != mask.shape for tensor in inputs.values()):
        return call(inputs)
    least_tokens, least_tokens_tiny = LEAST
    # The length of each row up to its last token that is not padding; at least 1.
    lengths = torch.where(mask.any(1), mask.shape[1] - mask.bool().flip(1).int().argmax(1), 1)
    groups = _split_by_length(lengths, min(least_tokens_tiny, max(least_tokens, WORK_OF_A_CALL // max(1, weights))))
    if len(groups) == 1:
        return call(inputs)
    answers = [call({name: tensor[rows, :length] for name, tensor in inputs.items()}) for rows, length in groups]
    if answers[0].ndim == 3:
        answers = [functional.pad(answer, (0, 0, 0, mask.shape[1] - answer.shape[1])) for answer in answers]
    # The argsort of all indices inverts the permutation, so rows return to their original order.
    return torch.cat(answers)[torch.cat([rows for rows, _ in groups]).argsort()]


def _split_by_length(lengths: Tensor, least: int) -> list[tuple[Tensor, int]]:
    """Return the groups: the indices of the rows, and the length of the longest row.

    One group is returned if splitting would save too little.
    """
    rows, longest = len(lengths), int(lengths.max())
    count = min(MAX_GROUPS, rows, int(lengths.sum()) // least)
    if count > 1:
        order = lengths.argsort(stable=True)
        groups = [(places, int(lengths[places[-1]])) for places in order.tensor_split(count)]
        if sum(len(places) * length for places, length in groups) <= WORTH_SPLITTING * rows * longest:
            return groups
    return [(torch.arange(rows), longest)]

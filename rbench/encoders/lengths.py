"""Batches of a network in training without most of their padding: rows of like length go through it together.

A padded position costs as much as a word. Rows do not see each other inside a transformer, so that the batch may be
split there and put together again; losses see all of it. What comes out is the same up to rounding, and for the draw of
dropout masks. On a GPU a batch stays whole: it would rather pad than be asked often.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

MOST = 4
"""Groups that a batch is split into at most: more save little padding, and each asks the network once more."""
LEAST = 256, 1024
"""Tokens in a group, about: of a network like BERT, and of one so small that asking it takes most of the time."""
WORK = 3_000_000_000
"""Weights times tokens that take about as long as asking a network once more."""
WORTH = 0.9
"""A batch stays whole if its groups would have more than this share of its tokens."""


def linear_weights(network: nn.Module) -> int:
    """Weights that each token of a network's input is multiplied with."""
    return sum(part.weight.numel() for part in network.modules() if isinstance(part, nn.Linear))


def in_groups(call: Callable[[dict[str, Tensor]], Tensor], inputs: dict[str, Tensor], weights: int) -> Tensor:
    """What `call` gives for `inputs`, asked in groups of rows of like length, each without its padding on the right.

    Args:
        call: a network; its answer for a row does not depend on the other rows, nor on padding. It gives one vector a
            row, (rows, dim), or one a token, (rows, length, dim): those of padding are then zero.
        inputs: `attention_mask`, (rows, length), and others whose first two dimensions are these. Whatever else there
            is, the batch stays whole, as it does on a GPU.
        weights: `linear_weights` the network.
    """
    mask = inputs.get("attention_mask")
    if mask is None or mask.device.type != "cpu" or any(x.shape[:2] != mask.shape for x in inputs.values()):
        return call(inputs)
    few, many = LEAST
    groups = _groups(_lengths(mask), min(many, max(few, WORK // max(1, weights))))
    if len(groups) == 1:
        return call(inputs)
    answers = [call({name: x[rows, :length] for name, x in inputs.items()}) for rows, length in groups]
    if answers[0].ndim == 3:
        answers = [functional.pad(answer, (0, 0, 0, mask.shape[1] - answer.shape[1])) for answer in answers]
    return torch.cat(answers)[torch.cat([rows for rows, _ in groups]).argsort()]


def _lengths(mask: Tensor) -> Tensor:
    """(rows,) How far each row reaches: up to its last token that is no padding, at least 1."""
    last = mask.shape[1] - mask.bool().flip(1).int().argmax(1)
    return torch.where(mask.any(1), last, 1)


def _groups(lengths: Tensor, least: int) -> list[tuple[Tensor, int]]:
    """Places of rows and the length of the longest of them, group by group; one group where more are not worth it."""
    rows, longest = len(lengths), int(lengths.max())
    count = min(MOST, rows, int(lengths.sum()) // least)
    if count > 1:
        order = lengths.argsort(stable=True)
        groups = [(places, int(lengths[places[-1]])) for places in order.tensor_split(count)]
        if sum(len(places) * length for places, length in groups) <= WORTH * rows * longest:
            return groups
    return [(torch.arange(rows), longest)]

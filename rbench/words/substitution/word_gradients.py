"""Gradient norms by word, from gradients at the embeddings of word pieces (ADCL paper, section 3.3, step 2).

`l2` is the L2 norm of the mean of a word's gradients. `l1` is the sum of their absolute values, over all pieces and
dimensions, as in the authors' public code.

`find_nearest_boundary` says in which direction DeepFool goes from a linear classifier's logits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from rbench.words.substitution.segmentation import WordSpan

VERSION = 1

WordNorm = Literal["l2", "l1"]


def compute_norms(
    encoded: Any, gradients: Sequence[Tensor], spans: Sequence[Sequence[WordSpan]], norm: WordNorm = "l2"
) -> list[Tensor]:
    """The norm of each word's gradients, for n texts.

    Args:
        encoded: what a fast tokenizer gives for the texts, with its `offset_mapping`.
        gradients: for each text (pieces, dim), at the embeddings of its word pieces.
        spans: for each text where its words lie, in order.
        norm: see the head of this module.

    Returns:
        n tensors (words,), -inf for a word that truncation hides.
    """
    owners = (
        pieces_to_words(offsets, encoded.sequence_ids(row), spans[row])
        for row, offsets in enumerate(encoded["offset_mapping"])
    )
    return [pool_by_word(*of_text, norm) for of_text in zip(gradients, owners, map(len, spans), strict=True)]


def pieces_to_words(
    offsets: Sequence[tuple[int, int]], columns: Sequence[int | None], spans: Sequence[WordSpan]
) -> list[int]:
    """For each word piece the number of its word, or -1 (special tokens, punctuation, padding).

    A piece belongs to the first word with which it shares a character.

    Args:
        offsets: first and last character (exclusive) of each piece in its column: a tokenizer's `offset_mapping`.
        columns: the column of each piece, None for special tokens: a fast tokenizer's `sequence_ids()`.
        spans: where the words lie, in order.
    """
    owners = [-1] * len(offsets)
    word = 0
    for piece, ((start, end), column) in enumerate(zip(offsets, columns, strict=True)):
        if column is None or start == end:
            continue
        # Both lists follow the text, so a single pass assigns every piece to its word.
        while word < len(spans) and (spans[word][0], spans[word][2]) <= (column, start):
            word += 1
        if word < len(spans) and spans[word][0] == column and spans[word][1] < end:
            owners[piece] = word
    return owners


def pool_by_word(gradients: Tensor, owners: Sequence[int], num_words: int, norm: WordNorm = "l2") -> Tensor:
    """The norm of each word's gradients.

    Args:
        gradients: (pieces, dim).
        owners: the number of each piece's word, -1 for none.
        num_words: how many words the text has.
        norm: see the head of this module.

    Returns:
        (num_words,), -inf for words without pieces.
    """
    rows = gradients.detach().float()
    # Pieces outside of words are collected in an extra last row, which is cut off.
    owner = torch.tensor([word if word >= 0 else num_words for word in owners], device=rows.device, dtype=torch.long)
    counts = torch.bincount(owner, minlength=num_words + 1)[:num_words]
    if norm == "l1":
        norms: Tensor = rows.new_zeros(num_words + 1).index_add(0, owner, rows.abs().sum(dim=1))[:num_words]
    else:
        sums = rows.new_zeros(num_words + 1, rows.shape[-1]).index_add(0, owner, rows)[:num_words]
        norms = (sums / counts.clamp(min=1).unsqueeze(1)).norm(dim=1)
    return norms.masked_fill(counts == 0, -math.inf)


def find_nearest_boundary(logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """The class whose boundary with the label's own is nearest: the least |f_k| / |w_k|, of equal ones the first.

    This is DeepFool's direction ("DeepFool: a simple and accurate method to fool deep neural networks",
    Moosavi-Dezfooli et al., 2016, section 3). The authors of the Geometry attack take it in their public code, in place
    of the gradient of the cross-entropy.

    f_k = l_k - l_y and w_k = W_k - W_y, for all k but y. w_k is the normal of that boundary.

    Args:
        logits: (n, labels), l; log-probabilities do as well.
        labels: (n,), y.
        weight: (labels, dim), W of the linear head.

    Returns:
        (n,), whole numbers.
    """
    true_column = labels.unsqueeze(1)
    lengths = (weight.unsqueeze(0) - weight[labels].unsqueeze(1)).norm(dim=2)
    distances = (logits - logits.gather(1, true_column)).abs() / lengths
    # Two equal rows of W have no boundary, unless one of them is y's own. Neither is a class to go to.
    distances = torch.where(lengths > 0, distances, torch.full_like(distances, torch.inf)).scatter(
        1, true_column, torch.inf
    )
    nearest = (distances == distances.min(dim=1, keepdim=True).values).scatter(1, true_column, False)
    classes = torch.arange(logits.shape[1], device=logits.device).expand_as(nearest)
    return torch.where(nearest, classes, logits.shape[1]).min(dim=1).values

"""Compute CLINE's losses (Wang et al. 2021, section 3.2) for sentences and their edits: x_ori, x_syn, x_ant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rbench.encoders.lengths import compute_in_groups, count_linear_weights
from rbench.encoders.sentence import masked_mean
from rbench.train.heads import MLPHead, as_single_precision, detection_loss, masked, masked_loss, vocabulary_head

VERSION = 1


class UncertaintyWeights(nn.Module):
    """Sum exp(-s_i) L_i + s_i over the losses L_i (Kendall, Gal and Cipolla 2018, section 3).

    Each s_i is learned from 0, so lambda_i = exp(-s_i) starts at 1.

    The paper's loss for classification is L_i / sigma_i^2 + log sigma_i. Here s_i = log sigma_i^2, and the second term
    has weight 1 in place of 1/2, so that the optimum is lambda_i = 1 / L_i. Without that term a learned weight would
    fall to zero.

    Args:
        names: names of the losses.
        clamped: add max(s_i, 0) in place of s_i, as the public code of CLINE has it. A negative s_i is then not
            rewarded, so no lambda_i rises far above 1.
    """

    def __init__(self, names: Sequence[str], *, clamped: bool = False) -> None:
        super().__init__()
        self.names, self._clamped = tuple(names), clamped
        self.s = nn.Parameter(torch.zeros(len(self.names)))

    def forward(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return `loss` and its terms: lambda_i L_i by name, and `uncertainty`, the sum of the terms added for s_i."""
        terms = {name: torch.exp(-s) * losses[name] for name, s in zip(self.names, self.s, strict=True)}
        terms["uncertainty"] = (self.s.clamp(min=0) if self._clamped else self.s).sum()
        return {"loss": torch.stack(list(terms.values())).sum(), **terms}

    @property
    def lambdas(self) -> dict[str, float]:
        """Return the current weights by name."""
        return {name: float(value) for name, value in zip(self.names, torch.exp(-self.s.detach()), strict=True)}


class TripleLosses(nn.Module):
    """A masked LM with a replaced-token detector and learned loss weights. One pass over all views gives all losses.

    Args:
        masked_lm: a transformers masked LM with a head that `vocabulary_head` knows.
        options: those of `rbench.train.objectives.cline`.
        pooling: the sentence vector h_c is that of `cls`, as in the paper, or the `mean` over the tokens.
        collator: transformers' collator for masked LMs.
    """

    def __init__(self, masked_lm: Any, options: Any, *, pooling: Literal["cls", "mean"], collator: Any) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.vocabulary = vocabulary_head(masked_lm)
        width, detects = int(masked_lm.config.hidden_size), options.detection != "none"
        outputs = 1 if options.classes == 2 else options.classes
        self.replaced = nn.Linear(width, outputs, bias=False) if detects else None
        self.pooler: nn.Module = MLPHead(width) if options.pooler == "tanh" else nn.Identity()
        names = ("mlm", *(("detection",) if detects else ()), "contrastive")
        self.weights = UncertaintyWeights(names, clamped=options.log_variance == "clamped")
        self._loss = softmax_contrast if options.contrast == "softmax" else sigmoid_contrast
        self._pooling, self._collator, self._options = pooling, collator, options

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor, replaced: Tensor
    ) -> dict[str, Tensor]:
        """Return the total loss and its terms (`UncertaintyWeights`).

        All inputs are (batch, views, length). The views are x_ori, x_syn and, with hard negatives, x_ant. `replaced` is
        delta of equation 4: 1 for the tokens that were replaced, 0 for all others.
        """
        views, ori = input_ids.unbind(1), input_ids[:, 0]
        masked_ids, labels = masked(self._collator, ori, special_tokens_mask[:, 0])
        first_view, view_masks = int(self._options.anchor == "masked"), attention_mask.unbind(1)
        # The masked copy is needed for the masked-LM loss anyway; as the anchor it replaces x_ori and saves a pass.
        ids, masks = (masked_ids, *views[first_view:]), (view_masks[0], *view_masks[first_view:])
        inputs = {"input_ids": torch.cat(ids), "attention_mask": torch.cat(masks)}
        hidden = compute_in_groups(self._compute_states, inputs, count_linear_weights(self.masked_lm.base_model)).chunk(
            len(ids)
        )
        # The states of x_ori: after the masked copy, or the copy itself where it is the anchor.
        states = hidden[1 - first_view :]
        h = [self._pooled(state, mask) for state, mask in zip(states, view_masks, strict=True)]
        assert self.vocabulary is not None
        losses = {
            "mlm": masked_loss(self.vocabulary, hidden[0], labels),
            "contrastive": self._contrastive_loss(h, input_ids),
        }
        if self.replaced is not None:
            words = (attention_mask.bool() & ~special_tokens_mask.bool())[:, 1:]
            edited = torch.stack(states[1:], dim=1)[words]
            kinds = replacement_classes(replaced) if self.replaced.out_features > 1 else replaced[:, 1:]
            losses["detection"] = detection_loss(self.replaced(edited), kinds[words], self._options.detection)
        return self.weights(losses)  # type: ignore[no-any-return]

    def _compute_states(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.masked_lm.base_model(**inputs).last_hidden_state  # type: ignore[no-any-return]

    def _contrastive_loss(self, h: list[Tensor], ids: Tensor) -> Tensor:
        if self._options.hard_negative:
            # If x_ant equals x_ori there is no negative, and the loss would push the sentence away from itself.
            return self._loss(h[0], h[1], h[2], (ids[:, 0] != ids[:, 2]).any(1))
        others, has_others = draw_other_rows(len(ids)).to(ids.device), len(ids) > 1
        return self._loss(h[0], h[1], h[0][others], torch.full((len(ids),), has_others, device=ids.device))

    def _pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        h: Tensor = self.pooler(states[:, 0] if self._pooling == "cls" else masked_mean(states, mask))
        return h


def draw_other_rows(rows: int) -> Tensor:
    """Draw for each row the index of another row, uniformly, with torch's global generator; 0 for a single row."""
    # 1 to rows - 1 places further, modulo rows: never the row itself, and each other row with equal probability.
    return (torch.arange(rows) + 1 + torch.randint(max(1, rows - 1), (rows,))) % rows


def softmax_contrast(h: Tensor, same: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """Return equation 6: the mean over sentences of -log of f(h, same) / (f(h, same) + f(h, other)).

    The paper prints the sum. f is the exponential of the dot product (equation 5), which overflows for vectors as long
    as BERT's. The loss is therefore computed as log(1 + exp(h . (other - same))).

    Args:
        h, same, other: vectors (n, d) of x_ori, the positive and the negative.
        valid: mask (n,) of the sentences that have a negative. Others are left out of the mean.
    """
    with torch.autocast(h.device.type, enabled=False):
        h, same, other = as_single_precision(h), as_single_precision(same), as_single_precision(other)
        each = functional.softplus((h * (other - same)).sum(-1))
        return (each * valid).sum() / valid.sum().clamp(min=1)


def sigmoid_contrast(h: Tensor, same: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """Return the contrastive term of CLINE's public code: a binary cross-entropy on sigmoid(mean product).

    The mean product of two vectors is the mean over their elements, h . h' / d. A sentence has two pairs, (h, same)
    with label 1 and (h, other) with label 0. The loss is the mean over the pairs of all sentences.

    Args:
        h, same, other, valid: as of `softmax_contrast`. Both pairs of a sentence without a negative are left out
        (ours).
    """
    with torch.autocast(h.device.type, enabled=False):
        h, same, other = as_single_precision(h), as_single_precision(same), as_single_precision(other)
        each = functional.softplus(-(h * same).mean(-1)) + functional.softplus((h * other).mean(-1))
        return (each * valid).sum() / (2 * valid.sum()).clamp(min=1)


def replacement_classes(replaced: Tensor) -> Tensor:
    """Return the class of each token of the edits: 0 kept, 1 replaced in x_syn, 2 replaced in x_ant.

    Args:
        replaced: (batch, views, length), 1 for replaced tokens. The result leaves out the first view, x_ori.
    """
    return replaced[:, 1:] * torch.arange(1, replaced.shape[1], device=replaced.device).view(1, -1, 1)

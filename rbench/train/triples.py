"""Compute CLINE's losses (Wang et al. 2021, section 3.2) for sentences and their edits: x_ori, x_syn, x_ant."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rbench.encoders.lengths import in_groups, linear_weights
from rbench.encoders.sentence import masked_mean
from rbench.train.heads import MLPHead, mean_cross_entropy, vocabulary_head
from rbench.train.weighting import UncertaintyWeights

VERSION = 1

Detection = Literal["mean", "sum", "none"]
Contrast = Literal["softmax", "sigmoid"]


class Triples(nn.Module):
    """A masked LM with a replaced-token detector and learned loss weights. One pass over all views gives all losses.

    Args:
        masked_lm: a transformers masked LM with a head that `vocabulary_head` knows.
        pooling: the sentence vector h_c is that of `cls`, as in the paper, or the `mean` over the tokens.
        collator: transformers' collator for masked LMs.
        detection: reduction of equation 4 over sentences and tokens; `none` leaves the loss out.
        classes: what is detected: whether a token was replaced (2), or whether it is kept, replaced in x_syn, or
            replaced in x_ant (3).
        hard_negative: the negative is x_ant if true, else a random other sentence of the batch.
        anchor: h of x_ori is computed from the sentence itself (`clean`) or from its masked copy (`masked`).
        contrastive: the form of the contrastive loss: `contrast` (softmax) or `agreement` (sigmoid).
        pooler: pass every sentence vector through a dense layer with tanh, which is trained and not saved.
        clamped: see `UncertaintyWeights`.
    """

    def __init__(
        self,
        masked_lm: Any,
        *,
        pooling: Literal["cls", "mean"],
        collator: Any,
        detection: Detection,
        hard_negative: bool,
        anchor: Literal["clean", "masked"],
        classes: Literal[2, 3] = 2,
        contrastive: Contrast = "softmax",
        pooler: bool = False,
        clamped: bool = False,
    ) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.vocabulary = vocabulary_head(masked_lm)
        width = int(masked_lm.config.hidden_size)
        outputs = 1 if classes == 2 else classes
        self.replaced = nn.Linear(width, outputs, bias=False) if detection != "none" else None
        self.pooler: nn.Module = MLPHead(width) if pooler else nn.Identity()
        names = ("mlm", *(("detection",) if detection != "none" else ()), "contrastive")
        self.weights = UncertaintyWeights(names, clamped=clamped)
        self._loss = contrast if contrastive == "softmax" else agreement
        self._pooling, self._collator, self._detection = pooling, collator, detection
        self._hard_negative, self._anchor = hard_negative, anchor

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor, replaced: Tensor
    ) -> dict[str, Tensor]:
        """Return the total loss and its terms (`UncertaintyWeights`).

        All inputs are (batch, views, length). The views are x_ori, x_syn and, with hard negatives, x_ant. `replaced` is
        delta of equation 4: 1 for the tokens that were replaced, 0 for all others.
        """
        views, ori = input_ids.unbind(1), input_ids[:, 0]
        masked, labels = self._collator.torch_mask_tokens(
            ori.cpu().clone(), special_tokens_mask=special_tokens_mask[:, 0].cpu()
        )
        masked, labels = masked.to(ori.device), labels.to(ori.device)
        first, real = int(self._anchor == "masked"), attention_mask.unbind(1)
        ids, masks = (masked, *views[first:]), (real[0], *real[first:])
        inputs = {"input_ids": torch.cat(ids), "attention_mask": torch.cat(masks)}
        hidden = in_groups(self._states, inputs, linear_weights(self.masked_lm.base_model)).chunk(len(ids))
        states = hidden[1 - first :]
        h = [self._pooled(state, mask) for state, mask in zip(states, real, strict=True)]
        losses = {"mlm": self._masked(hidden[0], labels), "contrastive": self._contrast(h, input_ids)}
        if self.replaced is not None:
            words = (attention_mask.bool() & ~special_tokens_mask.bool())[:, 1:]
            edited = torch.stack(states[1:], dim=1)[words]
            kinds = kinds_of(replaced) if self.replaced.out_features > 1 else replaced[:, 1:]
            losses["detection"] = detection(self.replaced(edited), kinds[words], self._detection)
        return self.weights(losses)  # type: ignore[no-any-return]

    def _states(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.masked_lm.base_model(**inputs).last_hidden_state  # type: ignore[no-any-return]

    def _masked(self, states: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy over the masked tokens; 0 if none is masked."""
        assert self.vocabulary is not None
        chosen = labels != -100
        return mean_cross_entropy(_full(self.vocabulary(states[chosen])), labels[chosen])

    def _contrast(self, h: list[Tensor], ids: Tensor) -> Tensor:
        if self._hard_negative:
            return self._loss(h[0], h[1], h[2], (ids[:, 0] != ids[:, 2]).any(1))
        others, valid = another(len(ids)).to(ids.device), len(ids) > 1
        return self._loss(h[0], h[1], h[0][others], torch.full((len(ids),), valid, device=ids.device))

    def _pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        h: Tensor = self.pooler(states[:, 0] if self._pooling == "cls" else masked_mean(states, mask))
        return h


def another(rows: int) -> Tensor:
    """Draw for each row the index of another row, uniformly, with torch's global generator; 0 for a single row."""
    return (torch.arange(rows) + 1 + torch.randint(max(1, rows - 1), (rows,))) % rows


def contrast(h: Tensor, same: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """Return equation 6: the mean over sentences of -log of f(h, same) / (f(h, same) + f(h, other)).

    The paper prints the sum. f is the exponential of the dot product (equation 5), which overflows for vectors as long
    as BERT's. The loss is therefore computed as log(1 + exp(h . (other - same))).

    Args:
        h, same, other: vectors (n, d) of x_ori, the positive and the negative.
        valid: mask (n,) of the sentences that have a negative. Others are left out of the mean.
    """
    with torch.autocast(h.device.type, enabled=False):
        h, same, other = _full(h), _full(same), _full(other)
        each = functional.softplus((h * (other - same)).sum(-1))
        return (each * valid).sum() / valid.sum().clamp(min=1)


def agreement(h: Tensor, same: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """Return the contrastive term of CLINE's public code: a binary cross-entropy on sigmoid(mean product).

    The mean product of two vectors is the mean over their elements, h . h' / d. A sentence has two pairs, (h, same)
    with label 1 and (h, other) with label 0. The loss is the mean over the pairs of all sentences.

    Args:
        h, same, other, valid: as of `contrast`. Both pairs of a sentence without a negative are left out (ours).
    """
    with torch.autocast(h.device.type, enabled=False):
        h, same, other = _full(h), _full(same), _full(other)
        each = functional.softplus(-(h * same).mean(-1)) + functional.softplus((h * other).mean(-1))
        return (each * valid).sum() / (2 * valid.sum()).clamp(min=1)


def kinds_of(replaced: Tensor) -> Tensor:
    """Return the class of each token of the edits: 0 kept, 1 replaced in x_syn, 2 replaced in x_ant.

    Args:
        replaced: (batch, views, length), 1 for replaced tokens. The result leaves out the first view, x_ori.
    """
    return replaced[:, 1:] * torch.arange(1, replaced.shape[1], device=replaced.device).view(1, -1, 1)


def detection(logits: Tensor, kinds: Tensor, reduction: Detection) -> Tensor:
    """Return equation 4 over the n tokens of both edits: the cross-entropy of the detector against `kinds`.

    `sum` adds over all tokens of the batch. Until its weight is learned it is about a thousand times the other losses.

    Args:
        logits: (n, 1) for two classes, with a sigmoid as in the paper; (n, 3) for three, with a softmax.
        kinds: class of each token (n,).
    """
    logits = _full(logits)
    if logits.shape[-1] == 1:
        flat = logits.squeeze(-1)
        total = functional.binary_cross_entropy_with_logits(flat, kinds.to(flat.dtype), reduction="sum")
    else:
        total = functional.cross_entropy(logits, kinds, reduction="sum")
    return total if reduction == "sum" else total / max(1, len(logits))


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x

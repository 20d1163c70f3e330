"""CLINE's losses (Wang et al. 2021, section 3.2) over sentences with their edits: x_ori, x_syn, x_ant."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rbench.encoders.lengths import in_groups, linear_weights
from rbench.encoders.sentence import masked_mean
from rbench.train.heads import vocabulary_head
from rbench.train.weighting import UncertaintyWeights

VERSION = 1

Detection = Literal["mean", "sum", "none"]


class Triples(nn.Module):
    """A masked LM with a detector of replaced tokens and learned weights; three losses of one pass over all views.

    Args:
        masked_lm: a transformers masked LM with a head that `vocabulary_head` knows.
        pooling: what the sentence vector h_c is: `cls` as in the paper, or the `mean` over the tokens.
        collator: transformers' collator for masked LMs.
        detection: how equation 4 is reduced over sentences and tokens; `none` leaves it out.
        hard_negative: whether the negative is x_ant, or another sentence of the batch.
        anchor: whether h of x_ori comes from the sentence as it is, or from its masked copy.
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
    ) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.vocabulary = vocabulary_head(masked_lm)
        self.replaced = nn.Linear(int(masked_lm.config.hidden_size), 1, bias=False) if detection != "none" else None
        names = ("mlm", *(("detection",) if detection != "none" else ()), "contrastive")
        self.weights = UncertaintyWeights(names)
        self._pooling, self._collator, self._detection = pooling, collator, detection
        self._hard_negative, self._anchor = hard_negative, anchor

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor, replaced: Tensor
    ) -> dict[str, Tensor]:
        """The total and its terms (`UncertaintyWeights`).

        All are (batch, views, length), the views x_ori, x_syn and, with hard negatives, x_ant; `replaced` is delta.
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
            losses["detection"] = detection(self.replaced(edited).squeeze(-1), replaced[:, 1:][words], self._detection)
        return self.weights(losses)  # type: ignore[no-any-return]

    def _states(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.masked_lm.base_model(**inputs).last_hidden_state  # type: ignore[no-any-return]

    def _masked(self, states: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy over the masked tokens; nothing where there is none."""
        assert self.vocabulary is not None
        chosen = labels != -100
        return torch.nan_to_num(functional.cross_entropy(_full(self.vocabulary(states[chosen])), labels[chosen]))

    def _contrast(self, h: list[Tensor], ids: Tensor) -> Tensor:
        if self._hard_negative:
            return contrast(h[0], h[1], h[2], (ids[:, 0] != ids[:, 2]).any(1))
        others, valid = another(len(ids)).to(ids.device), len(ids) > 1
        return contrast(h[0], h[1], h[0][others], torch.full((len(ids),), valid, device=ids.device))

    def _pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        return states[:, 0] if self._pooling == "cls" else masked_mean(states, mask)


def another(rows: int) -> Tensor:
    """For each of so many rows another one, each equally likely, by torch's global generator; 0 for a single row."""
    return (torch.arange(rows) + 1 + torch.randint(max(1, rows - 1), (rows,))) % rows


def contrast(h: Tensor, same: Tensor, other: Tensor, valid: Tensor) -> Tensor:
    """Equation 6, the mean over the sentences (printed: the sum): -log of f(h, same) / (f(h, same) + f(h, other)).

    f is the exponential of the dot product (equation 5), which overflows for vectors as long as BERT's: in logarithms,
    the loss is log(1 + exp(h . (other - same))).

    Args:
        h, same, other: (n, d).
        valid: which sentences have a negative, (n,); the others count for nothing.
    """
    with torch.autocast(h.device.type, enabled=False):
        h, same, other = _full(h), _full(same), _full(other)
        each = functional.softplus((h * (other - same)).sum(-1))
        return (each * valid).sum() / valid.sum().clamp(min=1)


def detection(logits: Tensor, replaced: Tensor, reduction: Detection) -> Tensor:
    """Equation 4 over tokens (n,) of both edited sentences: cross-entropy of sigmoid(logits) against delta.

    `sum` over all tokens of the batch, some thousand times the other losses before its weight is learned, or `mean`.
    """
    total = functional.binary_cross_entropy_with_logits(
        _full(logits), replaced.to(_full(logits).dtype), reduction="sum"
    )
    return total if reduction == "sum" else total / max(1, len(logits))


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x

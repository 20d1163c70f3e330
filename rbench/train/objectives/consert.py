"""ConSERT (Yan et al. 2021, sections 3.1 and 3.2): NT-Xent between two augmented views of a sentence, without a head.

Views are made from the word embeddings before positions are added, and special tokens are left unchanged (both ours;
the paper augments the output of the embedding layer). Shuffling words under fixed positions equals shuffling positions.
Defaults that are called the authors' were checked against the training command in their released code.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rbench.schema import EncoderSpec
from rbench.schema.common import Rate
from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import BelowOne, OneStepOptions

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel
    from rbench.words.resources import Resources

VERSION = 1

View = Literal["none", "shuffle", "token-cutoff", "feature-cutoff", "dropout", "adversarial"]


class Options(OneStepOptions):
    """temperature, dropout, views and feature_cutoff are the authors'. The other values are not verified."""

    temperature: Rate = 0.1
    dropout: BelowOne | None = 0.0
    """Dropout of the network in training; the authors switch it off."""
    views: tuple[View, View] = ("shuffle", "feature-cutoff")
    """The kinds of the two views. `adversarial` is one step of norm `epsilon` along the gradient of the loss against
    the other view, which must be of another kind. The authors use it with supervision only (without it: ours)."""
    token_cutoff: BelowOne = 0.15
    """Share of the words whose embeddings the view `token-cutoff` sets to zero."""
    feature_cutoff: BelowOne = 0.2
    """Share of the dimensions that the view `feature-cutoff` sets to zero, the same for all words of a sentence."""
    dropout_view: BelowOne = 0.2
    """Share of the numbers that the view `dropout` sets to zero. The others are not scaled up."""


class ConsertTraining(ContrastiveTraining[Options]):
    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ContrastiveObjective:
        """Build ConSERT on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.contrastive import ContrastiveObjective

        # Two unchanged views differ by the network's dropout alone.
        same = options.views == ("none", "none")
        return ContrastiveObjective(spec, base, options, partial(self.losses, options), head="none", needs_dropout=same)

    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return equation 1. Cost: 2 forward and 2 backward passes; an adversarial view costs one more of each."""
        from rbench.train.contrastive_losses import nt_xent

        X, tau = model.embed(batch), options.temperature
        if "adversarial" not in options.views:
            first, second = (augment(options, view, X, batch.words) for view in options.views)
            a, b = model.pair(first, second, batch.mask)[2:]
            return {"loss": nt_xent(a, b, tau)}
        clean_view = next(view for view in options.views if view != "adversarial")
        a = model.z(augment(options, clean_view, X, batch.words), batch.mask)
        X_adv = model.step_up(X, batch, lambda z: nt_xent(z, a.detach(), tau), options.epsilon, options.norm)
        return {"loss": nt_xent(model.z(X_adv, batch.mask), a, tau)}


def augment(options: Options, view: View, X: Tensor, words: Tensor) -> Tensor:
    """Return the embeddings of a view, (batch, length, D). They differ from X at words only."""
    import torch

    if view == "none":
        return X
    if view == "shuffle":
        is_word = words.squeeze(-1) > 0
        places = torch.arange(is_word.shape[1], device=X.device).expand(is_word.shape)
        # Both sorts put words before other tokens: the first in random order, the second in the order of the sentence.
        # Matching the two moves words to positions of words and leaves other tokens where they are.
        shuffled = torch.where(is_word, torch.rand(is_word.shape, device=X.device), 2.0 + places).argsort(1)
        targets = torch.where(is_word, places, is_word.shape[1] + places).argsort(1)
        source = torch.empty_like(shuffled).scatter_(1, targets, shuffled)
        return X.gather(1, source.unsqueeze(-1).expand_as(X))
    shape, share = {
        "token-cutoff": ((*X.shape[:2], 1), options.token_cutoff),
        "feature-cutoff": ((X.shape[0], 1, X.shape[2]), options.feature_cutoff),
        "dropout": (tuple(X.shape), options.dropout_view),
    }[view]
    is_zeroed = (torch.rand(shape, device=X.device) < share) & (words > 0)
    return X.masked_fill(is_zeroed, 0.0)

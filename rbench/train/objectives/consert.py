"""ConSERT (Yan et al. 2021, sections 3.1 and 3.2): NT-Xent between two augmented views of a sentence, without a head.

The paper is not at hand: what is said of it here is from memory. Views are made of the word embeddings before positions
are added, and special tokens keep theirs (both ours; the paper augments the output of the embedding layer). Shuffling
words under fixed positions is shuffling positions.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rbench.spec import EncoderSpec
from rbench.spec.words import Rate
from rbench.train.options import OneStep

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel

VERSION = 1

View = Literal["none", "shuffle", "token-cutoff", "feature-cutoff", "dropout", "adversarial"]
Cut = Annotated[float, Field(ge=0, lt=1)]


class Options(OneStep):
    """The paper's, as we remember them: temperature, rates, no dropout in the network, shuffle with feature cut-off."""

    temperature: Rate = 0.1
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = 0.0
    """The paper takes the network's own dropout away, as we remember it."""
    views: tuple[View, View] = ("shuffle", "feature-cutoff")
    """How each of the two views is made. `adversarial`: one step up the loss against the other view, which must then be
    of another kind (as we remember it the paper has this view with supervision only: ours here). It takes `epsilon` and
    `norm`."""
    token_cutoff: Cut = 0.15
    feature_cutoff: Cut = 0.2
    dropout_view: Cut = 0.2
    """Share of the numbers of the embeddings that the view `dropout` sets to zero; nothing is scaled up for it."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """ConSERT on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.errors import JobError
    from rbench.train.contrastive import ContrastiveObjective

    if options.views == ("adversarial", "adversarial"):
        raise JobError(f"Encoder {spec.name}: one of ConSERT's two views may be adversarial, not both.")
    # Two views that nothing changes are one, but for the network's dropout.
    same = options.views == ("none", "none")
    return ContrastiveObjective(spec, base, options, partial(losses, options), head="none", needs_dropout=same)


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """Equation 1. Two forward and two backward passes; an adversarial view costs one more of each."""
    from rbench.train.contrast import nt_xent

    X, tau = model.embed(batch), options.temperature
    if "adversarial" not in options.views:
        first, second = (augment(options, view, X, batch.words) for view in options.views)
        a, b = model.pair(first, second, batch.mask)[2:]
        return {"loss": nt_xent(a, b, tau)}
    other = next(view for view in options.views if view != "adversarial")
    a = model.z(augment(options, other, X, batch.words), batch.mask)
    X_adv = model.step_up(X, batch, lambda z: nt_xent(z, a.detach(), tau), options.epsilon, options.norm)
    return {"loss": nt_xent(model.z(X_adv, batch.mask), a, tau)}


def augment(options: Options, view: View, X: Tensor, words: Tensor) -> Tensor:
    """The embeddings of a view, (batch, length, D), changed at words only."""
    import torch

    if view == "none":
        return X
    if view == "shuffle":
        chosen = words.squeeze(-1) > 0
        places = torch.arange(chosen.shape[1], device=X.device).expand(chosen.shape)
        # Words by random keys, the others by their places among them: sorting twice puts words in places of words.
        shuffled = torch.where(chosen, torch.rand(chosen.shape, device=X.device), 2.0 + places).argsort(1)
        targets = torch.where(chosen, places, chosen.shape[1] + places).argsort(1)
        source = torch.empty_like(shuffled).scatter_(1, targets, shuffled)
        return X.gather(1, source.unsqueeze(-1).expand_as(X))
    shape = {
        "token-cutoff": (*X.shape[:2], 1),
        "feature-cutoff": (X.shape[0], 1, X.shape[2]),
        "dropout": tuple(X.shape),
    }[view]
    share = {"token-cutoff": options.token_cutoff, "feature-cutoff": options.feature_cutoff}.get(
        view, options.dropout_view
    )
    gone = (torch.rand(shape, device=X.device) < share) & (words > 0)
    return X.masked_fill(gone, 0.0)

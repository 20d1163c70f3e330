"""SG-OPT, self-guided contrastive learning (Kim, Yoo and Lee 2021): the vector of a sentence against its own layers.

Two copies of the base: one is trained, and its vector of sentence i (that of [CLS]) is c_i. The other stays as it is,
and the mean over the tokens of its layer k, from the word embeddings (k = 0) to the last, is h_ik. Both go through one
projection head. With phi the cosine and tau the temperature, the loss is the mean over sentences i and layers k of

    -log ( p_ik / (p_ik + sum over m != i and all n of p_imn) ),   p_imn = exp(phi(c_i, h_mn) / tau),   p_ik = p_iik

plus lambda times the sum of the squared differences between the weights of the two copies. So no layer of a sentence's
own is its negative, and no other [CLS] is. Nothing is augmented.

As the authors' public code (galsang/SG-BERT) has it: the head (two layers of 4,096 with GELU), all layers, means over
tokens, padding left out, and embeddings that are not trained. Ours: the copy that stays has no dropout, where that code
turns it on with the rest; and the optimiser is rbench's AdamW with its own betas.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rbench.schema import EncoderSpec
from rbench.schema.common import Positive, Rate
from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import Contrastive, NotNegative

if TYPE_CHECKING:
    from torch import Tensor, nn

    from rbench.encoders.sentence import SentenceEncoder
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel
    from rbench.words.resources import Resources

VERSION = 1


class Options(Contrastive):
    """Temperature, lambda and the width of the head are those of the authors' public code."""

    temperature: Rate = 0.01
    lam: NotNegative = 0.1
    """lambda: weight of the squared distance between the weights of the two copies."""
    width: Positive = 4096
    """Width of both layers of the projection head, which is not saved."""


class SgoptTraining(ContrastiveTraining[Options]):
    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ContrastiveObjective:
        """Build SG-OPT on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.contrastive import ContrastiveObjective

        build_parts = partial(_build_parts, options)
        return ContrastiveObjective(
            spec, base, options, partial(self.losses, options), head="none", parts=build_parts, needs_dropout=False
        )

    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return the contrastive term and the distance of the weights, with its weight applied.

        Cost: one forward and one backward pass, and one forward pass of the copy that stays.
        """
        import torch

        original = cast("SentenceEncoder", model.parts["original"]).eval()  # the loop puts all parts into training mode
        project = model.parts["projection"]
        with torch.no_grad():
            layers = _mean_layers(original, batch)
        c = project(model.f(model.embed(batch), batch.mask))
        h = project(layers)
        model.show_views(c, h[:, -1])
        contrastive = self_guided(c, h, options.temperature)
        pairs = zip(model.encoder.model.parameters(), original.model.parameters(), strict=True)
        squared_change = torch.stack(
            [(weight - original_weight).square().sum() for weight, original_weight in pairs if weight.requires_grad]
        ).sum()
        distance = options.lam * squared_change
        return {"loss": contrastive + distance, "contrastive": contrastive, "distance": distance}


def _build_parts(options: Options, encoder: SentenceEncoder) -> dict[str, nn.Module]:
    """Return the copy that stays and the projection head. The embeddings of `encoder` are frozen."""
    from torch import nn

    network: Any = encoder.model
    getattr(network, "embeddings", network.get_input_embeddings()).requires_grad_(False)
    first, second = nn.Linear(encoder.dim, options.width), nn.Linear(options.width, options.width)
    for layer in (first, second):
        nn.init.normal_(layer.weight, std=getattr(network.config, "initializer_range", 0.02))
        nn.init.zeros_(layer.bias)
    head = nn.Sequential(first, nn.GELU(), second, nn.GELU())
    return {"original": copy.deepcopy(encoder).requires_grad_(False), "projection": head}


def _mean_layers(original: SentenceEncoder, batch: Batch) -> Tensor:
    """Return the means over the tokens of every layer, (batch, layers + 1, dim)."""
    import torch

    from rbench.encoders.sentence import masked_mean

    network: Any = original.model
    states = network(input_ids=batch.ids, attention_mask=batch.mask, output_hidden_states=True).hidden_states
    return torch.stack([masked_mean(state, batch.mask) for state in states], dim=1)


def self_guided(c: Tensor, h: Tensor, temperature: float) -> Tensor:
    """Return the contrastive term, a scalar.

    Args:
        c: (n, d), the projected vector of each sentence.
        h: (n, layers, d), the projected means of its layers.
        temperature: tau, above 0.
    """
    import torch

    from rbench.train.contrastive_losses import cosines

    n, layers, dim = h.shape
    scores = cosines(c, h.reshape(n * layers, dim)).view(n, n, layers) / temperature
    own_scores = scores[torch.arange(n), torch.arange(n)]  # (n, layers)
    # None of a sentence's own layers may be its negative, so all of them are masked, not layer k alone.
    without_own = scores.masked_fill(torch.eye(n, dtype=torch.bool, device=c.device).unsqueeze(-1), -torch.inf)
    others = without_own.flatten(1).logsumexp(1, keepdim=True)
    return (torch.logaddexp(own_scores, others) - own_scores).mean()

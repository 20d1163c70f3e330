"""RobustSentEmbed (Asl et al. 2024): Algorithm 1 in full.

It has the token-level perturbation with the scaling index and the table V (equations 2 to 4), the sentence-level
perturbation (5 to 7), adversarial replaced-token detection (8), and the total loss (10).

The paper contradicts itself. These readings are taken:

- One gradient a step is taken at X + delta + eta, as in Algorithm 1. Equations 5 and 6 have two tracks: option
  `tracks`.
- delta_f is added to the input embeddings, which are encoded again, as in Algorithm 1. Equation 10 adds it to the
  vector.
- eta enters the gradients and the detection only.
- The scaling index is that of eta, as printed. The text speaks of gradients: option `scaling`.
- The loss of the detection is a sum, as printed. Option `detection` has the mean.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import Field

from rbench.errors import JobError
from rbench.spec import EncoderSpec
from rbench.train.options import SentenceLevel, Size

if TYPE_CHECKING:
    from torch import nn

    from rbench.encoders.sentence import SentenceEncoder
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel
    from rbench.train.perturb import TokenTable

VERSION = 1


class Options(SentenceLevel):
    """The paper prints lambda2, and the values that `SentenceLevel` says.

    It does not print gamma, masking, the generator and the discriminator. Here the discriminator starts as a copy of
    the base (ours).
    """

    MODELS: ClassVar[tuple[str, ...]] = ("generator",)

    gamma: Size = 1e-3
    """Step size of the token-level perturbation (ours)."""
    scaling: Literal["perturbation", "gradient"] = "perturbation"
    """The vector in equation 2 whose norm scales: eta, or the gradient with respect to eta."""
    lambda2: Size = 0.005
    """Weight of the third term of equation 10."""
    detection: Literal["sum", "mean"] = "sum"
    """Reduction of equation 8 over tokens and batch. The mean makes lambda2 weigh about (batch x length) times less."""
    masking: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of words masked for the generator, as in ELECTRA (Clark et al. 2020), which the paper builds on."""
    generator: str | None = None
    """The frozen masked LM: a folder, a hub id, or the name of an encoder. None takes the base, if it has a masked-LM
    head."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """Build RobustSentEmbed on `base` (a folder or hub id). JobError if there is no generator, or an unfit one."""
    from rbench.train.contrastive import ContrastiveObjective

    where = options.generator if options.generator is not None else base
    if where is None:
        raise JobError(
            f"Encoder {spec.name}: replaced-token detection needs a trained masked LM for its generator, and an "
            "architecture has no trained weights; name a masked LM: train.options.generator."
        )
    return ContrastiveObjective(
        spec, base, options, partial(losses, options), parts=partial(_parts, options, spec, where)
    )


def _parts(options: Options, spec: EncoderSpec, where: str | Path, encoder: SentenceEncoder) -> dict[str, nn.Module]:
    from rbench.train.detection import ReplacedTokenDetection
    from rbench.train.origin import generator
    from rbench.train.perturb import TokenTable

    masked_lm, tokenizer = generator(spec, where)
    if tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        raise JobError(
            f"Encoder {spec.name}: the generator {where} has another vocabulary than the base; replaced-token "
            "detection compares token ids, so the two must agree."
        )
    table = encoder.model.get_input_embeddings().weight
    if table.shape[1] != encoder.dim:
        raise JobError(
            f"Encoder {spec.name}: the discriminator reads h among word embeddings, and this base has vectors of "
            f"{encoder.dim} numbers and word embeddings of {table.shape[1]}."
        )
    return {
        "table": TokenTable(table.shape[0], table.shape[1], options.sigma),
        "detection": ReplacedTokenDetection(
            masked_lm,
            copy.deepcopy(encoder.model),
            mask_id=encoder.tokenizer.mask_token_id,
            masking=options.masking,
            reduction=options.detection,
        ),
    }


def losses(options: Options, model: SentenceModel, batch: Batch) -> Losses:
    """Return equation 10: the loss of one iteration of Algorithm 1.

    Cost: 3 + max(K, T) forward and as many backward passes of the encoder, of which the max(K, T) of the ascent compute
    no gradients of weights; one forward pass of the generator; one forward and one backward pass of the discriminator.

    z+ is encoded once and is the constant target of the ascent. The discriminator gets h of the clean view. The
    gradients for delta and eta come from the same passes.
    """
    from rbench.train.contrastive_losses import info_nce, info_nce_each
    from rbench.train.perturb import TokenLevel, ascend

    tau, words = options.temperature, batch.words
    table, detection = cast("TokenTable", model.parts["table"]), model.parts["detection"]
    X = model.embed(batch)
    h, z, z_plus = model.twice(X, batch.mask)
    target, start = z_plus.detach(), X.detach()
    tokens = TokenLevel(
        table.look_up(batch.ids),
        words,
        gamma=options.gamma,
        epsilon=options.epsilon,
        norm=options.norm,
        scaling=options.scaling,
    )
    delta = ascend(
        options, start, words, lambda d: info_nce(model.z(start + d, batch.mask), [target], target, tau), tokens
    )
    if model.training:
        table.store(batch.ids, words, tokens.eta)
    model.show_tokens(X, tokens.eta)
    X_adv = model.perturbed(X, delta, lambda z: info_nce_each(z, [target], target, tau))
    z_adv = model.z(X_adv, batch.mask)
    robust = info_nce(z, [z_plus, z_adv], z_plus, tau)
    regular = options.lambda1 * info_nce(z_adv, [z_plus], z_plus, tau)
    detected = options.lambda2 * detection(batch.ids, batch.mask, words, h, tokens.eta)
    return {"loss": robust + regular + detected, "robust": robust, "adversarial": regular, "detection": detected}

"""RobustSentEmbed (Asl et al. 2024): Algorithm 1 in full.

Token-level perturbation with the scaling index and the table V (equations 2 to 4), sentence-level perturbation (5 to
7), adversarial replaced-token detection (8), and the total loss (10). Where the paper contradicts itself: gradients are
taken at X + delta + eta, once a step (Algorithm 1; equations 5 and 6 have two tracks: option `tracks`); delta_f is
added to the input embeddings, which are encoded again (Algorithm 1; equation 10 adds it to the vector); eta enters the
gradients and the detection alone; the scaling index is of eta as printed (the text speaks of gradients: option
`scaling`); the detection's loss is summed as printed (option `detection`: mean).
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
    """Printed: lambda2, and what `SentenceLevel` says. Not printed, so ours: gamma, masking, generator, discriminator.

    The discriminator starts as a copy of the base, as large as it.
    """

    MODELS: ClassVar[tuple[str, ...]] = ("generator",)

    gamma: Size = 1e-3
    """Step of the token-level perturbation (ours)."""
    scaling: Literal["perturbation", "gradient"] = "perturbation"
    """What equation 2 takes the norm of: eta, or the gradient with respect to it."""
    lambda2: Size = 0.005
    """Weight of the third term of equation 10."""
    detection: Literal["sum", "mean"] = "sum"
    """Equation 8 sums over tokens and batch; a mean makes lambda2 weigh about (batch x length) times less."""
    masking: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of words masked for the generator: ELECTRA's (Clark et al. 2020), which the paper builds on."""
    generator: str | None = None
    """The frozen masked LM: a folder, a hub id, or a name that whoever trains knows. None is the base itself, where it
    has a masked-LM head."""


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
    """RobustSentEmbed on top of `base` (a folder or hub id). JobError where there is no generator for it."""
    from rbench.train.contrastive import ContrastiveObjective

    where = options.generator if options.generator is not None else base
    if where is None:
        raise JobError(
            f"Encoder {spec.name}: replaced-token detection needs a trained masked LM for its generator, and an "
            "architecture without weights is none; name one: train.options.generator."
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
    """Equation 10, one iteration of Algorithm 1.

    Passes: forward 3 + max(K, T), one of the generator and one of the discriminator; backward 3 + max(K, T), those of
    the ascent without the weights, and one of the discriminator. z+ is encoded once and is the constant target of the
    ascent; the discriminator's h is the clean view's; delta and eta share their gradients.
    """
    from rbench.train.contrast import info_nce
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
    z_adv = model.z(X + delta, batch.mask)
    robust = info_nce(z, [z_plus, z_adv], z_plus, tau)
    regular = options.lambda1 * info_nce(z_adv, [z_plus], z_plus, tau)
    detected = options.lambda2 * detection(batch.ids, batch.mask, words, h, tokens.eta)
    return {"loss": robust + regular + detected, "robust": robust, "adversarial": regular, "detection": detected}

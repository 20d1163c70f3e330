"""RobustSentEmbed (Asl et al. 2024): Algorithm 1 in full.

It has the token-level perturbation with the scaling index and the table V (equations 2 to 4), the sentence-level
perturbation (5 to 7), adversarial replaced-token detection (8), and the total loss (10).

The paper contradicts itself. `variant: printed` takes these readings:

- One gradient a step is taken at X + delta + eta, as in Algorithm 1. Equations 5 and 6 have two tracks: option
  `tracks`.
- delta_f is added to the input embeddings, which are encoded again, as in Algorithm 1. Equation 10 adds it to the
  vector.
- eta enters the gradients and the detection only.
- The scaling index is that of the gradient, as the sentence before equation 2 says. The equation has eta. With eta most
  tokens' perturbations vanish within a few steps: option `scaling`.
- The loss of the detection is a sum, as printed. Option `detection` has the mean.

`variant: released` has what the authors' public code does (github.com/jasl1/RobustSentEmbed, models.py and the command
in its README). The code has switches: its comments say that "our method" needs `Sim_SCE = False` and `USCAL = True`,
and it is committed with `Sim_SCE = True`. Taken here is "our method"; what is committed, which leaves z_adv out of the
first term, is `positives: clean`. Not taken from the code are: the ascent's eval mode, and its last iteration, which
ends before it moves anything; separate gradients for delta and eta; delta added to the output of the embedding layer,
which is then embedded again; the PGD point divided by its own norm in place of its step; perturbations of special
tokens and padding; masking by the 80-10-10 rule; edits, and the mean of the detection's loss, at all tokens of the
batch; heads that see both views as one batch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from rbench.errors import JobError
from rbench.schema import EncoderSpec, Variant, Variants
from rbench.train.objectives import ContrastiveTraining
from rbench.train.options import Norm, NotNegative, OpenShare, Scaling, SentenceLevelOptions

if TYPE_CHECKING:
    from torch import Tensor, nn

    from rbench.encoders.sentence import SentenceEncoder
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel
    from rbench.train.perturb import TokenTable
    from rbench.words.resources import Resources

VERSION = 2

RELEASED = Variant(
    source="the authors' public code, jasl1/RobustSentEmbed, models.py and the command in its README",
    options={
        "temperature": 0.05,
        "head": "wide-batchnorm",
        # The sentence level.
        "norm": "linf",
        "over": "token",
        "epsilon": 1e-6,
        "start": "normal",
        "sigma": 1e-5,
        "alpha": 1e-6,
        "beta": 0.00097,
        "K": 5,
        "T": 5,
        "rho": 0.5,
        "projected": "mixture",
        # The token level.
        "table": "sum",
        "table_sigma": 0.1,
        "gamma": 2e-2,
        "token_norm": "l2",
        "token_ball": False,
        "scaling": "stepped",
        # The terms.
        "positives": "apart",
        "anchor": "positive",
        "lambda1": 1 / 128,
        "lambda2": 0.005,
        "detection": "mean",
        "classes": 2,
        "sample": "argmax",
        "conditioned": "head",
        "masking": 0.2,
        "generator": "distilbert/distilbert-base-uncased",
    },
)
PRINTED = Variant(source="Asl et al. 2024, sections 3.1 and 3.2, Algorithm 1, appendix B")


class Options(Variants, SentenceLevelOptions):
    """The paper prints lambda2, and the values that `SentenceLevelOptions` says.

    It does not print gamma, masking, the generator and the discriminator. Here the discriminator starts as a copy of
    the base (ours).
    """

    VARIANTS: ClassVar[Mapping[str, Variant]] = MappingProxyType({"printed": PRINTED, "released": RELEASED})

    head: Literal["mlp", "batchnorm", "wide-batchnorm"] = "mlp"
    """The head in training: `MLPHead`, or `BatchNormHead` with a hidden layer as wide as f or twice as wide."""
    gamma: NotNegative = 1e-3
    """Step size of the token-level perturbation (ours)."""
    scaling: Scaling = "gradient"
    """The vector in equation 2 whose norm scales: the gradient with respect to eta, eta, or eta after the step."""
    token_norm: Norm | None = None
    """Norm of the token level: of steps, scaling index and ball. None: `norm`."""
    token_ball: bool = True
    """Project each token's eta on the ball of radius epsilon (equation 4)."""
    table: Literal["mean", "sum"] = "mean"
    """V[w] becomes the mean of eta over the places of w (ours), or their sum is added to it. With sums, what a batch
    looks up is divided by one norm of the whole batch."""
    table_sigma: NotNegative | None = None
    """V starts as U(-table_sigma, table_sigma) / sqrt(D). None: sigma."""
    positives: Literal["together", "apart", "clean"] = "together"
    """The first term of equation 10. `together`: z+ and z_adv within one logarithm, as printed. `apart`: the mean of
    two cross-entropies, one a positive, each with its own view's negatives. `clean`: the cross-entropy of z+ alone."""
    anchor: Literal["adversarial", "positive"] = "adversarial"
    """The second term: L_con(z_adv, z+), as printed, or L_con(z+, z_adv), whose negatives are the z_adv of others."""
    lambda2: NotNegative = 0.005
    """Weight of the third term of equation 10."""
    detection: Literal["sum", "mean"] = "sum"
    """Reduction of equation 8 over tokens and batch. The mean makes lambda2 weigh about (batch x length) times less."""
    classes: Literal[1, 2] = 1
    """Scores of a token in the detection: one, under a sigmoid as in equation 8, or two, under a softmax."""
    sample: Literal["draw", "argmax"] = "draw"
    """What the generator puts in a masked word's place: a draw from its distribution, or its most likely word."""
    conditioned: Literal["vector", "head"] = "vector"
    """What the discriminator sees of the sentence: h = f(x), or the head's output z."""
    masking: OpenShare = 0.15
    """Share of words masked for the generator, as in ELECTRA (Clark et al. 2020), which the paper builds on."""
    generator: str | None = None
    """The frozen masked LM: a folder, a hub id, or the name of an encoder. None takes the base, if it has a masked-LM
    head."""


class RobustSentEmbedTraining(ContrastiveTraining[Options]):
    model_options = ("generator",)

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ContrastiveObjective:
        """Build RobustSentEmbed on `base` (a folder or hub id). JobError if there is no generator, or an unfit one."""
        from rbench.train.contrastive import ContrastiveObjective

        where = options.generator if options.generator is not None else base
        if where is None:
            raise JobError(
                f"Encoder {spec.name}: replaced-token detection needs a trained masked LM for its generator, and an "
                "architecture has no trained weights; name a masked LM: train.options.generator."
            )
        parts = partial(_build_parts, options, spec, where)
        return ContrastiveObjective(spec, base, options, partial(self.losses, options), head=options.head, parts=parts)

    def losses(self, options: Options, model: SentenceModel, batch: Batch) -> Losses:
        """Return equation 10: the loss of one iteration of Algorithm 1.

        Cost: 3 + max(K, T) forward and as many backward passes of the encoder, of which the max(K, T) of the ascent
        compute no gradients of weights; one forward pass of the generator; one forward and one backward pass of the
        discriminator.

        z+ is encoded once and is the constant target of the ascent. The discriminator gets h or z of the clean view.
        The gradients for delta and eta come from the same passes.
        """
        from rbench.train.perturb import TokenPerturbation

        words = batch.words
        table, detection = cast("TokenTable", model.parts["table"]), model.parts["detection"]
        X = model.embed(batch)
        h, z, z_plus = model.twice(X, batch.mask)
        tokens = TokenPerturbation(
            table.look_up(batch.ids, words),
            words,
            gamma=options.gamma,
            epsilon=options.epsilon if options.token_ball else None,
            norm=options.norm if options.token_norm is None else options.token_norm,
            scaling=options.scaling,
        )
        X_adv = model.add_ascent(options, X, z_plus, batch, tokens)
        if model.training:
            table.store(batch.ids, words, tokens.eta)
        robust, regular = _contrastive_terms(options, z, z_plus, model.z(X_adv, batch.mask))
        sentence = h if options.conditioned == "vector" else z
        detected = options.lambda2 * detection(batch.ids, batch.mask, words, sentence, tokens.eta)
        return {"loss": robust + regular + detected, "robust": robust, "adversarial": regular, "detection": detected}


def _build_parts(
    options: Options, spec: EncoderSpec, where: str | Path, encoder: SentenceEncoder
) -> dict[str, nn.Module]:
    from rbench.train.heads import ReplacedTokenDetection
    from rbench.train.models import open_generator
    from rbench.train.perturb import TokenTable

    masked_lm, tokenizer = open_generator(spec, where)
    if tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        raise JobError(
            f"Encoder {spec.name}: the generator {where} has another vocabulary than the base; replaced-token "
            "detection compares token ids, so the two must agree. Name another masked LM: train.options.generator "
            "(null takes the base)."
        )
    words = encoder.model.get_input_embeddings().weight
    sigma = options.sigma if options.table_sigma is None else options.table_sigma
    return {
        "table": TokenTable(words.shape[0], words.shape[1], sigma, options.table),
        "detection": ReplacedTokenDetection(
            masked_lm, copy.deepcopy(encoder.model), options, mask_id=encoder.tokenizer.mask_token_id
        ),
    }


def _contrastive_terms(options: Options, z: Tensor, z_plus: Tensor, z_adv: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and the second term of equation 10, for vectors (batch, dim)."""
    from rbench.train.contrastive_losses import info_nce

    tau = options.temperature
    if options.positives == "together":
        robust = info_nce(z, [z_plus, z_adv], z_plus, tau)
    else:
        robust = info_nce(z, [z_plus], z_plus, tau)
    if options.positives == "apart":
        robust = (robust + info_nce(z, [z_adv], z_adv, tau)) / 2
    first, second = (z_adv, z_plus) if options.anchor == "adversarial" else (z_plus, z_adv)
    return robust, options.lambda1 * info_nce(first, [second], second, tau)

"""Options that several objectives share. No torch: options are checked when a suite is loaded."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rbench.spec import Strict, TrainSpec
from rbench.spec.words import Count, Positive, Rate, Share

Norm = Literal["l1", "l2", "linf"]
Size = Annotated[float, Field(ge=0)]


class Contrastive(Strict):
    """What every contrastive objective has."""

    WHOLE_BATCHES: ClassVar[bool] = True
    """The sentences of a batch are each other's negatives."""
    MODELS: ClassVar[tuple[str, ...]] = ()
    """Options that name further models, whose weights the result depends on."""

    temperature: Rate = 0.05
    """tau; SimCSE's (Gao et al. 2021, section 3). The RobustSentEmbed papers print none."""
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Dropout while training, in place of the base's own; what is saved has the base's again. None keeps the base's."""


class Momentum(Contrastive):
    """Momentum contrast (He et al. 2020) as the ADCL paper has it: section 3.2 and appendix F.

    Printed: queue, dim, the heads' activations. Not printed, so ours: temperature and momentum (MoCo's), the width of
    the heads' hidden layer (the encoder's).
    """

    temperature: Rate = 0.07
    momentum: Share = 0.999
    """m: the key encoder becomes m times itself and 1 - m times the query encoder before each batch, so that with
    `gradient_accumulation` k it has m to the power of k in a step of the optimizer."""
    queue: Positive = 32768
    """Q, the number of keys remembered, those of the batch included. Table 6 has 8,192 to 65,536. Where it holds more
    than a pass over the corpus, a sentence's own positives of earlier passes are among its negatives."""
    dim: Positive = 128
    """c, the numbers that a head puts out."""
    output: Literal["tanh", "plain"] = "tanh"
    """Last layer of a head: with Tanh (appendix F), or as it is (3.2 mentions the hidden layer's sigmoid alone)."""

    similarity: Literal["dot", "cosine"] = "dot"
    """sim: the dot product of heads' vectors as they are, or scaled to length 1 first, as in MoCo's code."""

    def problem(self, train: TrainSpec) -> str | None:
        """Why this cannot be trained so; None if it can."""
        if self.queue >= train.batch_size:
            return None
        return (
            f"the queue holds {self.queue} keys and a batch has {train.batch_size}, all of which it must hold; take a "
            "larger train.options.queue or a smaller train.batch_size."
        )


MOMENTUM_COUNTED = {
    **dict.fromkeys(("positives", "positives_unchanged", "loss_at_chance"), "positives"),
    **dict.fromkeys(("queue_filling_steps", "steps"), "steps"),
}
"""For each score, the counter that gives its sample size. Each positives module adds its own."""


class OneStep(Contrastive):
    """A perturbation of one step along the gradient: the fast gradient method (Miyato et al. 2017)."""

    epsilon: Rate = 1.0
    """Length of the step, over all numbers of a sentence's words (ours)."""
    norm: Norm = "l2"
    """Norm in which the step has that length (ours)."""


class AdversarialTerm(OneStep):
    """A contrastive loss and a second term at the perturbed sentence."""

    weight: Size = 1.0
    """Weight of the second term (ours)."""


class SentenceLevel(Contrastive):
    """Sentence-level perturbation (RobustSentEmbed, Asl et al. 2024, equations 5 to 7, Algorithm 1; RobustEmbed's too).

    Printed: alpha, beta, K, T, rho, the norm, lambda1. Not printed, so ours: epsilon, sigma, whether delta is one
    matrix or one vector a sentence.
    """

    norm: Norm = "linf"
    """P, the norm of the ball and of equation 5's normalisation, taken over all numbers of a sentence's delta."""
    epsilon: Rate = 0.01
    """Radius of the ball (ours). It suits L-infinity: L1 and L2 balls of the same radius are far smaller."""
    sigma: Size = 0.05
    """delta starts as U(-sigma, sigma) / sqrt(D) (ours)."""
    alpha: Size = 1e-5
    """Step of PGD."""
    beta: Size = 1e-3
    """Step of FGSM."""
    K: Count = 5
    """Steps of PGD."""
    T: Count = 5
    """Steps of FGSM."""
    rho: Share = 0.5
    """Weight of PGD in the mixture (equation 7)."""
    tracks: Literal["joint", "separate"] = "joint"
    """`joint`: Algorithm 1, one gradient a step, both step from delta^t = rho delta_pgd^t + (1 - rho) delta_fgsm^t.
    `separate`: equations 5 and 6, each goes its own way with its own gradient, at twice the passes."""
    delta: Literal["matrix", "vector"] = "matrix"
    """A perturbation for each token of the sentence, or one that all of its tokens share."""
    lambda1: Size = 1 / 128
    """Weight of the second term of equation 10."""

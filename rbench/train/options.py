"""Options that several objectives share.

"Ours" marks a value or a choice that the paper does not state. This module does not import torch, because options are
checked when a suite is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from rbench.schema import Strict, TrainSpec
from rbench.schema.common import Count, Positive, Rate, Share

Progress = Callable[[int, int, str], None]
"""Called with the number of steps done, the number of all steps, and a short text."""
Norm = Literal["l1", "l2", "linf"]
Scaling = Literal["gradient", "perturbation", "stepped"]
NotNegative = Annotated[float, Field(ge=0)]
OpenShare = Annotated[float, Field(gt=0, lt=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]


class Contrastive(Strict):
    """Options of every contrastive objective."""

    temperature: Rate = 0.05
    """tau. The default is SimCSE's (Gao et al. 2021, section 3); the RobustSentEmbed papers print none."""
    dropout: BelowOne | None = None
    """Dropout probability in training. None keeps the base's own. The saved encoder has the base's own in any case."""
    neighbours: Positive = 1
    """Sentences of a batch that stand next to each other in the corpus (ours). A batch has batch_size / neighbours such
    groups, so that negatives are of the same passage, as far as the corpus keeps the order of its source. 1: sentences
    are shuffled one by one."""

    def problem(self, train: TrainSpec) -> str | None:
        """Say why `train` does not fit these options; None if it fits."""
        if train.batch_size % self.neighbours == 0:
            return None
        return (
            f"a batch of {train.batch_size} is not made of groups of {self.neighbours} sentences; take a "
            "train.options.neighbours that divides train.batch_size."
        )


class MomentumOptions(Contrastive):
    """Momentum contrast (He et al. 2020) as in the ADCL paper, section 3.2 and appendix F.

    The paper prints queue, dim and the activations of the heads. It does not print temperature (here MoCo's), momentum
    and the heads' learning rate (here derived in `rbench.train.moco`), nor the width of the heads' hidden layer (here
    the encoder's).
    """

    temperature: Rate = 0.07
    momentum: Share | Literal["auto"] = "auto"
    """m: before each batch the key (momentum) encoder becomes m times itself plus 1 - m times the query encoder. `auto`
    fits the number of batches: min(0.999, 1 - 10 / batches). MoCo and the authors' code have 0.999."""
    queue: Positive = 32768
    """Q: the number of keys in the queue, those of the batch included. Table 6 tries 8,192 to 65,536. If it exceeds the
    corpus, a sentence's positives of earlier epochs are among its negatives. It should be full within the first tenth
    of the steps."""
    queue_start: Literal["empty", "random"] = "empty"
    """What the queue holds before the first step: nothing, or random vectors of length 1, as in MoCo's code."""
    dim: Positive = 128
    """c: the output width of the heads."""
    head: Literal["mlp", "linear"] = "mlp"
    """`mlp`: one hidden layer of sigmoid (section 3.2). `linear`: no hidden layer, as in the authors' code."""
    pooler: bool = False
    """Whether the heads stand on BERT's pooler, a dense layer with tanh that starts with the base's weights, as in the
    authors' code. It is a part of the heads and not of the encoder that is saved."""
    output: Literal["tanh", "plain"] = "tanh"
    """Output activation of the heads: Tanh (appendix F), or none (section 3.2 mentions only the hidden sigmoid)."""
    similarity: Literal["dot", "cosine"] = "dot"
    """sim: the dot product of the heads' outputs, or their cosine, as in MoCo's code."""
    query: Literal["text", "positive"] = "text"
    """What the trained encoder reads. `text`: it reads X, and X' is the key (section 3.2). `positive`: it reads X', and
    X is the key, as in the authors' code."""
    head_learning_rate: Rate | Literal["auto"] | None = "auto"
    """Peak learning rate of the trained head. `auto` fits the number of steps: the larger of the encoder's and
    2 / (steps * sqrt(width of the vectors)). None: the encoder's, as in the authors' code."""
    stop_at_chance: bool = True
    """Whether to stop after a third of the steps if the head finds the keys of held-out texts no more often than by
    chance (ours)."""
    least_top_1: Share | None = None
    """A gate (ours): the training fails at its end if the head finds the keys of a smaller share of the held-out texts,
    so that nothing is attacked that stands on it. None: no gate."""

    def problem(self, train: TrainSpec) -> str | None:
        """Say why `train` does not fit these options; None if it fits."""
        if self.queue >= train.batch_size:
            return super().problem(train)
        return (
            f"the queue holds {self.queue} keys and a batch has {train.batch_size}, all of which it must hold; take a "
            "larger train.options.queue or a smaller train.batch_size."
        )


MOMENTUM_SAMPLES = {
    **dict.fromkeys(("positives", "positives_unchanged", "loss_at_chance"), "positives"),
    **dict.fromkeys(("queue_filling_steps", "steps"), "steps"),
}
"""For each score, the counter that gives its sample size. Each positives module adds its own."""


class OneStepOptions(Contrastive):
    """Options of a one-step perturbation along the gradient: the fast gradient method (Miyato et al. 2017)."""

    epsilon: Rate = 1.0
    """Step size: the norm of the step over all numbers of a sentence's words (ours)."""
    norm: Norm = "l2"
    """Norm of the step (ours)."""


class AdversarialTermOptions(OneStepOptions):
    """Options of a contrastive loss with a second, adversarial term at the perturbed sentence."""

    weight: NotNegative = 1.0
    """Weight of the second term (ours)."""


class SentenceLevelOptions(Contrastive):
    """Options of the sentence-level perturbation (RobustSentEmbed, Asl et al. 2024, equations 5 to 7, Algorithm 1).

    RobustEmbed has the same perturbation. The paper prints alpha, beta, K, T, rho, the norm and lambda1. It does not
    print epsilon, sigma, and whether delta is a matrix or a vector for each sentence.
    """

    norm: Norm = "linf"
    """P: the norm of the ball and of the normalisation in equation 5, over all numbers of a sentence's delta."""
    epsilon: Rate = 0.01
    """Radius of the ball (ours), chosen for L-infinity. L1 and L2 balls of the same radius are far smaller."""
    over: Literal["sentence", "token"] = "sentence"
    """Numbers that a norm is over, in the ball and in equation 5: all of a sentence's delta, or those of one token."""
    start: Literal["uniform", "normal"] = "uniform"
    """delta starts as U(-sigma, sigma) / sqrt(D), projected on the ball, or as N(0, sigma^2), not projected."""
    sigma: NotNegative = 0.05
    """Size of the start (ours)."""
    alpha: NotNegative = 1e-5
    """Step size of PGD."""
    beta: NotNegative = 1e-3
    """Step size of FGSM."""
    K: Count = 5
    """Number of PGD steps."""
    T: Count = 5
    """Number of FGSM steps."""
    rho: Share = 0.5
    """Weight of PGD in the mixture (equation 7)."""
    projected: Literal["steps", "mixture"] = "steps"
    """What is projected on the ball: the PGD and the FGSM point of each step (equations 5 and 6), or their mixture."""
    tracks: Literal["joint", "separate"] = "joint"
    """`joint` (Algorithm 1): one gradient a step; PGD and FGSM both step from delta^t = rho delta_pgd^t + (1 - rho)
    delta_fgsm^t. `separate` (equations 5 and 6): each steps from its own delta with its own gradient, which takes twice
    the passes."""
    delta: Literal["matrix", "vector"] = "matrix"
    """`matrix`: each token of a sentence has its own perturbation. `vector`: all of its tokens share one."""
    lambda1: NotNegative = 1 / 128
    """Weight of the second term of equation 10."""

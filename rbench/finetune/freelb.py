"""FreeLB: fine-tuning on word embeddings perturbed against the model, several times in each mini-batch.

"FreeLB: Enhanced Adversarial Training for Natural Language Understanding" (Zhu et al. 2020, ICLR), Algorithm 1. A batch
is read `adv_steps` times, each time under a perturbation that the gradient of the time before has moved uphill; the
parameters take one step along the mean of all those gradients. So each step costs `adv_steps` clean ones.

As in the authors' code (github.com/zhuchen03/FreeLB): there is one perturbation for each example, zero on padding and
on no other token, special ones included; its norm and that of its gradient are taken over the whole example; dropout
masks are the same in all steps of a batch (section 3.3). Otherwise than there, the first perturbation is projected too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rbench.spec import Positive, Rate, Strict, Training

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.load import SentenceEncoder
    from rbench.finetune import Progress
    from rbench.tasks import TaskData

VERSION = 1


class Options(Strict):
    """The names are those of the authors' code, whose settings differ from task to task. The defaults are those of its
    launch script for MNLI, with three steps as in most of the others."""

    adv_steps: Positive = 3
    """K: how often a batch is read."""
    adv_lr: Annotated[float, Field(ge=0)] = 0.1
    """alpha: how far a step goes uphill, in the norm."""
    adv_init_mag: Annotated[float, Field(ge=0)] = 0.1
    """The first perturbation is uniform noise: with `l2` of this size over the root of the numbers that it has (so that
    its norm is at most this), with `linf` each number within this. 0: none."""
    adv_max_norm: Rate | None = 0.3
    """epsilon: the radius of the ball around an example that no perturbation leaves; None: no bound (the code's 0)."""
    norm_type: Literal["l2", "linf"] = "l2"


def run(
    encoder: SentenceEncoder,
    data: TaskData,
    training: Training,
    options: Options,
    *,
    seed: int,
    device: str,
    progress: Progress,
) -> tuple[EncoderClassifier, dict[str, float]]:
    """Fine-tune on the task's training split; the encoder's weights are changed in place.

    Returns the victim and its scores: those of clean fine-tuning, and `loss_rise`, by how much the loss of a batch of
    the last epoch is higher at the last perturbation than at the first, on average.
    Raises JobError where the loss stops being finite.
    """
    from functools import partial

    from rbench.finetune._ascent import Ascending, Rise
    from rbench.finetune._tuning import tune

    rise = Rise()
    victim, scores = tune(
        encoder,
        data,
        training,
        seed=seed,
        device=device,
        progress=progress,
        trainer=partial(Ascending, options=options, rise=rise),
        note=rise.text,
    )
    return victim, scores | {"loss_rise": rise.mean}

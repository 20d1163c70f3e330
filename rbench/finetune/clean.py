"""Fine-tuning on clean examples (FTC in the ADCL paper): encoder and linear head, cross-entropy, linear schedule.

The epoch with the best validation accuracy is kept. What comes out depends on the seed, the data and the options alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbench.spec import Strict, Training

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.load import SentenceEncoder
    from rbench.finetune import Progress
    from rbench.tasks import TaskData

VERSION = 1


class Options(Strict):
    """Clean fine-tuning has no options beyond the task's Training."""


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

    Returns the victim and its scores: `validation_accuracy` of the epoch kept (0..1) and `best_epoch` (from 1).
    Raises JobError where the loss stops being finite.
    """
    from rbench.finetune._tuning import tune

    return tune(encoder, data, training, seed=seed, device=device, progress=progress)

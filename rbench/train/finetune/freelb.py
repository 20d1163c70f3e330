"""FreeLB: fine-tuning on word embeddings that are perturbed against the model, several times in each mini-batch.

"FreeLB: Enhanced Adversarial Training for Natural Language Understanding" (Zhu et al. 2020, ICLR), Algorithm 1. A batch
is read `adv_steps` times. Each reading has a perturbation, which the gradient of the previous reading has moved uphill.
The parameters then take one step along the mean gradient of all readings. So a step costs as much as `adv_steps` clean
ones.

Four things are as in the authors' code (github.com/zhuchen03/FreeLB). Each example has a perturbation of its own. It is
zero on padding, but not on special tokens. Its norm, and that of its gradient, are taken over the whole example.
Dropout masks are the same in all readings of a batch (section 3.3). One thing differs: here the first perturbation is
projected into the ball too.
"""

from __future__ import annotations

from functools import partial

from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._options import FreeLBOptions

VERSION = 1


class FreeLBStrategy(FinetuneStrategy[FreeLBOptions]):
    short = "FreeLB"

    def run(self, options: FreeLBOptions, context: FinetuneContext) -> Finetuned:
        """Fine-tune on the task's training split. The encoder's weights are changed in place.

        The scores are those of clean fine-tuning and `loss_rise`. That is the loss of a batch at its last perturbation
        minus its loss at the first, averaged over the batches of the last epoch.
        Raises JobError where the loss stops being finite.
        """
        from rbench.train.finetune._freelb_trainer import AscentStats, FreeLBTrainer
        from rbench.train.finetune._tuning import tune

        rise = AscentStats()
        victim, scores = tune(
            context, trainer=partial(FreeLBTrainer, options=options, rise=rise), note=rise.text, tally=rise
        )
        return Finetuned(victim, scores | {"loss_rise": rise.mean})

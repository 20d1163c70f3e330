"""Fine-tuning on clean examples (FTC in the ADCL paper): encoder and linear head, cross-entropy, linear schedule.

The epoch with the best validation accuracy is kept. The result depends on the seed, the data and the training settings
alone.
"""

from __future__ import annotations

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy

VERSION = 1


class Options(Strict):
    """Clean fine-tuning has no options of its own; the suite's `training` holds its settings."""


class CleanStrategy(FinetuneStrategy[Options]):
    short = "Clean"

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Fine-tune on the task's training split. The encoder's weights are changed in place.

        The scores are `validation_accuracy` of the kept epoch (0..1) and `best_epoch`, its number, from 1.
        Raises JobError where the loss stops being finite.
        """
        from rbench.train.finetune._tuning import tune

        return tune(context)

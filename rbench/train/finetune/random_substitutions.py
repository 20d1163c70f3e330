"""Fine-tuning on random substitutions: adversarial fine-tuning without a search, as its control (ours).

Everything is as in `adversarial`: clean epochs, then batches with examples whose words are replaced while the model
learns, with the same candidates, the same budget and the same end. Only the choice differs: words come in random order,
and for each a random one of its candidates is kept. What adversarial fine-tuning has beyond this, in robustness or in
lost accuracy, is due to the search; the rest is what changed words teach, whoever chose them.

The attack `random` is the same control of the attack `geometry`.
"""

from __future__ import annotations

from rbench.schema import ResourceKind
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._options import COUNTED, RandomTuningOptions
from rbench.words.substitution.options import CANDIDATE_NEEDS

VERSION = 1


class RandomStrategy(FinetuneStrategy[RandomTuningOptions]):
    short = "Random words"
    resources = CANDIDATE_NEEDS
    counted = COUNTED

    def needs(self, options: RandomTuningOptions) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the candidates come from with these options."""
        return options.needed

    def run(self, options: RandomTuningOptions, context: FinetuneContext) -> Finetuned:
        """Fine-tune on the task's training split. The encoder's weights are changed in place.

        Scores and health are those of `adversarial`; `fooled` is the share of changed texts on which the model erred.
        What a text becomes is drawn by the seed, the epoch and the text, and not by the others in its batch.

        Raises JobError where the loss stops being finite, ResourceError where a resource cannot be loaded, SuiteError
        where `protect` names a column that the task does not have.
        """
        from rbench.train.finetune._adversarial_trainer import fine_tune
        from rbench.words.substitution.batched import BatchedGeometry

        assert context.resources is not None  # it states `resources`
        return fine_tune(options, context, BatchedGeometry.of(context.resources, **options.of_source))

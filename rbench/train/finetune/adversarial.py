"""Adversarial fine-tuning (ADV in the ADCL paper) on examples that are made against the model while it learns.

"Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models", section 4.4
and appendix F. First come `clean_epochs` epochs on clean examples, then `epochs` adversarial ones. An adversarial epoch
adds examples to the N of each batch: the same examples with words replaced by the Geometry search
(`rbench.words.substitution.batched`), under the same labels. The loss is the mean cross-entropy over all of them.

The paper has 2N examples in a batch. Here an example in which the search replaced no word is not added again (ours):
it would be a clean example with twice the weight, and not an adversarial one. `changed_share` says how many are added.
"""

from __future__ import annotations

from rbench.schema import ResourceKind
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._options import COUNTED, AdversarialTuningOptions
from rbench.words.substitution.options import CANDIDATE_NEEDS

VERSION = 2


class AdversarialStrategy(FinetuneStrategy[AdversarialTuningOptions]):
    short = "Adversarial"
    resources = CANDIDATE_NEEDS
    counted = COUNTED

    def needs(self, options: AdversarialTuningOptions) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the search opens with these options."""
        return options.needed

    def run(self, options: AdversarialTuningOptions, context: FinetuneContext) -> Finetuned:
        """Fine-tune on the task's training split. The encoder's weights are changed in place.

        The scores are those of clean fine-tuning, and five of the last epoch. `searched_texts` is the number of texts
        that the search was given, `adversarial_texts` the number of those that it changed, `changed_share` their share
        (0..1). Of the changed ones, `words_replaced` is the mean share of words replaced (0..1), in the columns that
        may change, and `fooled` the share on which the model erred when they were made (0..1). The health says how many
        words of the last epoch had no candidate.

        Raises JobError where the loss stops being finite, ResourceError where a resource cannot be loaded, SuiteError
        where `protect` names a column that the task does not have.
        """
        from rbench.train.finetune._adversarial_trainer import fine_tune
        from rbench.words.substitution.batched import BatchedGeometry

        assert context.resources is not None  # it states `resources`
        geometry = BatchedGeometry.of(
            context.resources,
            **options.of_source,
            projection=options.projection,
            accept_flip=options.accept_flip,
            order=options.order,
            keep=options.keep_step,
            word_norm=options.word_norm,
        )
        return fine_tune(options, context, geometry)

"""Adversarial fine-tuning (ADV in the ADCL paper) on examples that are made against the model while it learns.

"Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models", section 4.4
and appendix F. First come `clean_epochs` epochs on clean examples, then `epochs` adversarial ones. An adversarial epoch
adds examples to the N of each batch: the same examples with words replaced by the Geometry search
(`rbench.words.substitution.batched`), under the same labels. The loss is the mean cross-entropy over all of them.

The paper has 2N examples in a batch. Here an example in which the search replaced no word is not added again (ours):
it would be a clean example with twice the weight, and not an adversarial one. `changed_share` says how many are added.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rbench.errors import SuiteError
from rbench.schema import ResourceKind, TaskSpec
from rbench.train.finetune import FinetuneContext, Finetuned
from rbench.train.finetune._options import AdversarialOptions
from rbench.words.substitution.options import CANDIDATE_NEEDS

SHORT = "Adversarial"
VERSION = 2

NEEDS = CANDIDATE_NEEDS
COUNTED = {
    **dict.fromkeys(("words_replaced", "fooled", "adversarial_texts"), "adversarial_texts"),
    **dict.fromkeys(("changed_share", "searched_texts"), "searched_texts"),
}
Options = AdversarialOptions


def needs(options: AdversarialOptions) -> tuple[ResourceKind, ...]:
    """The kinds of resources that the search opens with these options."""
    return options.needed


def fixed(options: AdversarialOptions, task: TaskSpec) -> tuple[int, ...]:
    """Indices of the columns that `options` protect; raises SuiteError for a column that the task does not have."""
    columns = options.protect.get(task.kind, ())
    if strange := [column for column in columns if column not in task.columns]:
        raise SuiteError(
            f"adversarial fine-tuning protects the column {strange[0]!r} of {task.kind} tasks, and {task.name} has the "
            f"columns {', '.join(task.columns)}"
        )
    return tuple(task.columns.index(column) for column in columns)


def run(options: AdversarialOptions, context: FinetuneContext) -> Finetuned:
    """Fine-tune on the task's training split. The encoder's weights are changed in place.

    The scores are those of clean fine-tuning, and five of the last epoch. `searched_texts` is the number of texts that
    the search was given, `adversarial_texts` the number of those that it changed, `changed_share` their share (0..1).
    Of the changed ones, `words_replaced` is the mean share of words replaced (0..1), in the columns that may change,
    and `fooled` the share on which the model erred when they were made (0..1). The health says how many words of the
    last epoch had no candidate.

    Raises JobError where the loss stops being finite, ResourceError where a resource cannot be loaded, SuiteError where
    `protect` names a column that the task does not have.
    """
    from rbench.train.finetune._adversarial_trainer import AdversarialStats, AdversarialTrainer
    from rbench.train.finetune._tuning import tune
    from rbench.words.substitution.batched import Geometry

    assert context.resources is not None  # the module has NEEDS
    geometry = Geometry.of(
        context.resources,
        **options.of_source,
        projection=options.projection,
        accept_flip=options.accept_flip,
        order=options.order,
        keep=options.keep_step,
        word_norm=options.word_norm,
    )
    if options.epochs is not None:
        context = replace(context, training=context.training.model_copy(update={"epochs": options.epochs}))
    tally = AdversarialStats()
    trainer = partial(
        AdversarialTrainer,
        geometry=geometry,
        examples=context.sample("train"),
        options=options,
        fixed=fixed(options, context.data.spec),
        tally=tally,
    )
    tuned = tune(
        context, trainer=trainer, warm_epochs=options.clean_epochs, keep=options.keep, note=tally.text, tally=tally
    )
    return replace(tuned, scores=tuned.scores | tally.scores(), health=tally.starvation.health())

"""Fine-tuning on clean examples and on adversarial ones made beforehand (ADCL paper, appendix E, Table 8).

The adversarial texts come from an attack on another victim, fine-tuned on the same clean examples with the same seed.
The plan puts that fine-tuning and that attack before this one, as jobs of their own. Unlike the adversarial examples of
`adversarial`, these do not follow the model while it learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rbench.errors import JobError
from rbench.finetune._context import FinetuneContext, Finetuned
from rbench.spec import Choice, Outcome, Strict

if TYPE_CHECKING:
    from rbench.tasks import Example

VERSION = 1


COUNTED = {"adversarial_texts": "adversarial_texts"}


class Options(Strict):
    """The paper uses the Geometry attack, and one adversarial example for each training example."""

    attack: Choice = Choice(name="geometry", options={"max_words": 10})
    """The attack that makes the examples, with its options. 10 words are the limit of adversarial training in the paper
    (appendix F). Its other limit, 0.4 of the words, cannot be set for an attack."""
    texts: Literal["all", "successes"] = "all"
    """`all`: also texts with which the attack did not succeed, as it left them. `successes`: only texts that the clean
    victim got wrong (ours)."""


def run(options: Options, context: FinetuneContext) -> Finetuned:
    """Fine-tune as `clean` does, on the training examples and on the texts that `context.generated` made of them.

    The scores are those of clean fine-tuning and `adversarial_texts`, the number of examples added. No example is added
    where the attack left the text unchanged, or where the clean victim was wrong before the attack.
    Raises JobError where a training example has no outcome.
    """
    from rbench.finetune import clean
    from rbench.finetune._data import training_sample

    examples = training_sample(context.data, context.training, context.seed)
    added = _adversarial(examples, context.generated or (), options)
    more = replace(
        context,
        data=context.data.with_train([*examples, *added]),
        # The examples are sampled already.
        training=context.training.model_copy(update={"max_train": None, "train_share": None}),
    )
    victim, scores = clean.run(clean.Options(), more)
    return Finetuned(victim, scores | {"adversarial_texts": float(len(added))})


def _adversarial(examples: Sequence[Example], generated: Sequence[Outcome], options: Options) -> list[Example]:
    """The examples to add, each under the label of the example that it was made of."""
    from rbench.tasks import Example

    outcomes = {outcome.example_id: outcome for outcome in generated}
    added = []
    for example in examples:
        outcome = outcomes.get(example.id)
        if outcome is None:
            raise JobError(f"the attack on the training texts has no outcome for {example.id}; run the command again")
        wanted = outcome.status == "succeeded" or (options.texts == "all" and outcome.status == "failed")
        if wanted and outcome.perturbed not in (None, outcome.original):
            assert outcome.perturbed is not None
            added.append(Example(f"{example.id}:adversarial", outcome.perturbed, example.label))
    return added

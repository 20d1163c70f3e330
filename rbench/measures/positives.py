"""Hard positives of a trained encoder: texts with words replaced so that its contrastive loss rises (ADCL, appendix G).

They are made as in training (`rbench.train.substituted`), with the encoder at the end of its training. Its heads
and its queue were not kept: heads are drawn anew, and the queue is filled with the keys of other texts of the split.
The paper does not say at which point of the training the positives of its Table 9 were made.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rbench.measures._context import Measured, TrainedContext
from rbench.spec import Outcome, Split, Strict
from rbench.spec.common import Positive
from rbench.system.changes import words_changed

if TYPE_CHECKING:
    from rbench.tasks import Example

VERSION = 1
USES = ("substitution.batched", "substitution.segmentation")
"""The search replaces the words, asked by the objective, which no import shows."""

TITLE = "Hard positives, beside the texts they were made of (ADCL, Table 9)"
OF = "trainings"
STORES = "outcomes"
UNSCALED = True
OBJECTIVES = ("adcl",)
KEYS = 512
"""The most other texts in the queue (ours): enough negatives, and quick to encode."""


class Options(Strict):
    """Which texts positives are made of."""

    split: Split = "train"
    """`train` is what an in-domain encoder was trained on."""
    num_examples: Positive = 5


def run(options: Options, context: TrainedContext) -> Measured:
    """Make hard positives of a seeded sample of the split. The seed draws the heads, too.

    Returns one outcome an example, `succeeded` where a word was replaced; `loss_raised` (nats) and `words_replaced`
    (share of words, 0..1) over all texts.
    """
    import numpy as np
    import transformers

    from rbench.spec import Score

    spec, module, seed = context.spec, context.objective, context.seed
    assert spec.train is not None
    examples = context.data.split(options.split)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))
    chosen = [examples[i] for i in order[: options.num_examples]]
    others = [text for i in order[options.num_examples :][:KEYS] for text in examples[i].texts]
    texts = [text for example in chosen for text in example.texts]
    transformers.set_seed(seed)
    built: Any = module.build(module.Options(**spec.train.options), spec, context.weights, resources=context.resources)
    model = built.model.to(context.device)
    for start in range(0, len(others), 64):
        model.queue.push(model.z(model.key_encoder, model.key_head, others[start : start + 64]))
    made, sums = _made(model, texts)
    found = model.positives.scores({**sums, "positives": len(texts)})
    replaced = iter(made)
    outcomes = [_outcome(example, tuple(next(replaced) for _ in example.texts)) for example in chosen]
    scores = tuple(Score(name=name, value=value, n=len(texts)) for name, value in found.items())
    return Measured(outcomes, scores, {"n": len(chosen), "texts": len(texts), "keys": len(others)})


def _made(model: Any, texts: list[str]) -> tuple[list[str], dict[str, float]]:
    """The positives of all texts and the sums of their counts. A call takes at most as many texts as the queue."""
    made, sums = [], Counter[str]()
    for start in range(0, len(texts), model.queue.size):
        some, counted = model.positives(model, texts[start : start + model.queue.size])
        made += some
        sums.update(counted)
    return made, dict(sums)


def _outcome(example: Example, made: tuple[str, ...]) -> Outcome:
    """An example with the positives of its texts, as an attack's outcome has them."""
    from rbench.substitution.segmentation import words_of

    before, after = words_of(example.texts), words_of(made)
    changed, num_words = words_changed(before, after), sum(map(len, before))
    return Outcome(
        example_id=example.id,
        status="succeeded" if changed else "failed",
        original=example.texts,
        perturbed=made,
        label=int(example.label or 0),
        num_words=num_words,
        num_words_changed=changed,
        perturbed_share=changed / num_words if changed else None,
    )

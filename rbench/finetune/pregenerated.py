"""Fine-tuning on clean examples and on adversarial ones that were made beforehand (ADCL paper, appendix E, Table 8).

The adversarial texts come from an attack on a victim that was fine-tuned on the same clean examples with the same seed,
a job of its own which the plan puts before this one. Unlike those of `adversarial` they do not follow the model as it
learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rbench.errors import JobError
from rbench.spec import Choice, Strict, Training

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.load import SentenceEncoder
    from rbench.finetune import Progress
    from rbench.spec import Outcome
    from rbench.tasks import Example, TaskData

VERSION = 1


COUNTED = {"adversarial_texts": "adversarial_texts"}


class Options(Strict):
    """The paper has the Geometry attack, and an adversarial example for each training example."""

    attack: Choice = Choice(name="geometry", options={"max_words": 10})
    """What makes them, with its options; 10 words as in adversarial training (appendix F; its other limit, 0.4 of the
    words, is none that an attack has)."""
    texts: Literal["all", "successes"] = "all"
    """`all`: also the texts with which an attack did not succeed, as it left them. `successes`: only those that the
    clean victim got wrong (ours)."""


def run(
    encoder: SentenceEncoder,
    data: TaskData,
    training: Training,
    options: Options,
    *,
    seed: int,
    device: str,
    progress: Progress,
    generated: Sequence[Outcome],
) -> tuple[EncoderClassifier, dict[str, float]]:
    """Clean fine-tuning on the training examples and what was `generated` from them.

    Returns the victim and the scores of clean fine-tuning, with `adversarial_texts`, how many were added: those that an
    attack left unchanged are not, nor are there any for examples that the clean victim got wrong by itself.
    Raises JobError where an example that is trained on has no outcome.
    """
    from rbench.finetune import clean
    from rbench.finetune._data import training_sample

    chosen = training_sample(data, training, seed)
    made = _adversarial(chosen, generated, options)
    victim, scores = clean.run(
        encoder,
        data.with_train([*chosen, *made]),
        training.model_copy(update={"max_train": None, "train_share": None}),
        clean.Options(),
        seed=seed,
        device=device,
        progress=progress,
    )
    return victim, scores | {"adversarial_texts": float(len(made))}


def _adversarial(chosen: Sequence[Example], generated: Sequence[Outcome], options: Options) -> list[Example]:
    from rbench.tasks import Example

    outcomes = {outcome.example_id: outcome for outcome in generated}
    made = []
    for example in chosen:
        outcome = outcomes.get(example.id)
        if outcome is None:
            raise JobError(f"the attack on the training texts has no outcome for {example.id}; run the command again")
        wanted = outcome.status == "succeeded" or (options.texts == "all" and outcome.status == "failed")
        if wanted and outcome.perturbed not in (None, outcome.original):
            assert outcome.perturbed is not None
            made.append(Example(f"{example.id}:adversarial", outcome.perturbed, example.label))
    return made

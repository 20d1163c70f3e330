"""Adversarial fine-tuning (ADV in the ADCL paper): each batch with Geometry examples made against the model as it is.

"Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models", section 4.4
and appendix F. After `clean_epochs` epochs on clean examples come `epochs` adversarial ones. In these, N examples of a
batch become 2N: the examples, and the same with words replaced by the Geometry search (`rbench.substitution.batched`),
under the same labels; the loss is the mean cross-entropy over all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rbench.errors import SuiteError
from rbench.spec import Count, Positive, Strict, TaskKind, TaskSpec, Training

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.load import SentenceEncoder
    from rbench.finetune import Progress
    from rbench.resources import Resources
    from rbench.tasks import TaskData

VERSION = 1

NEEDS = ("masked_lm", "word_vectors", "stopwords")
COUNTED = dict.fromkeys(("words_replaced", "fooled", "adversarial_texts"), "adversarial_texts")


class Options(Strict):
    """What may be set. Values without a remark are the paper's (appendix F)."""

    clean_epochs: Count = 1
    """Epochs on clean examples alone, before the adversarial ones."""
    epochs: Positive | None = None
    """Adversarial epochs (3 in the paper, on every task); None: as many as `training.epochs` says."""
    max_words: Positive = 10
    """K: at most so many words replaced in one text (the paper has 15 for IMDB)."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.4
    """At most this share of the words of the columns that may change, rounded down; the lower bound of the two holds.
    A text of fewer than 1 / share words stays as it is."""
    candidates: Positive = 50
    """Predictions of the masked language model looked at for a word."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Least cosine of a replacement's word vector with the word's own (ours, as for the Geometry attack)."""
    unknown: Literal["discard", "keep"] = "discard"
    """What becomes of a replacement where it or the word has no vector (ours)."""
    projection: Literal["signed", "absolute"] = "signed"
    """`absolute` is the argmax as printed, which also admits the most negative projection."""
    until: Literal["fooled", "budget"] = "fooled"
    """When a text's search ends (not printed). `fooled`: as the attack does, once the model errs, so that a text on
    which it errs already stays as it is. `budget`: only with the budget."""
    protect: dict[TaskKind, tuple[str, ...]] = Field(default={"nli": ("premise",)})
    """Columns in which nothing is replaced, by kind of task (ours: the paper has single texts only)."""
    keep: Literal["best", "last"] = "best"
    """The epoch that is kept (not printed): of the adversarial ones that with the best accuracy on the clean validation
    split, or the last. A clean epoch is never kept."""


def fixed(options: Options, task: TaskSpec) -> tuple[int, ...]:
    """Numbers of the columns that `options` protect; SuiteError for a column that the task does not have."""
    columns = options.protect.get(task.kind, ())
    if strange := [column for column in columns if column not in task.columns]:
        raise SuiteError(
            f"adversarial fine-tuning protects the column {strange[0]!r} of {task.kind} tasks, and {task.name} has the "
            f"columns {', '.join(task.columns)}"
        )
    return tuple(task.columns.index(column) for column in columns)


def run(
    encoder: SentenceEncoder,
    data: TaskData,
    training: Training,
    options: Options,
    *,
    seed: int,
    device: str,
    progress: Progress,
    resources: Resources,
) -> tuple[EncoderClassifier, dict[str, float]]:
    """Fine-tune on the task's training split; the encoder's weights are changed in place.

    Returns the victim and its scores, all in 0..1 but `best_epoch`: those of clean fine-tuning, and of the adversarial
    examples of the last epoch `words_replaced`, the mean share of words replaced (of the columns that may change),
    `fooled`, the share on which the model erred when they were made, and `adversarial_texts`, how many there were.
    Raises JobError where training diverges, ResourceError where a resource cannot be loaded, SuiteError where `protect`
    names a column that the task does not have.
    """
    from functools import partial

    from rbench.finetune._data import training_sample
    from rbench.finetune._hardening import Hardening, Tally
    from rbench.finetune._tuning import tune
    from rbench.substitution.batched import Geometry

    geometry = Geometry.of(
        resources,
        candidates=options.candidates,
        min_cosine=options.min_cosine,
        unknown=options.unknown,
        projection=options.projection,
    )
    if options.epochs is not None:
        training = training.model_copy(update={"epochs": options.epochs})
    tally = Tally()
    examples = training_sample(data, training, seed)
    victim, scores = tune(
        encoder,
        data,
        training,
        seed=seed,
        device=device,
        progress=progress,
        trainer=partial(
            Hardening,
            geometry=geometry,
            examples=examples,
            options=options,
            fixed=fixed(options, data.spec),
            tally=tally,
        ),
        warm_epochs=options.clean_epochs,
        keep=options.keep,
        note=tally.text,
    )
    return victim, scores | tally.scores() | {"adversarial_texts": float(tally.texts)}

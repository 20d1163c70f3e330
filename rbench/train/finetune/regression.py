"""A scorer of similarity that is fine-tuned: an encoder, and a head on (u, v, |u - v|, u * v) that gives one number.

The head and its features are ours (`rbench.encoders.scorer.RegressionHead`). Encoder and head are trained together on
the training split. The loss is the mean squared error as a share of the scale's width. The epoch with the best Spearman
correlation on the validation split is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned
from rbench.train.finetune._data import collator, gold_scores, rows_of, scale_of, validation_scores

if TYPE_CHECKING:
    from rbench.encoders.scorer import EncoderScorer

SHORT = "Regression head"
VERSION = 1

SERVES = "similarity"


class Options(Strict):
    """The regression has no options of its own; the suite's `training` holds its settings."""


def run(options: Options, context: FinetuneContext) -> Finetuned:
    """Fine-tune on the task's training split. The encoder's weights are changed in place.

    The scores are `validation_spearman` of the kept epoch (-1..1), `best_epoch`, its number, from 1, and
    `validation_error`, the mean absolute error on the gold scale.

    Raises:
        JobError: the task has no scale, a gold score lies outside it, or the loss stops being finite.
    """
    from rbench.encoders.scorer import EncoderScorer
    from rbench.train.finetune._tuning import Goal, tune

    made = tune(context, goal=Goal(_scorer, _encoded, _collator, "spearman", _spearman))
    examples = context.sample("validation")
    victim = made.victim
    assert isinstance(victim, EncoderScorer)  # `_scorer` made it
    scores = victim.score_pairs([example.texts for example in examples])
    found = validation_scores(scores, gold_scores(examples, context.data.spec))
    return Finetuned(victim, {**made.scores, "validation_error": found["validation_error"]})


def _scorer(context: FinetuneContext) -> EncoderScorer:
    from rbench.encoders.scorer import EncoderScorer, RegressionHead

    encoder, scale = context.encoder, scale_of(context.data.spec)
    return EncoderScorer(encoder, RegressionHead(encoder.dim), scale, context.training.max_length)


def _encoded(context: FinetuneContext, victim: EncoderScorer) -> tuple[Any, Any]:
    """The rows to train on and those to validate on. The second sentence's inputs have `second_` before their names."""

    def rows(split: Literal["train", "validation"]) -> list[dict[str, Any]]:
        examples = context.sample(split)
        gold = gold_scores(examples, context.data.spec)
        first, second = (
            victim.tokenizer([one.texts[side] for one in examples], truncation=True, max_length=victim.max_length)
            for side in (0, 1)
        )
        return rows_of({**first, **{f"second_{name}": ids for name, ids in second.items()}, "labels": gold.tolist()})

    return rows("train"), rows("validation")


def _collator(tokenizer: Any) -> Any:
    """A data collator that pads both sides of a batch, each to its longest sentence."""
    import torch

    pad = collator(tokenizer)

    def padded(rows: list[dict[str, Any]]) -> dict[str, Any]:
        labels = torch.tensor([row["labels"] for row in rows], dtype=torch.float32)
        names = [name for name in rows[0] if name != "labels"]
        seconds = [name for name in names if name.startswith("second_")]
        first = pad([{name: row[name] for name in names if name not in seconds} for row in rows])
        second = pad([{name.removeprefix("second_"): row[name] for name in seconds} for row in rows])
        return {**first, **{f"second_{name}": values for name, values in second.items()}, "labels": labels}

    return padded


def _spearman(prediction: Any) -> float:
    scores = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return validation_scores(scores.astype(float), prediction.label_ids.astype(float))["validation_spearman"]

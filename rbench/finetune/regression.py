"""A scorer of similarity that is fine-tuned: an encoder, and a head on (u, v, |u - v|, u * v) that gives one number.

The head and its features are ours (`rbench.encoders.scorer.RegressionHead`). Encoder and head are trained together on
the training split. The loss is the mean squared error as a share of the scale's width. The epoch with the best Spearman
correlation on the validation split is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.finetune._context import FinetuneContext, Finetuned
from rbench.spec import Strict

if TYPE_CHECKING:
    from rbench.encoders.scorer import EncoderScorer

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
    from rbench.finetune._data import sample_split
    from rbench.finetune._pairs import gold_scores, validation_scores
    from rbench.finetune._tuning import Goal, tune

    made = tune(context, goal=Goal(_scorer, _encoded, _collator, "spearman", _spearman))
    examples = sample_split(context.data, "validation", context.training.max_validation, context.seed)
    victim = made.victim
    assert isinstance(victim, EncoderScorer)  # `_scorer` made it
    scores = victim.score_pairs([example.texts for example in examples])
    found = validation_scores(scores, gold_scores(examples, context.data.spec))
    return Finetuned(victim, {**made.scores, "validation_error": found["validation_error"]})


def _scorer(context: FinetuneContext) -> EncoderScorer:
    from rbench.encoders.scorer import EncoderScorer, RegressionHead
    from rbench.finetune._pairs import scale_of

    encoder, scale = context.encoder, scale_of(context.data.spec)
    return EncoderScorer(encoder, RegressionHead(encoder.dim), scale, context.training.max_length)


def _encoded(context: FinetuneContext, victim: EncoderScorer) -> tuple[Any, Any]:
    """The rows to train on and those to validate on. The second sentence's inputs have `second_` before their names."""
    from rbench.finetune._data import sample_split, training_sample
    from rbench.finetune._pairs import gold_scores

    data, training = context.data, context.training
    found = []
    for examples in (
        training_sample(data, training, context.seed),
        sample_split(data, "validation", training.max_validation, context.seed),
    ):
        gold = gold_scores(examples, data.spec)
        sides = [
            victim.tokenizer(
                [example.texts[side] for example in examples], truncation=True, max_length=victim.max_length
            )
            for side in (0, 1)
        ]
        found.append(
            [
                {name: values[row] for name, values in sides[0].items()}
                | {f"second_{name}": values[row] for name, values in sides[1].items()}
                | {"labels": float(gold[row])}
                for row in range(len(examples))
            ]
        )
    train, validation = found
    return train, validation


def _collator(tokenizer: Any) -> Any:
    """A data collator that pads both sides of a batch, each to its longest sentence."""
    import torch

    from rbench.finetune._data import collator

    pad = collator(tokenizer)

    def padded(rows: list[dict[str, Any]]) -> dict[str, Any]:
        second = "second_"
        first_side = pad([{k: v for k, v in row.items() if k != "labels" and not k.startswith(second)} for row in rows])
        second_side = pad([{k.removeprefix(second): v for k, v in row.items() if k.startswith(second)} for row in rows])
        return {
            **first_side,
            **{second + name: values for name, values in second_side.items()},
            "labels": torch.tensor([row["labels"] for row in rows], dtype=torch.float32),
        }

    return padded


def _spearman(prediction: Any) -> float:
    from rbench.finetune._pairs import validation_scores

    scores = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return validation_scores(scores.astype(float), prediction.label_ids.astype(float))["validation_spearman"]

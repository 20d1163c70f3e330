"""A scorer of similarity that is fine-tuned: an encoder, and a head on (u, v, |u - v|, u * v) that gives one number.

The head and its features are ours (`rbench.encoders.scorer.RegressionHead`). Encoder and head are trained together on
the training split. The loss is the mean squared error as a share of the scale's width. The epoch with the best Spearman
correlation on the validation split is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._data import gold_scores, make_collator, score_validation, task_scale, to_rows

if TYPE_CHECKING:
    from rbench.encoders.scorer import EncoderScorer

VERSION = 1


class Options(Strict):
    """The regression has no options of its own; the suite's `training` holds its settings."""


class RegressionStrategy(FinetuneStrategy[Options]):
    short = "Regression head"
    serves = ("similarity",)

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Fine-tune on the task's training split. The encoder's weights are changed in place.

        The scores are `validation_spearman` of the kept epoch (-1..1), `best_epoch`, its number, from 1, and
        `validation_error`, the mean absolute error on the gold scale.

        Raises:
            JobError: a gold score lies outside the task's scale, or the loss stops being finite.
        """
        from rbench.encoders.scorer import EncoderScorer
        from rbench.train.finetune._tuning import TuningGoal, tune

        tuned = tune(
            context, goal=TuningGoal(_build_scorer, _encode_splits, _make_collator, "spearman", _compute_spearman)
        )
        examples = context.sample("validation")
        victim = tuned.victim
        assert isinstance(victim, EncoderScorer)  # `_build_scorer` made it
        scores = victim.score_pairs([example.texts for example in examples])
        validation = score_validation(scores, gold_scores(examples, context.data.spec))
        return Finetuned(victim, {**tuned.scores, "validation_error": validation["validation_error"]})


def _build_scorer(context: FinetuneContext) -> EncoderScorer:
    from rbench.encoders.scorer import EncoderScorer, RegressionHead

    encoder, scale = context.encoder, task_scale(context.data.spec)
    return EncoderScorer(encoder, RegressionHead(encoder.dim), scale, context.training.max_length)


def _encode_splits(context: FinetuneContext, victim: EncoderScorer) -> tuple[Any, Any]:
    """The rows to train on and those to validate on. The second sentence's inputs have `second_` before their names."""

    def rows(split: Literal["train", "validation"]) -> list[dict[str, Any]]:
        examples = context.sample(split)
        gold = gold_scores(examples, context.data.spec)
        first, second = (
            victim.tokenizer(
                [example.texts[side] for example in examples], truncation=True, max_length=victim.max_length
            )
            for side in (0, 1)
        )
        return to_rows({**first, **{f"second_{name}": ids for name, ids in second.items()}, "labels": gold.tolist()})

    return rows("train"), rows("validation")


def _make_collator(tokenizer: Any) -> Any:
    """A data collator that pads both sides of a batch, each to its longest sentence."""
    import torch

    pad = make_collator(tokenizer)

    def padded(rows: list[dict[str, Any]]) -> dict[str, Any]:
        labels = torch.tensor([row["labels"] for row in rows], dtype=torch.float32)
        names = [name for name in rows[0] if name != "labels"]
        seconds = [name for name in names if name.startswith("second_")]
        first = pad([{name: row[name] for name in names if name not in seconds} for row in rows])
        second = pad([{name.removeprefix("second_"): row[name] for name in seconds} for row in rows])
        return {**first, **{f"second_{name}": values for name, values in second.items()}, "labels": labels}

    return padded


def _compute_spearman(prediction: Any) -> float:
    scores = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return score_validation(scores.astype(float), prediction.label_ids.astype(float))["validation_spearman"]

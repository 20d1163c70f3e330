"""A scorer of similarity that is fine-tuned: an encoder, and a head on (u, v, |u - v|, u * v) that gives one number.

The head and its features are ours (`rbench.encoders.scorer.RegressionHead`). Encoder and head are trained together on
the training split. The loss is the mean squared error as a share of the scale's width. The epoch with the best Spearman
correlation on the validation split is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._data import gold_scores, make_collator, score_validation, task_scale, to_rows

if TYPE_CHECKING:
    from rbench.encoders.scorer import EncoderScorer

VERSION = 1


SECOND = "second_"
"""The beginning of the names of the second sentence's inputs."""


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

        goal = TuningGoal(_build_scorer, _encode_splits, _make_collator, "spearman", _compute_spearman)
        tuned = tune(context, goal=goal)
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
    """Return the rows to train on and those to validate on. The names of the second sentence's inputs have SECOND."""

    def rows(split: Literal["train", "validation"]) -> list[dict[str, Any]]:
        examples = context.sample(split)
        gold = gold_scores(examples, context.data.spec)
        first_texts, second_texts = ([example.texts[side] for example in examples] for side in (0, 1))
        first = victim.tokenizer(first_texts, truncation=True, max_length=victim.max_length)
        second = victim.tokenizer(second_texts, truncation=True, max_length=victim.max_length)
        return to_rows({**first, **_as_second(second), "labels": gold.tolist()})

    return rows("train"), rows("validation")


def _as_second(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{SECOND}{name}": values for name, values in inputs.items()}


def _make_collator(tokenizer: Any) -> Any:
    """Return a data collator that pads both sides of a batch, each to its longest sentence."""
    import torch

    pad = make_collator(tokenizer)

    def padded(rows: list[dict[str, Any]]) -> dict[str, Any]:
        labels = torch.tensor([row["labels"] for row in rows], dtype=torch.float32)
        first_rows: list[dict[str, Any]] = []
        second_rows: list[dict[str, Any]] = []
        for row in rows:
            inputs = {name: values for name, values in row.items() if name != "labels"}
            second = {name for name in inputs if name.startswith(SECOND)}
            first_rows.append({name: values for name, values in inputs.items() if name not in second})
            second_rows.append({name.removeprefix(SECOND): inputs[name] for name in inputs if name in second})
        return {**pad(first_rows), **_as_second(pad(second_rows)), "labels": labels}

    return padded


def _compute_spearman(prediction: Any) -> float:
    scores = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return score_validation(scores.astype(float), prediction.label_ids.astype(float))["validation_spearman"]

"""Encoder and linear head trained on a task with transformers' Trainer: what strategies that train have in common."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import transformers
from accelerate.utils import patch_environment

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.finetune import Progress
from rbench.finetune._data import collator, encode_split
from rbench.spec import Training
from rbench.system import scratch
from rbench.tasks import TaskData

VERSION = 1

Keep = Literal["best", "last"]


def tune(
    encoder: SentenceEncoder,
    data: TaskData,
    training: Training,
    *,
    seed: int,
    device: str,
    progress: Progress,
    trainer: Callable[..., Any] = transformers.Trainer,
    warm_epochs: int = 0,
    keep: Keep = "best",
    note: Callable[[], str] = str,
) -> tuple[EncoderClassifier, dict[str, float]]:
    """Fine-tune on the task's training split; the encoder's weights are changed in place.

    AdamW with a linear schedule over all epochs, cross-entropy. What comes out depends on the seed, the data, the
    options and the trainer alone.

    Args:
        trainer: makes the Trainer from its usual arguments; a strategy's own overrides `training_step`. Its training
            set has the examples of `sample_split`, in that order.
        warm_epochs: so many epochs come before those that `training.epochs` counts; none of them is kept.
        keep: `best`: the epoch with the best validation accuracy, of equal ones the first. `last`: the last.
        note: what else is to be said of the training so far, for progress.

    Returns the victim, in eval mode, and its scores: `validation_accuracy` of the epoch kept (0..1) and `best_epoch`,
    which it is, counted from 1, the warm ones included.
    Raises JobError where the loss stops being finite.
    """
    transformers.set_seed(seed)
    victim = EncoderClassifier(encoder, num_labels=len(data.spec.labels), max_length=training.max_length)
    limits = {"train": training.train_rows(len(data.split("train"))), "validation": training.max_validation}
    train, validation = (
        encode_split(data, split, encoder.tokenizer, victim.max_length, limit=limits[split], seed=seed)
        for split in ("train", "validation")
    )
    accuracies: list[float] = []
    with (
        scratch.folder("finetune") as folder,
        # In full precision, whatever the environment says of mixed ones: the record has no word of that.
        patch_environment(ACCELERATE_MIXED_PRECISION="no"),
    ):
        made = trainer(
            model=victim,
            args=_arguments(folder, training, seed, device, warm_epochs, keep),
            train_dataset=train,
            eval_dataset=validation,
            data_collator=collator(encoder.tokenizer),
            compute_metrics=_accuracy,
            callbacks=[_Watch(progress, accuracies, note)],
        )
        # Its own callbacks print dictionaries and a second progress bar.
        made.remove_callback(transformers.PrinterCallback)
        made.remove_callback(transformers.trainer_callback.ProgressCallback)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="mtime may not be reliable")
            made.train()
    victim.to(device).eval()
    kept = accuracies.index(max(accuracies)) if keep == "best" else len(accuracies) - 1
    return victim, {"validation_accuracy": accuracies[kept], "best_epoch": float(warm_epochs + kept + 1)}


def _arguments(folder: Path, training: Training, seed: int, device: str, warm_epochs: int, keep: Keep) -> Any:
    return transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=warm_epochs + training.epochs,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=max(64, training.batch_size),
        learning_rate=training.learning_rate,
        warmup_ratio=training.warmup,
        weight_decay=training.weight_decay,
        lr_scheduler_type="linear",
        group_by_length=training.group_by_length,
        eval_strategy="epoch",
        eval_delay=warm_epochs + 1 if warm_epochs else 0,
        save_strategy="epoch" if keep == "best" else "no",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=keep == "best",
        metric_for_best_model="accuracy",
        greater_is_better=True,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # a diverged run must be seen
        report_to=[],
        disable_tqdm=True,
        seed=seed,
        data_seed=seed,
        use_cpu=device == "cpu",
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_num_workers=0,
    )


def _accuracy(prediction: Any) -> dict[str, float]:
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return {"accuracy": float((logits.argmax(-1) == prediction.label_ids).mean())}


class _Watch(transformers.TrainerCallback):  # type: ignore[misc]
    """Reports steps, notes the accuracy of each epoch scored, and stops a diverged run."""

    def __init__(self, progress: Progress, accuracies: list[float], note: Callable[[], str]) -> None:
        self.progress, self.accuracies, self.note = progress, accuracies, note

    def _say(self, state: Any) -> None:
        scored = [f"validation accuracy {self.accuracies[-1]:.3f}"] if self.accuracies else []
        self.progress(state.global_step, state.max_steps, ", ".join([*scored, *filter(None, [self.note()])]))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._say(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kw: Any) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            raise JobError(f"fine-tuning diverged: loss {loss} at step {state.global_step}; lower learning_rate")

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any) -> None:
        self.accuracies.append(metrics["eval_accuracy"])
        self._say(state)

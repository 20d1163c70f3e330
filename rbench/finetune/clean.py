"""Fine-tuning on clean examples (FTC in the ADCL paper): encoder and linear head, cross-entropy, linear schedule.

The epoch with the best validation accuracy is kept. What comes out depends on the seed, the data and the options alone.
"""

from __future__ import annotations

import tempfile
import warnings
from typing import TYPE_CHECKING, Any

from rbench.errors import JobError
from rbench.spec import Strict, Training

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.load import SentenceEncoder
    from rbench.finetune import Progress
    from rbench.tasks import TaskData


class Options(Strict):
    """Clean fine-tuning has no options beyond the task's Training."""


def run(
    encoder: SentenceEncoder,
    data: TaskData,
    training: Training,
    options: Options,
    *,
    seed: int,
    device: str,
    progress: Progress,
) -> tuple[EncoderClassifier, dict[str, float]]:
    """Fine-tune on the task's training split; the encoder's weights are changed in place.

    Returns the victim and its scores: `validation_accuracy` of the epoch kept (0..1) and `best_epoch` (from 1).
    Raises JobError where the loss stops being finite.
    """
    import transformers

    from rbench.encoders.classifier import EncoderClassifier
    from rbench.finetune._data import collator, encode_split

    transformers.set_seed(seed)
    victim = EncoderClassifier(encoder, num_labels=len(data.spec.labels), max_length=training.max_length)
    train = encode_split(data, "train", encoder.tokenizer, training.max_length, limit=training.max_train, seed=seed)
    validation = encode_split(
        data, "validation", encoder.tokenizer, training.max_length, limit=training.max_validation, seed=seed
    )
    history: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="rbench-finetune-") as folder:
        trainer = transformers.Trainer(
            model=victim,
            args=_arguments(folder, training, seed, device),
            train_dataset=train,
            eval_dataset=validation,
            data_collator=collator(encoder.tokenizer),
            compute_metrics=_accuracy,
            callbacks=[_watch(progress, history)],
        )
        # Its own callbacks print dictionaries and a second progress bar.
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.remove_callback(transformers.trainer_callback.ProgressCallback)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="mtime may not be reliable")
            trainer.train()
    victim.to(device).eval()
    best = max(range(len(history)), key=lambda i: history[i][1])
    return victim, {"validation_accuracy": history[best][1], "best_epoch": float(best + 1)}


def _arguments(folder: str, training: Training, seed: int, device: str) -> Any:
    import transformers

    return transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=max(64, training.batch_size),
        learning_rate=training.learning_rate,
        warmup_ratio=training.warmup,
        weight_decay=training.weight_decay,
        lr_scheduler_type="linear",
        group_by_length=training.group_by_length,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=True,
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


def _watch(progress: Progress, history: list[tuple[float, float]]) -> Any:
    """A Trainer callback that reports steps, notes each epoch's (loss, accuracy) and stops a diverged run."""
    import math

    import transformers

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        """Holds the latest training loss until the epoch's accuracy is known."""

        loss = float("nan")

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            text = f"validation accuracy {history[-1][1]:.3f}" if history else ""
            progress(state.global_step, state.max_steps, text)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kw: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is not None:
                if not math.isfinite(loss):
                    raise JobError(
                        f"fine-tuning diverged: loss {loss} at step {state.global_step}; lower learning_rate"
                    )
                self.loss = loss

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any) -> None:
            history.append((self.loss, metrics["eval_accuracy"]))
            progress(state.global_step, state.max_steps, f"validation accuracy {history[-1][1]:.3f}")

    return Watch()

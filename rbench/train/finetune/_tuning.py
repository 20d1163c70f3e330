"""Training an encoder and a head on a task with transformers' Trainer: shared by the strategies that train.

After an interruption a fine-tuning goes on from the last checkpoint, with the same result on a CPU. The Trainer writes
one at the end of each epoch: weights, optimizer, scheduler, the states of all generators of random numbers, and its own
state. What it does not know of lies in its state too (`Checkpoints.state`): the accuracies so far, and the figures that
the strategy counts.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import transformers
from accelerate.utils import patch_environment
from pydantic import BaseModel, TypeAdapter, ValidationError
from torch import Tensor, nn
from transformers.trainer_callback import ExportableState

from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import JobError
from rbench.schema import Training
from rbench.system import checkpoints, scratch
from rbench.system.checkpoints import on_one_gpu
from rbench.train.finetune import FinetuneContext, Finetuned, Progress
from rbench.train.finetune._data import encode, make_collator

VERSION = 1

KeptEpoch = Literal["best", "last"]
AFTER = 60.0
"""Seconds after which checkpoints are complete. The optimizer is twice as large as the weights, and a suite may have
hundreds of short fine-tunings. Until then checkpoints hold the weights alone, from which the best are chosen."""
_CHECKPOINT_FILES = ("optimizer.pt", "scheduler.pt", "rng_state.pth")


class TuningGoal(NamedTuple):
    """What is trained: the victim, its inputs, and the score of the validation split that selects the epoch."""

    victim: Callable[[FinetuneContext], nn.Module]
    """Makes the victim from a context. Its loss is computed by its `forward`."""
    encoded: Callable[[FinetuneContext, Any], tuple[Any, Any]]
    """The rows to train on and those to validate on, as inputs of the victim."""
    collator: Callable[[Any], Any]
    """Makes a data collator from the victim's tokenizer."""
    metric: str
    """The score's name without `validation_`; the larger the better."""
    measure: Callable[[Any], float]
    """Computes the score from the Trainer's prediction."""


def tune(
    context: FinetuneContext,
    *,
    trainer: Callable[..., Any] = transformers.Trainer,
    warm_epochs: int = 0,
    keep: KeptEpoch = "best",
    note: Callable[[], str] = str,
    tally: Any = None,
    goal: TuningGoal | None = None,
) -> Finetuned:
    """Fine-tune on the task's training split. The encoder's weights are changed in place.

    The optimizer is AdamW with a linear schedule over all epochs. The loss is cross-entropy, or that of the `goal`. The
    result depends on the seed, the data, the training settings, the trainer and the goal alone. With
    `context.checkpoints` it goes on from the last of the checkpoints there, if they are of this training, and on a CPU
    has the same result as without a break.

    Args:
        trainer: makes the Trainer from its usual arguments. A strategy's own Trainer overrides `training_step`. Its
            training set has the examples of `context.sample("train")`, in that order.
        warm_epochs: epochs before those that `training.epochs` counts. None of them is kept.
        keep: the epoch that is kept. `best`: the one with the best validation score, of equal ones the first. `last`:
            the last one.
        note: gives a text that is added to the progress, such as figures of the training so far.
        tally: a dataclass with what the trainer counts, of fields that pydantic can write as JSON. Checkpoints hold it.
        goal: what is trained; None: a classifier, selected by its accuracy.

    Returns the victim, in eval mode, with two scores: the validation score of the kept epoch (`validation_accuracy`,
    0..1, for a classifier), and `best_epoch`, its number. Epochs are counted from 1, and warm epochs count.

    Raises JobError where the encoder's weights are not float32, or the loss is no longer finite.
    """
    goal, best = goal or CLASSIFICATION_GOAL, keep == "best"
    _check_dtype(context)
    transformers.set_seed(context.seed)
    # Seeded before the victim is made: its head is drawn from this seed too.
    victim: Any = goal.victim(context)
    train, validation = goal.encoded(context, victim)
    values, training_hash = list[float](), None
    if context.checkpoints is not None:
        training_hash = training_fingerprint(
            victim.state_dict(), train, context.training, context.seed, warm_epochs, keep
        )
    opened_folder = (
        scratch.temporary_folder("finetune") if context.checkpoints is None else nullcontext(context.checkpoints)
    )
    # transformers leaves the precision of one training in the environment, and the next training would read it.
    mixed_precision = "bf16" if context.training.precision == "bf16" else "no"
    with opened_folder as folder, patch_environment(ACCELERATE_MIXED_PRECISION=mixed_precision):
        epoch_checkpoints = Checkpoints(
            folder, of=training_hash, best=best, accuracies=values, tally=tally, unchanged=context.unchanged
        )
        last = epoch_checkpoints.resume()
        hf_trainer = trainer(
            model=victim,
            args=_trainer_arguments(folder, context, warm_epochs, keep, goal.metric),
            train_dataset=train,
            eval_dataset=validation,
            data_collator=goal.collator(victim.tokenizer),
            compute_metrics=lambda prediction: {goal.metric: goal.measure(prediction)},
            callbacks=[_ProgressWatch(context.progress, values, note, goal.metric), epoch_checkpoints],
        )
        _run_quietly(hf_trainer, last)
        # In mixed precision accelerate has replaced `forward` by one that computes in bf16.
        victim = hf_trainer.accelerator.unwrap_model(victim, keep_fp32_wrapper=False)
    victim.to(context.device).eval()
    best_index = values.index(max(values)) if best else len(values) - 1  # from 0, without warm epochs
    scores = {f"validation_{goal.metric}": values[best_index], "best_epoch": float(warm_epochs + best_index + 1)}
    _report_end(context, hf_trainer.state.max_steps, scores, warm_epochs + len(values), note())
    return Finetuned(victim, scores)


def _report_end(context: FinetuneContext, steps: int, scores: Mapping[str, float], epochs: int, more: str) -> None:
    """Say the kept epoch's score: what was said last is of the last epoch."""
    (name, value), (_, epoch) = scores.items()
    epoch_text = [f"of epoch {epoch:.0f} of {epochs}"] if epochs > 1 else []
    score_text = f"{name.replace('_', ' ')} {value:.3f}"
    context.progress(steps, steps, ", ".join([score_text, *epoch_text, *filter(None, [more])]))


def _check_dtype(context: FinetuneContext) -> None:
    """Raise JobError where the encoder's weights are not float32. Training changes them in steps too small for less."""
    if (dtype := next(context.encoder.model.parameters()).dtype) != torch.float32:
        raise JobError(
            f"the encoder's weights are {str(dtype).removeprefix('torch.')}, and fine-tuning changes float32 weights "
            "only; write `dtype: float32` in the encoder's file (without a file: `{./mine: {dtype: float32}}`), or use "
            "`finetune: [probe]`, which leaves the encoder as it is"
        )


def _build_classifier(context: FinetuneContext) -> EncoderClassifier:
    labels = context.data.spec.labels
    return EncoderClassifier(context.encoder, num_labels=len(labels), max_length=context.training.max_length)


def _encode_splits(context: FinetuneContext, victim: EncoderClassifier) -> tuple[Any, Any]:
    tokenizer, longest = victim.tokenizer, victim.max_length
    train, validation = context.sample("train"), context.sample("validation")
    return encode(train, tokenizer, longest), encode(validation, tokenizer, longest)


def _run_quietly(trainer: Any, last: Path | None) -> None:
    """Train without output of transformers' own, from the checkpoint `last` if there is one."""
    # These two print dictionaries and a second progress bar.
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.remove_callback(transformers.trainer_callback.ProgressCallback)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="mtime may not be reliable")
        trainer.train(resume_from_checkpoint=None if last is None else str(last))


def _trainer_arguments(
    folder: Path, context: FinetuneContext, warm_epochs: int, keep: KeptEpoch, metric: str
) -> transformers.TrainingArguments:
    """The Trainer's arguments; it writes its checkpoints to `folder`."""
    training = context.training
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=warm_epochs + training.epochs,
        per_device_train_batch_size=training.batch_size,
        per_device_eval_batch_size=max(64, training.batch_size),
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        lr_scheduler_type="linear",
        eval_strategy="epoch",
        eval_delay=warm_epochs + 1 if warm_epochs else 0,
        save_strategy="epoch" if keep == "best" or context.checkpoints is not None else "no",
        save_total_limit=1,
        save_only_model=True,  # `Checkpoints` decides this anew for each epoch
        load_best_model_at_end=keep == "best",
        metric_for_best_model=metric if keep == "best" else None,
        greater_is_better=True,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # otherwise the Trainer hides a loss that is not finite
        report_to=[],
        disable_tqdm=True,
        seed=context.seed,
        data_seed=context.seed,
        use_cpu=context.device == "cpu",
        bf16=training.precision == "bf16",
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_num_workers=0,
        **_renamed_arguments(training),
    )
    return on_one_gpu(arguments)


def _renamed_arguments(training: Training) -> dict[str, Any]:
    """Return the arguments that have other names in transformers 5."""
    if hasattr(transformers.TrainingArguments, "warmup_ratio"):
        return {"warmup_ratio": training.warmup, "group_by_length": training.group_by_length}
    sampling = "group_by_length" if training.group_by_length else "random"
    share = min(training.warmup, math.nextafter(1, 0))  # 1 would be one step; below 1 it is a share of all
    return {"warmup_steps": share, "train_sampling_strategy": sampling}


def _compute_accuracy(prediction: Any) -> float:
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return float((logits.argmax(-1) == prediction.label_ids).mean())


CLASSIFICATION_GOAL = TuningGoal(_build_classifier, _encode_splits, make_collator, "accuracy", _compute_accuracy)


class _ProgressWatch(transformers.TrainerCallback):  # type: ignore[misc]
    """Reports each step, collects the score of each scored epoch, and stops a run that diverges."""

    def __init__(self, progress: Progress, values: list[float], note: Callable[[], str], metric: str) -> None:
        self.progress, self.values, self.note, self.metric = progress, values, note, metric

    def _report(self, state: Any) -> None:
        scored = [f"validation {self.metric} {self.values[-1]:.3f}"] if self.values else []
        self.progress(state.global_step, state.max_steps, ", ".join([*scored, *filter(None, [self.note()])]))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._report(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kw: Any) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            raise JobError(f"fine-tuning diverged: loss {loss} at step {state.global_step}; lower learning_rate")

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any) -> None:
        self.values.append(metrics[f"eval_{self.metric}"])
        self._report(state)


# ----------------------------------------------------------------------------------------------------- checkpoints


class Checkpoints(transformers.TrainerCallback, ExportableState):  # type: ignore[misc]
    """Decides what a Trainer writes at the end of an epoch, and finds where to go on.

    Args:
        folder: holds the Trainer's checkpoints.
        of: says of which training the checkpoints must be (`training_fingerprint`); None: no checkpoint is for going
            on.
        best: the weights of each epoch are written in any case, because the best epoch is kept.
        accuracies: validation accuracy of each scored epoch so far.
        tally: a dataclass with what the strategy counts, or None.
        unchanged: called before each checkpoint; raises if what the fine-tuning read has changed since.
    """

    def __init__(
        self,
        folder: Path,
        *,
        of: str | None,
        best: bool,
        accuracies: list[float],
        tally: Any,
        unchanged: Callable[[], object],
    ) -> None:
        self._folder, self._of, self._best = folder, of, best
        self._accuracies, self._tally, self._unchanged = accuracies, tally, unchanged
        self._begun = time.monotonic()
        self._resumed = False

    def state(self) -> dict[str, Any]:
        """Return what the Trainer writes into a checkpoint's state for this callback."""
        tally = None if self._tally is None else TypeAdapter(type(self._tally)).dump_python(self._tally, mode="json")
        return {"args": {}, "attributes": {"of": self._of, "accuracies": self._accuracies, "tally": tally}}

    def resume(self) -> Path | None:
        """Return the checkpoint to go on from, None to begin anew. Accuracies and tally become what they were then.

        Checkpoints from which nothing can go on are removed: incomplete ones, and those of other trainings.
        """
        last, kept_folders = None, list[Path]()
        complete = list(checkpoints.good_checkpoints(self._folder)) if self._of is not None else []
        for path in complete:  # the newest first
            state = json.loads((path / checkpoints.STATE_FILE).read_text(encoding="utf-8"))
            best = self._folder / f"checkpoint-{state.get('best_global_step')}"
            # `best` holds the weights that may be restored at the end, so it must be whole as well.
            needed = [path, best] if self._best and state.get("best_global_step") else [path]
            if (
                all((path / name).is_file() for name in _CHECKPOINT_FILES)
                and set(needed) <= set(complete)
                and self._restore(state)
            ):
                last, kept_folders = path, needed
                break
        for path in self._folder.glob("checkpoint-*"):
            if path not in kept_folders:
                shutil.rmtree(path)
        self._resumed = last is not None
        return last

    def _restore(self, state: Mapping[str, Any]) -> bool:
        """Set accuracies and tally to those of a checkpoint's state; return False if it is of another training."""
        # The class's name is a key of checkpoints: with another one, none of today's could be continued.
        attributes = state.get("stateful_callbacks", {}).get(type(self).__name__, {}).get("attributes", {})
        if attributes.get("of") != self._of:
            return False
        if self._tally is not None:
            try:
                tally = TypeAdapter(type(self._tally)).validate_python(attributes["tally"])
            except ValidationError:
                return False
            vars(self._tally).update(vars(tally))
        self._accuracies[:] = attributes["accuracies"]
        return True

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Name the best checkpoint by its place today: the cache may have been moved."""
        if state.best_global_step:
            state.best_model_checkpoint = str(self._folder / f"checkpoint-{state.best_global_step}")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Decide what the checkpoint of this epoch holds."""
        if not control.should_save:
            return
        self._unchanged()
        # A resumed run replaces complete checkpoints, so it writes complete ones from its first epoch.
        complete = self._of is not None and (self._resumed or time.monotonic() - self._begun >= AFTER)
        args.save_only_model = not complete
        control.should_save = complete or self._best


def training_fingerprint(weights: Mapping[str, Tensor], rows: Iterable[Mapping[str, Any]], *others: object) -> str:
    """Return a hash of what a training begins with.

    Args:
        weights: of encoder and head, before the first step.
        rows: the training examples as inputs, with `input_ids` and `labels`.
        others: all else that decides the result: models, numbers, texts.
    """
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    for row in rows:
        digest.update(repr((row["input_ids"], row["labels"])).encode())
    plain_values = [other.model_dump(mode="json") if isinstance(other, BaseModel) else other for other in others]
    digest.update(json.dumps(plain_values, sort_keys=True).encode())
    return digest.hexdigest()

"""The one training loop: an objective's model, its texts, transformers' Trainer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader
from transformers.trainer_pt_utils import LengthGroupedSampler

from rbench.errors import JobError
from rbench.spec import EncoderSpec, TrainSpec
from rbench.train import objectives

log = logging.getLogger("rbench")
Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and a word about the loss."""
HELD_OUT = 0.02
"""Share of the texts kept from training, to score the result on; 500 at most."""


def pretrain(
    spec: EncoderSpec,
    base: Path | str | None,
    texts: list[str],
    out: Path,
    *,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, float]:
    """Train the encoder that `spec.train` describes on `texts` and write it to `out` as a transformers folder.

    `base` is the folder or hub id that `spec.base` stands for, None for an `architecture`. `device` is a torch device
    ("cpu", "cuda"). Returns scores: the objective's own on held-out texts, and `loss`, the mean of the training loss.
    Deterministic on a CPU for a seed and a number of threads. JobError where there is nothing to train on.
    """
    train = spec.train
    if train is None or not texts:
        raise JobError(
            f"Encoder {spec.name} cannot be trained: " + ("no texts." if train else "its file has no `train`.")
        )
    module = objectives.find(train.objective)
    with _quiet():
        transformers.set_seed(seed)
        objective = module.build(module.Options(**train.options), spec, base)
        kept, held_out = _hold_out(texts, seed)
        trainer = _Trainer(
            model=objective.model,
            args=_arguments(train, len(kept), out, seed, device),
            train_dataset=_Features([objective.features(text) for text in kept]),
            data_collator=objective.collate,
            callbacks=[_Report(progress)] if progress else [],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        result = trainer.train()
        scores = objective.scores(held_out)
        objective.save(out)
    log.info("trained %s for %d steps: loss %.3f", spec.name, result.global_step, result.training_loss)
    return {"loss": float(result.training_loss), **scores}


def _hold_out(texts: list[str], seed: int) -> tuple[list[str], list[str]]:
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    count = min(500, int(HELD_OUT * len(texts)))
    return [texts[index] for index in order[count:]], [texts[index] for index in order[:count]]


def _arguments(train: TrainSpec, size: int, out: Path, seed: int, device: str) -> transformers.TrainingArguments:
    epochs = train.epochs if train.epochs is not None else 1.0
    steps = train.steps or math.ceil(epochs * math.ceil(size / train.batch_size))
    return transformers.TrainingArguments(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=train.batch_size,
        learning_rate=train.learning_rate,
        warmup_steps=round(train.warmup * steps),
        weight_decay=train.weight_decay,
        lr_scheduler_type="linear",
        seed=seed,
        use_cpu=torch.device(device).type == "cpu",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        save_strategy="no",
        logging_steps=max(1, steps // 100),
        report_to=[],
        disable_tqdm=True,
    )


class _Features(torch.utils.data.Dataset[dict[str, Any]]):
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


class _Trainer(transformers.Trainer):  # type: ignore[misc]
    """Batches hold texts of like length: on a CPU, padding is what short sentences would spend their time on."""

    def get_train_dataloader(self) -> DataLoader[dict[str, Any]]:
        lengths = [len(row["input_ids"]) for row in self.train_dataset.rows]
        generator = torch.Generator().manual_seed(self.args.seed)
        sampler = LengthGroupedSampler(self.args.train_batch_size, lengths=lengths, generator=generator)
        loader: DataLoader[dict[str, Any]] = DataLoader(
            self.train_dataset, batch_size=self.args.train_batch_size, sampler=sampler, collate_fn=self.data_collator
        )
        prepared: DataLoader[dict[str, Any]] = self.accelerator.prepare(loader)
        return prepared


class _Report(transformers.TrainerCallback):  # type: ignore[misc]
    """Hands the Trainer's progress on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._text = ""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs:
            self._text = f"loss {logs['loss']:.2f}"

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._progress(state.global_step, state.max_steps, self._text)


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers' own bars and advice are not for the users of rbench."""
    verbosity = transformers.logging.get_verbosity()
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        if bars:
            transformers.logging.enable_progress_bar()

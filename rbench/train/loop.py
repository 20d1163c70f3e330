"""The one training loop: an objective's model, its texts, transformers' Trainer."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
import transformers
from pydantic import BaseModel

from rbench.errors import JobError
from rbench.spec import EncoderSpec, TrainSpec
from rbench.train import batches, objectives
from rbench.train import checkpoints as kept
from rbench.train.reports import Reports
from rbench.train.selection import Selection, Selector
from rbench.train.trainer import Report, Rows, Trainer

if TYPE_CHECKING:
    from rbench.resources import Resources

log = logging.getLogger("rbench")
Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and a word about the loss and its parts."""


def pretrain(
    spec: EncoderSpec,
    base: Path | str | None,
    texts: list[str],
    out: Path,
    *,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoints: Path | None = None,
    locate: Callable[[str], Path | str] = str,
    selection: Selection | None = None,
    resources: Resources | None = None,
    prepared: Path | None = None,
    reports: Reports | None = None,
) -> dict[str, float]:
    """Train the encoder that `spec.train` describes on `texts` and write it to `out` as a transformers folder.

    Deterministic on a CPU for a seed and a number of threads, interrupted or not.

    Args:
        spec: the encoder; its `train` says how.
        base: the folder or hub id that `spec.base` stands for, None for an `architecture`.
        texts: the corpus.
        out: where the encoder goes.
        seed: of everything that is left to chance.
        device: a torch device ("cpu", "cuda").
        progress: told after each step.
        checkpoints: a folder for about ten checkpoints a run, of which the last two are kept until the run ends. The
            same call after an interruption goes on from the last one.
        locate: makes a folder or hub id of a model's name among the options (`MODELS` of the objective's `Options`).
        selection: what `spec.train.select_by` names; the encoder of the best step is written, not that of the last.
        resources: for an objective that edits words, those that its module says it `NEEDS`.
        prepared: a folder for what an objective makes of the texts before the first step, kept from one run to the
            next; a temporary one where it is None.
        reports: trackers that are told of the loss, its parts and the learning rate.

    Returns:
        Scores: `loss`, the mean of the training loss; the objective's own on held-out texts; with a selection, the step
        and its score (`Selection.score_names`). Of an objective that takes no steps its own alone.

    Raises:
        JobError: there is nothing to train on, or too little; the loss became infinite or no number; there is nothing
            to select by, or no step could be selected.
    """
    train = _checked(spec, texts, selection)
    module = objectives.find(train.objective)
    with _quiet():
        transformers.set_seed(seed)
        options = _with_models(module.Options(**train.options), locate)
        more = {"resources": resources} if objectives.needs(train.objective) else {}
        objective = module.build(options, spec, base, **more)
        if isinstance(objective, objectives.Fitted):
            if selection is not None:
                raise JobError(f"Encoder {spec.name}: {train.objective} takes no steps; leave out train.select_by.")
            scores = objective.fit(texts, device, progress)
            objective.save(out)
            return scores
        chosen, held_out = _hold_out(texts, seed)
        if train.steps is not None and isinstance(objective, objectives.Prepared):
            # They are shuffled: the first are a sample. What no step will see need not be prepared.
            chosen = chosen[: batches.seen(train, len(chosen))]
        selector = None
        if selection is not None:
            selector = Selector(selection, objective, every=train.select_every, patience=train.patience, name=spec.name)
        last = None
        if checkpoints is not None:
            kept.claim(checkpoints, spec, seed, texts, selection.pairs.values() if selection is not None else ())
            last = kept.last_good(checkpoints)
        save = checkpoints is not None
        trainer = Trainer(
            model=objective.model,
            args=_arguments(
                train,
                len(chosen),
                objective.grouped,
                checkpoints or out,
                save,
                seed,
                device,
                reports or Reports(),
                spec.name,
            ),
            train_dataset=Rows(chosen, objective.features, objective.grouped),
            data_collator=objective.collate,
            name=spec.name,
            selector=selector,
        )
        # The Trainer has put the model where it is trained, which is where an objective does its work.
        _prepare(objective, chosen, prepared, progress)
        trainer.add_callback(Report(progress, selector))
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.run(last)
        scores = {"loss": trainer.mean_loss()}
        selected = selector.restore() if selector is not None else {}
        scores |= objective.scores(held_out) | selected
        if trainer.is_world_process_zero():
            objective.save(out)
            if checkpoints is not None:
                kept.discard(checkpoints)
    log.info("trained %s for %d steps: loss %.3f", spec.name, trainer.state.global_step, scores["loss"])
    return scores


def _prepare(objective: objectives.Objective, texts: list[str], folder: Path | None, progress: Progress | None) -> None:
    """What an objective makes of its texts before it is trained. It may not touch what is left to chance later."""
    if not isinstance(objective, objectives.Prepared):
        return
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory(prefix="rbench-prepared-") as temporary:
        objective.prepare(texts, folder or Path(temporary), progress)


def _checked(spec: EncoderSpec, texts: list[str], selection: Selection | None) -> TrainSpec:
    """`spec.train`, once it is clear that it can be followed."""
    train = spec.train
    if train is None or not texts:
        raise JobError(
            f"Encoder {spec.name} cannot be trained: " + ("no texts." if train else "its file has no `train`.")
        )
    if (train.select_by is None) != (selection is None):
        raise JobError(
            f"Encoder {spec.name}: train.select_by is {train.select_by}, and pairs to select by were "
            f"{'not given' if selection is None else f'given ({selection.called})'}."
        )
    if problem := batches.problem(spec.name, train, len(texts)):
        raise JobError(problem)
    return train


def _with_models(options: BaseModel, locate: Callable[[str], Path | str]) -> BaseModel:
    """The options with the names of models replaced by places."""
    named: tuple[str, ...] = getattr(options, "MODELS", ())
    places = {field: str(locate(name)) for field in named if (name := getattr(options, field)) is not None}
    return options.model_copy(update=places)


def _hold_out(texts: list[str], seed: int) -> tuple[list[str], list[str]]:
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    count = batches.held_out(len(texts))
    return [texts[index] for index in order[count:]], [texts[index] for index in order[:count]]


def precision(train: TrainSpec, device: str) -> Literal["fp32", "bf16"]:
    """What the network computes in on a device."""
    if train.precision != "auto":
        return train.precision
    able = torch.device(device).type != "cpu" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return "bf16" if able else "fp32"


def _arguments(
    train: TrainSpec,
    size: int,
    grouped: bool,
    folder: Path,
    save: bool,
    seed: int,
    device: str,
    reports: Reports,
    name: str,
) -> transformers.TrainingArguments:
    steps = batches.steps(train, size, grouped)
    logging_steps = max(1, steps // 100)
    on_cpu = torch.device(device).type == "cpu"
    return transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=train.batch_size,
        gradient_accumulation_steps=train.gradient_accumulation,
        learning_rate=train.learning_rate,
        warmup_steps=round(train.warmup * steps),
        weight_decay=train.weight_decay,
        lr_scheduler_type="linear",
        seed=seed,
        use_cpu=on_cpu,
        bf16=precision(train, device) == "bf16",
        dataloader_pin_memory=False,
        dataloader_drop_last=not grouped,
        remove_unused_columns=False,
        save_strategy="steps" if save else "no",
        # A checkpoint comes with a logged loss, so that the mean over a resumed run misses none.
        save_steps=logging_steps * max(1, steps // 10 // logging_steps),
        save_total_limit=2,
        logging_steps=logging_steps,
        # Trainer would hide what `Trainer.compute_loss` here stops at.
        logging_nan_inf_filter=False,
        log_level_replica="error",
        report_to=list(reports.to),
        logging_dir=str(reports.folder),
        run_name=name,
        disable_tqdm=True,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers' own bars and advice are not for the users of rbench."""
    verbosity = transformers.logging.get_verbosity()
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # Checkpoints are then removed in the order of their steps, which is as well.
            warnings.filterwarnings("ignore", message="mtime may not be reliable")
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        if bars:
            transformers.logging.enable_progress_bar()

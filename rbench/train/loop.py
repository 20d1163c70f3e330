"""The one training loop: an objective's model, its texts, transformers' Trainer."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
import transformers
from accelerate.utils import patch_environment
from pydantic import BaseModel

from rbench.errors import JobError
from rbench.spec import EncoderSpec, TrainSpec
from rbench.system import scratch
from rbench.train import batches, objectives
from rbench.train import checkpoints as kept
from rbench.train.reports import Reports
from rbench.train.selection import Selection, Selector
from rbench.train.trainer import Report, Rows, Trainer

if TYPE_CHECKING:
    from rbench.resources import Resources

VERSION = 1
USES = ()
"""Selecting a step is used by those encoders alone whose files ask for it."""

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
    module: objectives.ObjectiveModule | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoints: Path | None = None,
    locate: Callable[[str], Path | str] = str,
    selection: Selection | None = None,
    resources: Resources | None = None,
    prepared: Path | None = None,
    reports: Reports | None = None,
    unchanged: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Train the encoder that `spec.train` describes on `texts` and write it to `out` as a transformers folder.

    Deterministic on a CPU for a seed and a number of threads, interrupted or not.

    Args:
        spec: the encoder; its `train` says how.
        base: the folder or hub id that `spec.base` stands for, None for an `architecture`.
        texts: the corpus.
        out: where the encoder goes.
        seed: of everything that is left to chance.
        module: the objective's; None: what is installed under its name.
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
        unchanged: called when all is read that training starts from, before any checkpoint; raises where something is
            no longer what it was.

    Returns:
        Scores: `loss`, the mean of the training loss; the objective's own on held-out texts; with a selection, the step
        and its score (`Selection.score_names`). Of an objective that takes no steps its own alone.

    Raises:
        JobError: there is nothing to train on, or too little; the loss became infinite or no number; there is nothing
            to select by, or no step could be selected.
    """
    asked = _Asked(
        *(spec, texts, out, seed, device, progress, checkpoints, selection, prepared),
        *(reports or Reports((), out / "logs"), unchanged),
    )
    train = _train_of(spec, texts)
    module = module or objectives.find(train.objective)
    _check(spec, train, texts, selection, module)
    mixed = "bf16" if precision(train, device) == "bf16" else "no"
    # transformers leaves the precision of one training in the environment, where the next would take it from.
    with _quiet(), patch_environment(ACCELERATE_MIXED_PRECISION=mixed):
        transformers.set_seed(seed)
        options = _with_models(module.Options(**train.options), locate)
        more = {"resources": resources} if getattr(module, "NEEDS", ()) else {}
        objective = module.build(options, spec, base, **more)
        if isinstance(objective, objectives.Fitted):
            return _fitted(objective, asked)
        return _stepped(objective, train, asked)


@dataclass(frozen=True)
class _Asked:
    """What `pretrain` is asked, as its arguments say."""

    spec: EncoderSpec
    texts: list[str]
    out: Path
    seed: int
    device: str
    progress: Progress | None
    checkpoints: Path | None
    selection: Selection | None
    prepared: Path | None
    reports: Reports
    unchanged: Callable[[], object]


def _fitted(objective: objectives.Fitted, asked: _Asked) -> dict[str, float]:
    """An objective that takes no steps."""
    if asked.selection is not None:
        raise JobError(f"Encoder {asked.spec.name}: its objective takes no steps; leave out train.select_by.")
    scores = objective.fit(asked.texts, asked.device, asked.progress)
    objective.save(asked.out)
    return scores


def _stepped(objective: objectives.Objective, train: TrainSpec, asked: _Asked) -> dict[str, float]:
    chosen, held_out = _hold_out(asked.texts, asked.seed)
    if train.steps is not None and isinstance(objective, objectives.Prepared):
        # They are shuffled: the first are a sample. What no step will see need not be prepared.
        chosen = chosen[: batches.seen(train, len(chosen))]
    selector, last, name = None, None, asked.spec.name
    if asked.selection is not None:
        selector = Selector(asked.selection, objective, every=train.select_every, patience=train.patience, name=name)
    if asked.checkpoints is not None:
        pairs = asked.selection.pairs.values() if asked.selection is not None else ()
        kept.claim(asked.checkpoints, asked.spec, asked.seed, asked.texts, pairs)
        last = kept.last_good(asked.checkpoints)
    trainer = Trainer(
        model=objective.model,
        args=_arguments(train, len(chosen), objective.grouped, asked),
        train_dataset=Rows(chosen, objective.features, objective.grouped),
        data_collator=objective.collate,
        name=name,
        selector=selector,
    )
    # The Trainer has put the model where it is trained, which is where an objective does its work.
    _prepare(objective, chosen, asked.prepared, asked.progress)
    asked.unchanged()
    trainer.add_callback(Report(asked.progress, selector))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.run(last)
    scores = {"loss": trainer.mean_loss()}
    selected = selector.restore() if selector is not None else {}
    scores |= objective.scores(held_out) | selected
    if trainer.is_world_process_zero():
        objective.save(asked.out)
        if asked.checkpoints is not None:
            kept.discard(asked.checkpoints)
    log.info("trained %s for %d steps: loss %.3f", name, trainer.state.global_step, scores["loss"])
    return scores


def _prepare(objective: objectives.Objective, texts: list[str], folder: Path | None, progress: Progress | None) -> None:
    """What an objective makes of its texts before it is trained. It may not touch what is left to chance later."""
    if not isinstance(objective, objectives.Prepared):
        return
    with torch.random.fork_rng(devices=[]), scratch.folder("prepared") as temporary:
        objective.prepare(texts, folder or temporary, progress)


def _train_of(spec: EncoderSpec, texts: list[str]) -> TrainSpec:
    """`spec.train`, where there is one and something to train on."""
    if spec.train is None or not texts:
        raise JobError(
            f"Encoder {spec.name} cannot be trained: " + ("no texts." if spec.train else "its file has no `train`.")
        )
    return spec.train


def _check(
    spec: EncoderSpec,
    train: TrainSpec,
    texts: list[str],
    selection: Selection | None,
    module: objectives.ObjectiveModule,
) -> None:
    """Whether `train` can be followed; JobError where it cannot."""
    if (train.select_by is None) != (selection is None):
        raise JobError(
            f"Encoder {spec.name}: train.select_by is {train.select_by}, and pairs to select by were "
            f"{'not given' if selection is None else f'given ({selection.called})'}."
        )
    if problem := batches.problem(spec.name, train, len(texts), module):
        raise JobError(problem)


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


def _arguments(train: TrainSpec, size: int, grouped: bool, asked: _Asked) -> transformers.TrainingArguments:
    steps = batches.steps(train, size, grouped)
    logging_steps = max(1, steps // 100)
    on_cpu = torch.device(asked.device).type == "cpu"
    return transformers.TrainingArguments(
        output_dir=str(asked.checkpoints or asked.out),
        max_steps=steps,
        per_device_train_batch_size=train.batch_size,
        gradient_accumulation_steps=train.gradient_accumulation,
        learning_rate=train.learning_rate,
        warmup_steps=round(train.warmup * steps),
        weight_decay=train.weight_decay,
        lr_scheduler_type="linear",
        seed=asked.seed,
        use_cpu=on_cpu,
        bf16=precision(train, asked.device) == "bf16",
        dataloader_pin_memory=False,
        dataloader_drop_last=not grouped,
        remove_unused_columns=False,
        save_strategy="steps" if asked.checkpoints is not None else "no",
        # A checkpoint comes with a logged loss, so that the mean over a resumed run misses none.
        save_steps=logging_steps * max(1, steps // 10 // logging_steps),
        save_total_limit=2,
        logging_steps=logging_steps,
        # Trainer would hide what `Trainer.compute_loss` here stops at.
        logging_nan_inf_filter=False,
        log_level_replica="error",
        report_to=list(asked.reports.to),
        logging_dir=str(asked.reports.folder),
        run_name=asked.spec.name,
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

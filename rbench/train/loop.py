"""The one training loop: it trains an objective's model on texts with transformers' Trainer."""

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
from rbench.spec import EncoderSpec, Health, TrainSpec
from rbench.system import scratch
from rbench.system.one_gpu import on_one_gpu
from rbench.train import batches, objectives
from rbench.train import checkpoints as kept
from rbench.train.health import Observer
from rbench.train.reports import Reports
from rbench.train.selection import Selection, Selector
from rbench.train.trainer import AfterStep, Report, Rows, Trainer, shuffled

if TYPE_CHECKING:
    from rbench.resources import Resources

VERSION = 1
USES = ()
"""Empty, because not every training uses what is imported here. Keys count the code of the objective, and that of
selecting a step where an encoder's file asks for it (`rbench.load.versions`)."""

log = logging.getLogger("rbench")
Progress = Callable[[int, int, str], None]
"""Called with the number of steps done, the number of all steps, and a text with the loss and its parts."""


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
    health: Callable[[Health], object] = lambda _: None,
) -> dict[str, float]:
    """Train the encoder that `spec.train` describes on `texts` and write it to `out` as a transformers folder.

    On a CPU the result depends on the seed and the number of threads alone, whether the run is interrupted or not.

    Args:
        base: the folder or hub id of `spec.base`; None for an `architecture`.
        module: the objective's module; None: the installed one of its name.
        device: a torch device ("cpu", "cuda").
        progress: called after each step.
        checkpoints: a folder for about ten checkpoints, of which the last two are kept. The same call after an
            interruption continues from the last one. Who has put the result into a safe place discards them.
        locate: gives the folder or hub id of a model that the objective's options name (`Options.MODELS`).
        selection: the pairs that `spec.train.select_by` names. The encoder of the best step is written, not the last.
        resources: for an objective that edits words: the kinds that its module `NEEDS`.
        prepared: a folder for what an objective makes of the texts before the first step. Several runs share it. None:
            a temporary folder.
        reports: trackers that follow the loss, its parts and the learning rate.
        unchanged: called once all inputs are read, before the first checkpoint; raises where one of them has changed.
        health: called with the health of the training before the encoder is written. Its series is empty for an
            objective without steps.

    Returns:
        Scores: `loss`, the mean training loss; the objective's own, on held-out texts; with a selection the selected
        step and its score (`Selection.score_names`). An objective without steps returns its own scores alone.

    Raises:
        JobError: too few texts, a loss that is not finite, nothing to select by, or no step could be selected.
    """
    train = _train_of(spec, texts)
    module = module or objectives.find(train.objective)
    _check(spec, train, texts, selection, module)
    to = reports or Reports((), out / "logs")
    near = batches.neighbours(module.Options(**train.options))
    run = _Run(
        *(spec, train, texts, near, out, seed, device),
        *(progress, checkpoints, selection, prepared, to, unchanged, health),
    )
    with _quiet(), _fixed_surroundings(train, device, to):
        transformers.set_seed(seed)
        objective = _build(module, spec, train, base, locate, resources)
        return _fit(objective, run) if isinstance(objective, objectives.Fitted) else _train(objective, run)


@dataclass(frozen=True)
class _Run:
    """The arguments of `pretrain` that a training uses once its objective is built."""

    spec: EncoderSpec
    train: TrainSpec
    texts: list[str]
    neighbours: int
    out: Path
    seed: int
    device: str
    progress: Progress | None
    checkpoints: Path | None
    selection: Selection | None
    prepared: Path | None
    reports: Reports
    unchanged: Callable[[], object]
    health: Callable[[Health], object]


def _build(
    module: objectives.ObjectiveModule,
    spec: EncoderSpec,
    train: TrainSpec,
    base: Path | str | None,
    locate: Callable[[str], Path | str],
    resources: Resources | None,
) -> objectives.Objective | objectives.Fitted:
    """The objective, with its networks loaded."""
    options = _with_models(module.Options(**train.options), locate)
    more = {"resources": resources} if getattr(module, "NEEDS", ()) else {}
    return module.build(options, spec, base, **more)


def _fit(objective: objectives.Fitted, run: _Run) -> dict[str, float]:
    """Compute an objective that takes no steps, and save it; returns its scores."""
    if run.selection is not None:
        raise JobError(f"Encoder {run.spec.name}: its objective takes no steps; leave out train.select_by.")
    scores = objective.fit(run.texts, run.device, run.progress)
    run.health(Health())
    objective.save(run.out)
    return scores


def _train(objective: objectives.Objective, run: _Run) -> dict[str, float]:
    """Train an objective step by step, and save it; returns its scores."""
    texts, held_out = _hold_out(run.texts, run.seed, run.neighbours)
    if run.train.steps is not None and isinstance(objective, objectives.PreparedObjective):
        # Only the texts that the steps will read are prepared. They are shuffled, so the first ones are a sample.
        texts = texts[: batches.seen(run.train, len(texts))]
    selector = _selector(objective, run)
    observer = Observer(objective, held_out, texts, run.train.batch_size)
    last = _last_checkpoint(run)
    paced = objective if isinstance(objective, objectives.PacedObjective) else None
    arguments = _arguments(len(texts), objective.grouped, run)
    trainer = Trainer(
        model=objective.model,
        args=arguments,
        train_dataset=Rows(texts, objective.features, objective.grouped, run.neighbours),
        data_collator=objective.collate,
        name=run.spec.name,
        selector=selector,
        observer=observer,
        rates=paced.begin(arguments.max_steps, run.train.learning_rate, held_out) if paced is not None else (),
    )
    if paced is not None:
        trainer.add_callback(AfterStep(paced.after_step))
    # Only now: the Trainer has moved the model to its device, where the objective prepares its texts.
    _prepare(objective, texts, run)
    run.unchanged()
    trainer.add_callback(Report(run.progress, selector))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.run(last)
    run.health(observer.health)
    loss = trainer.mean_loss()
    selected = selector.restore() if selector is not None else {}
    scores = {"loss": loss} | objective.scores(held_out) | selected
    if trainer.is_world_process_zero():
        objective.save(run.out)
    log.info("trained %s for %d steps: loss %.3f", run.spec.name, trainer.state.global_step, loss)
    return scores


def _selector(objective: objectives.Objective, run: _Run) -> Selector | None:
    """What chooses the step that is kept; None keeps the last step."""
    if run.selection is None:
        return None
    train = run.train
    return Selector(run.selection, objective, every=train.select_every, patience=train.patience, name=run.spec.name)


def _last_checkpoint(run: _Run) -> Path | None:
    """The checkpoint to continue from, in a folder that from now on belongs to this run."""
    if run.checkpoints is None:
        return None
    pairs = run.selection.pairs.values() if run.selection is not None else ()
    kept.claim(run.checkpoints, run.spec, run.seed, run.texts, pairs)
    return kept.last_good(run.checkpoints)


def _prepare(objective: objectives.Objective, texts: list[str], run: _Run) -> None:
    """Have an objective make of its texts what it needs. The state of torch's generators stays as it is."""
    if not isinstance(objective, objectives.PreparedObjective):
        return
    with torch.random.fork_rng(devices=[]), scratch.folder("prepared") as temporary:
        objective.prepare(texts, run.prepared or temporary, run.progress)


def _train_of(spec: EncoderSpec, texts: list[str]) -> TrainSpec:
    """`spec.train`; raises JobError where there is none, or no text to train on."""
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
    """Raise JobError where the texts or the pairs do not suffice for what `train` asks."""
    if (train.select_by is None) != (selection is None):
        raise JobError(
            f"Encoder {spec.name}: train.select_by is {train.select_by}, and pairs to select by were "
            f"{'not given' if selection is None else f'given ({selection.called})'}."
        )
    if problem := batches.problem(spec.name, train, len(texts), module):
        raise JobError(problem)


def _with_models(options: BaseModel, locate: Callable[[str], Path | str]) -> BaseModel:
    """The options, with each name of a model replaced by the place where it lies."""
    named: tuple[str, ...] = getattr(options, "MODELS", ())
    places = {field: str(locate(name)) for field in named if (name := getattr(options, field)) is not None}
    return options.model_copy(update=places)


def _hold_out(texts: list[str], seed: int, neighbours: int) -> tuple[list[str], list[str]]:
    """The texts in a random order, in two parts: to train on, and to score the result on.

    Groups of `neighbours` stay together and in order. An incomplete last group is left out.
    """
    order = shuffled(len(texts) // neighbours, neighbours, torch.Generator().manual_seed(seed))
    count = batches.held_out(len(texts), neighbours)
    return [texts[index] for index in order[count:]], [texts[index] for index in order[:count]]


def precision(train: TrainSpec, device: str) -> Literal["fp32", "bf16"]:
    """The number format that a network computes in on this device."""
    if train.precision != "auto":
        return train.precision
    able = torch.device(device).type != "cpu" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return "bf16" if able else "fp32"


def _arguments(size: int, grouped: bool, run: _Run) -> transformers.TrainingArguments:
    """The Trainer's arguments for `size` texts; `grouped` as in `Objective`."""
    train = run.train
    steps = batches.steps(train, size, grouped)
    logging_steps = max(1, steps // 100)
    on_cpu = torch.device(run.device).type == "cpu"
    arguments = transformers.TrainingArguments(
        output_dir=str(run.checkpoints or run.out),
        max_steps=steps,
        per_device_train_batch_size=train.batch_size,
        gradient_accumulation_steps=train.gradient_accumulation,
        learning_rate=train.learning_rate,
        warmup_steps=round(train.warmup * steps),
        weight_decay=train.weight_decay,
        lr_scheduler_type="linear",
        seed=run.seed,
        use_cpu=on_cpu,
        bf16=precision(train, run.device) == "bf16",
        dataloader_pin_memory=False,
        dataloader_drop_last=not grouped,
        remove_unused_columns=False,
        save_strategy="steps" if run.checkpoints is not None else "no",
        # Each checkpoint falls on a step that logs the loss. So the mean loss of a resumed run counts every step.
        save_steps=logging_steps * max(1, steps // 10 // logging_steps),
        save_total_limit=2,
        logging_steps=logging_steps,
        # The Trainer must not replace a loss that is not finite: our Trainer stops there.
        logging_nan_inf_filter=False,
        log_level_replica="error",
        report_to=list(run.reports.to),
        run_name=run.spec.name,
        disable_tqdm=True,
        # transformers 5 reads it from the environment, see `_fixed_surroundings`.
        **({"logging_dir": str(run.reports.folder)} if hasattr(transformers.TrainingArguments, "logging_dir") else {}),
    )
    return on_one_gpu(arguments)


@contextmanager
def _fixed_surroundings(train: TrainSpec, device: str, reports: Reports) -> Iterator[None]:
    """Set the precision and TensorBoard's folder in the environment, and restore the environment afterwards.

    transformers leaves the precision of one training there, and the next training would read it.
    """
    mixed = "bf16" if precision(train, device) == "bf16" else "no"
    with patch_environment(ACCELERATE_MIXED_PRECISION=mixed, TENSORBOARD_LOGGING_DIR=str(reports.folder)):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' own progress bars and warnings."""
    verbosity = transformers.logging.get_verbosity()
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # transformers then removes old checkpoints by their step, not by their time: the order is the same.
            warnings.filterwarnings("ignore", message="mtime may not be reliable")
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        if bars:
            transformers.logging.enable_progress_bar()

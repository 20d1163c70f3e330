"""The one training loop: it trains an objective's model on texts with transformers' Trainer.

The Trainer is extended: a resumable order of texts, terms of the loss in logs, a stop where the loss diverges.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import safetensors.torch
import torch
import transformers
from accelerate.utils import patch_environment
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from rbench.config.registry import unknown_message
from rbench.errors import JobError, ResourceError, SuiteError
from rbench.schema import EncoderSpec, Health, TrainSpec
from rbench.schema.jobs import content_key
from rbench.score import StsPairs
from rbench.system import checkpoints as kept
from rbench.system import scratch
from rbench.system.checkpoints import on_one_gpu
from rbench.system.progress_bars import hide_progress_bars
from rbench.train import batches, objectives
from rbench.train.health import HealthObserver
from rbench.train.options import Progress
from rbench.train.selection import SelectionPairs, StepSelector
from rbench.words.resources import Resources

VERSION = 1
USES = ()
"""Empty, because not every training uses what is imported here. Keys count the code of the objective, and that of
selecting a step where an encoder's file asks for it (`rbench.config.versions`)."""

log = logging.getLogger("rbench")
_TRACKER_PACKAGES = {"azure_ml": "azureml-core", "comet_ml": "comet-ml", "dvclive": "dvclive"}
"""Packages of the trackers whose name differs from that of their package."""
_NOT_TERMS = {"loss", "grad_norm", "learning_rate", "epoch", "step"}
"""What is logged and is no part of the loss."""


class TrackerOutput(NamedTuple):
    """The trackers of a training, by transformers' names, and the folder for their files."""

    to: tuple[str, ...]
    folder: Path


def check_trackers(names: Collection[str]) -> None:
    """Raise SuiteError if transformers does not know a tracker, ResourceError if a tracker is not installed."""
    if not names:
        return
    from transformers.integrations import get_available_reporting_integrations
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise SuiteError(unknown_message("tracker", name, sorted(INTEGRATION_TO_CALLBACK)))
        if name not in get_available_reporting_integrations():
            raise ResourceError(f"tracker {name} is not installed: pip install {_TRACKER_PACKAGES.get(name, name)}")


def pretrain(
    spec: EncoderSpec,
    base: Path | str | None,
    texts: list[str],
    out: Path,
    *,
    seed: int,
    module: objectives.TrainingObjective[Any] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoints: Path | None = None,
    locate: Callable[[str], Path | str] = str,
    selection: SelectionPairs | None = None,
    resources: Resources | None = None,
    prepared: Path | None = None,
    reports: TrackerOutput | None = None,
    unchanged: Callable[[], object] = lambda: None,
    health: Callable[[Health], object] = lambda _: None,
) -> dict[str, float]:
    """Train the encoder that `spec.train` describes on `texts` and write it to `out` as a transformers folder.

    On a CPU the result depends on the seed and the number of threads alone, whether the run is interrupted or not.

    Args:
        base: the folder or hub id of `spec.base`; None for an `architecture`.
        module: the objective; None: the installed one of its name.
        device: a torch device ("cpu", "cuda").
        progress: called after each step.
        checkpoints: a folder for about ten checkpoints, of which the last two are kept. The same call after an
            interruption continues from the last one. Who has put the result into a safe place discards them.
        locate: gives the folder or hub id of a model that the objective's options name (`model_options`).
        selection: the pairs that `spec.train.select_by` names. The encoder of the best step is written, not the last.
        resources: for an objective that edits words: the kinds that it needs.
        prepared: a folder for what an objective makes of the texts before the first step. Several runs share it. None:
            a temporary folder.
        reports: trackers that follow the loss, its parts and the learning rate.
        unchanged: called once all inputs are read, before the first checkpoint; raises where one of them has changed.
        health: called with the health of the training before the encoder is written. Its series is empty for an
            objective without steps.

    Returns:
        Scores: `loss`, the mean training loss; the objective's own, on held-out texts; with a selection the selected
        step and its score (`SelectionPairs.score_names`). An objective without steps returns its own scores alone.

    Raises:
        JobError: too few texts, no finite loss, or no step could be selected.
    """
    train, module = _check_training(spec, texts, selection, module)
    options, tracker_output = module.Options(**train.options), reports or TrackerOutput((), out / "logs")
    run = _TrainingRun(
        *(spec, train, texts, batches.group_size(options), out, seed, device),
        *(progress, checkpoints, selection, prepared, tracker_output, unchanged, health),
    )
    with _quiet_transformers(train, device, tracker_output):
        transformers.set_seed(seed)
        models = {field: getattr(options, field) for field in module.model_options}
        model_places = {field: str(locate(name)) for field, name in models.items() if name is not None}
        objective = module.build(options.model_copy(update=model_places), spec, base, resources)
        return _fit(objective, run) if isinstance(objective, objectives.Fitted) else _train(objective, run)


@dataclass(frozen=True)
class _TrainingRun:
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
    selection: SelectionPairs | None
    prepared: Path | None
    reports: TrackerOutput
    unchanged: Callable[[], object]
    health: Callable[[Health], object]


def _fit(objective: objectives.Fitted, run: _TrainingRun) -> dict[str, float]:
    """Compute an objective that takes no steps, and save it; returns its scores.

    JobError if `spec.train` asks for steps, epochs or a selected step.
    """
    if given := [key for key in ("steps", "epochs", "select_by") if getattr(run.train, key) is not None]:
        title = getattr(objective, "TITLE", "its objective")
        raise JobError(f"Encoder {run.spec.name}: {title} takes no steps; leave out train.{given[0]}.")
    scores = objective.fit(run.texts, run.device, run.progress)
    run.health(Health())
    objective.save(run.out)
    return scores


def _train(objective: objectives.Objective, run: _TrainingRun) -> dict[str, float]:
    """Train an objective step by step, and save it; returns its scores."""
    texts, held_out = _split_held_out(run.texts, run.seed, run.neighbours)
    if run.train.steps is not None and isinstance(objective, objectives.PreparedObjective):
        # Only the texts that the steps will read are prepared. They are shuffled, so the first ones are a sample.
        texts = texts[: batches.count_read_texts(run.train, len(texts))]
    train, selection = run.train, run.selection
    selector = None
    if selection is not None:
        selector = StepSelector(
            selection, objective, every=train.select_every, patience=train.patience, name=run.spec.name
        )
    observer = HealthObserver(objective, held_out, texts, train.batch_size)
    last_checkpoint = None
    if run.checkpoints is not None:
        claim_checkpoints(
            run.checkpoints, run.spec, run.seed, run.texts, selection.pairs.values() if selection is not None else ()
        )
        last_checkpoint = kept.last_good_checkpoint(run.checkpoints)
    paced_objective = objective if isinstance(objective, objectives.PacedObjective) else None
    arguments = _trainer_arguments(len(texts), objective.grouped, run)
    trainer = ObjectiveTrainer(
        model=objective.model,
        args=arguments,
        train_dataset=TrainingRows(texts, objective.features, objective.grouped, run.neighbours),
        data_collator=objective.collate,
        name=run.spec.name,
        selector=selector,
        observer=observer,
        rates=paced_objective.begin(arguments.max_steps, run.train.learning_rate, held_out)
        if paced_objective is not None
        else (),
    )
    # Only now: the Trainer has moved the model to its device, where the objective prepares its texts.
    if isinstance(objective, objectives.PreparedObjective):
        with torch.random.fork_rng(devices=[]), scratch.temporary_folder("prepared") as temporary:
            objective.prepare(texts, run.prepared or temporary, run.progress)
    # Reading is over and nothing is written yet: a file that was exchanged meanwhile must not enter checkpoints.
    run.unchanged()
    trainer.add_callback(
        ProgressCallback(run.progress, selector, paced_objective.after_step if paced_objective is not None else None)
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.run(last_checkpoint)
    # The health is handed over before the encoder is written, so that no encoder is without it.
    run.health(observer.health)
    loss = trainer.mean_loss()
    # The selected weights replace the last ones before anything is scored or saved.
    selected_scores = selector.restore() if selector is not None else {}
    scores = {"loss": loss} | objective.scores(held_out) | selected_scores
    if trainer.is_world_process_zero():
        objective.save(run.out)
    log.info("trained %s for %d steps: loss %.3f", run.spec.name, trainer.state.global_step, loss)
    return scores


def claim_checkpoints(
    folder: Path, spec: EncoderSpec, seed: int, texts: list[str], pairs: Collection[StsPairs] = ()
) -> None:
    """Mark `folder` as holding this run's checkpoints. JobError if it holds those of another run.

    `pairs` are the sentence pairs that steps are selected by.
    """
    corpus = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    pair_rows = [[rated_pairs.first, rated_pairs.second, rated_pairs.gold] for rated_pairs in pairs]
    key = content_key({"encoder": spec, "seed": seed, "texts": corpus, "pairs": pair_rows})
    kept.claim_folder(folder, f"pretrain/{spec.name}", key)


def _check_training(
    spec: EncoderSpec,
    texts: list[str],
    selection: SelectionPairs | None,
    module: objectives.TrainingObjective[Any] | None,
) -> tuple[TrainSpec, objectives.TrainingObjective[Any]]:
    """`spec.train` and its module; raises JobError where the texts do not suffice for what it asks."""
    train = spec.train
    assert train is not None
    assert (train.select_by is None) == (selection is None)
    module = module or objectives.find(train.objective)
    if problem := batches.find_problem(spec.name, train, len(texts), module):
        raise JobError(problem)
    return train, module


def _split_held_out(texts: list[str], seed: int, neighbours: int) -> tuple[list[str], list[str]]:
    """The texts in a random order, in two parts: to train on, and to score the result on.

    Groups of `neighbours` stay together and in order. An incomplete last group is left out.
    """
    order = shuffle_groups(len(texts) // neighbours, neighbours, torch.Generator().manual_seed(seed))
    count = batches.count_held_out(len(texts), neighbours)
    return [texts[index] for index in order[count:]], [texts[index] for index in order[:count]]


def choose_precision(train: TrainSpec, device: str) -> Literal["fp32", "bf16"]:
    """The number format that a network computes in on this device."""
    if train.precision != "auto":
        return train.precision
    has_bf16 = torch.device(device).type != "cpu" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return "bf16" if has_bf16 else "fp32"


def _trainer_arguments(size: int, grouped: bool, run: _TrainingRun) -> transformers.TrainingArguments:
    """The Trainer's arguments for `size` texts; `grouped` as in `Objective`."""
    train = run.train
    steps = batches.count_steps(train, size, grouped)
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
        bf16=choose_precision(train, run.device) == "bf16",
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
        # transformers 5 reads it from the environment, see `_quiet_transformers`.
        **({"logging_dir": str(run.reports.folder)} if hasattr(transformers.TrainingArguments, "logging_dir") else {}),
    )
    return on_one_gpu(arguments)


@contextmanager
def _quiet_transformers(train: TrainSpec, device: str, reports: TrackerOutput) -> Iterator[None]:
    """Silence transformers' own progress bars and warnings, and set the precision and TensorBoard's folder.

    Afterwards all is as it was: transformers leaves the precision of one training in the environment, and the next
    training would read it.
    """
    precision_name = "bf16" if choose_precision(train, device) == "bf16" else "no"
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with (
            hide_progress_bars(),
            patch_environment(ACCELERATE_MIXED_PRECISION=precision_name, TENSORBOARD_LOGGING_DIR=str(reports.folder)),
            warnings.catch_warnings(),
        ):
            # transformers then removes old checkpoints by their step, not by their time: the order is the same.
            warnings.filterwarnings("ignore", message="mtime may not be reliable")
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)


# ------------------------------------------------------------------------------------------------------ the Trainer


class TrainingRows(Dataset[dict[str, Any]]):
    """Encode texts on demand; with `grouped`, encode all of them on first use and give their `lengths` in tokens.

    Nothing is encoded before first use, because an objective may have to prepare the texts first. Groups of
    `neighbours` rows, which divides their number, stay together in every order of texts that are not `grouped`.
    """

    def __init__(
        self, texts: list[str], features: Callable[[str], dict[str, Any]], grouped: bool, neighbours: int = 1
    ) -> None:
        self.neighbours = neighbours
        self._texts = texts
        self._features = features
        self._grouped = grouped

    @cached_property
    def _rows(self) -> list[dict[str, Any]] | None:
        return [self._features(text) for text in self._texts] if self._grouped else None

    @cached_property
    def lengths(self) -> list[int] | None:
        return [len(row["input_ids"]) for row in self._rows] if self._rows is not None else None

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._rows[index] if self._rows is not None else self._features(self._texts[index])


def shuffle_groups(groups: int, size: int, generator: torch.Generator) -> list[int]:
    """Return the numbers 0 to groups * size - 1: groups of `size` numbers in a row, in a random order of groups."""
    starts = size * torch.randperm(groups, generator=generator)
    return (starts.unsqueeze(1) + torch.arange(size)).flatten().tolist()


class TextOrder(Sampler[int]):
    """Order the texts by seed and epoch alone, so that a resumed run continues with the next text."""

    def __init__(self, rows: TrainingRows, batch_size: int, seed: int, epoch: Callable[[], int]) -> None:
        self._rows, self._batch_size, self._seed, self._epoch = rows, batch_size, seed, epoch

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed)
        order: list[int] = []
        # The orders of all earlier epochs are drawn again, so that this one depends on the seed and its number alone.
        for _ in range(self._epoch() + 1):
            if self._rows.lengths is None:
                group_size = self._rows.neighbours
                order = shuffle_groups(len(self._rows) // group_size, group_size, generator)
            else:
                order = get_length_grouped_indices(self._rows.lengths, self._batch_size, generator=generator)
        return iter(order)


class ObjectiveTrainer(transformers.Trainer):  # type: ignore[misc]
    """Train on `TrainingRows` a model that returns a loss and its terms.

    Args:
        name: the encoder's name, for error messages.
        selector: chooses the step that is kept. None keeps the last step.
        observer: measures the health of the training. None measures nothing.
        rates: parts of the model with a learning rate of their own.
    """

    def __init__(
        self,
        *args: Any,
        name: str,
        selector: StepSelector | None = None,
        observer: HealthObserver | None = None,
        rates: Sequence[tuple[nn.Module, float]] = (),
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._name = name
        # By identity: the optimizer holds the same tensors as the model.
        self._rates = {id(weight): rate for part, rate in rates for weight in part.parameters()}
        self._selector, self._observer = selector, observer
        self._in_checkpoints = [callback for callback in (selector, observer) if callback is not None]
        for callback in self._in_checkpoints:
            self.add_callback(callback)
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def run(self, last: Path | None) -> None:
        """Train from the start, or from the checkpoint `last`. If that training was complete, only load its weights."""
        self.model.train()  # transformers 5 does so only after the first step has begun, where the observer probes
        if last is None:
            self.train()
            return
        saved_state = transformers.TrainerState.load_from_json(str(last / "trainer_state.json"))
        for callback in self._in_checkpoints:
            callback.read(last)
        stopped = self._selector is not None and self._selector.over
        if stopped or saved_state.global_step >= self.args.max_steps:
            self._load_from_checkpoint(str(last))
            self.state = saved_state
        else:
            self.train(resume_from_checkpoint=str(last))

    def get_train_dataloader(self) -> DataLoader[dict[str, Any]]:
        size = self.args.train_batch_size
        order = TextOrder(self.train_dataset, size, self.args.seed, lambda: int(self.state.epoch or 0))
        loader: DataLoader[dict[str, Any]] = DataLoader(
            self.train_dataset,
            batch_size=size,
            sampler=order,
            collate_fn=self.data_collator,
            drop_last=self.args.dataloader_drop_last,
        )
        prepared: DataLoader[dict[str, Any]] = self.accelerator.prepare(loader)
        return prepared

    def create_optimizer(self, *args: Any, **more: Any) -> torch.optim.Optimizer:
        """Make the optimizer, and move weights with a learning rate of their own into groups of their own, at its end.

        Each keeps the weight decay that it has.
        """
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **more)
        new_groups: list[dict[str, Any]] = []
        for group in optimizer.param_groups:
            for rate in sorted({self._rates[id(weight)] for weight in group["params"] if id(weight) in self._rates}):
                weights = [weight for weight in group["params"] if self._rates.get(id(weight)) == rate]
                new_groups.append({**group, "params": weights, "lr": rate})
            group["params"] = [weight for weight in group["params"] if id(weight) not in self._rates]
        optimizer.param_groups.extend(new_groups)
        return optimizer

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, **_: Any) -> Any:
        """Return the loss, and add its terms to the sums for the next log. JobError if it is infinite or NaN."""
        outputs: dict[str, Tensor] = model(**inputs)
        values = {name: value.detach().float().mean() for name, value in outputs.items()}
        if not torch.isfinite(values["loss"]):
            terms = ", ".join(f"{name} {float(value):.4g}" for name, value in values.items())
            raise JobError(
                f"Encoder {self._name}: the loss is not finite at step {self.state.global_step + 1} of "
                f"{self.state.max_steps} ({terms}). Last good checkpoint: "
                f"{kept.last_good_checkpoint(Path(self.args.output_dir)) or 'none'}. A lower "
                "train.learning_rate usually helps."
            )
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, torch.zeros_like(value)) + value
        self._count += 1
        if self._observer is not None:
            self._observer.see(self.state.global_step, outputs)
        loss = outputs["loss"].mean()
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **more: Any) -> None:
        """Log also the means of the loss and its terms since the last log."""
        if "loss" in logs and self._count:
            logs.update({name: float(total) / self._count for name, total in self._sums.items()})
            self._sums, self._count = {}, 0
        super().log(logs, *args, **more)

    def mean_loss(self) -> float:
        """Return the mean loss over all steps, including those before an interruption."""
        total, before = 0.0, 0
        for entry in self.state.log_history:
            if "loss" in entry:
                # Each entry is a mean over the steps since the entry before, so it is weighted by their number.
                total += entry["loss"] * (entry["step"] - before)
                before = entry["step"]
        return total / before if before else 0.0

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write the weights of a checkpoint. `save_model` handles embeddings and masked-LM head that share a tensor."""
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_model(self.model, str(folder / kept.WEIGHTS_FILE))
        for callback in self._in_checkpoints:
            callback.write(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        safetensors.torch.load_model(model or self.model, str(Path(resume_from_checkpoint) / kept.WEIGHTS_FILE))


class ProgressCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Report the Trainer's progress, and make it log the last step too.

    Args:
        tell: called with the number of each step, before a checkpoint of the same step is written.
    """

    def __init__(
        self,
        progress: Progress | None,
        selector: StepSelector | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> None:
        self._progress, self._selector, self._tell = progress, selector, tell
        self._text = ""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs:
            parts = [f"{name} {value:.2g}" for name, value in logs.items() if name not in _NOT_TERMS]
            self._text = f"loss {logs['loss']:.2f}" + (f" ({', '.join(parts)})" if parts else "")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        # Before the checkpoint of this step, so that a resumed run repeats the step at which an objective stopped.
        if self._tell is not None:
            self._tell(state.global_step)
        if state.global_step >= state.max_steps:
            control.should_log = True
        if self._progress is not None:
            selected = self._selector.text if self._selector is not None else ""
            shown = [part for part in (self._text, selected) if part]
            text = ", ".join(shown)
            self._progress(state.global_step, state.max_steps, text)
        return control

"""Run jobs that make weights: train encoders and fine-tune victims."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench import score
from rbench.errors import JobError
from rbench.execution.inputs import (
    JobInputs,
    ProvenanceMaker,
    RunContext,
    changed_data_error,
    check_same_weights,
    encoder_as_trained,
)
from rbench.plan.planner import selection_fingerprint
from rbench.schema import FinetuneJob, Health, Job, PretrainJob, Record, Score, Split, TaskKind, TrainSpec
from rbench.store.weights import weights_hash
from rbench.system import checkpoints
from rbench.system.own_code import failing_in

if TYPE_CHECKING:
    from rbench.train.finetune import FinetuneStrategy
    from rbench.train.objectives import TrainingObjective

ROUNDING_ERROR = 1e-6
"""How far a score may lie outside its range, because it was computed in floating point."""


class TrainedWeights(NamedTuple):
    """What is known of weights when they are made."""

    scores: tuple[Score, ...]
    counts: dict[str, int]
    fingerprint: str
    """Of the data that they were trained on."""
    health: Health | None = None


def load_or_make(
    job: Job, context: RunContext, make: Callable[[Path], TrainedWeights], source: ProvenanceMaker
) -> Record:
    """Return the record of a job whose weights are in the cache; `make` makes them if the cache lacks them."""
    with context.cache.making(job) as entry:
        if entry.record is not None:
            trackers = ", ".join(context.report_to) if job.pretraining is not None else ""
            unheard = f", so there is no training for {trackers} to follow" if trackers else ""
            context.progress.note(f"{job.name}: its weights were in the cache{unheard}")
            check_same_weights(job, entry.record.provenance.weights_hash or "", context)
            return entry.record.model_copy(update={"job": job})
        # `make` only fills the folder: nothing counts as cached before `entry.publish`.
        made = make(entry.folder)
        record = Record(
            job=job,
            status="complete",
            scores=made.scores,
            counts=made.counts,
            health=_merge_health(made.health, victim_health(job, made.scores, context)),
            provenance=source(
                dataset_fingerprint=made.fingerprint,
                weights_hash=weights_hash(entry.folder),
                precision=_training_precision(job, context),
            ),
        )
        if job.pretraining is not None:
            spec = encoder_as_trained(job.pretraining, context)
            assert spec.train is not None
            from rbench.execution.publish.encoder import write_card  # nobody publishes a fine-tuned victim

            module, encoders = _open_objective(spec.train, context), {**context.encoders, spec.name: spec}
            write_card(entry.folder, spec.name, encoders, context.tasks, record, module)
        published = entry.publish(record)
        # Not before: whatever fails after the last step, the training goes on from there.
        checkpoints.discard_checkpoints(_checkpoint_folder(job, context))
        check_same_weights(job, weights_hash(context.cache.place(job.key)), context)
        return published


def _checkpoint_folder(job: Job, context: RunContext) -> Path:
    """Return the folder of the checkpoints of a training."""
    return context.cache.root / "checkpoints" / job.key


def _check_again(inputs: JobInputs, folder: Path) -> None:
    """Raise JobError where an input of a training has changed, and remove the checkpoints, which may be of it."""
    try:
        inputs.check(ask=True)
    except JobError:
        checkpoints.discard_checkpoints(folder)
        raise


def victim_health(job: Job, scores: Collection[Score], context: RunContext) -> Health | None:
    """Return the health of a victim, from its validation accuracy and the rows on which rbench's strategies compute it.

    A strategy of a user's own may have looked at other rows; the accuracy is then compared with the most frequent label
    of these all the same. A scorer of similarity and a retriever have no accuracy, so their health has neither values
    nor flags. None for other jobs.
    """
    spec = job.tuning
    if spec is not None and not spec.task.of_kind.has_classes:
        return Health()
    accuracy = next((entry for entry in scores if entry.name == "validation_accuracy"), None)
    if spec is None or accuracy is None:
        return None
    from rbench.train.finetune import sample_split

    data = context.data(spec.task, spec.data_fingerprint)
    rows = sample_split(data, "validation", spec.training.max_validation, job.seed)
    return score.victim_health(accuracy, (row.label for row in rows))


def _merge_health(from_strategy: Health | None, from_accuracy: Health | None) -> Health | None:
    """Join what a strategy says of its victim to what its accuracy says."""
    if from_strategy is None or from_accuracy is None:
        return from_strategy or from_accuracy
    return Health(
        series=from_strategy.series,
        values={**from_strategy.values, **from_accuracy.values},
        flags=(*from_strategy.flags, *from_accuracy.flags),
    )


def _training_precision(job: Job, context: RunContext) -> str:
    """Return the floating-point precision of the training; fine-tuning is always in fp32."""
    train = job.pretraining.encoder.train if job.pretraining is not None else None
    if train is None:
        return "fp32"
    from rbench.train.loop import choose_precision

    return choose_precision(train, context.device) if _open_objective(train, context).takes_steps else "fp32"


def _open_objective(train: TrainSpec, context: RunContext) -> TrainingObjective[Any]:
    """Return an encoder's objective."""
    objective: TrainingObjective[Any] = context.modules["objectives", train.objective].open()
    return objective


def pretrain(job: Job, spec: PretrainJob, context: RunContext, folder: Path) -> TrainedWeights:
    """Train an encoder into `folder`."""
    from rbench.train import batches
    from rbench.train.loop import TrackerOutput
    from rbench.train.loop import pretrain as train_encoder

    encoder, inputs = encoder_as_trained(spec, context), JobInputs(job, context)
    train = encoder.train
    assert train is not None
    split: Split | None = "train" if context.encoders[encoder.name] is not encoder else None
    corpus = context.data(context.tasks[train.data], spec.data_fingerprint, split)
    texts = [text for example in corpus.split("train") for text in example.texts]
    module = _open_objective(train, context)
    options = module.Options(**train.options)
    roles = _roles_of_models(module, options)
    selection = None
    if train.selection_tasks:
        assert spec.selection_fingerprint is not None
        selection = _load_selection(train, spec.selection_fingerprint, context)
    trackers = TrackerOutput(context.report_to, context.logs / f"{encoder.name}-{job.key[:8]}")
    if trackers.to:
        context.progress.note(
            f"{job.name}: reports to {', '.join(trackers.to)}; files, where it has any, in {trackers.folder}"
        )
    health: list[Health] = []
    checkpoint_folder = _checkpoint_folder(job, context)
    values = train_encoder(
        encoder,
        inputs.base(encoder),
        texts,
        folder,
        seed=job.seed,
        module=module,
        device=context.device,
        progress=context.progress.update,
        checkpoints=checkpoint_folder,
        locate=lambda name: inputs.weights(roles[name], name),
        selection=selection,
        resources=inputs.resources(spec.resources, encoder.name),
        prepared=context.cache.root / "prepared",
        reports=trackers,
        unchanged=inputs.check,
        health=health.append,
    )
    _check_again(inputs, checkpoint_folder)
    # Sample sizes: the loss is computed on the texts that the steps use. Other scores are computed on held-out texts,
    # on the pairs of the selection, or on all texts if the objective has no steps.
    near = batches.group_size(options)
    default_n = batches.count_held_out(len(texts), near) if module.takes_steps else len(texts)
    sizes = {"loss": batches.count_read_texts(train, batches.count_trained(len(texts), near))}
    if selection is not None:
        sizes |= dict.fromkeys(selection.score_names, len(selection))
    scores = _build_scores(values, sizes, default_n, module.counted)
    return TrainedWeights(scores, {"n": len(texts)}, spec.data_fingerprint, *health)


def _roles_of_models(objective: TrainingObjective[Any], options: Any) -> dict[str, str]:
    """Return the roles (in `Job.needs`) of the further models that an objective's options name, by model name."""
    return {getattr(options, option): f"options.{option}" for option in objective.model_options}


def _load_selection(train: TrainSpec, fingerprint: str, context: RunContext) -> Any:
    """Return the pairs whose scores select the step of the training."""
    from rbench.train.selection import SelectionPairs

    data = {name: context.task(context.tasks[name]) for name in train.selection_tasks}
    splits = {name: train.scored_split(name) for name in data}
    fingerprints: dict[tuple[str, str], str] = {
        (name, splits[name]): rows.split_fingerprint(splits[name]) for name, rows in data.items()
    }
    if selection_fingerprint(train, fingerprints) != fingerprint:
        raise changed_data_error(", ".join(data))
    pairs = {name: score.StsPairs.of(rows.split(splits[name])) for name, rows in data.items()}
    return SelectionPairs(pairs, train.scored_splits)


def _build_scores(
    values: Mapping[str, float], sizes: Mapping[str, int], default_n: int, counted: Mapping[str, str]
) -> tuple[Score, ...]:
    """Make scores with their sample sizes. `counted` maps a score to the value that holds its sample size."""
    sizes = {**sizes, **{name: int(values[count_name]) for name, count_name in counted.items() if count_name in values}}
    return tuple(Score(name=name, value=value, n=sizes.get(name, default_n)) for name, value in values.items())


@contextmanager
def _claimed_checkpoints(folder: Path, job: Job) -> Iterator[None]:
    """Make the folder for a fine-tuning's checkpoints. If the fine-tuning fails and left none to go on from, remove it.

    A checkpoint without optimizer is none to go on from (`rbench.train.finetune._tuning`).
    """
    checkpoints.claim_folder(folder, job.name, job.key)
    try:
        yield
    except BaseException:
        if not any(folder.glob("checkpoint-*/optimizer.pt")):
            checkpoints.discard_checkpoints(folder)
        raise


def finetune(job: Job, spec: FinetuneJob, context: RunContext, folder: Path) -> TrainedWeights:
    """Fine-tune a victim into `folder`."""
    from rbench import encoders
    from rbench.train.finetune import FinetuneContext

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = JobInputs(job, context)
    where = inputs.weights("encoder", job.parts[0])
    encoder = encoders.load(spec.encoder, where, device=context.device, seed=job.seed, kind=spec.task.kind)
    inputs.check()
    code = context.modules["finetune", spec.strategy.name]
    module: FinetuneStrategy[Any] = code.open()
    attack = context.plan.job(job.needs["attack"]) if "attack" in job.needs else None
    checkpoint_folder = _checkpoint_folder(job, context)
    finetune_context = FinetuneContext(
        encoder=encoder,
        data=data,
        training=spec.training,
        seed=job.seed,
        device=context.device,
        progress=context.progress.update,
        resources=inputs.resources(spec.resources),
        generated=None if attack is None else context.store.outcomes(attack),
        checkpoints=checkpoint_folder,
        unchanged=inputs.check,
        weights=Path(where) if Path(where).is_dir() else None,
    )
    # The strategy's other options are in spec.training already.
    options = {name: value for name, value in spec.strategy.options.items() if name in module.Options.model_fields}
    with _claimed_checkpoints(checkpoint_folder, job):
        returned = module.run(module.Options(**options), finetune_context)
        _check_again(inputs, checkpoint_folder)
        kind = spec.task.of_kind
        with failing_in(
            code.path, JobError, "`run` returns Finetuned(victim, scores): see docs/guide-add-a-strategy.md"
        ):
            victim, scores, health = _unpack_result(returned, kind)
    context.progress.update(1, 1, f"{kind.quality.replace('_', ' ')} {scores[kind.quality]:.3f}")
    victim.save(
        folder,
        {
            "encoder": spec.encoder.name,
            "task": spec.task.name,
            "labels": list(spec.task.labels),
            "max_length": spec.training.max_length,
        },
    )
    sizes = {f"{split}_rows": rows for split, rows in data.sizes.items()}
    if "train_rows" in sizes:  # those of the sample that `training` asks for
        sizes["train_rows"] = spec.training.train_rows(sizes["train_rows"])
    n = data.sizes[kind.quality_split]
    if kind.quality_split == "validation":  # other splits are scored whole
        n = min(n, spec.training.max_validation or n)
    result_scores = _build_scores(scores, {}, n, module.counted)
    if spec.task.parts:
        from rbench.execution.parts import count_part_rows, score_parts

        result_scores = (*result_scores, *score_parts(victim, data, context.progress.update))
        sizes |= count_part_rows(data)
    return TrainedWeights(result_scores, {"n": n, **sizes}, data.fingerprint, health)


def _unpack_result(returned: Any, kind: TaskKind) -> tuple[Any, dict[str, float], Health | None]:
    """Return the victim, scores and health of what a strategy returned. It must have the `quality` of the kind of task.

    Raises ValueError with what is wrong, and what is expected: a record that holds a number that is not finite cannot
    be read again.
    """
    from rbench.train.finetune import Finetuned

    victim_and_scores = tuple(returned)[:2] if isinstance(returned, Finetuned) else tuple(returned)
    if kind.quality not in victim_and_scores[1]:
        raise ValueError(f"no score {kind.quality}")
    low, high = kind.lowest_score, 1
    health = getattr(returned, "health", None)
    measured = [] if health is None else [health.values, *(curve.values for curve in health.series)]
    for name, value in (entry for values in (victim_and_scores[1], *measured) for entry in values.items()):
        number = float(value)
        if name == kind.quality and not low - ROUNDING_ERROR <= number <= high + ROUNDING_ERROR:
            raise ValueError(f"{name} {number:g}; expected a number from {low:g} to {high:g}")
        if not math.isfinite(number):
            raise ValueError(f"{name} {number:g}; expected a finite number")
    return victim_and_scores[0], {name: float(value) for name, value in victim_and_scores[1].items()}, health

"""Run jobs that make weights: train encoders and fine-tune victims."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rbench import score
from rbench.errors import JobError
from rbench.execution.inputs import Context, Inputs, Source, changed, check_like, own
from rbench.plan.planner import selected_by
from rbench.schema import FinetuneJob, Health, Job, PretrainJob, Record, Score, Split, TaskKind, TrainSpec
from rbench.store.weights import weights_hash
from rbench.system import checkpoints

ROUNDING = 1e-6
"""How far a score may lie outside its range, because it was computed in floating point."""


class Made(NamedTuple):
    """What is known of weights when they are made."""

    scores: tuple[Score, ...]
    counts: dict[str, int]
    fingerprint: str
    """Of the data that they were trained on."""
    health: Health | None = None


def cached(job: Job, context: Context, make: Callable[[Path], Made], source: Source) -> Record:
    """Return the record of a job whose weights are in the cache; `make` makes them if the cache lacks them."""
    with context.cache.making(job) as entry:
        if entry.record is not None:
            trackers = ", ".join(context.report_to) if job.pretraining is not None else ""
            unheard = f", so there is no training for {trackers} to follow" if trackers else ""
            context.progress.note(f"{job.name}: its weights were in the cache{unheard}")
            check_like(job, entry.record.provenance.weights_hash or "", context)
            return entry.record.model_copy(update={"job": job})
        made = make(entry.folder)
        record = Record(
            job=job,
            status="complete",
            scores=made.scores,
            counts=made.counts,
            health=_joined(made.health, victim_health(job, made.scores, context)),
            provenance=source(
                dataset_fingerprint=made.fingerprint,
                weights_hash=weights_hash(entry.folder),
                precision=_precision(job, context),
            ),
        )
        if job.pretraining is not None:
            spec = own(job.pretraining, context)
            assert spec.train is not None
            from rbench.execution.publish.encoder import write_card  # nobody publishes a fine-tuned victim

            module, encoders = _objective(spec.train, context), {**context.encoders, spec.name: spec}
            write_card(entry.folder, spec.name, encoders, context.tasks, record, module)
        published = entry.publish(record)
        # Not before: whatever fails after the last step, the training goes on from there.
        checkpoints.discard(_kept(job, context))
        check_like(job, weights_hash(context.cache.place(job.key)), context)
        return published


def _kept(job: Job, context: Context) -> Path:
    """Return the folder of the checkpoints of a training."""
    return context.cache.root / "checkpoints" / job.key


def _check_again(inputs: Inputs, kept: Path) -> None:
    """Raise JobError where an input of a training has changed, and remove the checkpoints, which may be of it."""
    try:
        inputs.check(ask=True)
    except JobError:
        checkpoints.discard(kept)
        raise


def victim_health(job: Job, scores: Collection[Score], context: Context) -> Health | None:
    """Return the health of a victim, from its validation accuracy and the rows on which rbench's strategies compute it.

    A strategy of a user's own may have looked at other rows; the accuracy is then compared with the most frequent label
    of these all the same. A scorer of similarity and a retriever have no accuracy, so their health has neither values
    nor flags. None for other jobs.
    """
    spec = job.tuning
    if spec is not None and not spec.task.of_kind.has_classes:
        return Health()
    accuracy = next((one for one in scores if one.name == "validation_accuracy"), None)
    if spec is None or accuracy is None:
        return None
    from rbench.train.finetune import sample_split

    data = context.data(spec.task, spec.data_fingerprint)
    rows = sample_split(data, "validation", spec.training.max_validation, job.seed)
    return score.victim_health(accuracy, (row.label for row in rows))


def _joined(one: Health | None, other: Health | None) -> Health | None:
    """Join what a strategy says of its victim to what its accuracy says."""
    if one is None or other is None:
        return one or other
    return Health(series=one.series, values={**one.values, **other.values}, flags=(*one.flags, *other.flags))


def _precision(job: Job, context: Context) -> str:
    """Return the floating-point precision of the training; fine-tuning is always in fp32."""
    train = job.pretraining.encoder.train if job.pretraining is not None else None
    if train is None:
        return "fp32"
    from rbench.train import batches
    from rbench.train.loop import precision

    return precision(train, context.device) if batches.stepwise(_objective(train, context)) else "fp32"


def _objective(train: TrainSpec, context: Context) -> Any:
    """Return the module of an encoder's objective."""
    return context.modules["objectives", train.objective].open()


def pretrain(job: Job, spec: PretrainJob, context: Context, folder: Path) -> Made:
    """Train an encoder into `folder`."""
    from rbench.train import batches
    from rbench.train.loop import Reports
    from rbench.train.loop import pretrain as train_encoder

    encoder, inputs = own(spec, context), Inputs(job, context)
    train = encoder.train
    assert train is not None
    split: Split | None = "train" if context.encoders[encoder.name] is not encoder else None
    corpus = context.data(context.tasks[train.data], spec.data_fingerprint, split)
    texts = [text for example in corpus.split("train") for text in example.texts]
    module = _objective(train, context)
    options = module.Options(**train.options)
    roles = _roles_of_models(options)
    selection = None
    if train.selecting:
        assert spec.selection_fingerprint is not None
        selection = _selection(train, spec.selection_fingerprint, context)
    told = Reports(context.report_to, context.logs / f"{encoder.name}-{job.key[:8]}")
    if told.to:
        context.progress.note(f"{job.name}: reports to {', '.join(told.to)}; files, where it has any, in {told.folder}")
    health: list[Health] = []
    kept = _kept(job, context)
    values = train_encoder(
        encoder,
        inputs.base(encoder),
        texts,
        folder,
        seed=job.seed,
        module=module,
        device=context.device,
        progress=context.progress.update,
        checkpoints=kept,
        locate=lambda name: inputs.weights(roles[name], name),
        selection=selection,
        resources=inputs.resources(spec.resources, encoder.name),
        prepared=context.cache.root / "prepared",
        reports=told,
        unchanged=inputs.check,
        health=health.append,
    )
    _check_again(inputs, kept)
    # Sample sizes: the loss is computed on the texts that the steps use. Other scores are computed on held-out texts,
    # on the pairs of the selection, or on all texts if the objective has no steps.
    near = batches.neighbours(options)
    rest = batches.held_out(len(texts), near) if batches.stepwise(module) else len(texts)
    sizes = {"loss": batches.seen(train, batches.trained(len(texts), near))}
    if selection is not None:
        sizes |= dict.fromkeys(selection.score_names, len(selection))
    scores = _scores(values, sizes, rest, getattr(module, "COUNTED", {}))
    return Made(scores, {"n": len(texts)}, spec.data_fingerprint, *health)


def _roles_of_models(options: Any) -> dict[str, str]:
    """Return the roles (in `Job.needs`) of the further models that an objective's options name, by model name."""
    return {getattr(options, option): f"options.{option}" for option in getattr(options, "MODELS", ())}


def _selection(train: TrainSpec, fingerprint: str, context: Context) -> Any:
    """Return the pairs whose scores select the step of the training."""
    from rbench.train.selection import Selection

    data = {name: context.task(context.tasks[name]) for name in train.selecting}
    splits = {name: train.scored_split(name) for name in data}
    if selected_by(
        train, {(name, splits[name]): rows.split_fingerprint(splits[name]) for name, rows in data.items()}
    ) != (fingerprint):
        raise changed(", ".join(data))
    pairs = {name: score.Pairs.of(rows.split(splits[name])) for name, rows in data.items()}
    return Selection(pairs, train.scored_splits)


def _scores(
    values: Mapping[str, float], sizes: Mapping[str, int], rest: int, counted: Mapping[str, str]
) -> tuple[Score, ...]:
    """Make scores with their sample sizes. `counted` maps a score to the value that holds its sample size."""
    sizes = {**sizes, **{name: int(values[of]) for name, of in counted.items() if of in values}}
    return tuple(Score(name=name, value=value, n=sizes.get(name, rest)) for name, value in values.items())


@contextmanager
def _checkpoints(folder: Path, job: Job) -> Iterator[None]:
    """Make the folder for a fine-tuning's checkpoints. If the fine-tuning fails and left none to go on from, remove it.

    A checkpoint without optimizer is none to go on from (`rbench.train.finetune._tuning`).
    """
    checkpoints.claim(folder, job.name, job.key)
    try:
        yield
    except BaseException:
        if not any(folder.glob("checkpoint-*/optimizer.pt")):
            checkpoints.discard(folder)
        raise


def finetune(job: Job, spec: FinetuneJob, context: Context, folder: Path) -> Made:
    """Fine-tune a victim into `folder`."""
    from rbench import encoders
    from rbench.train.finetune import FinetuneContext

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = Inputs(job, context)
    where = inputs.weights("encoder", job.parts[0])
    encoder = encoders.load(spec.encoder, where, device=context.device, seed=job.seed, kind=spec.task.kind)
    inputs.check()
    code = context.modules["finetune", spec.strategy.name]
    module: Any = code.open()
    attack = context.plan.job(job.needs["attack"]) if "attack" in job.needs else None
    kept = _kept(job, context)
    given = FinetuneContext(
        encoder=encoder,
        data=data,
        training=spec.training,
        seed=job.seed,
        device=context.device,
        progress=context.progress.update,
        resources=inputs.resources(spec.resources),
        generated=None if attack is None else context.store.outcomes(attack),
        checkpoints=kept,
        unchanged=inputs.check,
        weights=Path(where) if Path(where).is_dir() else None,
    )
    # The strategy's other options are in spec.training already.
    options = {name: value for name, value in spec.strategy.options.items() if name in module.Options.model_fields}
    with _checkpoints(kept, job):
        made = module.run(module.Options(**options), given)
        _check_again(inputs, kept)
        kind = spec.task.of_kind
        try:
            victim, scores, health = _returned(made, kind)
        except ValueError as error:
            raise JobError(f"{code.path}: run returned {error}; see docs/guide-add-a-strategy.md") from None
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
    n = min(n, spec.training.max_validation or n) if kind.quality_split == "validation" else n
    found = _scores(scores, {}, n, getattr(module, "COUNTED", {}))
    if spec.task.parts:
        from rbench.execution.parts import by_part, part_counts

        found = (*found, *by_part(victim, data, context.progress.update))
        sizes |= part_counts(data)
    return Made(found, {"n": n, **sizes}, data.fingerprint, health)


def _returned(made: Any, kind: TaskKind) -> tuple[Any, dict[str, float], Health | None]:
    """Return the victim, scores and health of what a strategy returned. It must have the `quality` of the kind of task.

    Raises ValueError with what is wrong, and what is expected: a record that holds a number that is not finite cannot
    be read again.
    """
    from rbench.train.finetune import Finetuned

    pair = tuple(made) if isinstance(made, Finetuned | tuple | list) else ()
    if len(pair) != 2 or not isinstance(pair[1], Mapping):
        what = "None" if made is None else f"an object of type {type(made).__name__}"
        raise ValueError(f"{what}; expected Finetuned(victim, scores), with a dict of scores by name")
    if kind.quality not in pair[1]:
        raise ValueError(f"no score {kind.quality}")
    low, high = kind.lowest_score, 1
    health = getattr(made, "health", None)
    measured = [] if health is None else [health.values, *(one.values for one in health.series)]
    for name, value in (entry for values in (pair[1], *measured) for entry in values.items()):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} of type {type(value).__name__}; expected a finite number") from None
        if name == kind.quality and not low - ROUNDING <= number <= high + ROUNDING:
            raise ValueError(f"{name} {number:g}; expected a number from {low:g} to {high:g}")
        if not math.isfinite(number):
            raise ValueError(f"{name} {number:g}; expected a finite number")
    return pair[0], {name: float(value) for name, value in pair[1].items()}, health

"""Run jobs that make weights: train encoders and fine-tune victims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench import score
from rbench.errors import JobError
from rbench.plan.planner import selected_by
from rbench.publish import cards
from rbench.spec import FinetuneJob, Job, PretrainJob, Record, Score, Split, TrainSpec
from rbench.stages.context import Context, Source, changed
from rbench.stages.inputs import Inputs, own
from rbench.storage.weights import weights_hash


def cached(
    job: Job,
    context: Context,
    make: Callable[[Path], tuple[tuple[Score, ...], dict[str, int], str]],
    source: Source,
) -> Record:
    """Return the record of a job whose weights are in the cache; `make` makes them if the cache lacks them."""
    with context.cache.making(job) as entry:
        if entry.record is not None:
            trackers = ", ".join(context.report_to) if isinstance(job.spec, PretrainJob) else ""
            unheard = f", so there is no training for {trackers} to follow" if trackers else ""
            context.progress.note(f"{job.name}: its weights were in the cache{unheard}")
            return entry.record.model_copy(update={"job": job})
        scores, counts, fingerprint = make(entry.folder)
        record = Record(
            job=job,
            status="complete",
            scores=scores,
            counts=counts,
            provenance=source(
                dataset_fingerprint=fingerprint,
                weights_hash=weights_hash(entry.folder),
                precision=_precision(job, context),
            ),
        )
        if isinstance(job.spec, PretrainJob):
            spec = own(job.spec, context)
            assert spec.train is not None
            module, encoders = _objective(spec.train, context), {**context.encoders, spec.name: spec}
            cards.write(entry.folder, spec.name, encoders, context.tasks, record, module)
        return entry.publish(record)


def _precision(job: Job, context: Context) -> str:
    """Return the floating-point precision of the training; fine-tuning is always in fp32."""
    train = job.spec.encoder.train if isinstance(job.spec, PretrainJob) else None
    if train is None:
        return "fp32"
    from rbench.train import batches
    from rbench.train.loop import precision

    return precision(train, context.device) if batches.stepwise(_objective(train, context)) else "fp32"


def _objective(train: TrainSpec, context: Context) -> Any:
    """Return the module of an encoder's objective."""
    return context.modules["objectives", train.objective].open()


def pretrain(
    job: Job, spec: PretrainJob, context: Context, folder: Path
) -> tuple[tuple[Score, ...], dict[str, int], str]:
    """Train an encoder into `folder`; return scores, counts, and the fingerprint of its corpus."""
    from rbench import train as training
    from rbench.train import batches, objectives
    from rbench.train.reports import Reports

    encoder, inputs = own(spec, context), Inputs(job, context)
    train = encoder.train
    assert train is not None
    split: Split | None = "train" if context.encoders[encoder.name] is not encoder else None
    corpus = context.data(context.tasks[train.data], spec.data_fingerprint, split)
    texts = [text for example in corpus.split("train") for text in example.texts]
    module = _objective(train, context)
    roles = _roles_of_models(module.Options(**train.options))
    selection = None
    if train.selecting:
        assert spec.selection_fingerprint is not None
        selection = _selection(train, spec.selection_fingerprint, context)
    told = Reports(context.report_to, context.logs / f"{encoder.name}-{job.key[:8]}")
    if told.to:
        context.progress.note(f"{job.name}: reports to {', '.join(told.to)}; files, where it has any, in {told.folder}")
    values = training.pretrain(
        encoder,
        inputs.base(encoder),
        texts,
        folder,
        seed=job.seed,
        module=module,
        device=context.device,
        progress=context.progress.update,
        checkpoints=context.cache.root / "checkpoints" / job.key,
        locate=lambda name: inputs.weights(roles[name], name),
        selection=selection,
        resources=inputs.resources(spec.resources, encoder.name),
        prepared=context.cache.root / "prepared",
        reports=told,
        unchanged=inputs.check,
    )
    inputs.check()
    # Sample sizes: the loss is computed on the texts that the steps use. Other scores are computed on held-out texts,
    # on the pairs of the selection, or on all texts if the objective has no steps.
    rest = batches.held_out(len(texts)) if batches.stepwise(module) else len(texts)
    sizes = {"loss": batches.seen(train, len(texts) - rest)}
    if selection is not None:
        sizes |= dict.fromkeys(selection.score_names, len(selection))
    scores = _scores(values, sizes, rest, objectives.counted(module))
    return scores, {"n": len(texts)}, spec.data_fingerprint


def _roles_of_models(options: Any) -> dict[str, str]:
    """Return the roles (in `Job.needs`) of the further models that an objective's options name, by model name."""
    return {getattr(options, option): f"options.{option}" for option in getattr(options, "MODELS", ())}


def _selection(train: TrainSpec, fingerprint: str, context: Context) -> Any:
    """Return the pairs whose scores select the step of the training."""
    from rbench.train.selection import Selection

    split = train.select_split
    data = {name: context.task(context.tasks[name]) for name in train.selecting}
    if selected_by(train, {(name, split): rows.split_fingerprint(split) for name, rows in data.items()}) != fingerprint:
        raise changed(", ".join(data))
    return Selection({name: score.Pairs.of(rows.split(split)) for name, rows in data.items()}, split)


def _scores(
    values: Mapping[str, float], sizes: Mapping[str, int], rest: int, counted: Mapping[str, str]
) -> tuple[Score, ...]:
    """Make scores with their sample sizes. `counted` maps a score to the value that holds its sample size."""
    sizes = {**sizes, **{name: int(values[of]) for name, of in counted.items() if of in values}}
    return tuple(Score(name=name, value=value, n=sizes.get(name, rest)) for name, value in values.items())


def finetune(
    job: Job, spec: FinetuneJob, context: Context, folder: Path
) -> tuple[tuple[Score, ...], dict[str, int], str]:
    """Fine-tune a victim into `folder`; return scores, counts, and the fingerprint of its task's rows."""
    from rbench import encoders
    from rbench.finetune import FinetuneContext

    data = context.data(spec.task, spec.data_fingerprint)
    inputs = Inputs(job, context)
    where = inputs.weights("encoder", spec.encoder.name)
    encoder = encoders.load(spec.encoder, where, device=context.device, seed=job.seed)
    inputs.check()
    code = context.modules["finetune", spec.strategy.name]
    module: Any = code.open()
    attack = context.plan.job(job.needs["attack"]) if "attack" in job.needs else None
    given = FinetuneContext(
        encoder=encoder,
        data=data,
        training=spec.training,
        seed=job.seed,
        device=context.device,
        progress=context.progress.update,
        resources=inputs.resources(spec.resources),
        generated=None if attack is None else context.store.outcomes(attack),
    )
    # The strategy's other options are in spec.training already.
    options = {name: value for name, value in spec.strategy.options.items() if name in module.Options.model_fields}
    victim, scores = module.run(module.Options(**options), given)
    inputs.check()
    if "validation_accuracy" not in scores:
        raise JobError(f"{code.path}: run returned no score validation_accuracy; see docs/guide-add-a-strategy.md")
    context.progress.note(f"{job.name}: validation accuracy {scores['validation_accuracy']:.3f}")
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
    n = min(data.sizes["validation"], spec.training.max_validation or 10**9)
    return (
        _scores(scores, {}, n, getattr(module, "COUNTED", {})),
        {"n": n, **sizes},
        data.fingerprint,
    )

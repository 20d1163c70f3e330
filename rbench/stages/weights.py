"""Jobs that make weights: encoders trained, victims fine-tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench import cards, score
from rbench.cache import weights_hash
from rbench.lineage import registered_base
from rbench.plan import selected_by
from rbench.spec import AttackJob, FinetuneJob, Job, PretrainJob, Record, Score, Split, TrainSpec
from rbench.stages import needs
from rbench.stages.context import Context, Source, changed


def cached(
    job: Job,
    context: Context,
    make: Callable[[Path], tuple[tuple[Score, ...], dict[str, int], str]],
    source: Source,
) -> Record:
    """The record of a job whose weights live in the cache: made now, or found there under the same key."""
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
            own = needs.own(job.spec, context)
            assert own.train is not None
            module, encoders = _objective(own.train, context), {**context.encoders, own.name: own}
            cards.write(entry.folder, own.name, encoders, context.tasks, record, module)
        return entry.publish(record)


def _precision(job: Job, context: Context) -> str:
    """What the network was computed in; fine-tuning is always in fp32."""
    train = job.spec.encoder.train if isinstance(job.spec, PretrainJob) else None
    if train is None:
        return "fp32"
    from rbench.train import batches
    from rbench.train.loop import precision

    return precision(train, context.device) if batches.stepwise(_objective(train, context)) else "fp32"


def _objective(train: TrainSpec, context: Context) -> Any:
    """The module of an encoder's objective."""
    return context.modules["objectives", train.objective].open()


def pretrain(
    job: Job, spec: PretrainJob, context: Context, folder: Path
) -> tuple[tuple[Score, ...], dict[str, int], str]:
    """Train an encoder into `folder`; its scores, counts, and the fingerprint of its corpus."""
    from rbench import train as training
    from rbench.train import batches, objectives
    from rbench.train.reports import Reports

    own = needs.own(spec, context)
    train = own.train
    assert train is not None
    split: Split | None = "train" if context.encoders[own.name] is not own else None
    corpus = context.data(context.tasks[train.data], spec.data_fingerprint, split)
    texts = [text for example in corpus.split("train") for text in example.texts]
    module = _objective(train, context)
    base: Path | str | None = None
    if (below := registered_base(own, context.encoders)) is not None:
        base = needs.model(below, job, context)
    elif own.base is not None:
        base = needs.weights_of(own.name, context)
    selection = None
    if train.selecting:
        assert spec.selection_fingerprint is not None
        selection = _selection(train, spec.selection_fingerprint, context)
    told = Reports(context.report_to, context.logs / f"{own.name}-{job.key[:8]}")
    if told.to:
        context.progress.note(f"{job.name}: reports to {', '.join(told.to)}; files, where it has any, in {told.folder}")
    values = training.pretrain(
        own,
        base,
        texts,
        folder,
        seed=job.seed,
        module=module,
        device=context.device,
        progress=context.progress.update,
        checkpoints=context.cache.root / "checkpoints" / job.key,
        locate=lambda name: needs.model(name, job, context),
        selection=selection,
        resources=needs.resources(spec.resources, job, context),
        prepared=context.cache.root / "prepared",
        reports=told,
    )
    # Texts, or pairs, that a score was computed on: those held out, unless it is of the training itself.
    rest = batches.held_out(len(texts)) if batches.stepwise(module) else len(texts)
    sizes = {"loss": batches.seen(train, len(texts) - rest)}
    if selection is not None:
        sizes |= dict.fromkeys(selection.score_names, len(selection))
    scores = _scores(values, sizes, rest, objectives.counted(module))
    return scores, {"n": len(texts)}, spec.data_fingerprint


def _selection(train: TrainSpec, fingerprint: str, context: Context) -> Any:
    """The pairs that steps are selected by."""
    from rbench.train.selection import Selection

    split = train.select_split
    data = {name: context.rows(context.tasks[name]) for name in train.selecting}
    if selected_by(train, {(name, split): rows.split_fingerprint(split) for name, rows in data.items()}) != fingerprint:
        raise changed(", ".join(data))
    return Selection({name: score.Pairs.of(rows.split(split)) for name, rows in data.items()}, split)


def _scores(
    values: Mapping[str, float], sizes: Mapping[str, int], rest: int, counted: Mapping[str, str]
) -> tuple[Score, ...]:
    """Scores with the number of things that each is of: of those `counted`, as the score of the other name says."""
    sizes = {**sizes, **{name: int(values[of]) for name, of in counted.items() if of in values}}
    return tuple(Score(name=name, value=value, n=sizes.get(name, rest)) for name, value in values.items())


def finetune(
    job: Job, spec: FinetuneJob, context: Context, folder: Path
) -> tuple[tuple[Score, ...], dict[str, int], str]:
    """Fine-tune a victim into `folder`; its scores, counts, and the fingerprint of its task's rows."""
    from rbench import encoders

    data = context.data(spec.task, spec.data_fingerprint)
    encoder = encoders.load(spec.encoder, needs.model(spec.encoder.name, job, context), device=context.device)
    module: Any = context.modules["finetune", spec.strategy.name].open()
    asked: dict[str, Any] = {}
    if spec.resources is not None:
        asked["resources"] = needs.resources(spec.resources, job, context)
    if (attack := _attack_on_train(job, context)) is not None:
        asked["generated"] = context.store.outcomes(attack)
    victim, scores = module.run(
        encoder,
        data,
        spec.training,
        # What else its options say is in spec.training.
        module.Options(**{k: v for k, v in spec.strategy.options.items() if k in module.Options.model_fields}),
        seed=job.seed,
        device=context.device,
        progress=context.progress.update,
        **asked,
    )
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


def _attack_on_train(job: Job, context: Context) -> Job | None:
    """The job whose adversarial texts a fine-tuning trains on, where it does."""
    needed = (context.plan.job(key) for key in job.needs)
    return next((below for below in needed if isinstance(below.spec, AttackJob)), None)

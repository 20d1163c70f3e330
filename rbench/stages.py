"""run_job: the one place where the stages meet.

A job reads only what it needs by key: the weights that earlier jobs left in the cache, the task's rows (whose
fingerprint must be the one that was planned) and the resources behind its attack.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import logging
import platform
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rbench
from rbench import cards, provenance, score
from rbench.cache import WeightCache, weights_hash
from rbench.errors import JobError, RbenchError
from rbench.plan import in_domain_for, registered_base, trained_root, weights_source
from rbench.progress import Progress
from rbench.spec import (
    IN_DOMAIN,
    AttackJob,
    BuildJob,
    ContrastJob,
    ContrastSpec,
    EncoderSpec,
    EvaluateJob,
    FinetuneJob,
    Job,
    Outcome,
    Plan,
    PretrainJob,
    Provenance,
    Record,
    ResourceProfile,
    Score,
    Split,
    TaskSpec,
)
from rbench.store import Store
from rbench.tasks import ContrastData, Example, TaskData, open_contrast, open_task

log = logging.getLogger("rbench")


@dataclasses.dataclass
class Context:
    """What the jobs of one run share: where things are found, where results go, and what is loaded at the moment."""

    plan: Plan
    store: Store
    cache: WeightCache
    encoders: Mapping[str, EncoderSpec]
    tasks: Mapping[str, TaskSpec]
    resources: ResourceProfile
    attack_files: Mapping[str, Path]
    contrast: Mapping[str, tuple[ContrastSpec, ...]]
    """The contrast sets that victims are evaluated on, by task: no victim is trained on what is in them."""
    data_path: tuple[Path, ...]
    models_path: tuple[Path, ...]
    device: str
    workers: Any
    """`rbench.attack.Workers`; None where nothing is to be attacked."""
    progress: Progress
    _open: dict[str, Any] = dataclasses.field(default_factory=dict)

    def data(self, task: TaskSpec, fingerprint: str, split: Split | None = None) -> TaskData:
        """The task's rows; JobError where they (or, given a split, its) are no longer those that were planned."""
        data: TaskData = self.keep(f"data:{task.name}", task.name, lambda: self._read(task))
        if (data.fingerprint if split is None else data.split_fingerprint(split)) != fingerprint:
            raise JobError(f"the data of {task.name} changed while the run was under way; run the command again")
        return data

    def _read(self, task: TaskSpec) -> TaskData:
        sets = (self.contrast_data(spec, task) for spec in self.contrast.get(task.name, ()))
        return open_task(task, self.data_path, [data.reserved for data in sets])

    def contrast_data(self, spec: ContrastSpec, task: TaskSpec) -> ContrastData:
        """The bundles of a contrast set."""
        data: ContrastData = self.keep(
            f"contrast:{spec.name}", spec.name, lambda: open_contrast(spec, task, self.data_path)
        )
        return data

    def keep(self, slot: str, key: str, make: Callable[[], Any]) -> Any:
        """`make()`, remembered under `slot` while the same `key` is asked for: one victim in memory, not all."""
        held = self._open.get(slot)
        if held is None or held[0] != key:
            self._open.pop(slot, None)
            held = self._open[slot] = (key, make())
        return held[1]


def run_job(job: Job, context: Context) -> Record:
    """Run one job and store its record. An error becomes a failed record; Ctrl-C passes through."""
    started, clock = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.perf_counter()

    def source(**more: Any) -> Provenance:
        commit, dirty = provenance.commit()
        return Provenance(
            rbench=rbench.__version__,
            commit=commit,
            dirty=dirty,
            packages=provenance.packages(),
            python=platform.python_version(),
            platform=provenance.machine(),
            device=_device_name(context.device),
            started=started,
            seconds=round(time.perf_counter() - clock, 3),
            **more,
        )

    try:
        spec = job.spec
        if isinstance(spec, PretrainJob):
            record = _cached(job, context, lambda folder: _pretrain(job, spec, context, folder), source)
        elif isinstance(spec, FinetuneJob):
            record = _cached(job, context, lambda folder: _finetune(job, spec, context, folder), source)
        elif isinstance(spec, AttackJob):
            record = _attack(job, spec, context, source)
        elif isinstance(spec, ContrastJob):
            record = _contrast(job, spec, context, source)
        elif isinstance(spec, BuildJob):
            record = _build(job, spec, context, source)
        else:
            record = _evaluate(job, spec, context, source)
    except Exception as error:
        text = str(error) if isinstance(error, RbenchError) else traceback.format_exc()
        log.error("%s failed: %s", job.name, str(error) or type(error).__name__)
        record = Record(job=job, status="failed", provenance=source(), error=text)
    context.store.write_record(record)
    return record


# ------------------------------------------------------------------------------------------- jobs that make weights


def _cached(
    job: Job,
    context: Context,
    make: Callable[[Path], tuple[tuple[Score, ...], dict[str, int], str]],
    source: Callable[..., Provenance],
) -> Record:
    """The record of a job whose weights live in the cache: made now, or found there under the same key."""
    with context.cache.making(job) as entry:
        if entry.record is not None:
            context.progress.note(f"{job.name}: its weights were in the cache")
            return entry.record.model_copy(update={"job": job})
        scores, counts, fingerprint = make(entry.folder)
        record = Record(
            job=job,
            status="complete",
            scores=scores,
            counts=counts,
            provenance=source(dataset_fingerprint=fingerprint, weights_hash=weights_hash(entry.folder)),
        )
        if isinstance(job.spec, PretrainJob):
            own = _own(job.spec, context)
            cards.write(entry.folder, own.name, {**context.encoders, own.name: own}, context.tasks, record)
        return entry.publish(record)


def _pretrain(
    job: Job, spec: PretrainJob, context: Context, folder: Path
) -> tuple[tuple[Score, ...], dict[str, int], str]:
    from rbench.train import batches, objectives, pretrain
    from rbench.train.selection import Selection

    own = _own(spec, context)
    train = own.train
    assert train is not None
    split: Split | None = "train" if context.encoders[own.name] is not own else None
    corpus = context.data(context.tasks[train.data], spec.data_fingerprint, split)
    texts = [text for example in corpus.split("train") for text in example.texts]
    base: Path | str | None = None
    if (below := registered_base(own, context.encoders)) is not None:
        base = _model(below, job, context)
    elif own.base is not None:
        base = _weights_of(own.name, context)
    selection = None
    if train.select_by is not None:
        assert spec.selection_fingerprint is not None
        data = context.data(context.tasks[train.select_by], spec.selection_fingerprint, "validation")
        selection = Selection(train.select_by, score.Pairs.of(data.split("validation")))
    n_pairs = len(selection.pairs) if selection is not None else 0
    values = pretrain(
        own,
        base,
        texts,
        folder,
        seed=job.seed,
        device=context.device,
        progress=context.progress.update,
        checkpoints=context.cache.root / "checkpoints" / job.key,
        locate=lambda name: _model(name, job, context),
        selection=selection,
        resources=_resources(spec.resources, job, context),
        prepared=context.cache.root / "prepared",
    )
    # Texts, or pairs, that a score was computed on: those held out, unless it is of the training itself.
    rest = batches.held_out(len(texts)) if batches.stepwise(train) else len(texts)
    sizes = {"loss": len(texts) - rest} | dict.fromkeys(selection.score_names if selection else (), n_pairs)
    scores = _scores(values, sizes, rest, objectives.counted(train.objective))
    return scores, {"n": len(texts)}, spec.data_fingerprint


def _scores(
    values: Mapping[str, float], sizes: Mapping[str, int], rest: int, counted: Mapping[str, str]
) -> tuple[Score, ...]:
    """Scores with the number of things that each is of: of those `counted`, as the score of the other name says."""
    sizes = {**sizes, **{name: int(values[of]) for name, of in counted.items() if of in values}}
    return tuple(Score(name=name, value=value, n=sizes.get(name, rest)) for name, value in values.items())


def _own(spec: PretrainJob, context: Context) -> EncoderSpec:
    """The encoder with its paths, of which the job's spec holds none; an in-domain one with its task's corpus."""
    own = context.encoders[spec.encoder.name]
    assert own.train is not None and spec.encoder.train is not None
    return in_domain_for(own, spec.encoder.train.data) if own.train.data == IN_DOMAIN else own


def _resources(profile: ResourceProfile | None, job: Job, context: Context) -> Any:
    """What a training asks of a profile, loaded as it is asked for; None where it asks for nothing."""
    if profile is None:
        return None
    from rbench.resources import Resources

    return Resources(profile, context.models_path, device=context.device, trained=_trained(job, context))


def _model(name: str, job: Job, context: Context) -> Path | str:
    """Where a model that a job names lies: trained by a job that it needs, an encoder's weights, a folder or hub id."""
    from rbench import encoders

    if name not in context.encoders:
        return encoders.locate(EncoderSpec(name=name, base=name), context.models_path).where
    root = trained_root(name, context.encoders)
    return _trained(job, context)[root] if root is not None else _weights_of(name, context)


def _trained(job: Job, context: Context) -> dict[str, Path]:
    """Folders of the encoders that pretrain jobs which `job` needs have made, by name."""
    needed = (context.plan.job(key) for key in job.needs)
    return {
        below.spec.encoder.name: context.cache.folder(below.key)
        for below in needed
        if isinstance(below.spec, PretrainJob)
    }


def _finetune(
    job: Job, spec: FinetuneJob, context: Context, folder: Path
) -> tuple[tuple[Score, ...], dict[str, int], str]:
    from rbench import encoders
    from rbench.finetune import strategy

    data = context.data(spec.task, spec.data_fingerprint)
    encoder = encoders.load(spec.encoder, _model(spec.encoder.name, job, context), device=context.device)
    module = strategy(spec.strategy.name)
    asked: dict[str, Any] = {}
    if spec.resources is not None:
        asked["resources"] = _resources(spec.resources, job, context)
    if (attack := _attack_on_train(job, context)) is not None:
        asked["generated"] = context.store.outcomes(attack)
    victim, scores = module.run(
        encoder,
        data,
        spec.training,
        module.Options.model_validate(spec.strategy.options),
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


def _weights_of(name: str, context: Context) -> Path | str:
    """Where the weights that no job makes lie, for an encoder or its base: a folder, or a hub id."""
    from rbench import encoders

    spec = weights_source(name, context.encoders)
    assert spec is not None
    return encoders.locate(spec, context.models_path).where


# -------------------------------------------------------------------------------------------------------- evaluations


def _evaluate(job: Job, spec: EvaluateJob, context: Context, source: Callable[..., Provenance]) -> Record:
    from rbench import encoders

    data = context.data(spec.task, spec.data_fingerprint, spec.split)
    pairs = score.Pairs.of(data.split(spec.split))
    encoder = encoders.load(spec.encoder, _model(spec.encoder.name, job, context), device=context.device)
    done, total = 0, len(pairs.texts)

    def encoded(count: int) -> None:
        nonlocal done
        done += count
        context.progress.update(done, total)

    scores = pairs.scores(lambda texts: encoder.encode(texts, progress=encoded))
    spearman = scores[0].value
    found = "Spearman is not defined" if spearman is None else f"Spearman {spearman:.4f}"
    context.progress.update(total, total, f"{found}, {len(pairs)} pairs")
    return Record(
        job=job,
        status="complete",
        scores=scores,
        counts={"n": len(pairs)},
        provenance=source(
            dataset_fingerprint=spec.data_fingerprint,
            weights_hash=spec.encoder_fingerprint or weights_hash(context.cache.folder(job.needs[0])),
        ),
    )


def _contrast(job: Job, spec: ContrastJob, context: Context, source: Callable[..., Provenance]) -> Record:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.evaluate import on_contrast

    (own,) = (one for one in context.contrast[spec.task.name] if one.name == spec.contrast.name)
    data = context.contrast_data(own, spec.task)
    if data.fingerprint != spec.data_fingerprint:
        raise JobError(f"{own.name} changed while the run was under way; run the command again")
    folder = context.cache.folder(job.needs[0])
    victim, _ = EncoderClassifier.load(folder, context.device)
    found = on_contrast(victim, data, context.progress.update)
    context.store.write_predictions(job, found.predictions)
    return Record(
        job=job,
        status="complete",
        scores=found.scores,
        counts=found.counts | _kept_out(job, spec, context),
        provenance=source(dataset_fingerprint=data.fingerprint, weights_hash=weights_hash(folder)),
    )


def _kept_out(job: Job, spec: ContrastJob, context: Context) -> dict[str, int]:
    """How many rows the victim was not trained on, or its epoch not chosen by, because of the contrast set."""
    trained = context.plan.job(job.needs[0]).spec
    assert isinstance(trained, FinetuneJob)
    dropped = context.data(spec.task, trained.data_fingerprint).dropped
    reasons = {split: f"{split}: also in {spec.contrast.name}" for split in ("train", "validation")}
    return {f"{split}_kept_out": dropped.get(reason, 0) for split, reason in reasons.items()}


# ----------------------------------------------------------------------------------------------- things to be looked at


def _build(job: Job, spec: BuildJob, context: Context, source: Callable[..., Provenance]) -> Record:
    from rbench.build import thing

    trained = context.plan.job(job.needs[0])
    assert isinstance(trained.spec, PretrainJob)
    module = thing(spec.what.name)
    options = module.Options.model_validate(spec.what.options)
    folder = context.cache.folder(trained.key)
    built = module.run(
        _own(trained.spec, context),
        folder,
        context.data(spec.task, spec.data_fingerprint, options.split),
        options,
        seed=job.seed,
        device=context.device,
        resources=_resources(trained.spec.resources, job, context),
    )
    known = {outcome.example_id for outcome in context.store.outcomes(job)}
    for outcome in built.outcomes:
        if outcome.example_id not in known:  # a run that was killed here makes them again, the same
            context.store.append(job, outcome)
    return Record(
        job=job,
        status="complete",
        scores=built.scores,
        counts=built.counts,
        provenance=source(
            dataset_fingerprint=spec.data_fingerprint,
            weights_hash=weights_hash(folder),
            resources=trained.spec.resource_fingerprints,
        ),
    )


# --------------------------------------------------------------------------------------------------------- attacks


def sample(examples: list[Example], n: int, seed: int, task: str) -> list[Example]:
    """The first `n` of a permutation of the test split seeded by (seed, task): a larger n keeps the smaller sample."""
    digest = hashlib.sha256(f"sample:{seed}:{task}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "big")))
    return [examples[i] for i in generator.permutation(len(examples))[:n]]


def _attack(job: Job, spec: AttackJob, context: Context, source: Callable[..., Provenance]) -> Record:
    data = context.data(spec.task, spec.data_fingerprint)
    if spec.split == "train":
        from rbench.finetune import sample_split

        chosen = sample_split(data, "train", spec.num_examples, job.seed)
    else:
        chosen = sample(data.split(spec.split), spec.num_examples, job.seed, spec.task.name)
    cell = _cell(job, spec, context)
    outcomes = {outcome.example_id: outcome for outcome in context.store.outcomes(job)}
    context.progress.update(len(outcomes), len(chosen), _tally(outcomes.values()))
    for outcome in context.workers.run(cell, [example for example in chosen if example.id not in outcomes]):
        context.store.append(job, outcome)
        outcomes[outcome.example_id] = outcome
        context.progress.update(len(outcomes), len(chosen), _tally(outcomes.values()))
    kept = [outcomes[example.id] for example in chosen]
    return Record(
        job=job,
        status="complete",
        scores=tuple(score.attack_scores(kept, oracle=spec.task.generator is not None).values()),
        counts=score.attack_counts(kept),
        provenance=source(
            dataset_fingerprint=data.fingerprint,
            weights_hash=weights_hash(context.cache.folder(job.needs[0])),
            resources=spec.resource_fingerprints,
            backend=context.workers.backend(cell),
        ),
    )


def _cell(job: Job, spec: AttackJob, context: Context) -> Any:
    """What the attack needs: its victim, and the resources, of which a masked LM of ours comes from the cache."""
    from rbench import attack

    return attack.Cell(
        spec=spec.attack,
        path=context.attack_files.get(spec.attack.name),
        task=spec.task,
        seed=job.seed,
        victim=context.cache.folder(job.needs[0]),
        name=context.plan.job(job.needs[0]).name,
        resources=context.resources,
        models_path=context.models_path,
        trained=tuple(sorted(_trained(job, context).items())),
    )


def _tally(outcomes: Any) -> str:
    statuses: list[str] = [outcome.status for outcome in outcomes]
    hit, missed = statuses.count("succeeded"), statuses.count("failed")
    return f"ASR {100 * hit / (hit + missed):.0f}% of {hit + missed}" if hit + missed else ""


def _device_name(device: str) -> str:
    if device == "cpu":
        return "cpu"
    import torch

    return f"{device} ({torch.cuda.get_device_name()})"


__all__ = ["Context", "Outcome", "run_job", "sample"]

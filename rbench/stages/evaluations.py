"""Run jobs that score encoders on sentence pairs, and victims on contrast sets and adversarial sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rbench import score
from rbench.errors import JobError
from rbench.score.subsets import MISSING
from rbench.spec import (
    AdversarialJob,
    ContrastJob,
    EvaluateJob,
    FinetuneJob,
    Job,
    MeasuredRow,
    Record,
    Score,
    TaskSpec,
    VictimJob,
)
from rbench.stages.context import Context, Source
from rbench.stages.inputs import Inputs
from rbench.stages.victims import victim_hash, victim_of
from rbench.tasks import adversarial as sets

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.stages.adversarial import OnSet
    from rbench.stages.contrast import Contrasted
    from rbench.tasks.adversarial import AdversarialRow


def evaluate(job: Job, spec: EvaluateJob, context: Context, source: Source) -> Record:
    """Score an encoder on sentence pairs, without fine-tuning, and store the cosine and gold score of each pair."""
    from rbench import encoders
    from rbench.encoders.remembered import RememberedVectors

    data = context.data(spec.task, spec.data_fingerprint, spec.split)
    examples = data.split(spec.split)
    pairs = score.Pairs.of(examples)
    inputs = Inputs(job, context)
    place = inputs.place("encoder", job.parts[0])
    how = f"vectors {spec.encoder.model_dump_json()} {job.seed}"

    def load(where: str) -> RememberedVectors:
        return RememberedVectors(encoders.load(spec.encoder, where, device=context.device, seed=job.seed, kind="sts"))

    vectors = inputs.network(place, how, load)
    done, total = 0, len(pairs.texts)

    def encoded(count: int) -> None:
        nonlocal done
        done += count
        context.progress.update(done, total)

    # The scores are those of the numbers that are stored: of untrained encoders, cosines differ in later digits alone.
    found = np.asarray(pairs.cosines(lambda texts: vectors.encode(texts, "fastest", encoded)), dtype=np.float32)
    gold = np.asarray(pairs.gold, dtype=np.float32)
    subset = data.subsets.get(spec.split, {})
    of = [subset[example.id] for example in examples] if subset else []
    scores = score.set_scores(found, gold, of)
    context.progress.update(total, total, f"{_told(scores[0])}, {len(pairs)} pairs")
    inputs.check()
    drawn = _hash_of_drawn(vectors.encoder) if spec.encoder.random_weights else None
    series = {"cosines": score.packed_numbers(found), "gold": score.packed_numbers(gold)}
    rows = context.store.write_rows(job, [MeasuredRow(names=series, numbers={"n": len(pairs)})])
    return Record(
        job=job,
        status="complete",
        scores=scores,
        counts={"n": len(pairs)} | _absent(spec, of) | _unusable(data.dropped, spec.split),
        provenance=source(
            dataset_fingerprint=spec.data_fingerprint, weights_hash=drawn or inputs.hash_of("encoder", place)
        ),
        rows=rows,
    )


def _told(spearman: Score) -> str:
    return "Spearman is not defined" if spearman.value is None else f"Spearman {spearman.value:.4f}"


def _absent(spec: EvaluateJob, of: Sequence[str]) -> dict[str, int]:
    """Count the pairs of each published subset that are not there, where rows name their subsets."""
    there = Counter(of)
    published = spec.task.subsets.get(spec.split, {}) if of else {}
    return {f"{MISSING}{name}": n - there[name] for name, n in published.items() if there[name] < n}


def _unusable(dropped: Mapping[str, int], split: str) -> dict[str, int]:
    """Count the pairs that were left out when the rows were read, by reason: `left out: score outside the scale`."""
    return {
        f"left out: {reason.removeprefix(f'{split}: ')}": n
        for reason, n in dropped.items()
        if n and reason.startswith(f"{split}: ")
    }


def _hash_of_drawn(encoder: SentenceEncoder) -> str:
    """Return the hash of weights that lie nowhere, because they were drawn for this job."""
    from rbench.encoders import random_weights

    return random_weights.weights_hash(encoder)


def contrast(job: Job, spec: ContrastJob, context: Context, source: Source) -> Record:
    """Classify a contrast set with a victim, and store its prediction for each text."""
    from rbench.stages.contrast import on_contrast

    (own,) = (one for one in context.contrast[spec.task.name] if one.name == spec.contrast.name)
    data = context.contrast_set(own, spec.task)
    if data.fingerprint != spec.data_fingerprint:
        raise JobError(f"{own.name} changed while the run was under way; run the command again")

    def judge(victim: EncoderClassifier) -> Contrasted:
        return on_contrast(victim, data, context.progress.update)

    return _judged(job, spec.task, spec.contrast.name, data.fingerprint, judge, context, source)


def adversarial(job: Job, spec: AdversarialJob, context: Context, source: Source) -> Record:
    """Classify an adversarial set with a victim, and store its prediction for each text."""
    from rbench.stages.adversarial import on_set

    rows, fingerprint = _rows_of_set(job, spec, context)

    def judge(victim: EncoderClassifier) -> OnSet:
        return on_set(victim, rows, context.progress.update)

    return _judged(job, spec.task, spec.set.name, fingerprint, judge, context, source)


def _judged(
    job: Job,
    task: TaskSpec,
    name: str,
    fingerprint: str,
    judge: Callable[[EncoderClassifier], Contrasted | OnSet],
    context: Context,
    source: Source,
) -> Record:
    """Open the job's victim, let `judge` classify the set of this name with it, and store the predictions."""
    inputs = Inputs(job, context)
    found = judge(victim_of(inputs, task, context))
    inputs.check()
    predictions = context.store.write_predictions(job, found.predictions)
    return Record(
        job=job,
        status="complete",
        scores=found.scores,
        counts=found.counts | _kept_out(job, task, name, context),
        provenance=source(dataset_fingerprint=fingerprint, weights_hash=victim_hash(inputs)),
        predictions=predictions,
    )


def _rows_of_set(job: Job, spec: AdversarialJob, context: Context) -> tuple[list[AdversarialRow], str]:
    """Return the rows of a set and their content hash: from the folder, or of the outcomes of an attack of the RUN."""
    if "attack" in job.needs:
        attack = context.plan.job(job.needs["attack"])
        rows = [sets.row_of(outcome) for outcome in sets.kept(context.store.outcomes(attack))]
        if not rows:
            raise JobError(f"{attack.name} has no outcome to make a set of: all of its examples errored")
        return rows, sets.fingerprint_of(rows)
    asked = next(one for one in context.adversarial[spec.task.name] if one.set == spec.set)
    assert asked.folder is not None
    data = context.rows.adversarial(asked.folder, spec.task)
    if data.fingerprint != spec.data_fingerprint:
        raise JobError(f"{asked.folder} changed while the run was under way; run the command again")
    return list(data.rows), data.fingerprint


def _kept_out(job: Job, task: TaskSpec, name: str, context: Context) -> dict[str, int]:
    """Count the rows that a set kept out of the victim's training and out of its validation."""
    trained = context.plan.job(job.needs["victim"]).spec
    if isinstance(trained, VictimJob):
        return {}  # nobody knows on what a classifier that exists was trained
    assert isinstance(trained, FinetuneJob)
    dropped = context.data(task, trained.data_fingerprint).dropped
    reasons = {split: f"{split}: also in {name}" for split in ("train", "validation")}
    return {f"{split}_kept_out": dropped.get(reason, 0) for split, reason in reasons.items()}

"""Run jobs of measures: open what the measure reads, hand it over, and store what it returns.

What a measure computes is in its file (`rbench/measures/NAME.py`); `spec.of` says what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.errors import JobError
from rbench.execution.inputs import JobInputs, ProvenanceMaker, RunContext, encoder_as_trained, open_victim, victim_hash
from rbench.measures._context import EncoderContext, MeasureContext, Measured, TrainedContext, VictimContext, VictimRef
from rbench.schema import AS_IS, AdversarialSet, Job, MeasuredRow, MeasureJob, Outcome, Record
from rbench.store.weights import weights_hash
from rbench.tasks import SetData, TaskData, adversarial

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.sentence import RememberedVectors

# Part of the key of every measure's job (config/versions.py): raise it if measures are given other rows, weights or
# contexts. All stored measures are then computed anew.
VERSION = 1
USES = ()


class MeasureInputs(NamedTuple):
    """What a measure's `run` is given, and what the record says of it afterwards."""

    context: Any
    evidence: Callable[[], dict[str, Any]] = dict
    """Returns the fields of the provenance that say which rows, weights and resources were used, as far as they are
    not those of the plan."""
    counts: Callable[[], dict[str, int]] = dict
    """Returns further counts for the record."""


def measure(job: Job, spec: MeasureJob, context: RunContext, source: ProvenanceMaker) -> Record:
    """Run the measure that the spec names, and store what it returns.

    Outcomes replace those of a run that was killed: another machine may not build the same to the last bit.
    """
    module: Any = context.modules["measures", spec.what.name].open()
    options = module.Options.model_validate(spec.what.options)
    inputs = JobInputs(job, context)
    measure_inputs = _OPENERS[spec.of](job, spec, inputs, context)
    results = module.computed(options, measure_inputs.context)
    _check_finite(results, context.modules["measures", spec.what.name].path)
    # Only now: files that were replaced while the measure read them may have changed what it returned.
    inputs.check(ask=True)
    context.store.read(job).check_owner()
    write: Any = getattr(context.store, f"write_{spec.stores}")
    return Record(
        job=job,
        status="complete",
        scores=results.scores,
        counts=results.counts | measure_inputs.counts(),
        provenance=source(**({"dataset_fingerprint": spec.data_fingerprint} | measure_inputs.evidence())),
        **{spec.stores: write(job, results.lines)},
    )


def _check_finite(results: Measured, path: Path) -> None:
    """Raise JobError where a row has a number that is not finite: no table can show it."""
    for i, row in enumerate(results.lines, 1):
        for name, value in row.numbers.items() if isinstance(row, MeasuredRow) else ():
            if value is not None and not math.isfinite(value):
                raise JobError(
                    f"{path}: run returned {name} {value} in row {i}; expected a finite number, or None where there is "
                    "none; see docs/guide-add-a-measure.md"
                )


def _common_fields(spec: MeasureJob, data: TaskData, context: RunContext) -> dict[str, Any]:
    """Return what all contexts have in common."""
    return {
        "task": spec.task,
        "rows": data.split,
        "splits": tuple(data.sizes),
        "progress": context.progress.update,
    }


def _encoder_inputs(job: Job, spec: MeasureJob, inputs: JobInputs, context: RunContext) -> MeasureInputs:
    """Open an encoder as it is. The network stays in memory for the next job with the same one, with its vectors."""
    from rbench import encoders
    from rbench.encoders.sentence import RememberedVectors

    assert spec.encoder is not None
    encoder, place, kind = spec.encoder, inputs.place("encoder", job.parts[0]), spec.task.kind

    def load(where: str) -> RememberedVectors:
        return RememberedVectors(encoders.load(encoder, where, device=context.device, seed=job.seed, kind=kind))

    data = context.data(spec.task, spec.data_fingerprint, spec.split)
    network = inputs.network(place, f"{encoder.model_dump_json()} {job.seed} {kind}", load)

    def evidence() -> dict[str, Any]:
        if encoder.random_weights:  # they lie nowhere, because they were drawn for this job
            from rbench.encoders import random_weights

            weights = random_weights.hash_encoder_weights(network.encoder)
        else:
            weights = inputs.hash_of("encoder", place)
        profile = spec.resources
        resource_hashes = inputs.hashes(profile, spec.resource_fingerprints) if profile is not None else {}
        return {"weights_hash": weights, "resources": resource_hashes}

    encoder_context = EncoderContext(
        **_common_fields(spec, data, context),
        name=job.parts[0],
        encoder=network.encoder,
        resources=inputs.resources(spec.resources),
        data=data,
        remembered=network,
        file=lambda kind, name: context.modules[kind, name].open(),
    )
    return MeasureInputs(encoder_context, evidence)


def _victim_inputs(job: Job, spec: MeasureJob, inputs: JobInputs, context: RunContext) -> MeasureInputs:
    """Open a victim, and the set that it classifies."""
    set_data = _load_set(job, spec, context)
    data = (
        context.task(spec.task) if set_data is not None else context.data(spec.task, spec.data_fingerprint, spec.split)
    )
    victim_context = VictimContext(
        **_common_fields(spec, data, context),
        seed=job.seed,
        victim=open_victim(inputs, spec.task, context),
        set=set_data,
        file=lambda kind, name: context.modules[kind, name].open(),
    )

    def evidence() -> dict[str, Any]:
        set_fields = {"dataset_fingerprint": set_data.fingerprint} if set_data is not None else {}
        return {**set_fields, "weights_hash": victim_hash(inputs)}

    return MeasureInputs(victim_context, evidence, lambda: _count_kept_out(job, spec, context))


def _load_set(job: Job, spec: MeasureJob, context: RunContext) -> SetData | None:
    """Return the set of a job, which planning found or an attack of the RUN makes; None where the job has none.

    Raises JobError where it is no longer the planned one.
    """
    if spec.set is None:
        return None
    if "attack" in job.needs:
        assert isinstance(spec.set, AdversarialSet)
        attack = context.plan.job(job.needs["attack"])
        rows = [
            adversarial.build_row(outcome) for outcome in adversarial.select_outcomes(context.store.outcomes(attack))
        ]
        if not rows:
            raise JobError(f"{attack.name} has no outcome to make a set of: all of its examples errored")
        return adversarial.build_set(spec.set, spec.task, rows, attack.name)
    asked_set = next(candidate for candidate in context.sets[spec.task.name] if candidate.set == spec.set)
    set_data = context.set(asked_set, spec.task)
    if set_data.fingerprint != spec.data_fingerprint:
        raise JobError(
            f"{asked_set.folder or asked_set.set.name} changed while the run was under way; run the command again"
        )
    return set_data


def _count_kept_out(job: Job, spec: MeasureJob, context: RunContext) -> dict[str, int]:
    """Count the rows that a set kept out of the victim's training and out of its validation."""
    trained = context.plan.job(job.needs["victim"]).tuning
    if trained is None or spec.set is None:
        return {}  # nobody knows on what a classifier that exists was trained
    dropped = context.data(spec.task, trained.data_fingerprint).dropped
    reasons = {split: f"{split}: also in {spec.set.name}" for split in ("train", "validation")}
    return {f"{split}_kept_out": dropped.get(reason, 0) for split, reason in reasons.items()}


def _training_inputs(job: Job, spec: MeasureJob, inputs: JobInputs, context: RunContext) -> MeasureInputs:
    """Open an encoder that a job trained, with what its training needed."""
    trained = context.plan.job(job.needs["encoder"]).pretraining
    assert trained is not None and trained.encoder.train is not None
    folder, encoder = Path(inputs.open(inputs.made_weights("encoder"))), trained.encoder.name
    data = context.data(spec.task, spec.data_fingerprint, spec.split)
    trained_context = TrainedContext(
        **_common_fields(spec, data, context),
        seed=job.seed,
        spec=encoder_as_trained(trained, context),
        weights=folder,
        data=data,
        device=context.device,
        resources=inputs.resources(trained.resources, encoder),
        objective=context.modules["objectives", trained.encoder.train.objective].open(),
    )

    def evidence() -> dict[str, Any]:
        resource_set, kinds = trained.resources, trained.resource_fingerprints
        resource_hashes = {} if resource_set is None else inputs.hashes(resource_set, kinds, encoder)
        return {"weights_hash": weights_hash(folder), "resources": resource_hashes}

    return MeasureInputs(trained_context, evidence)


def _victims_inputs(job: Job, spec: MeasureJob, inputs: JobInputs, context: RunContext) -> MeasureInputs:
    """Read what an attack made of the texts of all victims, which are opened one after the other."""
    victims = tuple(
        VictimRef(encoder, context.plan.draw(encoder).encoder, strategy.label)
        for encoder in spec.encoders
        for strategy in spec.strategies
        if MeasureJob.role("victim", encoder, strategy.label) in job.needs  # a strategy may be for some encoders alone
    )
    victims += tuple(VictimRef(name, name, AS_IS) for name in spec.existing)

    def victim(victim_ref: VictimRef) -> EncoderClassifier:
        return open_victim(inputs, spec.task, context, MeasureJob.role("victim", victim_ref.label, victim_ref.finetune))  # type: ignore[no-any-return]

    found = _load_set(job, spec, context)
    data = context.task(spec.task) if found is not None else context.data(spec.task, spec.data_fingerprint, spec.split)
    measure_context = MeasureContext(
        **_common_fields(spec, data, context),
        attack=spec.attack or "",
        seed=job.seed,
        victims=victims,
        outcomes={victim_ref: _load_outcomes(job, victim_ref, context) for victim_ref in victims},
        victim=victim,
        set=found,
        file=lambda kind, name: context.modules[kind, name].open(),
        resources=inputs.resources(spec.resources),
    )

    def evidence() -> dict[str, Any]:
        own = {"dataset_fingerprint": found.fingerprint} if found is not None else {}
        resource_set = spec.resources
        if resource_set is None:
            return own
        return {**own, "resources": inputs.hashes(resource_set, spec.resource_fingerprints)}

    return MeasureInputs(measure_context, evidence)


def _load_outcomes(job: Job, victim_ref: VictimRef, context: RunContext) -> tuple[Outcome, ...]:
    """Return what the attack made of a victim's texts, by example. Raises JobError where the attack has no record."""
    attack = context.plan.job(job.needs[MeasureJob.role("attack", victim_ref.label, victim_ref.finetune)])
    if context.store.record(attack) is None:
        raise JobError(f"{attack.name} has no record; run the same command again")
    return tuple(sorted(context.store.outcomes(attack), key=lambda outcome: outcome.example_id))


_OPENERS: dict[str, Callable[[Job, MeasureJob, JobInputs, RunContext], MeasureInputs]] = {
    "encoders": _encoder_inputs,
    "victims": _victim_inputs,
    "trainings": _training_inputs,
    "attacks": _victims_inputs,
    "tasks": _victims_inputs,
}

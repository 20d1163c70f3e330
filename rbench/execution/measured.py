"""Run jobs of measures: open what the measure reads, hand it over, and store what it returns.

What a measure computes is in its file (`rbench/measures/NAME.py`); `spec.of` says what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.errors import JobError
from rbench.execution.inputs import Context, Inputs, Source, own, victim_hash, victim_of
from rbench.measures._context import Asked, EncoderContext, MeasureContext, Measured, TrainedContext, VictimContext
from rbench.schema import AS_IS, AdversarialSet, Job, MeasuredRow, MeasureJob, Outcome, Record
from rbench.store.weights import weights_hash
from rbench.tasks import SetData, TaskData, adversarial

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.sentence import RememberedVectors

VERSION = 1
USES = ()


class Given(NamedTuple):
    """What a measure's `run` is given, and what the record says of it afterwards."""

    context: Any
    evidence: Callable[[], dict[str, Any]] = dict
    """Returns the fields of the provenance that say which rows, weights and resources were used, as far as they are
    not those of the plan."""
    counts: Callable[[], dict[str, int]] = dict
    """Returns further counts for the record."""


def measure(job: Job, spec: MeasureJob, context: Context, source: Source) -> Record:
    """Run the measure that the spec names, and store what it returns.

    Outcomes replace those of a run that was killed: another machine may not build the same to the last bit.
    """
    own: Any = context.modules["measures", spec.what.name].open()
    options = own.Options.model_validate(spec.what.options)
    inputs = Inputs(job, context)
    given = _GIVEN[spec.of](job, spec, inputs, context)
    found = own.computed(options, given.context)
    _check_finite(found, context.modules["measures", spec.what.name].path)
    inputs.check(ask=True)
    context.store.read(job).check_owner()
    write: Any = getattr(context.store, f"write_{spec.stores}")
    return Record(
        job=job,
        status="complete",
        scores=found.scores,
        counts=found.counts | given.counts(),
        provenance=source(**({"dataset_fingerprint": spec.data_fingerprint} | given.evidence())),
        **{spec.stores: write(job, found.lines)},
    )


def _check_finite(found: Measured, path: Path) -> None:
    """Raise JobError where a row has a number that is not finite: no table can show it."""
    for i, row in enumerate(found.lines, 1):
        for name, value in row.numbers.items() if isinstance(row, MeasuredRow) else ():
            if value is not None and not math.isfinite(value):
                raise JobError(
                    f"{path}: run returned {name} {value} in row {i}; expected a finite number, or None where there is "
                    "none; see docs/guide-add-a-measure.md"
                )


def _shared(spec: MeasureJob, data: TaskData, context: Context) -> dict[str, Any]:
    """Return what all contexts have in common."""
    return {
        "task": spec.task,
        "rows": data.split,
        "splits": tuple(data.sizes),
        "progress": context.progress.update,
    }


def _encoder(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> Given:
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

            weights = random_weights.weights_hash(network.encoder)
        else:
            weights = inputs.hash_of("encoder", place)
        profile = spec.resources
        found = inputs.hashes(profile, spec.resource_fingerprints) if profile is not None else {}
        return {"weights_hash": weights, "resources": found}

    given = EncoderContext(
        **_shared(spec, data, context),
        name=job.parts[0],
        encoder=network.encoder,
        resources=inputs.resources(spec.resources),
        data=data,
        remembered=network,
    )
    return Given(given, evidence)


def _victim(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> Given:
    """Open a victim, and the set that it classifies."""
    found = _opened_set(job, spec, context)
    data = context.task(spec.task) if found is not None else context.data(spec.task, spec.data_fingerprint, spec.split)
    given = VictimContext(
        **_shared(spec, data, context),
        seed=job.seed,
        victim=victim_of(inputs, spec.task, context),
        set=found,
        file=lambda kind, name: context.modules[kind, name].open(),
    )

    def evidence() -> dict[str, Any]:
        own = {"dataset_fingerprint": found.fingerprint} if found is not None else {}
        return {**own, "weights_hash": victim_hash(inputs)}

    return Given(given, evidence, lambda: _kept_out(job, spec, context))


def _opened_set(job: Job, spec: MeasureJob, context: Context) -> SetData | None:
    """Return the set of a job, which planning found or an attack of the RUN makes; None where the job has none.

    Raises JobError where it is no longer the planned one.
    """
    if spec.set is None:
        return None
    if "attack" in job.needs:
        assert isinstance(spec.set, AdversarialSet)
        attack = context.plan.job(job.needs["attack"])
        rows = [adversarial.row_of(outcome) for outcome in adversarial.kept(context.store.outcomes(attack))]
        if not rows:
            raise JobError(f"{attack.name} has no outcome to make a set of: all of its examples errored")
        return adversarial.set_of(spec.set, spec.task, rows, attack.name)
    asked = next(one for one in context.sets[spec.task.name] if one.set == spec.set)
    found = context.set(asked, spec.task)
    if found.fingerprint != spec.data_fingerprint:
        raise JobError(f"{asked.folder or asked.set.name} changed while the run was under way; run the command again")
    return found


def _kept_out(job: Job, spec: MeasureJob, context: Context) -> dict[str, int]:
    """Count the rows that a set kept out of the victim's training and out of its validation."""
    trained = context.plan.job(job.needs["victim"]).tuning
    if trained is None or spec.set is None:
        return {}  # nobody knows on what a classifier that exists was trained
    dropped = context.data(spec.task, trained.data_fingerprint).dropped
    reasons = {split: f"{split}: also in {spec.set.name}" for split in ("train", "validation")}
    return {f"{split}_kept_out": dropped.get(reason, 0) for split, reason in reasons.items()}


def _training(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> Given:
    """Open an encoder that a job trained, with what its training needed."""
    trained = context.plan.job(job.needs["encoder"]).pretraining
    assert trained is not None and trained.encoder.train is not None
    folder, encoder = Path(inputs.open(inputs.made("encoder"))), trained.encoder.name
    data = context.data(spec.task, spec.data_fingerprint, spec.split)
    given = TrainedContext(
        **_shared(spec, data, context),
        seed=job.seed,
        spec=own(trained, context),
        weights=folder,
        data=data,
        device=context.device,
        resources=inputs.resources(trained.resources, encoder),
        objective=context.modules["objectives", trained.encoder.train.objective].open(),
    )

    def evidence() -> dict[str, Any]:
        asked, kinds = trained.resources, trained.resource_fingerprints
        found = {} if asked is None else inputs.hashes(asked, kinds, encoder)
        return {"weights_hash": weights_hash(folder), "resources": found}

    return Given(given, evidence)


def _victims(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> Given:
    """Read what an attack made of the texts of all victims, which are opened one after the other."""
    victims = tuple(
        Asked(encoder, context.plan.draw(encoder).encoder, strategy.label)
        for encoder in spec.encoders
        for strategy in spec.strategies
        if MeasureJob.role("victim", encoder, strategy.label) in job.needs  # a strategy may be for some encoders alone
    )
    victims += tuple(Asked(name, name, AS_IS) for name in spec.existing)

    def victim(of: Asked) -> EncoderClassifier:
        return victim_of(inputs, spec.task, context, MeasureJob.role("victim", of.label, of.finetune))  # type: ignore[no-any-return]

    data = context.data(spec.task, spec.data_fingerprint, spec.split)
    given = MeasureContext(
        **_shared(spec, data, context),
        attack=spec.attack or "",
        seed=job.seed,
        victims=victims,
        outcomes={of: _outcomes(job, of, context) for of in victims},
        victim=victim,
    )
    return Given(given)


def _outcomes(job: Job, of: Asked, context: Context) -> tuple[Outcome, ...]:
    """Return what the attack made of a victim's texts, by example. Raises JobError where the texts are not there."""
    attack = context.plan.job(job.needs[MeasureJob.role("attack", of.label, of.finetune)])
    if context.store.record(attack) is None:
        raise JobError(f"{attack.name} has no record; run the same command again")
    found = sorted(context.store.outcomes(attack), key=lambda one: one.example_id)
    if any(one.original is None for one in found):
        raise JobError(
            f"{attack.name} has outcomes without texts, which {job.name} needs. Run the suite in another --out "
            "without --no-texts."
        )
    return tuple(found)


_GIVEN: dict[str, Callable[[Job, MeasureJob, Inputs, Context], Given]] = {
    "encoders": _encoder,
    "victims": _victim,
    "trainings": _training,
    "attacks": _victims,
    "tasks": _victims,
}

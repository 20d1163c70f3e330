"""Run jobs of measures: open victims one after the other, hand over what attacks made, store the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.errors import JobError
from rbench.measures._context import Asked, MeasureContext
from rbench.spec import AS_IS, Job, MeasureJob, Outcome, Record
from rbench.stages.context import Context, Source
from rbench.stages.frozen import encoder_context, evidence
from rbench.stages.inputs import Inputs
from rbench.stages.victims import victim_of

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier

VERSION = 1
USES = ("encoders.classifier",)


def measure(job: Job, spec: MeasureJob, context: Context, source: Source) -> Record:
    """Run the measure that the spec names, and store its rows."""
    module: Any = context.modules["measures", spec.what.name].open()
    options = module.Options.model_validate(spec.what.options)
    inputs = Inputs(job, context)
    more: dict[str, Any] = {}
    if spec.encoder is not None:
        found = encoder_context(job, spec, inputs, context)
        rows, more = list(module.run(options, found)), evidence(spec, inputs, job, found.encoder)
    else:
        rows = list(module.run(options, _victims_context(job, spec, inputs, context)))
    inputs.check()
    return Record(
        job=job,
        status="complete",
        counts={"rows": len(rows)},
        provenance=source(dataset_fingerprint=spec.data_fingerprint, **more),
        rows=context.store.write_rows(job, rows),
    )


def _victims_context(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> MeasureContext:
    victims = tuple(
        Asked(encoder, context.plan.draw(encoder).encoder, strategy.label)
        for encoder in spec.encoders
        for strategy in spec.strategies
    )
    victims += tuple(Asked(name, name, AS_IS) for name in spec.existing)

    def victim(of: Asked) -> EncoderClassifier:
        return victim_of(inputs, spec.task, context, MeasureJob.role("victim", of.label, of.finetune))  # type: ignore[no-any-return]

    data = context.data(spec.task, spec.data_fingerprint)
    return MeasureContext(
        task=spec.task,
        attack=spec.attack or "",
        seed=job.seed,
        victims=victims,
        outcomes={of: _outcomes(job, of, context) for of in victims},
        victim=victim,
        rows=data.split,
        splits=tuple(data.sizes),
        progress=context.progress.update,
    )


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

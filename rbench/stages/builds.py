"""Jobs that make things to be looked at."""

from __future__ import annotations

from pathlib import Path

from rbench.cache import weights_hash
from rbench.spec import BuildJob, Job, PretrainJob, Record
from rbench.stages.context import Context, Source
from rbench.stages.inputs import Inputs, own


def build(job: Job, spec: BuildJob, context: Context, source: Source) -> Record:
    """Make the thing and store its outcomes."""
    from rbench.build import thing

    trained = context.plan.job(job.needs[0])
    assert isinstance(trained.spec, PretrainJob)
    module = thing(spec.what.name)
    options = module.Options.model_validate(spec.what.options)
    inputs = Inputs(job, context)
    folder, encoder = Path(inputs.open(inputs.made(trained.key))), trained.spec.encoder.name
    built = module.run(
        own(trained.spec, context),
        folder,
        context.data(spec.task, spec.data_fingerprint, options.split),
        options,
        seed=job.seed,
        device=context.device,
        resources=inputs.resources(trained.spec.resources, encoder),
    )
    inputs.check()
    known = {outcome.example_id for outcome in context.store.outcomes(job)}
    for outcome in built.outcomes:
        if outcome.example_id not in known:  # a run that was killed here makes them again, the same
            context.store.append(job, outcome)
    asked, kinds = trained.spec.resources, trained.spec.resource_fingerprints
    return Record(
        job=job,
        status="complete",
        scores=built.scores,
        counts=built.counts,
        provenance=source(
            dataset_fingerprint=spec.data_fingerprint,
            weights_hash=weights_hash(folder),
            resources={} if asked is None else inputs.hashes(asked, kinds, encoder),
        ),
    )

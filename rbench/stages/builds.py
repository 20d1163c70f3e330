"""Run build jobs, which make things to look at, such as the positives of an encoder's training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench.spec import BuildJob, Job, PretrainJob, Record
from rbench.stages.context import Context, Source
from rbench.stages.inputs import Inputs, own
from rbench.storage.weights import weights_hash


def build(job: Job, spec: BuildJob, context: Context, source: Source) -> Record:
    """Build with the module that the spec names, and store the outcomes.

    They replace those of a run that was killed: another machine may not build the same to the last bit.
    """
    trained = context.plan.job(job.needs["encoder"])
    assert isinstance(trained.spec, PretrainJob)
    assert trained.spec.encoder.train is not None
    module: Any = context.modules["build", spec.what.name].open()
    options = module.Options.model_validate(spec.what.options)
    inputs = Inputs(job, context)
    folder, encoder = Path(inputs.open(inputs.made("encoder"))), trained.spec.encoder.name
    built = module.run(
        own(trained.spec, context),
        folder,
        context.data(spec.task, spec.data_fingerprint, options.split),
        options,
        seed=job.seed,
        device=context.device,
        resources=inputs.resources(trained.spec.resources, encoder),
        objective=context.modules["objectives", trained.spec.encoder.train.objective].open(),
    )
    inputs.check()
    context.store.read(job).check_owner()
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
        outcomes=context.store.write_outcomes(job, built.outcomes),
    )

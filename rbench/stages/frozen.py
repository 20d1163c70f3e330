"""Open what a measure of encoders is given: an encoder as it is, rows of a task, and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rbench.measures._context import EncoderContext
from rbench.spec import Job, MeasureJob
from rbench.stages.context import Context
from rbench.stages.inputs import Inputs

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder


def encoder_context(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> EncoderContext:
    """Open the inputs of a job. Raises JobError if something is not as it was planned."""
    data = context.data(spec.task, spec.data_fingerprint)
    return EncoderContext(
        task=spec.task,
        name=job.parts[0],
        encoder=_encoder(job, spec, inputs, context),
        rows=data.split,
        splits=tuple(data.sizes),
        resources=inputs.resources(spec.resources),
        progress=context.progress.update,
    )


def evidence(spec: MeasureJob, inputs: Inputs, job: Job, encoder: SentenceEncoder) -> dict[str, Any]:
    """Return the fields of the record's provenance that say which weights and resources were used."""
    assert spec.encoder is not None
    if spec.encoder.random_weights:
        from rbench.encoders import random_weights

        weights = random_weights.weights_hash(encoder)
    else:
        weights = inputs.hash_of("encoder", inputs.place("encoder", job.parts[0]))
    profile = spec.resources
    found = inputs.hashes(profile, spec.resource_fingerprints) if profile is not None else {}
    return {"weights_hash": weights, "resources": found}


def _encoder(job: Job, spec: MeasureJob, inputs: Inputs, context: Context) -> SentenceEncoder:
    """Open the encoder. The network stays in memory for the next job with the same one."""
    from rbench import encoders

    assert spec.encoder is not None
    own, place = spec.encoder, inputs.place("encoder", job.parts[0])
    how = f"{own.model_dump_json()} {job.seed} {spec.task.kind}"

    def load(where: str) -> SentenceEncoder:
        return encoders.load(own, where, device=context.device, seed=job.seed, kind=spec.task.kind)

    return inputs.network(place, how, load)

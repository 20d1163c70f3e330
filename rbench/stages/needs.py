"""Where the things lie that a job needs: weights that earlier jobs left in the cache, those of others, resources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench.lineage import in_domain_for, trained_root, weights_source
from rbench.spec import IN_DOMAIN, EncoderSpec, Job, PretrainJob, ResourceProfile
from rbench.stages.context import Context


def own(spec: PretrainJob, context: Context) -> EncoderSpec:
    """The encoder with its paths, of which the job's spec holds none; an in-domain one with its task's corpus."""
    own = context.encoders[spec.encoder.name]
    assert own.train is not None and spec.encoder.train is not None
    return in_domain_for(own, spec.encoder.train.data) if own.train.data == IN_DOMAIN else own


def resources(profile: ResourceProfile | None, job: Job, context: Context) -> Any:
    """What a training asks of a profile, loaded as it is asked for; None where it asks for nothing."""
    if profile is None:
        return None
    from rbench.resources import Resources

    return Resources(profile, context.models_path, device=context.device, trained=trained(job, context))


def model(name: str, job: Job, context: Context) -> Path | str:
    """Where a model that a job names lies: trained by a job that it needs, an encoder's weights, a folder or hub id."""
    from rbench import encoders

    if name not in context.encoders:
        return encoders.locate(EncoderSpec(name=name, base=name), context.models_path).where
    root = trained_root(name, context.encoders)
    return trained(job, context)[root] if root is not None else weights_of(name, context)


def trained(job: Job, context: Context) -> dict[str, Path]:
    """Folders of the encoders that pretrain jobs which `job` needs have made, by name."""
    needed = (context.plan.job(key) for key in job.needs)
    return {
        below.spec.encoder.name: context.cache.folder(below.key)
        for below in needed
        if isinstance(below.spec, PretrainJob)
    }


def weights_of(name: str, context: Context) -> Path | str:
    """Where the weights that no job makes lie, for an encoder or its base: a folder, or a hub id."""
    from rbench import encoders

    spec = weights_source(name, context.encoders)
    assert spec is not None
    return encoders.locate(spec, context.models_path).where

"""Open the victim of an attack of a RUN again, if it is here, to ask it for further texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rbench.errors import JobError, ResourceError
from rbench.plan.prepare import Options
from rbench.schema import Job, TaskSpec
from rbench.store.weights import WeightCache, default_cache, weights_hash
from rbench.victims.place import locate

_KEY = re.compile(r"[0-9a-f]{64}")


def reopen_victim(job: Job, task: TaskSpec, victim: str, options: Options) -> Any:
    """Return the victim that a job made, or opened; or say in a text why it cannot be asked.

    Args:
        task: what it classifies.
        victim: the hash of the weights that the RUN names.
        options: where models are, and what computes victims.
    """
    from rbench.execution.run import resolve_device
    from rbench.recipes.engine import EngineConfig, open_victim

    cache = WeightCache(default_cache())
    existing_victim = job.opening.victim if job.opening is not None else None
    try:
        if existing_victim is not None:
            place = locate(existing_victim, task, options.models)
            where, weights = place.where, place.fingerprint
        elif _KEY.fullmatch(job.key) and cache.seems_to_have(job.key):
            where = str(cache.folder(job.key))
            weights = weights_hash(Path(where))
        else:
            return f"the weights of {job.name} are not in the cache {cache.root}. Run the suite of the RUN here"
    except (JobError, ResourceError) as error:
        return str(error)
    if weights != victim:
        return f"the weights of {job.name} in {where} are not those that were attacked. Run the suite of the RUN here"
    device, backends = resolve_device(options.device), default_cache() / "backends.json"
    config = EngineConfig(device, options.backend, backends_file=backends)
    return open_victim(existing_victim, where, task, job.name, config)

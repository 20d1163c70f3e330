"""Logs what a run takes from where; `--verbose` shows it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbench.plan.prepare import Prepared
    from rbench.spec import Job
    from rbench.storage.weights import WeightCache

logger = logging.getLogger("rbench")


def inputs(prepared: Prepared) -> None:
    """Log the suite's file, and every place of data, weights and resources with its fingerprint."""
    logger.info("suite %s: %s", prepared.plan.suite.name, prepared.loaded.path or "given without a file")
    for name, data in prepared.data.items():
        logger.info("task %s: %s, %s", name, data.origin, data.fingerprint[:12])
    for name, place in prepared.places.weights.items():
        logger.info("weights of %s: %s, %s", name, place.where, place.fingerprint[:12])
    for kind, place in prepared.places.resources.items():
        logger.info("%s: %s, %s", kind, place.where, place.fingerprint[:12])


def jobs(todo: Collection[Job], planned: Collection[Job], cache: WeightCache, device: str) -> None:
    """Log which jobs run, and which of them find their weights in the cache."""
    logger.info("%d of %d jobs are to do, on %s; the cache is %s", len(todo), len(planned), device, cache.root)
    for job in todo:
        known = ", weights in the cache" if cache.seems_to_have(job.key) else ""
        logger.debug("to do: %s, key %s%s", job.name, job.key[:12], known)

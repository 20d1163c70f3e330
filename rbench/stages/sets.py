"""Open the contrast sets and adversarial sets that victims classify."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rbench.errors import JobError
from rbench.spec import AdversarialSet, ContrastSpec, Job, MeasureJob
from rbench.stages.context import Context
from rbench.tasks import adversarial

if TYPE_CHECKING:
    from rbench.tasks import ContrastData
    from rbench.tasks.adversarial import AdversarialRow


class Opened(NamedTuple):
    """What is in a set, and the content hash of its rows."""

    content: ContrastData | list[AdversarialRow]
    fingerprint: str


def opened_set(job: Job, spec: MeasureJob, context: Context) -> Opened | None:
    """Return the set of a job: from its folder, or of the outcomes of an attack of the RUN. None where it has none.

    Raises JobError where it is no longer the planned one.
    """
    if spec.set is None:
        return None
    if "attack" in job.needs:
        attack = context.plan.job(job.needs["attack"])
        rows = [adversarial.row_of(outcome) for outcome in adversarial.kept(context.store.outcomes(attack))]
        if not rows:
            raise JobError(f"{attack.name} has no outcome to make a set of: all of its examples errored")
        return Opened(rows, adversarial.fingerprint_of(rows))
    name, found = _planned(spec.set, spec, context)
    if found.fingerprint != spec.data_fingerprint:
        raise JobError(f"{name} changed while the run was under way; run the command again")
    return found


def _planned(of: ContrastSpec | AdversarialSet, spec: MeasureJob, context: Context) -> tuple[object, Opened]:
    """Return the name or folder of a set that planning found, and the set."""
    if isinstance(of, ContrastSpec):
        (own,) = (one for one in context.contrast[spec.task.name] if one.name == of.name)
        data = context.contrast_set(own, spec.task)
        return own.name, Opened(data, data.fingerprint)
    asked = next(one for one in context.adversarial[spec.task.name] if one.set == of)
    assert asked.folder is not None
    rows = context.rows.adversarial(asked.folder, spec.task)
    return asked.folder, Opened(list(rows.rows), rows.fingerprint)


def kept_out(job: Job, spec: MeasureJob, context: Context) -> dict[str, int]:
    """Count the rows that a set kept out of the victim's training and out of its validation."""
    trained = context.plan.job(job.needs["victim"]).tuning
    if trained is None or spec.set is None:
        return {}  # nobody knows on what a classifier that exists was trained
    dropped = context.data(spec.task, trained.data_fingerprint).dropped
    reasons = {split: f"{split}: also in {spec.set.name}" for split in ("train", "validation")}
    return {f"{split}_kept_out": dropped.get(reason, 0) for split, reason in reasons.items()}

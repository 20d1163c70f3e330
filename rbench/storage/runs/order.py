"""Check that the jobs of a stored plan can be read as a plan's: anybody may have written the file."""

from __future__ import annotations

from rbench.spec import (
    AdversarialJob,
    AttackJob,
    BuildJob,
    ContrastJob,
    EvaluateJob,
    FinetuneJob,
    MeasureJob,
    Plan,
    PretrainJob,
    VictimJob,
)

PARTS: dict[type, tuple[int, ...]] = {
    PretrainJob: (1, 2),
    FinetuneJob: (3,),
    VictimJob: (3,),
    EvaluateJob: (2,),
    ContrastJob: (4,),
    AdversarialJob: (4,),
    BuildJob: (3,),
}
"""How many parts the name of a job has. Those of attacks end with `train` where they are on texts of that split."""


def check_order(plan: Plan) -> None:
    """Raise ValueError unless each job is there once, after all that it needs, and has a name of its stage."""
    before: set[str] = set()
    for job in plan.jobs:
        spec = job.spec
        named = (4 + (spec.split != "test"),) if isinstance(spec, AttackJob) else PARTS.get(type(spec))
        if not (len(job.parts) in named if named is not None else isinstance(spec, MeasureJob) and len(job.parts) > 1):
            raise ValueError(f"a job of the stage {job.stage} has the name {job.name}")
        if job.key in before:
            raise ValueError(f"{job.name} has the key of a job above it")
        for role, key in job.needs.items():
            if key not in before:
                raise ValueError(f"{job.name} needs as {role} the job {key[:16]}, which is not above it")
        before.add(job.key)

"""Checks recipes and their parameters against TextAttack itself, which reading a suite does not import."""

from __future__ import annotations

from collections.abc import Iterable

from rbench.spec import AttackSpec, Job


def check_attacks(jobs: Iterable[Job], *, set_by_suite: bool = False) -> None:
    """Check the attacks of `jobs` before anything is trained.

    Args:
        set_by_suite: check only recipes of which the suite sets a parameter, so that planning waits for TextAttack's
            import, which takes seconds, only where a mistake is likely. A run checks the others before it trains.

    Raises:
        SuiteError: as `rbench.attack.check`.
    """
    chosen: dict[str, AttackSpec] = {}  # many jobs have the same attack
    for job in jobs:
        if job.attacking is not None and (not set_by_suite or _sets_a_parameter(job, job.attacking.attack)):
            chosen.setdefault(job.attacking.attack.model_dump_json(), job.attacking.attack)
    if chosen:
        from rbench.attack import check

        for spec in chosen.values():
            check(spec)


def _sets_a_parameter(job: Job, attack: AttackSpec) -> bool:
    """Whether a job's name has a parameter of its recipe, as in pwws[GreedyWordSwapWIR.wir_method=delete]."""
    return attack.recipe is not None and any(name in job.name for name in attack.parameters)

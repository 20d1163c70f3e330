"""Checks recipes and their parameters against TextAttack itself, which reading a suite does not import."""

from __future__ import annotations

from collections.abc import Iterable

from rbench.spec import AttackJob, Job


def check_attacks(jobs: Iterable[Job], *, with_parameters: bool = False) -> None:
    """Check the attacks of `jobs` before anything is trained.

    Args:
        with_parameters: check only recipes whose parameters a suite or a file sets. The others ship with rbench and
            are as TextAttack publishes them, so planning need not wait for TextAttack's import, which takes seconds.

    Raises:
        SuiteError: as `rbench.attack.check`.
    """
    attacks = {job.parts[-1]: job.spec.attack for job in jobs if isinstance(job.spec, AttackJob)}
    chosen = [spec for spec in attacks.values() if not with_parameters or (spec.recipe and spec.parameters)]
    if chosen:
        from rbench.attack import check

        for spec in chosen:
            check(spec)

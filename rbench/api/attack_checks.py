"""Checks recipes and their parameters against TextAttack itself, which reading a suite does not import."""

from __future__ import annotations

from collections.abc import Iterable

from rbench.spec import AttackJob, AttackSpec, Job


def check_attacks(jobs: Iterable[Job], *, set_by_suite: bool = False) -> None:
    """Check the attacks of `jobs` before anything is trained.

    Args:
        set_by_suite: check only recipes of which the suite sets a parameter. The files of the others are right already,
            as far as they ship with rbench, so planning need not wait for TextAttack's import, which takes seconds.

    Raises:
        SuiteError: as `rbench.attack.check`.
    """
    attacks = {"/".join(job.parts): job.spec.attack for job in jobs if isinstance(job.spec, AttackJob)}
    chosen = [spec for name, spec in attacks.items() if not set_by_suite or _names_a_parameter(name, spec)]
    if chosen:
        from rbench.attack import check

        for spec in {id(spec): spec for spec in chosen}.values():
            check(spec)


def _names_a_parameter(name: str, spec: AttackSpec) -> bool:
    """Whether a job's name has a parameter of its recipe, as in pwws[GreedyWordSwapWIR.wir_method=delete]."""
    return spec.recipe is not None and any(parameter in name for parameter in spec.parameters)

"""Warn when processes of one machine that share a RUN compute with more threads than the machine has cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rbench.system.members import identity_of


def warning(others: Sequence[dict[str, Any]], threads: int, cores: int) -> str | None:
    """Return a warning if this process and the others here have more threads than cores; None if they have not.

    Threads of two trainings that wait for one core wait for each other at every product of matrices, so both may take
    several times as long.

    Args:
        others: what the other processes of the RUN say of themselves. Those on other machines do not count. One that
            has not said how many threads it has counts as having as many as this one.
        threads: those that this process computes with.
        cores: those of this machine.
    """
    here = [one for one in others if (which := identity_of(one)) is not None and which.here]
    taken = sum(one.get("threads", threads) for one in here)
    if not here or taken + threads <= cores:
        return None
    count = len(here) + 1
    if count > cores:
        remedy = f"Start at most {cores} here, each with OMP_NUM_THREADS=1"
    else:
        remedy = f"Start each with OMP_NUM_THREADS={cores // count}"
    return (
        f"{count} processes of this run share the {_said(cores, 'core')} of this machine and compute with "
        f"{_said(taken + threads, 'thread')}. That may make all of them several times slower. {remedy}, or start one "
        f"command with --executor local --processes {min(count, cores)}, which divides the cores."
    )


def _said(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

"""What a training, a fine-tuning or an attack says about itself: whether it could teach or show anything."""

from __future__ import annotations

from typing import Literal, get_args

from rbench.spec.common import Count, Strict

Flag = Literal[
    "saturated",
    "no adversary",
    "head did not learn",
    "perturbation dead",
    "starved of candidates",
    "near chance",
    "labels exchanged",
]
FLAGS: tuple[Flag, ...] = get_args(Flag)


class Measured(Strict):
    """Values that were measured at one step of a training, by name."""

    step: Count
    values: dict[str, float]


class Raised(Strict):
    """A flag, and the numbers that raised it, in words."""

    flag: Flag
    because: str
    """One sentence part without a full stop: `loss 0.00001 at step 31 of 156, where chance is 4.16`."""


class Health(Strict):
    """The health of what a job made. docs/health.md derives the thresholds of the flags."""

    series: tuple[Measured, ...] = ()
    """A short series of measurements in the order of steps; empty for what takes no steps."""
    values: dict[str, float] = {}
    """What was measured once, at the end, by name."""
    flags: tuple[Raised, ...] = ()

"""Raise flags from the series of a training: what it could not teach. docs/health.md derives each threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rbench.score.statistics import wilson
from rbench.spec import Flag, Measured, Raised

ENOUGH = 16
"""Fewer texts do not show that a training is saturated."""
Values = dict[str, float]


def flags(series: Sequence[Measured], steps: int) -> tuple[Raised, ...]:
    """Return the flags of a training of `steps` steps. A value that is not in the series raises no flag."""
    checks: dict[Flag, Callable[[Sequence[Measured], int], str | None]] = {
        "saturated": _saturated,
        "no adversary": _no_adversary,
        "head did not learn": _head_did_not_learn,
        "perturbation dead": _perturbation_dead,
    }
    said = {flag: check(series, steps) for flag, check in checks.items()}
    return tuple(Raised(flag=flag, because=because) for flag, because in said.items() if because is not None)


def _with(series: Sequence[Measured], *names: str) -> list[Measured]:
    """The points of the series that have all of these values."""
    return [point for point in series if all(name in point.values for name in names)]


def _at(point: Measured, steps: int) -> str:
    return f"at step {point.step} of {steps}"


def _saturated(series: Sequence[Measured], steps: int) -> str | None:
    """All texts together have less error than one that is wholly wrong, at the first point and at most points."""

    def at_its_floor(point: Measured) -> bool:
        n = point.values["texts"]
        return n >= ENOUGH and n * point.values["error"] < 1

    points = _with(series, "texts", "error", "contrastive loss", "loss at chance")
    floored = [point for point in points if at_its_floor(point)]
    if not points or not at_its_floor(points[0]) or 2 * len(floored) <= len(points):
        return None
    first, last = points[0].values, points[-1].values
    later = f" and {_number(last['contrastive loss'])} {_at(points[-1], steps)}" if len(points) > 1 else ""
    return (
        f"contrastive loss {_number(first['contrastive loss'])} {_at(points[0], steps)}{later}, "
        f"where chance is {first['loss at chance']:.2f}"
    )


def _no_adversary(series: Sequence[Measured], steps: int) -> str | None:
    """At most points delta does no more than a random perturbation of its size, or no more than dropout."""
    points = _with(series, "adversarial cosine", "dropout cosine")
    found = [(point, said) for point in points if (said := _idle(point.values)) is not None]
    if 2 * len(found) <= len(points):
        return None
    point, said = found[-1]
    return f"{said} {_at(point, steps)}"


def _idle(values: Values) -> str | None:
    """Say why delta is no adversary at one point; None if it is one."""
    rise, control, noise = (values.get(name) for name in ("rise", "random rise", "dropout change"))
    if rise is not None and control is not None:
        least = values.get("least rise above random", rise - control)
        if least <= 0:
            surely = f", whose difference may be {_number(least)} (95% interval)" if rise > control else ""
            return (
                f"delta raises the loss by {_number(rise)} and a random perturbation of its size by {_number(control)}"
                f"{surely}"
            )
    near = values["adversarial cosine"] >= values["dropout cosine"]
    small = rise is None or noise is None or rise <= noise
    if not (near and small):
        return None
    said = (
        f"clean and adversarial vectors have cosine {values['adversarial cosine']:.4f} (two dropout views "
        f"{values['dropout cosine']:.4f})"
    )
    if rise is not None and noise is not None:
        said += f" and delta raises the loss by {_number(rise)} (another dropout mask changes it by {_number(noise)})"
    return said


def _head_did_not_learn(series: Sequence[Measured], steps: int) -> str | None:
    """At the last point the 95% interval of top-1 includes chance."""
    points = _with(series, "texts", "top-1", "top-1 at chance")
    if not points:
        return None
    values = points[-1].values
    n, share, chance = values["texts"], values["top-1"], values["top-1 at chance"]
    interval = wilson(share * n, n)
    if interval is None or interval[0] > chance:
        return None
    return (
        f"top-1 {share:.3f} (95% interval {interval[0]:.3f} to {interval[1]:.3f}, n = {n:.0f}) "
        f"{_at(points[-1], steps)}, where chance is {_number(chance)}"
    )


def _perturbation_dead(series: Sequence[Measured], steps: int) -> str | None:
    """At the last point most words have no token-level perturbation."""
    points = _with(series, "dead words")
    if not points or points[-1].values["dead words"] <= 0.5:
        return None
    return f"{points[-1].values['dead words']:.0%} of the words have none {_at(points[-1], steps)}"


def _number(value: float) -> str:
    """Write a number with two or three digits that count, and without an exponent if it is a millionth or more."""
    return f"{value:.7f}".rstrip("0") if 1e-6 <= abs(value) < 1e-4 else f"{value:.3g}"

"""Writes the notes on attacks on STS tasks: when they succeed, and what the metrics of attacks mean for pairs."""

from __future__ import annotations

from collections.abc import Iterable

from rbench.spec import AttackJob, TaskSpec

_MEANT = (
    "For STS pairs AUA is the share of all pairs that are not skipped and that the attack could not move by the "
    "threshold, and clean accuracy is the share whose error was below it before the attack."
)
_SCORERS = {
    "cosine": "cosine: the cosine of the encoder's two vectors, mapped to the scale by a monotone fit on validation",
    "regression": "regression: a head on the encoder's two vectors, fine-tuned on the training split",
}


def rules(jobs: Iterable[AttackJob]) -> list[str]:
    """Return notes on the rule of success, its thresholds and scales, and the scorers, of attacks on STS tasks.

    There are none without such an attack.
    """
    scored = [job for job in jobs if job.task.kind == "sts"]
    if not scored:
        return []
    scales = dict.fromkeys(f"{job.task.name} {_scale(job.task)}" for job in scored)
    changes = dict.fromkeys(_rule(job) for job in scored)
    scorers = dict.fromkeys(_SCORERS.get(job.strategy.name, job.strategy.label) for job in scored)
    return [
        "An attack on an STS pair succeeds where the absolute error of the score grows by at least a share of the "
        f"width of the task's scale: {'; '.join(changes)}. The rule is ours: the paper prints none. A pair whose error "
        "is past the threshold before any change is skipped.",
        f"Scales: {'; '.join(scales)}.",
        _MEANT,
        f"Scorers: {'; '.join(scorers)}.",
    ]


def _scale(task: TaskSpec) -> str:
    if task.scale is None:
        return "not stated"
    low, high = task.scale
    return f"{low:g} to {high:g}"


def _rule(job: AttackJob) -> str:
    """Describe the threshold in an attack's options, which side may change, and whether it goes on after a success."""
    rule, scale = job.attack.similarity, job.task.scale
    points = "" if scale is None else f" ({rule.threshold * (scale[1] - scale[0]):.3g} points of {job.task.name})"
    side = "" if rule.side == "both" else f", only the {rule.side} sentence may change"
    on = ", searched on to the largest error" if rule.maximise else ""
    return f"{rule.threshold:g}{points}{side}{on}"

"""Semantic textual similarity (STS): pairs of sentences with a gold score, which victims estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from rbench.schema.common import Strict
from rbench.schema.kinds.base import AttackFields, TaskFields, TaskKind


class SimilarityGoalSpec(Strict):
    """When an attack on a pair of an STS task has succeeded, and what it may change. All of it is ours."""

    OPTIONAL = frozenset({"threshold", "maximise", "side"})

    threshold: Annotated[float, Field(gt=0, le=1)] = 0.2
    """By how much the absolute error must grow, as a share of the width of the task's scale."""
    maximise: bool = False
    """Whether the search goes on after a success, for the largest error that the attack finds."""
    side: Literal["both", "first", "second"] = "both"
    """Which of the two sentences may change."""


_CLEAN_ACCURACY = (
    "For STS pairs AUA is the share of all pairs that are not skipped and that the attack could not move by the "
    "threshold, and clean accuracy is the share whose error was below it before the attack."
)
_SCORERS = {
    "cosine": "cosine: the cosine of the encoder's two vectors, mapped to the scale by a monotone fit on validation",
    "regression": "regression: a head on the encoder's two vectors, fine-tuned on the training split",
}


@dataclass(frozen=True, kw_only=True)
class SimilarityKind(TaskKind):
    """A task in which victims score pairs, and an attack succeeds when the score moves away from the gold score."""

    def why_no_victims(self, task: TaskFields) -> str | None:
        if task.scale is not None:
            return None
        return (
            f"task {task.name} does not say which its lowest and highest scores are; write them into its file, for "
            "instance `scale: [0, 5]`"
        )

    def goal_notes(self, attacks: Sequence[AttackFields]) -> list[str]:
        """Return notes on the rule of success, its thresholds and scales, and the scorers."""
        scales = dict.fromkeys(f"{attack.task.name} {_scale(attack.task)}" for attack in attacks)
        changes = dict.fromkeys(map(_rule, attacks))
        scorers = dict.fromkeys(_SCORERS.get(attack.strategy.name, attack.strategy.label) for attack in attacks)
        return [
            "An attack on an STS pair succeeds where the absolute error of the score grows by at least a share of the "
            f"width of the task's scale: {'; '.join(changes)}. The rule is ours: the paper prints none. A pair whose "
            "error is past the threshold before any change is skipped.",
            f"Scales: {'; '.join(scales)}.",
            _CLEAN_ACCURACY,
            f"Scorers: {'; '.join(scorers)}.",
        ]

    def success_rule(self, attack: AttackFields) -> str:
        share = f"{attack.attack.similarity.threshold:.0%} of the scale"
        return f"the absolute error of the victim's score grows by at least {share} (ours)"


def _scale(task: TaskFields) -> str:
    if task.scale is None:
        return "not stated"
    low, high = task.scale
    return f"{low:g} to {high:g}"


def _rule(attack: AttackFields) -> str:
    """Describe the threshold in an attack's options, which side may change, and whether it goes on after a success."""
    rule, scale = attack.attack.similarity, attack.task.scale
    points = "" if scale is None else f" ({rule.threshold * (scale[1] - scale[0]):.3g} points of {attack.task.name})"
    side = "" if rule.side == "both" else f", only the {rule.side} sentence may change"
    on = ", searched on to the largest error" if rule.maximise else ""
    return f"{rule.threshold:g}{points}{side}{on}"


SIMILARITY = SimilarityKind(
    name="sts",
    family="similarity",
    tasks="tasks with similarity scores",
    has="similarity scores",
    has_scores=True,
    label_column="score",
    ordered=False,
    texts=2,
    own_fields={
        "scale": "`scale` is the range of similarity scores",
        "subsets": "`subsets` are parts of similarity tasks",
    },
    default_strategy="cosine",
    victim="scorer",
    quality="validation_spearman",
    score="Spearman's correlation",
    lowest_score=-1.0,
    goal="similarity",
    oracle=False,
    attack_code=("attacked.similarity", "recipes.similarity_goal", "encoders.scorer"),
    hub_category="sentence-similarity",
    answer="score, on the task's scale",
)

"""Attacks on tasks with similarity scores: the goal is to move the score of a pair away from its gold score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from textattack import Attack

from rbench.errors import SuiteError
from rbench.recipes.attacked.base import AttackedKind, Truth
from rbench.recipes.similarity_goal import aim_at_similarity, remember_allowed
from rbench.recipes.victim import ScorerVictim
from rbench.schema import AttackSpec, SkipReason, TaskSpec
from rbench.tasks import Example

VERSION = 1


@dataclass(frozen=True)
class GoldScore(Truth):
    """The gold score of a pair on the task's scale; None where it is missing or no number."""

    value: float | None

    @property
    def given(self) -> str:
        return repr(float(self.value or 0.0))

    @property
    def fields(self) -> dict[str, Any]:
        return {"gold": self.value}

    def answer(self, when: str, output: Any) -> dict[str, Any]:
        return {f"{when}_score": float(output)}

    def step(self, raw: Any, output: Any) -> tuple[float, int | None]:
        return float(output), None


class AttackedScores(AttackedKind):
    """Victims are scorers of pairs. There is no oracle: the embedded world's score of a changed pair is no label."""

    wrapper = ScorerVictim

    def truth(self, example: Example, task: TaskSpec) -> GoldScore:
        """Return the gold score. A pair without one, or with an empty sentence, is skipped."""
        assert task.scale is not None  # `aimed` has checked it
        label = example.label
        score = float(label) if label is not None and math.isfinite(label) else None
        unfit: SkipReason | None = None
        if not all(text.strip() for text in example.texts):
            unfit = "empty sentence"
        elif score is None or not task.scale[0] <= score <= task.scale[1]:
            unfit = "gold outside the scale"
        return GoldScore(score, unfit)

    def aimed(self, attack: Attack, victim: Any, task: TaskSpec, spec: AttackSpec) -> Attack:
        if task.scale is None:
            raise SuiteError(f"task {task.name} has no scale, and attacks need it: write `scale: [lowest, highest]`")
        return aim_at_similarity(attack, victim, task, spec.similarity)

    def finished(self, attack: Attack, spec: AttackSpec) -> Attack:
        return remember_allowed(attack) if spec.similarity.maximise else attack

    def protected_columns(self, task: TaskSpec, spec: AttackSpec) -> tuple[str, ...]:
        if spec.similarity.side == "both":
            return ()
        return (task.columns[1 if spec.similarity.side == "first" else 0],)


ATTACKED = AttackedScores()

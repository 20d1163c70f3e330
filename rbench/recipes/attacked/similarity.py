"""Attacks on tasks with similarity scores: the goal is to move the score of a pair away from its gold score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from textattack import Attack

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
    def for_textattack(self) -> str:
        # As text, since TextAttack refuses floats. A pair without a score is skipped, so the goal never reads its 0.0.
        return repr(float(self.value or 0.0))

    @property
    def fields(self) -> dict[str, Any]:
        return {"gold": self.value}

    def answer(self, when: str, output: Any) -> dict[str, Any]:
        return {f"{when}_score": float(output)}

    def step(self, raw: Any, output: Any) -> tuple[float, int | None]:
        return float(output), None


class AttackedScores(AttackedKind):
    """Attacks on scorers of pairs.

    They have no oracle: what the embedded world knows of a changed pair is a score, and `oracle_label` gives labels.
    """

    wrapper = ScorerVictim

    def truth(self, example: Example, task: TaskSpec) -> GoldScore:
        """Return the gold score. A pair is to be skipped if a sentence is empty, or its gold score missing or outside
        the scale."""
        assert task.scale is not None  # `SimilarityKind.why_no_victims`
        label = example.label
        score = float(label) if label is not None and math.isfinite(label) else None
        skip_reason: SkipReason | None = None
        if not all(text.strip() for text in example.texts):
            skip_reason = "empty sentence"
        elif score is None or not task.scale[0] <= score <= task.scale[1]:
            skip_reason = "gold outside the scale"
        return GoldScore(score, skip_reason)

    def aim_attack(self, attack: Attack, victim: Any, task: TaskSpec, spec: AttackSpec) -> Attack:
        return aim_at_similarity(attack, victim, task, spec.similarity)

    def finish_attack(self, attack: Attack, spec: AttackSpec) -> Attack:
        if not spec.similarity.maximise:
            return attack
        # The largest error counts only among texts that the constraints allow, and the search also asks for others.
        return remember_allowed(attack)

    def protected_columns(self, task: TaskSpec, spec: AttackSpec) -> tuple[str, ...]:
        first_column, second_column = task.columns
        match spec.similarity.side:  # the sentence that the attack may change
            case "first":
                return (second_column,)
            case "second":
                return (first_column,)
            case _:
                return ()


ATTACKED = AttackedScores()

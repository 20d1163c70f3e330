"""Constraints that a suite can add to any attack: protected columns, and a maximum number of changed words."""

from __future__ import annotations

import math
from typing import Any

from textattack import Attack
from textattack.constraints import Constraint, PreTransformationConstraint
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.constraints.pre_transformation import InputColumnModification
from textattack.transformations import WordSwapMaskedLM

from rbench.attack.cached import columns_of
from rbench.errors import SuiteError
from rbench.load.registry import nearest
from rbench.spec import AttackSpec, TaskSpec
from rbench.system.changes import words_changed

VERSION = 1


class MaxWordsChanged(Constraint):  # type: ignore[misc]
    """Refuses texts in which more than `max_words` words of the original are changed."""

    def __init__(self, max_words: int) -> None:
        super().__init__(compare_against_original=True)
        self.max_words = max_words

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        return words_changed(columns_of(reference_text), columns_of(transformed_text)) <= self.max_words

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


class EnoughWordsChanged(PreTransformationConstraint):  # type: ignore[misc]
    """Once `max_words` words are changed, allows changes to these words only.

    `MaxWordsChanged` would refuse all other candidates, so they are not made.
    """

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        everything = set(range(len(current_text.words)))
        if words_changed(columns_of(_original(current_text)), columns_of(current_text)) < self.max_words:
            return everything
        return everything & set(current_text.attack_attrs["modified_indices"])

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


class EnoughWordsPerturbed(PreTransformationConstraint):  # type: ignore[misc]
    """Once as many words differ from the original as `limit` allows, allows changes to these words only.

    `limit` is TextAttack's MaxWordsPerturbed (40% in BERT-Attack). It would refuse all other candidates, so the masked
    LM is not asked for them. This holds for transformations that replace one word by one word.
    """

    def __init__(self, limit: MaxWordsPerturbed) -> None:
        self.limit = limit

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        original = _original(current_text)
        everything = set(range(current_text.num_words))
        if original.num_words != current_text.num_words:
            return everything
        different: set[int] = current_text.all_words_diff(original)
        most = [float("inf")]
        if self.limit.max_percent:
            most.append(math.ceil(current_text.num_words * self.limit.max_percent))
        if self.limit.max_num_words:
            most.append(self.limit.max_num_words)
        return different if len(different) >= min(most) else everything


def _original(text: Any) -> Any:
    """Return the text that the attack of `text` began with."""
    while (before := text.attack_attrs.get("previous_attacked_text")) is not None:
        text = before
    return text


def foreseen(attack: Attack) -> list[PreTransformationConstraint]:
    """Return constraints that keep an attack from making candidates that its own constraints would refuse."""
    if not isinstance(attack.transformation, WordSwapMaskedLM):
        return []
    return [EnoughWordsPerturbed(c) for c in attack.constraints if type(c) is MaxWordsPerturbed]


def protected_columns(spec: AttackSpec, task: TaskSpec) -> tuple[str, ...]:
    """Return the columns of `task` that the attack must not change. On STS tasks `similarity.side` may add one.

    Raises:
        SuiteError: the attack protects a column that the task does not have.
    """
    columns = spec.protect.get(task.kind, ())
    if task.kind == "sts" and spec.similarity.side != "both":
        columns = (*columns, task.columns[1 if spec.similarity.side == "first" else 0])
    for column in columns:
        if column not in task.columns:
            hint = f"; did you mean {' or '.join(close)}?" if (close := nearest(column, task.columns)) else ""
            raise SuiteError(
                f"attack {spec.name} protects the column {column!r} of {task.kind} tasks, but {task.name} has the "
                f"columns {', '.join(task.columns)}{hint}"
            )
    return tuple(columns)


def suite_constraints(spec: AttackSpec, task: TaskSpec) -> list[Constraint | PreTransformationConstraint]:
    """Return the constraints for `protect` and `max_words` of a spec."""
    added: list[Constraint | PreTransformationConstraint] = []
    columns = protected_columns(spec, task)
    if columns:
        added.append(InputColumnModification(list(task.columns), set(columns)))
    if spec.max_words is not None:
        added += [EnoughWordsChanged(spec.max_words), MaxWordsChanged(spec.max_words)]
    return added

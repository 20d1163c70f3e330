"""Constraints that a suite may lay on any attack: columns that stay as they are, and how many words may change."""

from __future__ import annotations

import math
from typing import Any

from textattack import Attack
from textattack.constraints import Constraint, PreTransformationConstraint
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.constraints.pre_transformation import InputColumnModification
from textattack.transformations import WordSwapMaskedLM

from rbench.errors import SuiteError
from rbench.load.registry import nearest
from rbench.spec import AttackSpec, TaskSpec

VERSION = 1


def words_changed(text: Any) -> int:
    """How many words of the original text have been changed or deleted on the way to `text` (an AttackedText).

    A word that was split in two counts once: unlike a comparison word by word, this survives TextBugger's spaces.
    """
    modified = text.attack_attrs["modified_indices"]
    return sum(int(i) == -1 or int(i) in modified for i in text.attack_attrs["original_index_map"])


class MaxWordsChanged(Constraint):  # type: ignore[misc]
    """Refuses texts in which more than `max_words` words of the original were changed."""

    def __init__(self, max_words: int) -> None:
        super().__init__(compare_against_original=True)
        self.max_words = max_words

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        return words_changed(transformed_text) <= self.max_words

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


class EnoughWordsChanged(PreTransformationConstraint):  # type: ignore[misc]
    """Leaves only words that were changed already once `max_words` were: candidates that would be refused anyway."""

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        everything = set(range(len(current_text.words)))
        if words_changed(current_text) < self.max_words:
            return everything
        return everything & set(current_text.attack_attrs["modified_indices"])

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


class EnoughWordsPerturbed(PreTransformationConstraint):  # type: ignore[misc]
    """Leaves only words that differ from the original already once as many do as `limit` allows.

    For swaps of one word for another: any other candidate would be refused by `limit`, TextAttack's MaxWordsPerturbed
    (BERT-Attack's 40%), so the masked LM need not be asked for it.
    """

    def __init__(self, limit: MaxWordsPerturbed) -> None:
        self.limit = limit

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        original = current_text
        while (before := original.attack_attrs.get("previous_attacked_text")) is not None:
            original = before
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


def foreseen(attack: Attack) -> list[PreTransformationConstraint]:
    """What may be left out of an attack's transformation because its constraints are known to refuse it."""
    if not isinstance(attack.transformation, WordSwapMaskedLM):
        return []
    return [EnoughWordsPerturbed(c) for c in attack.constraints if type(c) is MaxWordsPerturbed]


def protected_columns(spec: AttackSpec, task: TaskSpec) -> tuple[str, ...]:
    """The columns of `task` that `spec` leaves alone.

    Raises:
        SuiteError: the attack protects a column that the task does not have.
    """
    columns = spec.protect.get(task.kind, ())
    for column in columns:
        if column not in task.columns:
            hint = f"; did you mean {' or '.join(close)}?" if (close := nearest(column, task.columns)) else ""
            raise SuiteError(
                f"attack {spec.name} protects the column {column!r} of {task.kind} tasks, and {task.name} has the "
                f"columns {', '.join(task.columns)}{hint}"
            )
    return tuple(columns)


def suite_constraints(spec: AttackSpec, task: TaskSpec) -> list[Constraint | PreTransformationConstraint]:
    """What `protect` and `max_words` of a spec add to an attack."""
    added: list[Constraint | PreTransformationConstraint] = []
    columns = protected_columns(spec, task)
    if columns:
        added.append(InputColumnModification(list(task.columns), set(columns)))
    if spec.max_words is not None:
        added += [EnoughWordsChanged(spec.max_words), MaxWordsChanged(spec.max_words)]
    return added

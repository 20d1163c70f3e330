"""What an attack on a task of each kind needs, one module for each family of kinds, found by its name.

A module exports `ATTACKED`, an `AttackedKind`. Whoever builds or runs an attack asks this object, so only the module of
a task's own family is imported.
"""

from __future__ import annotations

from typing import cast

from rbench.recipes.attacked.base import AttackedKind, Truth
from rbench.schema import TaskSpec

__all__ = ["AttackedKind", "Truth", "attacked_kind"]


def attacked_kind(task: TaskSpec) -> AttackedKind:
    """Return what attacks on a task need."""
    module = task.of_kind.module_in(__name__)
    assert module is not None, f"rbench/recipes/attacked has no module {task.of_kind.family}"
    return cast(AttackedKind, module.ATTACKED)

"""All golden cases, and the bundled modules that must have one."""

from __future__ import annotations

from tests.golden import attacks, objectives, shared, strategies
from tests.golden.case import Case
from tests.recipes.world import ROOT

CASES: dict[str, Case] = {
    case.name: case for part in (objectives, strategies, attacks, shared) for case in part.cases()
}
BUNDLED = ("rbench/train/objectives", "rbench/train/finetune", "attacks")
"""Folders in which each file that has no underscore in front is a module that decides results."""


def bundled() -> list[str]:
    """The files of these folders, from the repository's root."""
    return sorted(
        f"{folder}/{path.name}"
        for folder in BUNDLED
        for path in (ROOT / folder).iterdir()
        if path.suffix in (".py", ".yaml") and not path.name.startswith("_")
    )

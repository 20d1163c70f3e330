"""Loads one attack or one classifier alone, for a call from Python that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rbench.errors import SuiteError
from rbench.load.choices import choices
from rbench.load.code import Module
from rbench.load.entries import Entries
from rbench.load.files import Files
from rbench.load.positions import Positioned, Problems
from rbench.load.recipes import recipes
from rbench.load.registry import Registry
from rbench.load.victims import load_victims
from rbench.spec import AttackSpec, VictimSpec


@dataclass(frozen=True)
class ChosenAttack:
    """An attack, its name with options, and its Python file if it has one."""

    label: str
    spec: AttackSpec
    module: Module | None

    @property
    def gradients(self) -> bool:
        """Whether it asks the victim for gradients."""
        if self.module is not None:
            return bool(getattr(self.module.open(), "GRADIENTS", False))
        recipe = recipes().get(self.spec.recipe or "")
        return recipe is not None and recipe.gradients


def chosen_attack(choice: str | Mapping[str, Any], registry: Registry) -> ChosenAttack:
    """Load the attack of this name, or of this name with options: `{"bertattack": {"max_words": 5}}`.

    Raises SuiteError where the name is unknown, or an option is wrong.
    """
    problems = Problems()
    entries = Entries(registry, problems)
    found = [*choices(Positioned({"attacks": [choice]}, {(): "attack"}), "attacks")]
    if len(found) != 1:
        raise SuiteError(f"attack: {choice!r} is neither a name nor a mapping of one name to its options")
    (chosen,) = found
    entries.attacks.load(chosen.name, chosen.options, chosen.label, chosen.place)
    problems.raise_any()
    spec = entries.attacks.found[chosen.label]
    return ChosenAttack(chosen.label, spec, entries.modules.found.get(("attacks", chosen.name)))


def chosen_victim(entry: str | Mapping[str, Any], registry: Registry) -> VictimSpec:
    """Load a classifier that exists: what a suite has under `victims`, a text or a mapping (JSON types).

    Functions and endpoints need no `version`, because a call stores no answers.

    Raises SuiteError where it is wrong.
    """
    problems = Problems()
    if isinstance(entry, Mapping) and "model" not in entry:
        entry = {"version": "given", **entry}
    _, found = load_victims(Positioned({"victims": [entry]}, {(): "victim"}), Files(registry, problems), problems)
    problems.raise_any()
    (spec,) = found.values()
    return spec

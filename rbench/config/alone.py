"""Loads one entry alone: a task, an encoder, an attack, a classifier, for whoever names it without a suite.

All functions raise SuiteError where a name is unknown or its file, or what the caller says of it, is wrong. `place` is
where the name stands, for messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.config.attacks import asks_for_gradients
from rbench.config.code import Module
from rbench.config.entries import Entries
from rbench.config.files import Files
from rbench.config.overrides import choices
from rbench.config.positions import Positioned, Problems
from rbench.config.registry import Registry
from rbench.config.victims import load_victims
from rbench.errors import SuiteError
from rbench.schema import (
    AttackSpec,
    Choice,
    ContrastSpec,
    EncoderSpec,
    ResourceChoice,
    ResourceProfile,
    TaskSpec,
    VictimSpec,
)


@contextmanager
def _entries(registry: Registry) -> Iterator[Entries]:
    """Give loaders, and raise what they found to be wrong when the block ends."""
    entries = Entries(registry, Problems())
    yield entries
    entries.problems.raise_any()


def load_task(task: str | Mapping[str, Any], registry: Registry, *, place: str = "task") -> TaskSpec:
    """Return the task with this name, or of this table, as a suite names it."""
    with _entries(registry) as entries:
        written = Positioned({"tasks": [dict(task) if isinstance(task, Mapping) else task]}, {(): place})
        (name,) = entries.tasks.tables.renamed(written, Path()).data["tasks"]
        entries.tasks.load(name, place)
    return entries.tasks.found[name]


def load_contrast(name: str, registry: Registry, *, place: str = "contrast set") -> ContrastSpec:
    """Return the contrast set with this name."""
    with _entries(registry) as entries:
        entries.contrast.load(name, place)
    return entries.contrast.found[name]


def load_encoder(name: str, registry: Registry, *, place: str = "encoder") -> EncoderSpec:
    """Return the encoder with this name, after checking its bases, corpora and resources too."""
    with _entries(registry) as entries:
        entries.encoders.load(name, place)
    return entries.encoders.found[name]


def load_resources(choice: ResourceChoice | str, registry: Registry, *, place: str = "resources") -> ResourceProfile:
    """Return the resource profile of this name or choice, with the choice's single resources put in."""
    choice = ResourceChoice(profile=choice) if isinstance(choice, str) else choice
    with _entries(registry) as entries:
        profile = entries.encoders.resources(choice, Positioned({}, {(): place}))
    assert profile is not None
    return profile


def load_attack(choice: Choice | str, registry: Registry, *, place: str = "attack") -> AttackSpec:
    """Return the attack of this name or choice, which is a registry file or a TextAttack recipe."""
    choice = Choice(name=choice) if isinstance(choice, str) else choice
    with _entries(registry) as entries:
        entries.attacks.load(choice.name, Positioned(dict(choice.options), {(): place}), choice.label, place)
    return entries.attacks.found[choice.label]


@dataclass(frozen=True)
class ChosenAttack:
    """An attack, its name with options, and its Python file if it has one."""

    label: str
    spec: AttackSpec
    module: Module | None

    @property
    def gradients(self) -> bool:
        """Whether it asks the victim for gradients."""
        return asks_for_gradients(self.spec, self.module)


def chosen_attack(choice: str | Mapping[str, Any], registry: Registry) -> ChosenAttack:
    """Load the attack of this name, or of this name with options: `{"bertattack": {"max_words": 5}}`."""
    found = [*choices(Positioned({"attacks": [choice]}, {(): "attack"}), "attacks")]
    if len(found) != 1:
        raise SuiteError(f"attack: {choice!r} is neither a name nor a mapping of one name to its options")
    (chosen,) = found
    with _entries(registry) as entries:
        entries.attacks.load(chosen.name, chosen.options, chosen.label, chosen.place)
    spec = entries.attacks.found[chosen.label]
    return ChosenAttack(chosen.label, spec, entries.modules.found.get(("attacks", chosen.name)))


def chosen_victim(entry: str | Mapping[str, Any], registry: Registry) -> VictimSpec:
    """Load a classifier that exists: what a suite has under `victims`, a text or a mapping (JSON types).

    Functions and endpoints need no `version`, because a call stores no answers.
    """
    problems = Problems()
    if isinstance(entry, Mapping) and "model" not in entry:
        entry = {"version": "given", **entry}
    _, found = load_victims(Positioned({"victims": [entry]}, {(): "victim"}), Files(registry, problems), problems)
    problems.raise_any()
    (spec,) = found.values()
    return spec

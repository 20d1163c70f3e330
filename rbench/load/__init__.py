"""Loads YAML files into specs. All checks happen here, before anything runs, and every error names its place.

`load` returns a suite with everything that it names. `load_task`, `load_encoder`, `load_contrast`, `load_resources`
and `load_attack` each return one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rbench.load.catalogue import Listed, as_yaml, catalogue, content
from rbench.load.choices import in_suite, of_label
from rbench.load.entries import Entries
from rbench.load.modules import checked
from rbench.load.positions import Positioned, Problems
from rbench.load.recipes import recipes
from rbench.load.registry import Registry
from rbench.load.suite import Loaded, find_suite, load, load_mapping
from rbench.spec import AttackSpec, Choice, ContrastSpec, EncoderSpec, ResourceChoice, ResourceProfile, TaskSpec

__all__ = [
    "Listed",
    "Loaded",
    "as_yaml",
    "catalogue",
    "checked",
    "content",
    "find_suite",
    "in_suite",
    "load",
    "load_attack",
    "load_contrast",
    "load_encoder",
    "load_mapping",
    "load_resources",
    "load_task",
    "of_label",
    "recipes",
]


def load_task(task: str | Mapping[str, Any], registry: Registry, *, place: str = "task") -> TaskSpec:
    """Return the task with this name, or of this table, as a suite names it. `place` is where it stands, for messages.

    Raises SuiteError where the name is unknown, its file is wrong, or a table's columns cannot be told.
    """
    entries = Entries(registry, Problems())
    written = Positioned({"tasks": [dict(task) if isinstance(task, Mapping) else task]}, {(): place})
    (name,) = entries.tasks.tables.renamed(written, Path()).data["tasks"]
    entries.tasks.load(name, place)
    entries.problems.raise_any()
    return entries.tasks.found[name]


def load_contrast(name: str, registry: Registry, *, place: str = "contrast set") -> ContrastSpec:
    """Return the contrast set with this name. Raises SuiteError as `load_task` does."""
    entries = Entries(registry, Problems())
    entries.contrast.load(name, place)
    entries.problems.raise_any()
    return entries.contrast.found[name]


def load_encoder(name: str, registry: Registry, *, place: str = "encoder") -> EncoderSpec:
    """Return the encoder with this name, after checking its bases, corpora and resources too.

    Raises SuiteError as `load_task` does.
    """
    entries = Entries(registry, Problems())
    entries.encoders.load(name, place)
    entries.problems.raise_any()
    return entries.encoders.found[name]


def load_resources(choice: ResourceChoice | str, registry: Registry, *, place: str = "resources") -> ResourceProfile:
    """Return the resource profile of this name or choice, with the choice's single resources put in.

    Raises SuiteError as `load_task` does.
    """
    entries = Entries(registry, Problems())
    choice = ResourceChoice(profile=choice) if isinstance(choice, str) else choice
    profile = entries.encoders.resources(choice, Positioned({}, {(): place}))
    entries.problems.raise_any()
    assert profile is not None
    return profile


def load_attack(choice: Choice | str, registry: Registry, *, place: str = "attack") -> AttackSpec:
    """Return the attack of this name or choice, which is a registry file or a TextAttack recipe.

    Raises SuiteError as `load_task` does.
    """
    entries = Entries(registry, Problems())
    choice = Choice(name=choice) if isinstance(choice, str) else choice
    entries.attacks.load(choice.name, Positioned(dict(choice.options), {(): place}), choice.label, place)
    entries.problems.raise_any()
    return entries.attacks.found[choice.label]

"""The inputs of a plan (`PlanInputs`): specs by name, and content hashes of data, weights, resources and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rbench.errors import PlanError
from rbench.schema import (
    RESOURCE_KINDS,
    AttackSpec,
    ResourceProfile,
    Specs,
    Suite,
    TaskSpec,
    Training,
    TrainSpec,
    VictimSpec,
)
from rbench.schema.jobs import content_key


@dataclass(frozen=True)
class Code:
    """What a job's key holds of the code behind the job."""

    source: str = ""
    """Content hash of a module that a user added; empty for rbench's own."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """VERSIONs of the files of rbench that are used, by name."""


@dataclass(frozen=True, kw_only=True)
class PlanInputs(Specs):
    """The inputs of a plan: what a suite names, and content hashes of data, weights and resources."""

    data: Mapping[str, str]
    """Content hash by task or corpus name."""
    sizes: Mapping[str, Mapping[str, int]]
    """Rows by task and split."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Content hash by encoder name, for weights that no job makes. It also holds the names in `models`."""
    splits: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Content hash by task and split, for jobs that use only that split of the task."""
    resource_weights: Mapping[str, str] = field(default_factory=dict)
    """Content hash by resource kind, for resources that no job makes."""
    training: Mapping[str, tuple[ResourceProfile, Mapping[str, str]]] = field(default_factory=dict)
    """By encoder: the resource profile that its objective uses, and content hashes of those resources by kind."""
    victim_fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Content hash of each classifier that exists, by name and task."""
    code: Mapping[str, Code] = field(default_factory=dict)
    """The code behind modules, by kind and name (`objectives/simcse`), and behind parts of jobs (`pretrain`)."""


def selected_by(train: TrainSpec, splits: Mapping[tuple[str, str], str]) -> str | None:
    """Return one fingerprint of the splits that training steps are selected by, or None where there are none.

    `splits` holds fingerprints by task and split.
    """
    found = [splits[task, train.select_split] for task in train.selecting]
    return content_key({"selected_by": found}) if len(found) > 1 else next(iter(found), None)


def training_for(suite: Suite, task: TaskSpec, strategy: Mapping[str, Any] | None = None) -> Training:
    """Return the training settings of a task.

    Later ones win: the task's defaults, the suite's for all tasks, the suite's for this task, the strategy's.
    """
    own = suite.training_for(task.name)
    return Training.model_validate({**task.training.model_dump(), **own, **(strategy or {})})


def check_sizes(suite: Suite, inputs: PlanInputs) -> None:
    """Raise PlanError where a test split has fewer rows than the suite attacks."""
    wrong = []
    makes = any(one.made for sets in inputs.sets.values() for one in sets)
    for task in suite.tasks if suite.attacks or makes else ():
        wanted, size = suite.examples_for(task), inputs.sizes[task].get("test", 0)
        if wanted != "all" and wanted > size:
            wrong.append(f"{task}: num_examples is {wanted}, but its test split has {size} examples")
    if wrong:
        raise PlanError(
            "; ".join(wrong)
            + ". Give a smaller number, `all`, or a map by task (num_examples: {mr: 100, default: 1000})."
        )


def asked_of(profile: ResourceProfile | None) -> list[str]:
    """Return the kinds of resources that a profile has."""
    return [kind for kind in RESOURCE_KINDS if profile is not None and getattr(profile, kind) is not None]


def parted(task: TaskSpec) -> list[str]:
    """Return the entries of `versions.PARTS` of the code that scores a victim on the parts of a task, if it has any."""
    return ["parts"] if task.parts else []


def opening(victim: VictimSpec, task: TaskSpec) -> list[str]:
    """Return the entries of `versions.PARTS` of the code that opens a classifier that exists, and scores it."""
    return ["open model" if victim.origin == "model" else "open answers", *parted(task)]


def ways(spec: AttackSpec) -> list[str]:
    """Return the names of the code behind an attack: its module, or the entries of `versions.PARTS` for recipes."""
    if spec.recipe is None:
        return [f"attacks/{spec.name}"]
    return ["recipe", *(["masked recipe"] if "masked_lm" in spec.needs else [])]

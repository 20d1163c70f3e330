"""The inputs of a plan (`PlanInputs`): specs by name, and content hashes of data, weights, resources and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rbench.spec import (
    AttackSpec,
    Choice,
    ContrastSpec,
    Draw,
    EncoderSpec,
    MeasureNeeds,
    ResourceProfile,
    StrategyNeeds,
    TaskSpec,
)


@dataclass(frozen=True)
class Code:
    """What a job's key holds of the code behind the job."""

    source: str = ""
    """Content hash of a module that a user added; empty for rbench's own."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """VERSIONs of the files of rbench that are used, by name."""


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan: specs by name, and content hashes of data, weights and resources."""

    encoders: Mapping[str, EncoderSpec]
    tasks: Mapping[str, TaskSpec]
    attacks: Mapping[str, AttackSpec]
    resources: ResourceProfile
    data: Mapping[str, str]
    """Content hash by task or corpus name."""
    sizes: Mapping[str, Mapping[str, int]]
    """Rows by task and split."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Content hash by encoder name, for weights that no job makes. It also holds the names in `models`."""
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names of the further models that an encoder's training needs (a generator), by encoder and option."""
    splits: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Content hash by task and split, for jobs that use only that split of the task."""
    resource_weights: Mapping[str, str] = field(default_factory=dict)
    """Content hash by resource kind, for resources that no job makes."""
    training: Mapping[str, tuple[ResourceProfile, Mapping[str, str]]] = field(default_factory=dict)
    """By encoder: the resource profile that its objective uses, and content hashes of those resources by kind."""
    strategies: Mapping[str, StrategyNeeds] = field(default_factory=dict)
    """What fine-tuning strategies need, by label."""
    tuning: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    """The strategies that make victims, by task. A task that is not in it has all strategies of the suite."""
    building: Mapping[str, Choice] = field(default_factory=dict)
    """The things to build, by label, with all options."""
    contrast: Mapping[str, tuple[tuple[ContrastSpec, str], ...]] = field(default_factory=dict)
    """The contrast sets that victims are evaluated on, with their content hashes, by task."""
    measures: Mapping[str, MeasureNeeds] = field(default_factory=dict)
    """The measures under `evaluate`, by label."""
    draws: Mapping[str, Draw] = field(default_factory=dict)
    """The encoder and training seed of each label, in a suite with `train_seeds`; see `Plan.draws`."""
    code: Mapping[str, Code] = field(default_factory=dict)
    """The code behind modules, by kind and name (`objectives/simcse`), and behind parts of jobs (`pretrain`)."""

"""The keys stored under results/reference: each is the key that its job has today, and today's plan has them all.

A key decides what is computed again. If one of these changes, results that took hours are no longer found. So never
adapt a test here to a change: make the change leave old keys alone (`Strict.without_effect`, `CellsByName.COSMETIC`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from rbench import config as loading
from rbench.config import versions
from rbench.config.registry import Registry
from rbench.plan.planner import CodeVersions, PlanInputs, make_plan
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    EncoderSpec,
    FinetuneJob,
    Job,
    MeasureJob,
    Plan,
    PretrainJob,
    Record,
    ResourceSet,
    ResourceSource,
    Stage,
    TaskSpec,
    TrainSpec,
)
from tests import reference
from tests.specs import of_training

MANY = {"train": 10**9, "validation": 10**9, "test": 10**9}
"""Rows of a split. The reference suites say how many they use, so that it is enough to have as many."""


def recorded() -> list[Record]:
    return [record for run in reference.NAMES for record in reference.records(run).values()]


def anew(job: Job) -> str:
    """The key that the job's content gives it today."""
    return Job.make(job.spec, job.parts, job.needs, job.seed).key


def changed(jobs: Sequence[Job]) -> list[str]:
    return [job.name for job in jobs if anew(job) != job.key]


def test_every_planned_job_has_the_key_that_is_stored() -> None:
    jobs = [job for run in reference.NAMES for job in reference.plan(run).jobs]
    assert len(jobs) >= 414
    assert {job.stage for job in jobs} == {"pretrain", "measure", "finetune", "attack"}
    assert changed(jobs) == []


@pytest.mark.nightly
def test_every_record_has_the_key_that_is_stored() -> None:
    records = recorded()
    assert len(records) >= 378
    assert changed([record.job for record in records]) == []


# ------------------------------------------------------------------------------------------------- planned once more


@dataclass
class Read:
    """What jobs say of the data, weights and resources that they were planned with."""

    loaded: loading.LoadedSuite
    weights: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    splits: dict[tuple[str, str], str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    training: dict[str, tuple[Any, Mapping[str, str]]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    contrast: dict[str, str] = field(default_factory=dict)

    def add(self, job: Job) -> None:
        spec = job.spec
        if isinstance(spec, PretrainJob):
            train = spec.encoder.train
            assert train is not None
            self.weights |= known(job.parts[0], spec.base_fingerprint)
            for option, found in spec.model_fingerprints.items():
                self.weights[self.loaded.models[job.parts[0]][option]] = found
            self.data[train.data] = spec.data_fingerprint
            self.splits[train.data, "train"] = spec.data_fingerprint  # of a task, on whose texts it is trained
            self.splits |= {
                (task, train.scored_split(task)): spec.selection_fingerprint or "" for task in train.selection_tasks
            }
            if spec.resources is not None:
                self.training[job.parts[0]] = spec.resources, spec.resource_fingerprints
        elif isinstance(spec, MeasureJob) and spec.split is not None:
            self.weights |= known(job.parts[0], spec.encoder_fingerprint)
            self.splits[spec.task.name, spec.split] = spec.data_fingerprint
        elif isinstance(spec, FinetuneJob) or job.untuned:
            self.weights |= known(job.parts[0], spec.encoder_fingerprint)
            self.data[spec.task.name] = spec.data_fingerprint
            self.resources |= spec.resource_fingerprints
        elif isinstance(spec, AttackJob):
            self.resources |= spec.resource_fingerprints
            self.sources[job.parts[3]] = spec.attack.source
        elif job.what == "contrast" and isinstance(spec, MeasureJob) and spec.set is not None:
            self.contrast[spec.set.name] = spec.data_fingerprint


def inputs(loaded: loading.LoadedSuite, jobs: Sequence[Job], *, again: bool) -> PlanInputs:
    """What was known of data, weights and resources when `jobs` were planned, read off the jobs.

    Encoders and VERSIONs are those of today where the jobs were run `again`.
    """
    read = Read(loaded)
    for job in jobs:
        read.add(job)
    return PlanInputs(
        encoders={
            label: as_its_files_say(spec) if again else before_changed(spec) for label, spec in loaded.encoders.items()
        },
        tasks=loaded.tasks,
        attacks={
            label: spec.model_copy(update={"source": read.sources[label]}) if label in read.sources else spec
            for label, spec in loaded.attacks.items()
        },
        resources=loaded.resources,
        data=read.data,
        sizes=dict.fromkeys(loaded.tasks, MANY),
        weights=read.weights,
        models=loaded.models,
        splits=read.splits,
        resource_weights=read.resources,
        training=read.training,
        strategies=loaded.strategies,
        tuning=loaded.tuning,
        building=loaded.building,
        measures=loaded.measures,
        draws=loaded.draws,
        sets={
            task: tuple(
                one if one.made else one.with_rows(read.contrast[one.set.name])
                for one in sets
                if one.made or one.set.name in read.contrast
            )
            for task, sets in loaded.sets.items()
        },
        code={
            **{
                f"{kind}/{name}": CodeVersions(found.source, found.versions if again else before_raised(found.versions))
                for (kind, name), found in loaded.modules.items()
            },
            **{
                name: CodeVersions(
                    versions=versions.part_versions(name) if again else before_raised(versions.part_versions(name))
                )
                for name in versions.PARTS
            },
        },
    )


RAISED = {"measures.noise": 2, "measures.ranking": 2, "noise._changes": 2}
"""VERSIONs that were raised after stored RUNs were made, which have the results of the lower ones: words are those of
Unicode since, and the noise of a kind is a mean over degrees. An entry goes when its RUNs are made again."""


def before_raised(own: Mapping[str, int]) -> dict[str, int]:
    """Return VERSIONs as they were when the stored RUNs were made. Those of kinds of noise were raised together."""
    assert all(own.get(name, version) == version for name, version in RAISED.items())
    return {name: 1 if name in RAISED or name.startswith("noise.") else version for name, version in own.items()}


BY_ITS_FILE = {"pooling": "mean"}
AS_MEANS = {"normalize": False, "max_length": None}
CHANGED: dict[str, dict[str, Any]] = {
    "minilm": BY_ITS_FILE,
    "mpnet": BY_ITS_FILE,
    "minilm-random": AS_MEANS,
    "adcl-minilm": AS_MEANS,
    "adcl-minilm-gated": AS_MEANS,
    "robustembed-minilm": AS_MEANS,
    "robustsentembed-minilm": AS_MEANS,
    "simcse-minilm": AS_MEANS,
    "uscal-minilm": AS_MEANS,
}
"""What files of encoders said when the stored RUNs were made, where they say other things on purpose since: a model by
name is pooled as its own files say, and what starts from minilm or is its control is cut off and normalised as minilm
is. Results of today's encoders are others, so their keys are too. An entry goes when its RUNs are made again."""


MADE_AGAIN = {
    "leaderboard-mr",
    "leaderboard-sst2",
    "noise-attacked",
    "noise-local",
    "strength-local",
    "two-sided-snli",
    "two-sided-snli-finetuned",
    "two-sided-snli-mpnet",
    "vadvcse-table2-local",
}
"""The RUNs of today's encoder files and VERSIONs: new ones, and those that were run again."""


OF_FILES = {
    "minilm": {"pooling": "mean", "normalize": True, "max_length": 256},
    "minilm-l3[normalize=true]": {"pooling": "mean"},
    "mpnet": {"pooling": "mean", "normalize": True, "max_length": 384},
}
"""What planning reads from a model's own files, where its registry file states nothing."""


def as_its_files_say(spec: EncoderSpec) -> EncoderSpec:
    return spec.model_copy(update=OF_FILES.get(spec.name, {}))


def before_changed(spec: EncoderSpec) -> EncoderSpec:
    """Return an encoder as its file had it when the stored RUNs were made."""
    return spec.model_copy(update=CHANGED.get(spec.name.partition("[")[0], {}))


def known(name: str, fingerprint: str | None) -> dict[str, str]:
    return {} if fingerprint is None else {name: fingerprint}


def profile_of(run: str, suite: str) -> str | None:
    """A RUN is named `<suite>` or `<suite>-<profile>`; behind one of mpnet alone its name stands, too."""
    return run.removesuffix("-mpnet").removeprefix(suite).removeprefix("-") or None


def by_stage(plan: Plan) -> dict[str, list[str]]:
    """Names by stage in the plan's order. A plan goes victim by victim now; stored ones went stage by stage."""
    return {stage: [job.name for job in plan.jobs if job.stage == stage] for stage in get_args(Stage)}


@pytest.mark.parametrize("run", reference.third(2))
def test_todays_suites_give_the_stored_plan(run: str) -> None:
    """The bundled suite, planned on the data, weights and resources of the stored jobs, gives their keys."""
    stored = reference.plan(run)
    loaded = loading.load(stored.suite.name, registry=Registry(), profile=profile_of(run, stored.suite.name))
    assert set(stored.suite.encoders) <= set(loaded.suite.encoders)
    # table1-local is of one of its profile's encoders; strength-local of one task and four attacks, on more texts.
    parts = ("encoders", "tasks", "attacks", "num_examples")
    suite = loaded.suite.model_copy(update={part: getattr(stored.suite, part) for part in parts})
    # Most RUNs are older than the accuracy of victims on test rows, which enters no key of another job.
    held = {job.what for job in stored.jobs}
    measures = {name: one for name, one in loaded.measures.items() if not one.implied or one.what.name in held}
    loaded = replace(loaded, measures=measures)
    found = make_plan(suite, inputs(loaded, stored.jobs, again=run in MADE_AGAIN))
    now, then = ({job.name: job.key for job in plan.jobs} for plan in (found, stored))
    assert now.keys() == then.keys()
    assert {name for name in then if now[name] != then[name]} == set()
    assert by_stage(found) == by_stage(stored), "what a table shows it shows in the order in which it did"


# ------------------------------------------------------------------------------ jobs of kinds that no RUN there holds

TRAINED = EncoderSpec(
    name="e",
    base="b",
    train=TrainSpec(objective="simcse", data="corpus", steps=10, select_by=("stsb", "sickr"), options={"head": "mlp"}),
)
TASK = TaskSpec(name="t", kind="single", columns=("text",), labels=("no", "yes"))
SWAP = AttackSpec(name="swap", recipe="PWWSRen2019", needs=("synonyms",))
PROFILE = ResourceSet(name="p", synonyms=ResourceSource(kind="mini"))
NEEDS = {"victim": "y", "masked_lm": "x"}
OTHERS: dict[str, tuple[Any, dict[str, str], int]] = {
    "83be8207": (PretrainJob(encoder=TRAINED, data_fingerprint="d", selection_fingerprint="s"), {}, 0),
    "425959b2": (of_training("e", Choice(name="positives"), TASK), NEEDS, 1),
    "97fe0505": (
        AttackJob(
            encoder="e",
            strategy=Choice(name="clean"),
            task=TASK,
            data_fingerprint="d",
            attack=SWAP,
            resources=PROFILE,
            resource_fingerprints={"synonyms": "f"},
            num_examples=3,
            split="train",
        ),
        NEEDS,
        0,
    ),
    "2c7d8db6": (
        MeasureJob(
            what=Choice(name="transfer"),
            task=TASK,
            data_fingerprint="d",
            attack="swap",
            encoders=("e",),
            strategies=(Choice(name="clean"),),
        ),
        NEEDS,
        1,
    ),
}


@pytest.mark.parametrize("stored", OTHERS)
def test_jobs_of_other_kinds_have_the_keys_that_they_had(stored: str) -> None:
    spec, needs, seed = OTHERS[stored]
    assert Job.make(spec, ("e",), needs, seed).key[:8] == stored


def test_needs_enter_a_key_by_their_keys_and_not_by_role_or_repetition() -> None:
    spec, needs, seed = OTHERS["97fe0505"]
    same = ({"a": "x", "b": "y"}, {"a": "y", "b": "x", "c": "y"})
    assert {Job.make(spec, ("e",), given, seed).key for given in (needs, *same)} == {
        Job.make(spec, ("e",), needs, seed).key
    }
    assert Job.make(spec, ("e",), {"victim": "y"}, seed).key != Job.make(spec, ("e",), needs, seed).key

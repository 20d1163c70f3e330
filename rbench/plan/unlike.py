"""Find what has one name in several plans and is not the same: data, weights, options, resources, versions of code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rbench.spec import (
    RESOURCE_KINDS,
    AttackJob,
    Draw,
    EncoderSpec,
    FinetuneJob,
    Job,
    MeasureJob,
    Plan,
    PretrainJob,
    VictimJob,
)
from rbench.spec.keys import keyed

_SHORT = 60
"""Length of the longest value that a message prints."""
_HASH = re.compile("[0-9a-f]{40,}")
_OF_ENCODERS = ("encoders.static", "encoders.random_weights", "encoders.vectors")
"""Code that only some encoders use. So two encoders with one strategy may have its versions or not."""


class Fact(NamedTuple):
    """One thing that a job's key holds of something with a name."""

    subject: str
    """What it is about: `encoder minilm`, `task mr`."""
    aspect: str
    value: Any
    """As JSON."""
    variant: str = ""
    """Facts of different variants are not compared: on STS tasks an attack has a goal that it has nowhere else."""


def differences(plans: Mapping[str, Plan], draws: Mapping[str, Draw]) -> list[str]:
    """Return what differs under one name, each with the two RUNs that differ; empty where the plans fit together.

    What is compared is what keys hold, so titles and notes may differ. Trainings of one encoder may differ in their
    seed. The victims that measures read are not compared, because plans of other encoders have others.

    Args:
        plans: the plans by the name of their RUN.
        draws: the draws of all plans, by label.
    """
    found = {run: _facts(plan, draws) for run, plan in plans.items()}
    lines = []
    for name in dict.fromkeys(name for facts in found.values() for name in facts):
        subject, aspect, _ = name
        first, *others = [run for run in found if name in found[run]]
        for other in others:
            ours, theirs = found[first][name], found[other][name]
            if not ours.keys() & theirs.keys():
                said = _told(next(iter(ours.values())), next(iter(theirs.values())))
                lines.append(f"{subject}: the {aspect} in {first} and in {other} differ{said}")
    return list(dict.fromkeys(lines)) or _clashes(plans)


def _told(ours: Any, theirs: Any) -> str:
    """Return the values that differ in parentheses, where they are short enough to read."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        pair = [json.dumps(one) for one in (ours, theirs)]
        unreadable = any(len(text) > _SHORT or _HASH.search(text) for text in pair)
        return "" if unreadable else f" ({pair[0]} and {pair[1]})"
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    told = [name + _told(ours.get(name), theirs.get(name)).replace(" (", ": ", 1).removesuffix(")") for name in names]
    return f" ({'; '.join(told)})"


def _facts(plan: Plan, draws: Mapping[str, Draw]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the values of each fact of a plan, by their JSON."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for job in plan.jobs:
        for fact in (*_of_task(job), *_of_encoder(job, draws), *_of_method(job), *_of_resources(job)):
            text = json.dumps(fact.value, sort_keys=True)
            found.setdefault((fact.subject, fact.aspect, fact.variant), {})[text] = fact.value
    return found


def _clashes(plans: Mapping[str, Plan]) -> list[str]:
    """Return the jobs of one name whose keys differ in something of which there is no fact."""
    seen: dict[str, tuple[str, Job]] = {}
    lines = []
    for run, plan in plans.items():
        for job in plan.jobs:
            first, other = seen.setdefault(job.name, (run, job))
            narrow = job.measuring is not None and job.measuring.of == "attacks"
            if other.key != job.key and first != run and not narrow:
                mine, theirs = keyed(other.spec), keyed(job.spec)
                fields = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
                what = ", ".join(fields) or "jobs that it needs"
                lines.append(f"job {job.name}: the {what} in {first} and in {run} differ")
    return lines


def _of_task(job: Job) -> Iterator[Fact]:
    """Yield the facts of a job's data."""
    spec = job.spec
    if isinstance(spec, PretrainJob):
        assert spec.encoder.train is not None
        corpus = spec.encoder.train.data
        yield Fact(f"corpus {corpus}", "rows", spec.data_fingerprint, "of a task" if len(job.parts) > 1 else "")
        return
    name, rows = f"task {spec.task.name}", "rows"
    scored = job.measuring is None or spec.task.scale is not None
    yield Fact(name, "specification", keyed(spec.task), "" if scored else "no scale")
    if job.attacking is not None and job.attacking.split == "test":
        yield Fact(name, "numbers of attacked examples", job.attacking.num_examples)
    if job.measuring is not None and job.measuring.split is not None:
        rows = f"rows of the {job.measuring.split} split"
    if job.measuring is not None and job.measuring.set is not None:
        of = f"{job.what} set {job.measuring.set.name}"
        yield Fact(of, "specification", keyed(job.measuring.set))
        name = name if "attack" in job.needs else of
    yield Fact(name, rows, spec.data_fingerprint)


def _of_encoder(job: Job, draws: Mapping[str, Draw]) -> Iterator[Fact]:
    """Yield the facts of the encoder that a job trains, fine-tunes or measures as it is."""
    spec = job.spec
    if isinstance(spec, VictimJob):
        name = f"victim {spec.victim.name}"
        yield Fact(name, "specification", keyed(spec.victim))
        yield Fact(name, "content", spec.victim_fingerprint, "" if spec.victim.origin == "model" else spec.task.name)
    if isinstance(spec, VictimJob | AttackJob) or spec.encoder is None:
        return
    name = f"encoder {draws.get(job.parts[0], Draw(encoder=job.parts[0])).encoder}"
    if not isinstance(spec, PretrainJob):
        yield Fact(name, "specification", keyed(_undrawn(spec.encoder, draws)))
        if spec.encoder_fingerprint is not None:
            yield Fact(name, "weights", spec.encoder_fingerprint)
        return
    corpus = "/".join(job.parts[1:])
    yield Fact(name, "training", keyed(_undrawn(spec.encoder, draws)), corpus)
    inputs = {
        "weights of its base": spec.base_fingerprint,
        "scores that select its step": spec.selection_fingerprint,
        "models that its training uses": spec.model_fingerprints,
        "resources of its training": [keyed(spec.resources), spec.resource_fingerprints],
    }
    yield from (Fact(name, aspect, value, corpus) for aspect, value in inputs.items())
    assert spec.encoder.train is not None
    objective, selected = spec.encoder.train.objective, "selected" if spec.encoder.train.selecting else ""
    kinds = ",".join(spec.resource_fingerprints)
    yield from _of_code(f"objective {objective}", spec, f"{selected} {kinds}")


def _undrawn(spec: EncoderSpec, draws: Mapping[str, Draw]) -> EncoderSpec:
    """Return an encoder without what only its training seed decides: that seed, and the labels of draws."""
    draw = draws.get(spec.name)
    if draw is None or draw.train_seed is None:
        return spec
    base = draws[spec.base].encoder if spec.base is not None and spec.base in draws else spec.base
    train = spec.train.model_copy(update={"seed": 0}) if spec.train is not None else None
    return spec.model_copy(update={"name": draw.encoder, "base": base, "train": train})


def _of_method(job: Job) -> Iterator[Fact]:
    """Yield the facts of the strategy, attack or measure of a job."""
    spec = job.spec
    if isinstance(spec, FinetuneJob):
        name = f"strategy {spec.strategy.label}"
        yield Fact(name, f"training settings for {spec.task.name}", keyed(spec.training))
        yield from _of_code(name, spec)
    elif isinstance(spec, VictimJob):
        name = f"scoring of classifiers on {spec.task.name}"
        yield Fact(name, "numbers of validation rows", spec.max_validation)
        yield from _of_code(name, spec, spec.victim.origin)
    elif isinstance(spec, AttackJob):
        name, graded = f"attack {job.parts[3]}", "sts" if spec.task.kind == "sts" else ""
        yield Fact(name, "options", keyed(spec.attack), graded)
        yield Fact(name, "resource profiles", spec.resources.name)
        yield from _of_code(name, spec, f"{graded} {spec.task.has_oracle}")
    elif isinstance(spec, MeasureJob):
        own = {"encoders": job.parts[1:], "victims": (spec.what.name,), "trainings": job.parts[2:]}
        name = f"measure {'/'.join(own.get(spec.of, job.parts[:1]))}"
        yield Fact(name, "options", keyed(spec.what))
        yield from _of_code(name, spec)


def _of_code(subject: str, spec: Any, variant: str = "") -> Iterator[Fact]:
    """Yield the facts of the code behind something. `spec` is a job's; where a user's module is behind it, it has the
    hash of its source."""
    versions = {name: version for name, version in spec.versions.items() if name not in _OF_ENCODERS}
    yield Fact(subject, "versions of the code", versions, variant)
    yield Fact(subject, "sources of the code", getattr(spec, "source", ""))


def _of_resources(job: Job) -> Iterator[Fact]:
    """Yield the facts of the suite's resources that a job uses. Those of an encoder's training are facts of it."""
    spec = job.tuning or job.attacking or job.measuring
    if spec is None or spec.resources is None:
        return
    profile = spec.resources
    for kind in RESOURCE_KINDS:
        if (source := getattr(profile, kind)) is not None:
            name = f"resource {kind.replace('_', ' ')}"
            yield Fact(name, "sources", keyed(source))
            yield Fact(name, "contents", spec.resource_fingerprints.get(kind, ""))

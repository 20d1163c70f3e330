"""Make one plan of several that share data, weights and options: `rbench pack`, and tables of several RUNs.

`union_suite` makes one suite of several that asked for parts of the same tables. `differences` finds what has one name
in several plans and is not the same: data, weights, options, resources, versions of code.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from rbench.errors import StoreError
from rbench.plan.labels import unlabelled
from rbench.plan.order import in_order, places_of
from rbench.schema import (
    AttackJob,
    Draw,
    EncoderSpec,
    FinetuneJob,
    Job,
    MeasureJob,
    Plan,
    PretrainJob,
    Strategy,
    Suite,
    VictimJob,
)
from rbench.schema.jobs import keyed

_NAMED = 3
"""How many jobs a note names."""
REMEDY = "Run them again with the same suite, data, weights and version of rbench, or keep their tables apart."
OF_TRAINING = ("strategy", "objective", "corpus")
"""What a RUN with a label may have otherwise under one name, because it only makes its encoders and victims."""
LABELLED = (*OF_TRAINING, "encoder", "victim", "draw")
"""What labels tell apart."""


def union(plans: Mapping[str, Plan], labelled: Collection[str] = ()) -> tuple[Plan, tuple[str, ...]]:
    """Return a plan with the jobs of all plans, each once, and notes on what is left out or disagreed about.

    Jobs stand in the order that one plan of the whole suite would have. A job of a measure that reads all victims is
    left out if another plan has a job of that name that reads others too.

    Args:
        plans: the plans by the name of their RUN, which messages use. One plan is returned as it is.
        labelled: the RUNs among them whose encoders have a label (`plan.labels`). How these were trained may differ
            from other RUNs, and is noted.

    Raises:
        StoreError: something differs under one name; the message lists all of it, each with the two RUNs.
    """
    if len(plans) == 1:
        return next(iter(plans.values())), ()
    draws, wrong = _draws(plans)
    wrong += differences({run: plan for run, plan in plans.items() if run not in labelled}, draws)
    every = [line for line in differences(plans, draws) if line not in wrong]
    allowed = [line for line in every if labelled and line.startswith(OF_TRAINING)]
    wrong += [line for line in every if line not in allowed] or (_clashes(plans) if allowed else [])
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        raise StoreError(f"these RUNs do not belong into one table:\n{listed}\n{_remedy(wrong, plans, labelled)}")
    suite, notes = union_suite(plans, draws)
    notes += allowed
    jobs: dict[str, Job] = {}
    for plan in plans.values():
        for job in plan.jobs:
            jobs.setdefault(job.key, job)
    narrow = _narrow(jobs)
    jobs = {key: job for key, job in jobs.items() if job not in narrow}
    if narrow:
        names = list(dict.fromkeys(job.name for job in narrow))
        named = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        notes.append(
            f"left out {len(narrow)} jobs of measures, because each reads the victims of its own RUN alone: {named}"
            + ("" if labelled else ". Run the whole suite into the merged RUN, which computes them over all victims")
        )
    # Those of `--only` have the same jobs in the same order.
    alike = len({tuple(job.key for job in plan.jobs) for plan in plans.values()}) == 1
    plan = Plan(
        suite=suite,
        jobs=tuple(jobs.values()) if alike else in_order(suite, draws, jobs),
        draws=draws,
        texts=all(plan.texts for plan in plans.values()),
    )
    return plan, tuple(notes)


def _remedy(wrong: Sequence[str], plans: Mapping[str, Plan], labelled: Collection[str]) -> str:
    """Say what to do about differences; where all are about how encoders are made, that labels tell them apart."""
    if labelled or not all(line.startswith(LABELLED) for line in wrong):
        return REMEDY
    names = (
        ("before", "after") if len(plans) == 2 else (chr(ord("a") + i % 26) * (1 + i // 26) for i in range(len(plans)))
    )
    named = " ".join(f"{name}={shlex.quote(run)}" for name, run in zip(names, plans, strict=True))
    otherwise = f"{REMEDY[0].lower()}{REMEDY[1:]}"
    return f"If they are meant to differ, give each RUN a label, which its encoders then have: {named}. Or {otherwise}"


def _draws(plans: Mapping[str, Plan]) -> tuple[dict[str, Draw], list[str]]:
    """Return the draws of all plans, and what is wrong with them.

    In a table of several training seeds each training needs its seed. A plan without `train_seeds` does not say it.
    """
    found: dict[str, Draw] = {}
    for plan in plans.values():
        found |= plan.draws
    wrong = [
        f"draw {label}: it stands for {draw.encoder} with the training seed {draw.train_seed} in {run}, and for "
        f"{found[label].encoder} with {found[label].train_seed} in another"
        for run, plan in plans.items()
        for label, draw in plan.draws.items()
        if draw != found[label]
    ]
    drawing = next((run for run, plan in plans.items() if plan.draws), None)
    fixed = {label for plan in plans.values() if plan.draws for label in _trained(plan)}
    for run, plan in plans.items():
        for label, seed in _trained(plan).items() if drawing is not None and not plan.draws else ():
            if label not in found and label not in fixed:
                wrong.append(
                    f"encoder {label}: {drawing} has `train_seeds`, and {run} trains it without. Run that with "
                    f"`train_seeds: [{seed}]` in its suite; nothing is trained again"
                )
    encoders = places_of(label for plan in plans.values() for label in plan.suite.encoders)
    seeds = places_of(seed for plan in plans.values() for seed in plan.suite.train_seeds)

    def place(label: str) -> tuple[int, int]:
        draw = found[label]
        known = draw.encoder in encoders and draw.train_seed in seeds
        return (encoders[draw.encoder], seeds[draw.train_seed]) if known else (len(encoders), 0)

    return {label: found[label] for label in sorted(found, key=place)}, wrong


def _trained(plan: Plan) -> dict[str, int]:
    """Return the encoders that jobs train, directly or through their base, with the seed of that training."""
    trainings = {job.key: job.seed for job in plan.jobs if job.pretraining is not None}
    users = (job for job in plan.jobs if job.tuning is not None or job.untuned)
    return {job.parts[0]: trainings[key] for job in users if (key := job.needs.get("encoder", "")) in trainings}


def _narrow(jobs: Mapping[str, Job]) -> list[Job]:
    """Return the jobs of measures for which there is another of the same name that reads other victims, unless it reads
    all that the others read."""
    groups: dict[str, list[Job]] = {}
    for job in jobs.values():
        if job.measuring is not None and job.measuring.of == "attacks":
            groups.setdefault(job.name, []).append(job)
    narrow = []
    for group in groups.values():
        every = {key for job in group for key in job.needs.values()}
        narrow += [job for job in group if len(group) > 1 and every - {*job.needs.values()}]
    return narrow


def union_suite(plans: Mapping[str, Plan], draws: Mapping[str, Draw]) -> tuple[Suite, list[str]]:
    """Return a suite that asks for what any of the plans' suites asks for, and notes on what they disagree about.

    Lists are joined in the order of the plans. So rows and columns of tables stand in the order in which RUNs are
    named. The plans agree about data, weights and options (`differences`).

    Raises:
        StoreError: the suites disagree about something that cannot be joined.
    """
    suites = [plan.suite for plan in plans.values()]
    notes: list[str] = []
    joined: dict[str, Any] = {}
    for name in Suite.model_fields:
        values = [getattr(suite, name) for suite in suites]
        if all(value == values[0] for value in values):
            joined[name] = values[0]
        elif name in _OWN:
            joined[name] = _OWN[name](list(plans.values()))
        elif isinstance(values[0], tuple):
            joined[name] = _listed(values)
        else:
            raise StoreError(f"the suites of {', '.join(plans)} disagree about `{name}`, so they are not one suite")
    # Of the label of a draw, the encoder that a suite without `train_seeds` names.
    encoders = _listed([[draws.get(label, Draw(encoder=label)).encoder for label in joined["encoders"]]])
    joined |= {"encoders": _beside(encoders), "victims": _beside(joined["victims"])}
    if len({suite.require for suite in suites}) > 1:
        asking = [run for run, plan in plans.items() if plan.suite.require == joined["require"]]
        notes.append(f"`require: {joined['require']}` of {', '.join(asking)} holds for all entries of the tables")
    try:
        return Suite.model_validate(joined), notes
    except ValueError as error:
        raise StoreError(f"the suites of {', '.join(plans)} make no suite together: {error}") from error


def _beside(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in their order, except that those that differ in the label of their RUN alone follow each other."""
    places = places_of(map(unlabelled, names))
    return tuple(sorted(names, key=lambda name: places[unlabelled(name)]))


def _listed(values: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Join lists. Entries with options cannot be hashed, so their JSON is compared: there may be many thousands."""
    found: dict[Any, Any] = {}
    for entry in (entry for value in values for entry in value):
        options = isinstance(entry, BaseModel)
        key = json.dumps(entry.model_dump(mode="json"), sort_keys=True) if options else entry
        found.setdefault((type(entry), key), entry)
    return tuple(found.values())


def _num_examples(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the number of examples by task: what was attacked, or what a suite says of a task without attacks."""
    said = {task: plan.suite.examples_for(task) for plan in reversed(plans) for task in plan.suite.tasks}
    attacks = (job.attacking for plan in plans for job in plan.jobs)
    return said | {one.task.name: one.num_examples for one in attacks if one is not None and one.split == "test"}


def _training(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the overrides by task, since each suite's are for its own tasks."""
    found = {task: plan.suite.training_for(task) for plan in reversed(plans) for task in plan.suite.tasks}
    return {task: overrides for task, overrides in found.items() if overrides}


def _finetune(plans: Sequence[Plan]) -> list[Strategy]:
    """Return each strategy once, for all encoders that have it in any of the suites."""
    found: dict[str, list[tuple[Strategy, Suite]]] = {}
    for suite in (plan.suite for plan in plans):
        for one in suite.finetune:
            found.setdefault(one.label, []).append((one, suite))
    joined = []
    for asked in found.values():
        some = any(one.encoders is not None for one, _ in asked)
        named = dict.fromkeys(name for one, suite in asked for name in one.encoders or suite.encoders)
        joined.append(asked[0][0].model_copy(update={"encoders": tuple(named) if some else None}))
    return joined


_OWN: dict[str, Callable[[Sequence[Plan]], Any]] = {
    "name": lambda plans: "-and-".join(dict.fromkeys(plan.suite.name for plan in plans)),
    "title": lambda plans: "; ".join(dict.fromkeys(plan.suite.title for plan in plans if plan.suite.title)),
    "finetune": _finetune,
    "num_examples": _num_examples,
    "minutes": lambda plans: None,  # a choice for one RUN
    "training": _training,
    # The resources of the first suite that uses any: loading the others' would find the same.
    "resources": lambda plans: (
        next(
            (plan for plan in plans if any((spec := j.attacking or j.tuning) and spec.resources for j in plan.jobs)),
            plans[0],
        ).suite.resources
    ),
    # The stricter wish: an entry that one suite withholds is not shown beside others.
    "require": lambda plans: next(plan.suite.require for plan in plans if plan.suite.require is not None),
    "profiles": lambda plans: {name: value for plan in reversed(plans) for name, value in plan.suite.profiles.items()},
}
"""How fields are joined that are no lists."""


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
    found: dict[str, dict[tuple[str, str, str], dict[str, Any]]] = {}  # by RUN and fact, its values by their JSON
    for run, plan in plans.items():
        facts = found.setdefault(run, {})
        for job in plan.jobs:
            for fact in (*_of_task(job), *_of_encoder(job, draws), *_of_method(job), *_of_resources(job)):
                text = json.dumps(fact.value, sort_keys=True)
                facts.setdefault((fact.subject, fact.aspect, fact.variant), {})[text] = fact.value
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
        name, graded = f"attack {job.parts[3]}", "" if spec.task.of_kind.goal is None else spec.task.kind
        yield Fact(name, "options", keyed(spec.attack), graded)
        yield Fact(name, "resource sets", spec.resources.name)
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
    for kind, source in spec.resources.sources.items():
        name = f"resource {kind.replace('_', ' ')}"
        yield Fact(name, "sources", keyed(source))
        yield Fact(name, "contents", spec.resource_fingerprints.get(kind, ""))

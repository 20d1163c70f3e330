"""Make one plan of several that share data, weights and options: `rbench pack`, and tables of several RUNs.

`unite_suites` makes one suite of several that asked for parts of the same tables. `find_differences` finds what has
one name in several plans and is not the same: data, weights, options, resources, versions of code.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from rbench.errors import StoreError
from rbench.plan.labels import remove_label
from rbench.plan.order import number_distinct, order_jobs
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

_MAX_NAMED = 3
"""How many jobs a note names."""
REMEDY = "Run them again with the same suite, data, weights and version of rbench, or keep their tables apart."
OF_TRAINING = ("strategy", "objective", "corpus")
"""What a RUN with a label may have otherwise under one name, because it only makes its encoders and victims."""
LABELLED = (*OF_TRAINING, "encoder", "victim", "draw")
"""What labels tell apart."""


def unite_plans(plans: Mapping[str, Plan], labelled: Collection[str] = ()) -> tuple[Plan, tuple[str, ...]]:
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
    draws, problems = _unite_draws(plans)
    problems += find_differences({run: plan for run, plan in plans.items() if run not in labelled}, draws)
    # First without the labelled RUNs, where nothing may differ; then with them, where only trainings may.
    all_lines = [line for line in find_differences(plans, draws) if line not in problems]
    allowed = [line for line in all_lines if labelled and line.startswith(OF_TRAINING)]
    problems += [line for line in all_lines if line not in allowed] or (_find_clashes(plans) if allowed else [])
    if problems:
        listed = "\n".join(f"  {line}" for line in problems)
        raise StoreError(
            f"these RUNs do not belong into one table:\n{listed}\n{_say_remedy(problems, plans, labelled)}"
        )
    # After the differences: what is joined below is only defined for plans that agree about data, weights and options.
    suite, notes = unite_suites(plans, draws)
    notes += allowed
    jobs: dict[str, Job] = {}
    for plan in plans.values():
        for job in plan.jobs:
            jobs.setdefault(job.key, job)
    narrow = _narrower_jobs(jobs)
    jobs = {key: job for key, job in jobs.items() if job not in narrow}
    if narrow:
        names = list(dict.fromkeys(job.name for job in narrow))
        named = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
        notes.append(
            f"left out {len(narrow)} jobs of measures, because each reads the victims of its own RUN alone: {named}"
            + ("" if labelled else ". Run the whole suite into the merged RUN, which computes them over all victims")
        )
    # Plans with the same jobs in the same order, such as those of one `--only`, need no sorting.
    same_jobs = len({tuple(job.key for job in plan.jobs) for plan in plans.values()}) == 1
    plan = Plan(
        suite=suite,
        jobs=tuple(jobs.values()) if same_jobs else order_jobs(suite, draws, jobs),
        draws=draws,
        texts=all(plan.texts for plan in plans.values()),
    )
    return plan, tuple(notes)


def _say_remedy(problems: Sequence[str], plans: Mapping[str, Plan], labelled: Collection[str]) -> str:
    """Say what to do about differences; where all are about how encoders are made, that labels tell them apart."""
    if labelled or not all(line.startswith(LABELLED) for line in problems):
        return REMEDY
    names = (
        ("before", "after") if len(plans) == 2 else (chr(ord("a") + i % 26) * (1 + i // 26) for i in range(len(plans)))
    )
    labelled_runs = " ".join(f"{name}={shlex.quote(run)}" for name, run in zip(names, plans, strict=True))
    otherwise = f"{REMEDY[0].lower()}{REMEDY[1:]}"
    return (
        f"If they are meant to differ, give each RUN a label, which its encoders then have: {labelled_runs}. Or "
        f"{otherwise}"
    )


def _unite_draws(plans: Mapping[str, Plan]) -> tuple[dict[str, Draw], list[str]]:
    """Return the draws of all plans, and what is wrong with them.

    In a table of several training seeds each training needs its seed. A plan without `train_seeds` does not say it.
    """
    draws: dict[str, Draw] = {}
    for plan in plans.values():
        draws |= plan.draws
    problems = [
        f"draw {label}: it stands for {draw.encoder} with the training seed {draw.train_seed} in {run}, and for "
        f"{draws[label].encoder} with {draws[label].train_seed} in another"
        for run, plan in plans.items()
        for label, draw in plan.draws.items()
        if draw != draws[label]
    ]
    drawing = next((run for run, plan in plans.items() if plan.draws), None)
    trained_with_seed = {label for plan in plans.values() if plan.draws for label in _trained_encoders(plan)}
    for run, plan in plans.items():
        for label, seed in _trained_encoders(plan).items() if drawing is not None and not plan.draws else ():
            if label not in draws and label not in trained_with_seed:
                problems.append(
                    f"encoder {label}: {drawing} has `train_seeds`, and {run} trains it without. Run that with "
                    f"`train_seeds: [{seed}]` in its suite; nothing is trained again"
                )
    encoders = number_distinct(label for plan in plans.values() for label in plan.suite.encoders)
    seeds = number_distinct(seed for plan in plans.values() for seed in plan.suite.train_seeds)

    def place(label: str) -> tuple[int, int]:
        draw = draws[label]
        known = draw.encoder in encoders and draw.train_seed in seeds
        return (encoders[draw.encoder], seeds[draw.train_seed]) if known else (len(encoders), 0)

    return {label: draws[label] for label in sorted(draws, key=place)}, problems


def _trained_encoders(plan: Plan) -> dict[str, int]:
    """Return the encoders that jobs train, directly or through their base, with the seed of that training."""
    trainings = {job.key: job.seed for job in plan.jobs if job.pretraining is not None}
    users = (job for job in plan.jobs if job.tuning is not None or job.untuned)
    needed = [(job.parts[0], job.needs.get("encoder", "")) for job in users]
    return {encoder: trainings[key] for encoder, key in needed if key in trainings}


def _narrower_jobs(jobs: Mapping[str, Job]) -> list[Job]:
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


def unite_suites(plans: Mapping[str, Plan], draws: Mapping[str, Draw]) -> tuple[Suite, list[str]]:
    """Return a suite that asks for what any of the plans' suites asks for, and notes on what they disagree about.

    Lists are joined in the order of the plans. So rows and columns of tables stand in the order in which RUNs are
    named. The plans agree about data, weights and options (`find_differences`).

    Raises:
        StoreError: the suites disagree about something that cannot be joined.
    """
    suites = [plan.suite for plan in plans.values()]
    notes: list[str] = []
    fields: dict[str, Any] = {}
    for name in Suite.model_fields:
        values = [getattr(suite, name) for suite in suites]
        if all(value == values[0] for value in values):
            fields[name] = values[0]
        elif name in _JOINERS:
            fields[name] = _JOINERS[name](list(plans.values()))
        elif isinstance(values[0], tuple):
            fields[name] = _join_lists(values)
        else:
            raise StoreError(f"the suites of {', '.join(plans)} disagree about `{name}`, so they are not one suite")
    # Of the label of a draw, the encoder that a suite without `train_seeds` names.
    encoders = _join_lists([[draws.get(label, Draw(encoder=label)).encoder for label in fields["encoders"]]])
    fields |= {"encoders": _group_labelled(encoders), "victims": _group_labelled(fields["victims"])}
    if len({suite.require for suite in suites}) > 1:
        requiring_runs = [run for run, plan in plans.items() if plan.suite.require == fields["require"]]
        notes.append(
            f"`require: {fields['require']}` of {', '.join(requiring_runs)} holds for all entries of the tables"
        )
    try:
        return Suite.model_validate(fields), notes
    except ValueError as error:
        raise StoreError(f"the suites of {', '.join(plans)} make no suite together: {error}") from error


def _group_labelled(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in their order, except that those that differ in the label of their RUN alone follow each other."""
    places = number_distinct(map(remove_label, names))
    return tuple(sorted(names, key=lambda name: places[remove_label(name)]))


def _join_lists(values: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Join lists. Entries with options cannot be hashed, so their JSON is compared: there may be many thousands."""
    entries: dict[Any, Any] = {}
    for entry in (entry for value in values for entry in value):
        options = isinstance(entry, BaseModel)
        key = json.dumps(entry.model_dump(mode="json"), sort_keys=True) if options else entry
        entries.setdefault((type(entry), key), entry)
    return tuple(entries.values())


def _unite_num_examples(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the number of examples by task: what was attacked, or what a suite says of a task without attacks."""
    by_suite = {task: plan.suite.examples_for(task) for plan in reversed(plans) for task in plan.suite.tasks}
    attacks = (job.attacking for plan in plans for job in plan.jobs)
    return by_suite | {
        attack.task.name: attack.num_examples for attack in attacks if attack is not None and attack.split == "test"
    }


def _unite_training(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the overrides by task, since each suite's are for its own tasks."""
    overrides_by_task = {task: plan.suite.training_for(task) for plan in reversed(plans) for task in plan.suite.tasks}
    return {task: overrides for task, overrides in overrides_by_task.items() if overrides}


def _unite_strategies(plans: Sequence[Plan]) -> list[Strategy]:
    """Return each strategy once, for all encoders that have it in any of the suites."""
    by_label: dict[str, list[tuple[Strategy, Suite]]] = {}
    for suite in (plan.suite for plan in plans):
        for strategy in suite.finetune:
            by_label.setdefault(strategy.label, []).append((strategy, suite))
    strategies = []
    for uses in by_label.values():
        is_restricted = any(strategy.encoders is not None for strategy, _ in uses)
        encoders = dict.fromkeys(name for strategy, suite in uses for name in strategy.encoders or suite.encoders)
        strategies.append(uses[0][0].model_copy(update={"encoders": tuple(encoders) if is_restricted else None}))
    return strategies


def _resources_in_use(plans: Sequence[Plan]) -> Any:
    """Return the resources of the first suite whose jobs use any; loading those of the others would find the same."""
    for plan in plans:
        specs = (job.attacking or job.tuning for job in plan.jobs)
        if any(spec is not None and spec.resources for spec in specs):
            return plan.suite.resources
    return plans[0].suite.resources


_JOINERS: dict[str, Callable[[Sequence[Plan]], Any]] = {
    "name": lambda plans: "-and-".join(dict.fromkeys(plan.suite.name for plan in plans)),
    "title": lambda plans: "; ".join(dict.fromkeys(plan.suite.title for plan in plans if plan.suite.title)),
    "finetune": _unite_strategies,
    "num_examples": _unite_num_examples,
    "minutes": lambda plans: None,  # a choice for one RUN
    "training": _unite_training,
    "resources": _resources_in_use,
    # Whatever one of the suites withholds, the joined tables withhold.
    "require": lambda plans: next(plan.suite.require for plan in plans if plan.suite.require is not None),
    "profiles": lambda plans: {name: value for plan in reversed(plans) for name, value in plan.suite.profiles.items()},
}
"""How fields are joined that are no lists."""


_MAX_PRINTED = 60
"""Length of the longest value that a message prints."""
_HASH = re.compile("[0-9a-f]{40,}")
_CODE_OF_ENCODERS = ("encoders.static", "encoders.random_weights", "encoders.vectors")
"""Code that only some encoders use. So two encoders with one strategy may have its versions or not."""


class PlanFact(NamedTuple):
    """One thing that a job's key holds of something with a name."""

    subject: str
    """What it is about: `encoder minilm`, `task mr`."""
    aspect: str
    value: Any
    """As JSON."""
    variant: str = ""
    """Facts of different variants are not compared: on STS tasks an attack has a goal that it has nowhere else."""


def find_differences(plans: Mapping[str, Plan], draws: Mapping[str, Draw]) -> list[str]:
    """Return what differs under one name, each with the two RUNs that differ; empty where the plans fit together.

    What is compared is what keys hold, so titles and notes may differ. Trainings of one encoder may differ in their
    seed. The victims that measures read are not compared, because plans of other encoders have others.

    Args:
        plans: the plans by the name of their RUN.
        draws: the draws of all plans, by label.
    """
    facts_by_run: dict[
        str, dict[tuple[str, str, str], dict[str, Any]]
    ] = {}  # by RUN and fact, its values by their JSON
    for run, plan in plans.items():
        facts = facts_by_run.setdefault(run, {})
        for job in plan.jobs:
            for fact in (*_task_facts(job), *_encoder_facts(job, draws), *_method_facts(job), *_resource_facts(job)):
                text = json.dumps(fact.value, sort_keys=True)
                facts.setdefault((fact.subject, fact.aspect, fact.variant), {})[text] = fact.value
    lines = []
    for name in dict.fromkeys(name for facts in facts_by_run.values() for name in facts):
        subject, aspect, _ = name
        first, *others = [run for run in facts_by_run if name in facts_by_run[run]]
        for other in others:
            ours, theirs = facts_by_run[first][name], facts_by_run[other][name]
            if not ours.keys() & theirs.keys():
                values = _format_difference(next(iter(ours.values())), next(iter(theirs.values())))
                lines.append(f"{subject}: the {aspect} in {first} and in {other} differ{values}")
    # Facts explain most differences. Keys that differ without one would silently stand as two rows of one name.
    return list(dict.fromkeys(lines)) or _find_clashes(plans)


def _format_difference(ours: Any, theirs: Any) -> str:
    """Return the values that differ in parentheses, where they are short enough to read."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        pair = [json.dumps(value) for value in (ours, theirs)]
        unreadable = any(len(text) > _MAX_PRINTED or _HASH.search(text) for text in pair)
        return "" if unreadable else f" ({pair[0]} and {pair[1]})"
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    parts = [
        name + _format_difference(ours.get(name), theirs.get(name)).replace(" (", ": ", 1).removesuffix(")")
        for name in names
    ]
    return f" ({'; '.join(parts)})"


def _find_clashes(plans: Mapping[str, Plan]) -> list[str]:
    """Return the jobs of one name whose keys differ in something of which there is no fact."""
    first_by_name: dict[str, tuple[str, Job]] = {}
    lines = []
    for run, plan in plans.items():
        for job in plan.jobs:
            first, other = first_by_name.setdefault(job.name, (run, job))
            narrow = job.measuring is not None and job.measuring.of == "attacks"
            if other.key != job.key and first != run and not narrow:
                first_fields, other_fields = keyed(other.spec), keyed(job.spec)
                fields = [
                    name
                    for name in {**first_fields, **other_fields}
                    if first_fields.get(name) != other_fields.get(name)
                ]
                what = ", ".join(fields) or "jobs that it needs"
                lines.append(f"job {job.name}: the {what} in {first} and in {run} differ")
    return lines


def _task_facts(job: Job) -> Iterator[PlanFact]:
    """Yield the facts of a job's data."""
    spec = job.spec
    if isinstance(spec, PretrainJob):
        assert spec.encoder.train is not None
        corpus = spec.encoder.train.data
        yield PlanFact(f"corpus {corpus}", "rows", spec.data_fingerprint, "of a task" if len(job.parts) > 1 else "")
        return
    name, rows = f"task {spec.task.name}", "rows"
    scored = job.measuring is None or spec.task.scale is not None
    yield PlanFact(name, "specification", keyed(spec.task), "" if scored else "no scale")
    if job.attacking is not None and job.attacking.split == "test":
        yield PlanFact(name, "numbers of attacked examples", job.attacking.num_examples)
    if job.measuring is not None and job.measuring.split is not None:
        rows = f"rows of the {job.measuring.split} split"
    if job.measuring is not None and job.measuring.set is not None:
        set_subject = f"{job.what} set {job.measuring.set.name}"
        yield PlanFact(set_subject, "specification", keyed(job.measuring.set))
        name = name if "attack" in job.needs else set_subject
    yield PlanFact(name, rows, spec.data_fingerprint)


def _encoder_facts(job: Job, draws: Mapping[str, Draw]) -> Iterator[PlanFact]:
    """Yield the facts of the encoder that a job trains, fine-tunes or measures as it is."""
    spec = job.spec
    if isinstance(spec, VictimJob):
        name = f"victim {spec.victim.name}"
        yield PlanFact(name, "specification", keyed(spec.victim))
        yield PlanFact(
            name, "content", spec.victim_fingerprint, "" if spec.victim.origin == "model" else spec.task.name
        )
    if isinstance(spec, VictimJob | AttackJob) or spec.encoder is None:
        return
    name = f"encoder {draws.get(job.parts[0], Draw(encoder=job.parts[0])).encoder}"
    if not isinstance(spec, PretrainJob):
        yield PlanFact(name, "specification", keyed(_without_draw(spec.encoder, draws)))
        if spec.encoder_fingerprint is not None:
            yield PlanFact(name, "weights", spec.encoder_fingerprint)
        return
    corpus = "/".join(job.parts[1:])
    yield PlanFact(name, "training", keyed(_without_draw(spec.encoder, draws)), corpus)
    inputs = {
        "weights of its base": spec.base_fingerprint,
        "scores that select its step": spec.selection_fingerprint,
        "models that its training uses": spec.model_fingerprints,
        "resources of its training": [keyed(spec.resources), spec.resource_fingerprints],
    }
    yield from (PlanFact(name, aspect, value, corpus) for aspect, value in inputs.items())
    assert spec.encoder.train is not None
    objective, selected = spec.encoder.train.objective, "selected" if spec.encoder.train.selection_tasks else ""
    kinds = ",".join(spec.resource_fingerprints)
    yield from _code_facts(f"objective {objective}", spec, f"{selected} {kinds}")


def _without_draw(spec: EncoderSpec, draws: Mapping[str, Draw]) -> EncoderSpec:
    """Return an encoder without what only its training seed decides: that seed, and the labels of draws."""
    draw = draws.get(spec.name)
    if draw is None or draw.train_seed is None:
        return spec
    base = draws[spec.base].encoder if spec.base is not None and spec.base in draws else spec.base
    train = spec.train.model_copy(update={"seed": 0}) if spec.train is not None else None
    return spec.model_copy(update={"name": draw.encoder, "base": base, "train": train})


def _method_facts(job: Job) -> Iterator[PlanFact]:
    """Yield the facts of the strategy, attack or measure of a job."""
    spec = job.spec
    if isinstance(spec, FinetuneJob):
        name = f"strategy {spec.strategy.label}"
        yield PlanFact(name, f"training settings for {spec.task.name}", keyed(spec.training))
        yield from _code_facts(name, spec)
    elif isinstance(spec, VictimJob):
        name = f"scoring of classifiers on {spec.task.name}"
        yield PlanFact(name, "numbers of validation rows", spec.max_validation)
        yield from _code_facts(name, spec, spec.victim.origin)
    elif isinstance(spec, AttackJob):
        name, graded = f"attack {job.parts[3]}", "" if spec.task.of_kind.goal is None else spec.task.kind
        yield PlanFact(name, "options", keyed(spec.attack), graded)
        yield PlanFact(name, "resource sets", spec.resources.name)
        yield from _code_facts(name, spec, f"{graded} {spec.task.has_oracle}")
    elif isinstance(spec, MeasureJob):
        label_parts = {"encoders": job.parts[1:], "victims": (spec.what.name,), "trainings": job.parts[2:]}
        name = f"measure {'/'.join(label_parts.get(spec.of, job.parts[:1]))}"
        yield PlanFact(name, "options", keyed(spec.what))
        yield from _code_facts(name, spec)


def _code_facts(subject: str, spec: Any, variant: str = "") -> Iterator[PlanFact]:
    """Yield the facts of the code behind something. `spec` is a job's; where a user's module is behind it, it has the
    hash of its source."""
    versions = {name: version for name, version in spec.versions.items() if name not in _CODE_OF_ENCODERS}
    yield PlanFact(subject, "versions of the code", versions, variant)
    yield PlanFact(subject, "sources of the code", getattr(spec, "source", ""))


def _resource_facts(job: Job) -> Iterator[PlanFact]:
    """Yield the facts of the suite's resources that a job uses. Those of an encoder's training are facts of it."""
    spec = job.tuning or job.attacking or job.measuring
    if spec is None or spec.resources is None:
        return
    for kind, source in spec.resources.sources.items():
        name = f"resource {kind.replace('_', ' ')}"
        yield PlanFact(name, "sources", keyed(source))
        yield PlanFact(name, "contents", spec.resource_fingerprints.get(kind, ""))

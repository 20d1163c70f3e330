"""The order of a plan's jobs, each right after those that it needs, and the choice of jobs by name, for `--only`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rbench.errors import PlanError
from rbench.schema import ADVERSARIAL, STS, Draw, Job, Plan, Suite


def with_needs(asked: Iterable[Job], jobs: Mapping[str, Job]) -> tuple[Job, ...]:
    """Return `asked` and all that they need, each directly before the first job that needs it.

    Args:
        asked: the jobs that are wanted, in order.
        jobs: at least these and all that they need, by key.
    """
    ordered: dict[str, Job] = {}

    def visit(job: Job) -> None:
        for key in job.needs.values():
            visit(jobs[key])
        ordered.setdefault(job.key, job)

    for job in asked:
        visit(job)
    return tuple(ordered.values())


def in_order(suite: Suite, draws: Mapping[str, Draw], jobs: Mapping[str, Job]) -> tuple[Job, ...]:
    """Return the jobs of several plans of `suite` in the order that the planner gives to those of one plan.

    Jobs whose place the suite does not decide, such as a second contrast set, keep the order that they have in `jobs`.
    """
    needed = {key for job in jobs.values() for key in job.needs.values()}
    lists = _Lists(suite, draws)
    places = {key: lists.place(job, key in needed) for key, job in jobs.items()}
    asked = sorted((place, i) for i, place in enumerate(places.values()) if place is not None)
    there = list(jobs.values())
    return with_needs([*(there[i] for _, i in asked), *there], jobs)


def places_of(names: Iterable[Any]) -> dict[Any, int]:
    """Return the place of each name among the distinct names, from 0."""
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


class _Lists:
    """The places of all that a suite lists. Looking through the lists for each job would take hours for a plan of a
    hundred thousand seeds."""

    def __init__(self, suite: Suite, draws: Mapping[str, Draw]) -> None:
        self._draws = draws
        self._lineup, self._tasks = places_of(suite.lineup), places_of(suite.tasks)
        self._seeds, self._trainings = places_of(suite.seeds), places_of(suite.train_seeds)
        self._attacks = places_of(one.label for one in suite.attacks)
        self._finetune = places_of(one.label for one in suite.finetune)
        self._build = places_of(one.label for one in suite.build)
        self._scored = places_of(one.label for one in suite.evaluations)
        self._measured = places_of(one.name for one in suite.evaluate)
        self._evaluated = places_of(one.label for one in suite.evaluate)

    def place(self, job: Job, needed: bool) -> tuple[int, ...] | None:
        """Return the place of a job that the suite asks for; None for one that is there because others need it."""
        spec, parts = job.measuring, job.parts
        draw = self._draws.get(parts[0], Draw(encoder=parts[0]))
        training = self._trainings.get(draw.train_seed, 0)
        encoder = _at(self._lineup, draw.encoder)
        if spec is not None and spec.of == "encoders":
            sts = spec.what.name == STS
            place = _at(self._scored, parts[1]) if sts else len(self._scored) + _at(self._measured, spec.what.name)
            return (training, 0, encoder, place)
        if spec is not None and spec.of in ("attacks", "tasks"):
            seeds = {self._draws[label].train_seed for label in spec.encoders if label in self._draws}
            later = next((self._trainings[seed] for seed in seeds if seed in self._trainings), 0)
            attack, task = _at(self._attacks, spec.attack or ""), _at(self._tasks, spec.task.name)
            return (later, 2, _at(self._evaluated, parts[0]), _at(self._seeds, job.seed), task, attack)
        if len(parts) < 3 or draw.encoder not in self._lineup or job.seed not in self._seeds:
            return None
        cell = (training, 1, self._seeds[job.seed], _at(self._tasks, parts[1]), encoder)
        if spec is not None and spec.of == "trainings":
            return (*cell, 0, _at(self._build, parts[2]))
        victim = (*cell, 1 + _at(self._finetune, parts[2]))
        if job.attacking is not None and job.attacking.split == "test" and parts[3] in self._attacks:
            return (*victim, 2, self._attacks[parts[3]])
        if spec is not None:
            return (*victim, int(spec.set is None), int(spec.what.name == ADVERSARIAL))
        return (*victim, 3) if job.victim is not None and not needed else None


def _at(places: Mapping[Any, int], name: object) -> int:
    """Return the place of a name, or the end for one that is not there."""
    return places.get(name, len(places))


def select(plan: Plan, patterns: Sequence[str]) -> tuple[Job, ...]:
    """Return the jobs whose name contains one of `patterns`, with all jobs that they need.

    A pattern with * or ? must match the whole name. Without patterns, return all jobs. Raises PlanError for a pattern
    that no job matches.
    """
    if not patterns:
        return plan.jobs
    chosen: set[str] = set()
    for pattern in patterns:
        literal = pattern.replace("[", "[[]")  # labels have brackets: `bertattack[max_words=10]`
        glob = literal if any(c in pattern for c in "*?") else f"*{literal}*"
        matches = {job.key for job in plan.jobs if fnmatch.fnmatchcase(job.name, glob)}
        if not matches:
            examples = ", ".join(job.name for job in plan.jobs[-3:])
            raise PlanError(f"--only {pattern}: no job matches. Job names look like {examples}")
        chosen |= matches
    by_key = {job.key: job for job in plan.jobs}
    wanted = {job.key for job in with_needs((by_key[key] for key in chosen), by_key)}
    return tuple(job for job in plan.jobs if job.key in wanted)


def short_names(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the names of jobs without options that tell none of them from another, by their keys.

    `adversarial[clean_epochs=2,order=once]` becomes `adversarial` where no job has other options of it, or none.
    """
    parts = {job.key: (job.stage, *job.parts, f"seed{job.seed}") for job in jobs}
    labels: dict[str, set[str]] = {}
    for part in (part for own in parts.values() for part in own):
        labels.setdefault(part.partition("[")[0], set()).add(part)

    def short(part: str) -> str:
        name = part.partition("[")[0]
        return name if len(labels[name]) == 1 else part

    return {key: "/".join(map(short, own)) for key, own in parts.items()}

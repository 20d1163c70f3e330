"""The order of a plan's jobs, each right after those that it needs, and the choice of jobs by name, for `--only`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rbench.errors import PlanError
from rbench.schema import ADVERSARIAL, STS, Draw, Job, Plan, Suite


def add_needed(wanted: Iterable[Job], jobs: Mapping[str, Job]) -> tuple[Job, ...]:
    """Return `wanted` and all that they need, each directly before the first job that needs it.

    Args:
        wanted: the jobs that are wanted, in order.
        jobs: at least these and all that they need, by key.
    """
    ordered: dict[str, Job] = {}

    def visit(job: Job) -> None:
        for key in job.needs.values():
            visit(jobs[key])
        ordered.setdefault(job.key, job)

    for job in wanted:
        visit(job)
    return tuple(ordered.values())


def order_jobs(suite: Suite, draws: Mapping[str, Draw], jobs: Mapping[str, Job]) -> tuple[Job, ...]:
    """Return the jobs of several plans of `suite` in the order that the planner gives to those of one plan.

    Jobs whose place the suite does not decide, such as a second contrast set, keep the order that they have in `jobs`.
    """
    needed = {key for job in jobs.values() for key in job.needs.values()}
    lists = _SuitePlaces(suite, draws)
    places = {key: lists.place(job, key in needed) for key, job in jobs.items()}
    sorted_places = sorted((place, i) for i, place in enumerate(places.values()) if place is not None)
    all_jobs = list(jobs.values())
    # First those that the suite asks for, then the rest, so that what others need comes directly before them.
    return add_needed([*(all_jobs[i] for _, i in sorted_places), *all_jobs], jobs)


def number_distinct(names: Iterable[Any]) -> dict[Any, int]:
    """Return the place of each name among the distinct names, from 0."""
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


class _SuitePlaces:
    """The places of all that a suite lists. Looking through the lists for each job would take hours for a plan of a
    hundred thousand seeds."""

    def __init__(self, suite: Suite, draws: Mapping[str, Draw]) -> None:
        self._draws = draws
        self._lineup, self._tasks = number_distinct(suite.lineup), number_distinct(suite.tasks)
        self._seeds, self._trainings = number_distinct(suite.seeds), number_distinct(suite.train_seeds)
        self._attacks = number_distinct(entry.label for entry in suite.attacks)
        self._finetune = number_distinct(entry.label for entry in suite.finetune)
        self._build = number_distinct(entry.label for entry in suite.build)
        self._scored = number_distinct(entry.label for entry in suite.evaluations)
        self._measured = number_distinct(entry.name for entry in suite.evaluate)
        self._evaluated = number_distinct(entry.label for entry in suite.evaluate)

    def place(self, job: Job, needed: bool) -> tuple[int, ...] | None:
        """Return the place of a job that the suite asks for; None for one that is there because others need it."""
        spec, parts = job.measuring, job.parts
        draw = self._draws.get(parts[0], Draw(encoder=parts[0]))
        training = self._trainings.get(draw.train_seed, 0)
        encoder = _place_or_end(self._lineup, draw.encoder)
        if spec is not None and spec.of == "encoders":
            sts = spec.what.name == STS
            place = (
                _place_or_end(self._scored, parts[1])
                if sts
                else len(self._scored) + _place_or_end(self._measured, spec.what.name)
            )
            return (training, 0, encoder, place)
        if spec is not None and spec.of in ("attacks", "tasks"):
            seeds = {self._draws[label].train_seed for label in spec.encoders if label in self._draws}
            later = next((self._trainings[seed] for seed in seeds if seed in self._trainings), 0)
            attack, task = _place_or_end(self._attacks, spec.attack or ""), _place_or_end(self._tasks, spec.task.name)
            return (
                later,
                2,
                _place_or_end(self._evaluated, parts[0]),
                _place_or_end(self._seeds, job.seed),
                task,
                attack,
            )
        if len(parts) < 3 or draw.encoder not in self._lineup or job.seed not in self._seeds:
            return None
        cell = (training, 1, self._seeds[job.seed], _place_or_end(self._tasks, parts[1]), encoder)
        if spec is not None and spec.of == "trainings":
            return (*cell, 0, _place_or_end(self._build, parts[2]))
        victim = (*cell, 1 + _place_or_end(self._finetune, parts[2]))
        if job.attacking is not None and job.attacking.split == "test" and parts[3] in self._attacks:
            return (*victim, 2, self._attacks[parts[3]])
        if spec is not None:
            return (*victim, int(spec.set is None), int(spec.what.name == ADVERSARIAL))
        return (*victim, 3) if job.victim is not None and not needed else None


def _place_or_end(places: Mapping[Any, int], name: object) -> int:
    """Return the place of a name, or the end for one that is not there."""
    return places.get(name, len(places))


def select_jobs(plan: Plan, patterns: Sequence[str]) -> tuple[Job, ...]:
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
    wanted = {job.key for job in add_needed((by_key[key] for key in chosen), by_key)}
    return tuple(job for job in plan.jobs if job.key in wanted)


def short_names(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the names of jobs without options that tell none of them from another, by their keys.

    `adversarial[clean_epochs=2,order=once]` becomes `adversarial` where no job has other options of it, or none.
    """
    parts = {job.key: (job.stage, *job.parts, f"seed{job.seed}") for job in jobs}
    labels: dict[str, set[str]] = {}
    for part in (part for job_parts in parts.values() for part in job_parts):
        labels.setdefault(part.partition("[")[0], set()).add(part)

    def short(part: str) -> str:
        name = part.partition("[")[0]
        return name if len(labels[name]) == 1 else part

    return {key: "/".join(map(short, job_parts)) for key, job_parts in parts.items()}

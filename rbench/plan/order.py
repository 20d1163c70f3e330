"""The order of a plan's jobs, each right after those that it needs, and the choice of jobs by name, for `--only`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence

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
    places = {key: _place(suite, draws, job, key in needed) for key, job in jobs.items()}
    asked = sorted((place, i) for i, place in enumerate(places.values()) if place is not None)
    there = list(jobs.values())
    return with_needs([*(there[i] for _, i in asked), *there], jobs)


def _place(suite: Suite, draws: Mapping[str, Draw], job: Job, needed: bool) -> tuple[int, ...] | None:
    """Return the place of a job that the suite asks for; None for one that is there because others need it."""
    spec, parts = job.measuring, job.parts
    draw = draws.get(parts[0], Draw(encoder=parts[0]))
    training = suite.train_seeds.index(draw.train_seed) if draw.train_seed in suite.train_seeds else 0
    encoder = _at(suite.lineup, draw.encoder)
    asked = [one.name for one in suite.evaluate]
    if spec is not None and spec.of == "encoders":
        scored = [one.label for one in suite.evaluations]
        place = _at(scored, parts[1]) if spec.what.name == STS else len(scored) + _at(asked, spec.what.name)
        return (training, 0, encoder, place)
    if spec is not None and spec.of in ("attacks", "tasks"):
        seeds = {draws[label].train_seed for label in spec.encoders if label in draws}
        later = next((suite.train_seeds.index(seed) for seed in seeds if seed in suite.train_seeds), 0)
        labels = [one.label for one in suite.evaluate]
        attack = _at([one.label for one in suite.attacks], spec.attack or "")
        task = _at(suite.tasks, spec.task.name)
        return (later, 2, _at(labels, parts[0]), _at(suite.seeds, job.seed), task, attack)
    if len(parts) < 3 or draw.encoder not in suite.lineup or job.seed not in suite.seeds:
        return None
    cell = (training, 1, suite.seeds.index(job.seed), _at(suite.tasks, parts[1]), encoder)
    if spec is not None and spec.of == "trainings":
        return (*cell, 0, _at([one.label for one in suite.build], parts[2]))
    victim = (*cell, 1 + _at([one.label for one in suite.finetune], parts[2]))
    attacks = [one.label for one in suite.attacks]
    if job.attacking is not None and job.attacking.split == "test" and parts[3] in attacks:
        return (*victim, 2, attacks.index(parts[3]))
    if spec is not None:
        return (*victim, int(spec.set is None), int(spec.what.name == ADVERSARIAL))
    return (*victim, 3) if job.victim is not None and not needed else None


def _at(names: Sequence[object], name: object) -> int:
    """Return the place of a name, or the end for one that is not there."""
    return names.index(name) if name in names else len(names)


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

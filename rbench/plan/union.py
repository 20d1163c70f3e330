"""Make one plan of several that share data, weights and options: `rbench merge`, and tables of several RUNs."""

from __future__ import annotations

from collections.abc import Mapping

from rbench.errors import StoreError
from rbench.plan.order import in_order
from rbench.plan.union_suite import union_suite
from rbench.plan.unlike import differences
from rbench.spec import Draw, Job, Plan

_NAMED = 3
"""How many jobs a note names."""
REMEDY = "Run them again with the same suite, data, weights and version of rbench, or keep their tables apart."


def union(plans: Mapping[str, Plan]) -> tuple[Plan, tuple[str, ...]]:
    """Return a plan with the jobs of all plans, each once, and notes on what is left out or disagreed about.

    Jobs stand in the order that one plan of the whole suite would have. A job of a measure that reads all victims is
    left out if another plan has a job of that name that reads others too.

    Args:
        plans: the plans by the name of their RUN, which messages use. One plan is returned as it is.

    Raises:
        StoreError: something differs under one name; the message lists all of it, each with the two RUNs.
    """
    if len(plans) == 1:
        return next(iter(plans.values())), ()
    draws, wrong = _draws(plans)
    wrong += differences(plans, draws)
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        raise StoreError(f"these RUNs do not belong into one table:\n{listed}\n{REMEDY}")
    suite, notes = union_suite(plans, draws)
    jobs: dict[str, Job] = {}
    for plan in plans.values():
        for job in plan.jobs:
            jobs.setdefault(job.key, job)
    narrow = _narrow(jobs)
    jobs = {key: job for key, job in jobs.items() if job not in narrow}
    if narrow:
        named = ", ".join(job.name for job in narrow[:_NAMED]) + (", ..." if len(narrow) > _NAMED else "")
        notes.append(
            f"left out {len(narrow)} jobs of measures, because each reads the victims of its own RUN alone: {named}. "
            "Run the whole suite into the merged RUN, which computes them over all victims"
        )
    plan = Plan(
        suite=suite,
        jobs=tuple(jobs.values()) if _alike(plans) else in_order(suite, draws, jobs),
        draws=draws,
        texts=all(plan.texts for plan in plans.values()),
    )
    return plan, tuple(notes)


def _alike(plans: Mapping[str, Plan]) -> bool:
    """Whether all plans have the same jobs in the same order, as those of `--only` have."""
    first, *others = [[job.key for job in plan.jobs] for plan in plans.values()]
    return all(keys == first for keys in others)


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
    encoders = list(dict.fromkeys(label for plan in plans.values() for label in plan.suite.encoders))
    seeds = list(dict.fromkeys(seed for plan in plans.values() for seed in plan.suite.train_seeds))

    def place(label: str) -> tuple[int, int]:
        draw = found[label]
        known = draw.encoder in encoders and draw.train_seed in seeds
        return (encoders.index(draw.encoder), seeds.index(draw.train_seed or 0)) if known else (len(encoders), 0)

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

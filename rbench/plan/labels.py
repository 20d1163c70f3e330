"""Give the encoders of a RUN a label, so that RUNs whose encoders share names fit into one table (`before=RUN`).

With the label `before`, `simcse-mini[seed=1]` is called `simcse-mini (before)[seed=1]`, and so are classifiers that
exist. Tasks and attacks keep their names, because they must be the same in all RUNs of a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rbench.errors import StoreError
from rbench.schema import AttackJob, Claim, Job, MeasureJob, Plan, Suite, VictimJob, content_key
from rbench.schema.suite import AdversarialSet

_LABEL = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,29}"


def check_label(label: str) -> None:
    """Raise StoreError for a label that cannot stand in names."""
    if not re.fullmatch(_LABEL, label):
        raise StoreError(f"{label!r} cannot label a RUN: expected up to 30 letters, digits and ._+-, as in before=RUN")


def add_label(name: str, label: str) -> str:
    """Return an encoder's name with a label.

    >>> labelled("simcse-mini[seed=1]", "before")
    'simcse-mini (before)[seed=1]'
    """
    plain_name, bracket, options = name.partition("[")
    return f"{plain_name} ({label}){bracket}{options}"


def remove_label(name: str) -> str:
    """Return an encoder's name without its label.

    >>> unlabelled("simcse-mini (before)[seed=1]")
    'simcse-mini[seed=1]'
    """
    return re.sub(rf" \({_LABEL}\)(?=\[|$)", "", name, count=1)


def relabel_plan(plan: Plan, label: str, taken: Collection[str] | None = None) -> tuple[Plan, dict[str, Job]]:
    """Return a plan whose encoders have a label, and the jobs as the RUN stores them, by their keys in that plan.

    Beside other RUNs, a masked LM of attacks keeps its name, because attacks must have the same in all of them.

    Args:
        taken: the keys that other RUNs of the table have, too. Jobs with a label get other keys in their place. None:
            the RUN is read alone.
    """
    attacks = _trainings_of_attacks(plan) if taken is not None else set()
    first_parts = {job.parts[0] for job in plan.jobs if _begins_with_encoder(job)}
    names = {name: add_label(name, label) for name in (*plan.suite.lineup, *plan.draws, *first_parts)}
    jobs, stored, new_keys = [], dict[str, Job](), dict[str, str]()
    for job in plan.jobs:
        labelled_job = job
        if job.key not in attacks and not (job.measuring is not None and job.measuring.of == "tasks"):
            key = content_key([label, job.key]) if job.key in (taken or ()) else job.key
            needs = {_label_role(role, names): new_keys[needed] for role, needed in job.needs.items()}
            update = {"key": key, "parts": _label_parts(job, names, label), "spec": _label_spec(job.spec, names, label)}
            labelled_job = job.model_copy(update={**update, "needs": needs})
        new_keys[job.key], stored[labelled_job.key] = labelled_job.key, job
        jobs.append(labelled_job)
    drawn = {
        names[draw_label]: draw.model_copy(update={"encoder": names[draw.encoder]})
        for draw_label, draw in plan.draws.items()
    }
    shared = {
        draw_label: draw for draw_label, draw in plan.draws.items() if any(job.parts[0] == draw_label for job in jobs)
    }
    update = {"suite": _label_suite(plan.suite, names, label), "jobs": tuple(jobs), "draws": shared | drawn}
    return plan.model_copy(update=update), stored


def _begins_with_encoder(job: Job) -> bool:
    """Whether a job's name begins with an encoder or a classifier."""
    return job.measuring is None or job.measuring.of not in ("attacks", "tasks")


def _trainings_of_attacks(plan: Plan) -> set[str]:
    """Return the keys of the trainings behind the masked LMs of attacks."""
    keys: set[str] = set()
    for job in reversed(plan.jobs):
        may_attack = job.attacking is not None or job.measuring is not None
        keys |= {key for role, key in job.needs.items() if job.key in keys or (may_attack and role == "masked_lm")}
    return keys


def _label_role(role: str, names: Mapping[str, str]) -> str:
    """Return a role of `Job.needs`, such as `victim:simcse-mini/clean`."""
    kind, colon, target = role.partition(":")
    longest_name = max((name for name in names if colon and target.startswith(f"{name}/")), key=len, default="")
    return f"{kind}:{names[longest_name]}{target[len(longest_name) :]}" if longest_name else role


def _label_parts(job: Job, names: Mapping[str, str], label: str) -> tuple[str, ...]:
    own_set = _made_set(job.spec)
    other_parts = (
        f"{part} ({label})" if own_set is not None and part == own_set.name else part for part in job.parts[1:]
    )
    return (names[job.parts[0]] if _begins_with_encoder(job) else job.parts[0], *other_parts)


def _made_set(spec: Any) -> AdversarialSet | None:
    """Return the set that a job reads and that an attack of the same RUN makes: it is one of the label."""
    set_spec = spec.set if isinstance(spec, MeasureJob) else None
    return set_spec if isinstance(set_spec, AdversarialSet) and set_spec.victim is None else None


def _label_spec(spec: Any, names: Mapping[str, str], label: str) -> Any:
    if isinstance(spec, AttackJob):
        return spec.model_copy(update={"encoder": names[spec.encoder]})
    field = "victim" if isinstance(spec, VictimJob) else "encoder"
    update: dict[str, Any] = {}
    if (entry := getattr(spec, field)) is not None:
        fields = {"name": names.get(entry.name, entry.name)}
        for name in ("title", "short"):
            if getattr(entry, name):
                fields[name] = f"{getattr(entry, name)} ({label})"
        if field == "encoder":
            fields["base"] = names.get(entry.base, entry.base)
        update[field] = entry.model_copy(update=fields)
    if isinstance(spec, MeasureJob):
        for name in ("encoders", "existing"):
            update[name] = tuple(names[encoder] for encoder in getattr(spec, name))
        made = _made_set(spec)
        if made is not None:
            fields = {"name": f"{made.name} ({label})", "encoder": names.get(made.encoder, made.encoder)}
            update["set"] = made.model_copy(update=fields)
    return spec.model_copy(update=update)


def _label_suite(suite: Suite, names: Mapping[str, str], label: str) -> Suite:
    def renamed(encoders: Iterable[str]) -> list[str]:
        return [names.get(name, name) for name in encoders]

    update: dict[str, Any] = {}
    for name in ("encoders", "victims"):
        update[name] = tuple(names[encoder] for encoder in getattr(suite, name))
    lineup = update["encoders"] + update["victims"]
    strategies = []
    for strategy in suite.finetune:
        encoders = strategy.encoders and tuple(renamed(strategy.encoders))
        strategies.append(strategy.model_copy(update={"encoders": encoders}))
    figures = []
    for figure in suite.figures:
        options = dict(figure.options)
        for key in {"encoder", "encoders"} & options.keys():
            options[key] = renamed(options[key])
        figures.append(figure.model_copy(update={"options": options}))
    update["finetune"], update["figures"] = tuple(strategies), tuple(figures)
    update["claims"] = tuple(_label_claim(claim, lineup, label) for claim in suite.claims)
    return suite.model_copy(update=update)


def _label_claim(claim: Claim, lineup: tuple[str, ...], label: str) -> Claim:
    """Return a claim on the encoders of this RUN alone, also where it names them by their objective or not at all."""
    fields = claim.model_dump(exclude_defaults=True)
    fields["id"] = f"{claim.id}-{re.sub('[^a-z0-9.-]+', '-', label.lower())}"
    for place, subject in claim.subjects:
        if subject.encoder is not None:
            node: Any = fields
            for step in place:
                node = node[step]
            node["encoder"] = add_label(subject.encoder, label)
    among = claim.where.get("encoder")
    if among is not None or any(subject.encoder is None for _, subject in claim.subjects):
        encoders = lineup if among is None else tuple(add_label(name, label) for name in among)
        fields["where"] = {**claim.where, "encoder": encoders}
    return Claim.model_validate(fields)

"""Give the encoders of a RUN a label, so that RUNs whose encoders share names fit into one table (`before=RUN`).

With the label `before`, `simcse-mini[seed=1]` is called `simcse-mini (before)[seed=1]`, and so are classifiers that
exist. Tasks and attacks keep their names, because they must be the same in all RUNs of a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from rbench.errors import StoreError
from rbench.schema import AttackJob, Claim, Job, MeasureJob, Plan, Suite, VictimJob, content_key
from rbench.schema.suite import AdversarialSet

_LABEL = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,29}"


def check(label: str) -> None:
    """Raise StoreError for a label that cannot stand in names."""
    if not re.fullmatch(_LABEL, label):
        raise StoreError(f"{label!r} cannot label a RUN: expected up to 30 letters, digits and ._+-, as in before=RUN")


def labelled(name: str, label: str) -> str:
    """Return an encoder's name with a label.

    >>> labelled("simcse-mini[seed=1]", "before")
    'simcse-mini (before)[seed=1]'
    """
    own, bracket, options = name.partition("[")
    return f"{own} ({label}){bracket}{options}"


def unlabelled(name: str) -> str:
    """Return an encoder's name without its label.

    >>> unlabelled("simcse-mini (before)[seed=1]")
    'simcse-mini[seed=1]'
    """
    return re.sub(rf" \({_LABEL}\)(?=\[|$)", "", name, count=1)


def relabelled(plan: Plan, label: str, taken: Collection[str] | None = None) -> tuple[Plan, dict[str, Job]]:
    """Return a plan whose encoders have a label, and the jobs as the RUN stores them, by their keys in that plan.

    Beside other RUNs, a masked LM of attacks keeps its name, because attacks must have the same in all of them.

    Args:
        taken: the keys that other RUNs of the table have, too. Jobs with a label get other keys in their place. None:
            the RUN is read alone.
    """
    attacks = _of_attacks(plan) if taken is not None else set()
    first = {job.parts[0] for job in plan.jobs if _of_encoder(job)}
    names = {name: labelled(name, label) for name in (*plan.suite.lineup, *plan.draws, *first)}
    jobs, stored, keys = [], dict[str, Job](), dict[str, str]()
    for job in plan.jobs:
        made = job
        if job.key not in attacks and not (job.measuring is not None and job.measuring.of == "tasks"):
            key = content_key([label, job.key]) if job.key in (taken or ()) else job.key
            needs = {_role(role, names): keys[needed] for role, needed in job.needs.items()}
            update = {"key": key, "parts": _parts(job, names, label), "spec": _spec(job.spec, names, label)}
            made = job.model_copy(update={**update, "needs": needs})
        keys[job.key], stored[made.key] = made.key, job
        jobs.append(made)
    drawn = {names[of]: one.model_copy(update={"encoder": names[one.encoder]}) for of, one in plan.draws.items()}
    shared = {of: one for of, one in plan.draws.items() if any(job.parts[0] == of for job in jobs)}
    update = {"suite": _suite(plan.suite, names, label), "jobs": tuple(jobs), "draws": shared | drawn}
    return plan.model_copy(update=update), stored


def _of_encoder(job: Job) -> bool:
    """Whether a job's name begins with an encoder or a classifier."""
    return job.measuring is None or job.measuring.of not in ("attacks", "tasks")


def _of_attacks(plan: Plan) -> set[str]:
    """Return the keys of the trainings behind the masked LMs of attacks."""
    found: set[str] = set()
    for job in reversed(plan.jobs):
        asked = job.attacking is not None or job.measuring is not None
        found |= {key for role, key in job.needs.items() if job.key in found or (asked and role == "masked_lm")}
    return found


def _role(role: str, names: Mapping[str, str]) -> str:
    """Return a role of `Job.needs`, such as `victim:simcse-mini/clean`."""
    kind, colon, rest = role.partition(":")
    own = max((name for name in names if colon and rest.startswith(f"{name}/")), key=len, default="")
    return f"{kind}:{names[own]}{rest[len(own) :]}" if own else role


def _parts(job: Job, names: Mapping[str, str], label: str) -> tuple[str, ...]:
    own = _made(job.spec)
    rest = (f"{part} ({label})" if own is not None and part == own.name else part for part in job.parts[1:])
    return (names[job.parts[0]] if _of_encoder(job) else job.parts[0], *rest)


def _made(spec: Any) -> AdversarialSet | None:
    """Return the set that a job reads and that an attack of the same RUN makes: it is one of the label."""
    found = spec.set if isinstance(spec, MeasureJob) else None
    return found if isinstance(found, AdversarialSet) and found.victim is None else None


def _spec(spec: Any, names: Mapping[str, str], label: str) -> Any:
    if isinstance(spec, AttackJob):
        return spec.model_copy(update={"encoder": names[spec.encoder]})
    field = "victim" if isinstance(spec, VictimJob) else "encoder"
    update: dict[str, Any] = {}
    if (entry := getattr(spec, field)) is not None:
        own = {"name": names.get(entry.name, entry.name)}
        own |= {name: f"{said} ({label})" for name in ("title", "short") if (said := getattr(entry, name))}
        own |= {"base": names.get(entry.base, entry.base)} if field == "encoder" else {}
        update[field] = entry.model_copy(update=own)
    if isinstance(spec, MeasureJob):
        update |= {name: tuple(names[one] for one in getattr(spec, name)) for name in ("encoders", "existing")}
        if (made := _made(spec)) is not None:
            own = {"name": f"{made.name} ({label})", "encoder": names.get(made.encoder, made.encoder)}
            update["set"] = made.model_copy(update=own)
    return spec.model_copy(update=update)


def _suite(suite: Suite, names: Mapping[str, str], label: str) -> Suite:
    update: dict[str, Any] = {
        name: tuple(names[one] for one in getattr(suite, name)) for name in ("encoders", "victims")
    }
    lineup = update["encoders"] + update["victims"]
    update["finetune"] = tuple(
        one.model_copy(update={"encoders": one.encoders and tuple(names.get(name, name) for name in one.encoders)})
        for one in suite.finetune
    )
    update["claims"] = tuple(_claim(one, lineup, label) for one in suite.claims)
    update["figures"] = tuple(
        one.model_copy(
            update={
                "options": {
                    key: [names.get(name, name) for name in said] if key in ("encoder", "encoders") else said
                    for key, said in one.options.items()
                }
            }
        )
        for one in suite.figures
    )
    return suite.model_copy(update=update)


def _claim(claim: Claim, lineup: tuple[str, ...], label: str) -> Claim:
    """Return a claim on the encoders of this RUN alone, also where it names them by their objective or not at all."""
    said = claim.model_dump(exclude_defaults=True)
    said["id"] = f"{claim.id}-{re.sub('[^a-z0-9.-]+', '-', label.lower())}"
    for place, subject in claim.subjects:
        if subject.encoder is not None:
            at: Any = said
            for step in place:
                at = at[step]
            at["encoder"] = labelled(subject.encoder, label)
    among = claim.where.get("encoder")
    if among is not None or any(subject.encoder is None for _, subject in claim.subjects):
        only = lineup if among is None else tuple(labelled(name, label) for name in among)
        said["where"] = {**claim.where, "encoder": only}
    return Claim.model_validate(said)

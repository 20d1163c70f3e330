"""Make one suite of several that asked for parts of the same tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rbench.errors import StoreError
from rbench.spec import Draw, Plan, Suite


def union_suite(plans: Mapping[str, Plan], draws: Mapping[str, Draw]) -> tuple[Suite, list[str]]:
    """Return a suite that asks for what any of the plans' suites asks for, and notes on what they disagree about.

    Lists are joined in the order of the plans. So rows and columns of tables stand in the order in which RUNs are
    named. The plans agree about data, weights and options (`unlike.differences`).

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
    joined["encoders"] = _listed([[_encoder(label, draws) for label in joined["encoders"]]])
    if len({suite.require for suite in suites}) > 1:
        asking = [run for run, plan in plans.items() if plan.suite.require == joined["require"]]
        notes.append(f"`require: {joined['require']}` of {', '.join(asking)} holds for all entries of the tables")
    try:
        return Suite.model_validate(joined), notes
    except ValueError as error:
        raise StoreError(f"the suites of {', '.join(plans)} make no suite together: {error}") from error


def _listed(values: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Join lists. Entries may be unhashable, because they have options."""
    found: list[Any] = []
    for entry in (entry for value in values for entry in value):
        if entry not in found:
            found.append(entry)
    return tuple(found)


def _encoder(label: str, draws: Mapping[str, Draw]) -> str:
    """Return the encoder that a suite without `train_seeds` names by the label of a draw."""
    return draws[label].encoder if label in draws else label


def _name(plans: Sequence[Plan]) -> str:
    return "-and-".join(dict.fromkeys(plan.suite.name for plan in plans))


def _title(plans: Sequence[Plan]) -> str:
    return "; ".join(dict.fromkeys(plan.suite.title for plan in plans if plan.suite.title))


def _num_examples(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the number of examples by task: what was attacked, or what a suite says of a task without attacks."""
    said = {task: plan.suite.examples_for(task) for plan in reversed(plans) for task in plan.suite.tasks}
    attacks = (job.attacking for plan in plans for job in plan.jobs)
    return said | {one.task.name: one.num_examples for one in attacks if one is not None and one.split == "test"}


def _training(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the overrides by task, since each suite's are for its own tasks."""
    found: dict[str, dict[str, Any]] = {}
    for plan in reversed(plans):
        for task in plan.suite.tasks:
            found[task] = plan.suite.training_for(task)
    return {task: overrides for task, overrides in found.items() if overrides}


def _resources(plans: Sequence[Plan]) -> Any:
    """Return the resources of the first suite that uses any. Loading the others' would find the same."""
    used = (plan for plan in plans if any((spec := j.attacking or j.tuning) and spec.resources for j in plan.jobs))
    return next(used, plans[0]).suite.resources


def _require(plans: Sequence[Plan]) -> Any:
    """Return the stricter wish: an entry that one suite withholds is not shown beside others."""
    return next(plan.suite.require for plan in plans if plan.suite.require is not None)


def _profiles(plans: Sequence[Plan]) -> dict[str, Any]:
    return {name: value for plan in reversed(plans) for name, value in plan.suite.profiles.items()}


_OWN: dict[str, Callable[[Sequence[Plan]], Any]] = {
    "name": _name,
    "title": _title,
    "num_examples": _num_examples,
    "training": _training,
    "resources": _resources,
    "require": _require,
    "profiles": _profiles,
}
"""How fields are joined that are no lists."""

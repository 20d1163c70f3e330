"""Matches strategies, attacks and things to build with tasks: those with classes, and those with scores (STS)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from rbench.config.code import find
from rbench.config.entries import Entries
from rbench.config.overrides import Chosen, choices, names
from rbench.config.positions import Positioned, Problems
from rbench.config.registry import Kind, Registry
from rbench.errors import SuiteError
from rbench.schema import CLEAN, COSINE, Choice, Serves, TaskSpec

DEFAULTS: Mapping[Serves, str] = {"classification": CLEAN, "similarity": COSINE}
"""The strategy of a suite that names none, by what it serves."""
_TASKS: Mapping[Serves, str] = {"classification": "tasks with classes", "similarity": "tasks with similarity scores"}


def serves(module: ModuleType) -> tuple[Serves, ...]:
    """Return what a strategy or attack serves: its export SERVES, one or several; without it `classification`."""
    told: Any = getattr(module, "SERVES", "classification")
    several: Any = [told] if isinstance(told, str) else told
    return tuple(several)


def check_tasks(merged: Positioned, entries: Entries, problems: Problems) -> None:
    """Add a problem for each task that has no labels, or whose scores have no scale."""
    for place, name in names(merged, "tasks"):
        task = entries.tasks.found.get(name)
        if task is None:
            continue  # loading it has added a problem
        if task.kind == "sts" and task.scale is None:
            message = f"task {name} does not say which its lowest and highest scores are; write them into its file"
            problems.add(place, f"{message}, for instance `scale: [0, 5]`")
        elif task.kind != "sts" and not task.labels:
            problems.add(place, f"task {name} has no labels (its kind is {task.kind}): there is nothing to classify")


def match(
    merged: Positioned, entries: Entries, known: Collection[str], problems: Problems
) -> dict[str, tuple[Choice, ...]]:
    """Return the strategies that make victims for each task of a suite, in the suite's order.

    Add a problem for each task that has none, for each strategy that serves none of the `known` tasks (those of the
    file, of its profiles and of the overrides), and for each attack and thing to build that cannot take a task.
    """
    tasks = {name: entries.tasks.found[name] for _, name in names(merged, "tasks") if name in entries.tasks.found}
    scored = [name for name, task in tasks.items() if task.kind == "sts"]
    _check_attacks(scored, merged, entries, problems)
    _check_builds(scored, merged, problems)
    if "finetune" not in merged.data:
        return {name: (_default(task, merged, entries),) for name, task in tasks.items()}
    chosen = [(choice, _serves(entries, "finetune", choice)) for choice in choices(merged, "finetune")]
    if any(of is None for _, of in chosen):
        return {}  # loading that strategy has added a problem
    with_scores = set(entries.tasks.names_with_scores())
    there: set[Serves] = {"similarity" if name in with_scores else "classification" for name in known}
    for choice, of in chosen:
        if there and there.isdisjoint(of or ()):
            problems.add(choice.place, f"{choice.name} is for {_meant(of or ())}, and this suite has none")
    found = {}
    for name, task in tasks.items():
        serving = [choice for choice, of in chosen if _kind(task) in (of or ())]
        if chosen and not serving:
            able = ", ".join(able_to("finetune", _kind(task), entries.modules.registry))
            place = merged.at(("finetune",))
            problems.add(place, f"no strategy here is for {name}, one of the {_TASKS[_kind(task)]}; these are: {able}")
        found[name] = tuple(Choice(name=choice.name, options=choice.options.data) for choice in serving)
    return found


def check_table(merged: Positioned, entries: Entries, known: Collection[str], problems: Problems) -> None:
    """Check that a suite with a table of adversarial STS attacks STS tasks, at least in one of its profiles."""
    if merged.data.get("attacks") and not set(entries.tasks.names_with_scores()).isdisjoint(known):
        return
    for i, table in enumerate(merged.data["tables"] if isinstance(merged.data.get("tables"), list) else ()):
        if isinstance(table, dict) and table.get("metric") == "advsts":
            place = merged.at(("tables", i, "metric"))
            problems.add(place, "a table of advsts needs `attacks` and STS tasks under `tasks`, which this suite lacks")


def able_to(kind: Kind, what: Serves, registry: Registry) -> list[str]:
    """Return the names of all modules of a kind that serve such tasks. Files with errors are skipped."""
    found = []
    for name in registry.names(kind):
        try:
            module = find(kind, name, registry).open() if registry.path(kind, name).suffix == ".py" else None
        except SuiteError:
            continue
        found += [name] if module is None or what in serves(module) else []  # every recipe can attack both
    return found


def _kind(task: TaskSpec) -> Serves:
    return "similarity" if task.kind == "sts" else "classification"


def _meant(served: Collection[Serves]) -> str:
    return " and ".join(_TASKS[what] for what in served)


def _default(task: TaskSpec, merged: Positioned, entries: Entries) -> Choice:
    """Open and return the strategy of a suite that names none."""
    name = DEFAULTS[_kind(task)]
    entries.modules.open("finetune", name, merged.at())
    return Choice(name=name)


def _serves(entries: Entries, kind: Kind, choice: Chosen) -> tuple[Serves, ...] | None:
    """Return what a module that was loaded serves, or None where it was not."""
    found = entries.modules.found.get((kind, choice.name))
    return serves(found.open()) if found is not None else None


def _check_attacks(scored: Collection[str], merged: Positioned, entries: Entries, problems: Problems) -> None:
    for choice in choices(merged, "attacks") if scored else ():
        spec = entries.attacks.found.get(choice.label)
        if spec is None or spec.recipe is not None:
            continue
        if "similarity" not in (_serves(entries, "attacks", choice) or ()):
            able = ", ".join(able_to("attacks", "similarity", entries.modules.registry))
            problems.add(
                choice.place,
                f"attack {choice.name} needs classes, and {', '.join(scored)} has similarity scores; take it out, or "
                f"take the task out. Attacks for {_TASKS['similarity']}: {able}",
            )


def _check_builds(scored: Collection[str], merged: Positioned, problems: Problems) -> None:
    for choice in choices(merged, "build") if scored else ():
        problems.add(
            choice.place,
            f"`build: {choice.name}` needs {_TASKS['classification']}, and {', '.join(scored)} has similarity scores",
        )

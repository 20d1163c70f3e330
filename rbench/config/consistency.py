"""Checks conditions between the parts of a suite, which their types cannot express, and limits its size.

A small file names few things, but their product may be very large.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from pydantic import ValidationError

from rbench.config.check import check
from rbench.config.overrides import Chosen, choices, items, measured_names
from rbench.config.positions import Positioned, Problems, describe
from rbench.config.registry import unknown
from rbench.errors import SuiteError
from rbench.schema import ADVERSARIAL, CONTRAST, Evaluation, Suite, Training


def check_purpose(merged: Positioned, problems: Problems, of_encoders: Collection[str] = ()) -> None:
    """Check that a suite has `tasks`, unless it only scores encoders, and that it measures what its tables show.

    Args:
        of_encoders: the measures of the suite that read encoders as they are, and name their tasks themselves.
    """
    _check_lineup(merged, problems)
    attacks, evaluate, tasks = (merged.data.get(key) for key in ("attacks", "evaluate", "tasks"))
    asked = {choice.name for choice in choices(merged, "evaluate")}
    measures = {*measured_names(merged)}
    asked -= measures
    alone = asked | {*of_encoders}
    others = asked & {CONTRAST, ADVERSARIAL} or measures - {*of_encoders}
    only_scored = evaluate and alone and not others and not attacks
    if tasks is None and "tasks" not in merged.data:
        if not only_scored:
            problems.add(merged.at(), "`tasks` is missing")
    elif tasks == [] and not only_scored:
        problems.add(merged.at(("tasks",)), "`tasks`: expected at least 1 of them, found a list")
    there = {"sts": asked - {CONTRAST, ADVERSARIAL}, CONTRAST: asked & {CONTRAST}}
    needs = {"sts": "`evaluate`, a list of STS tasks", CONTRAST: f"`evaluate: [{CONTRAST}]`"}
    there[ADVERSARIAL], needs[ADVERSARIAL] = asked & {ADVERSARIAL}, f"`evaluate: [{{{ADVERSARIAL}: DIR}}]`"
    there["positives"] = {choice.name for choice in choices(merged, "build")} & {"positives"}
    needs["positives"] = "`build: [positives]`"
    for i, table in enumerate(merged.data["tables"] if isinstance(merged.data.get("tables"), list) else ()):
        metric = table.get("metric") if isinstance(table, dict) else table
        if isinstance(metric, str) and metric in needs and not there[metric] and evaluate != []:
            place = merged.at(("tables", i, "metric"))
            problems.add(place, f"a table of {metric} needs {needs[metric]}, which this suite lacks")


def _check_lineup(merged: Positioned, problems: Problems) -> None:
    """Check that a suite has `encoders`, or `victims` in their place."""
    encoders = merged.data.get("encoders")
    if merged.data.get("victims"):
        return
    if "encoders" not in merged.data:
        problems.add(merged.at(), "`encoders` is missing")
    elif encoders == []:
        problems.add(merged.at(("encoders",)), "`encoders`: expected at least 1 of them, found a list")


def check_repeats(merged: Positioned, problems: Problems) -> None:
    """Add a problem for each name that stands twice in a list: it would make the same table cells or figures twice."""
    for key in (
        "encoders",
        "victims",
        "tasks",
        "attacks",
        "evaluate",
        "build",
        "figures",
        "finetune",
        "seeds",
        "train_seeds",
    ):
        chosen = key in ("encoders", "attacks", "evaluate", "build", "figures", "finetune")
        labels = (
            [(c.place, _evaluated(c) if key == "evaluate" else c.label) for c in choices(merged, key)]
            if chosen
            else [(item.at(), str(item.data)) for item in items(merged, key)]
        )
        seen: set[str] = set()
        for place, label in labels:
            if label in seen:
                problems.add(place, f"`{key}` lists {label} twice; remove one")
            seen.add(label)


def _evaluated(choice: Chosen) -> str:
    """Return the label of an evaluation without options that equal the default. Invalid options stay as written."""
    try:
        return Evaluation.model_validate({**choice.options.data, "task": choice.name}).label
    except ValidationError:  # the check of its options reports it
        return choice.label


def check_maps(merged: Positioned, tasks: set[str], problems: Problems) -> None:
    """Check `num_examples` and `training` where they are maps by task: each key must be a task of this suite.

    `tasks` holds the tasks of the file, of all its profiles and of the overrides. So a map stays valid when a profile
    or an override narrows `tasks`.
    """
    if isinstance(merged.data.get("num_examples"), dict):
        located = merged.sub("num_examples")
        for key in located.data:
            if key not in {"default", *tasks}:
                message = unknown("task of this suite", key, {"default", *tasks})
                problems.add(located.key_at((key,)), message)
    if not isinstance(merged.data.get("training"), dict):
        return
    located = merged.sub("training")
    named = {"default", *tasks}
    valid = {*Training.model_fields, *named}
    for key, value in located.data.items():
        if key not in valid:
            problems.add(located.key_at((key,)), unknown("key", key, valid))
        elif key in named and isinstance(value, dict):
            check(Training, located.sub(key), problems)
        elif key in named:
            problems.add(located.at((key,)), f"`{key}`: expected a mapping, found {describe(value)}")
    check(Training, located.only(Training.model_fields), problems)


MOST_CELLS = 1_000_000
"""The most cells of a suite: its encoders and victims x tasks x attacks x strategies x seeds x training seeds."""
MOST_PROFILES = 100
"""The most profiles of a suite. Each is checked with the whole suite."""


def check_suite(merged: Positioned, problems: Problems) -> Suite | None:
    """Return the suite, or None where something is wrong with it and was added to `problems`.

    Raises SuiteError where the suite has more than MOST_CELLS cells: to load its encoders' draws would take too long.
    """
    suite = check(Suite, merged, problems)
    if suite is None:
        return None
    axes = {
        "encoders": len(suite.encoders) + len(suite.victims),
        "tasks": len(suite.tasks),
        "attacks": len(suite.attacks),
        "finetune": len(suite.finetune or ()),
        "seeds": len(suite.seeds),
        "train_seeds": len(suite.train_seeds),
    }
    cells = math.prod(max(n, 1) for n in axes.values())
    if cells > MOST_CELLS:
        longest = max(axes, key=lambda name: axes[name])
        shown = " x ".join(f"{n} {name}" for name, n in axes.items() if n > 1)
        raise SuiteError(
            f"{merged.at((longest,))}: {shown} are {cells:,} cells, and a suite may have {MOST_CELLS:,};"
            " divide it into several suites (rbench merge joins their results)"
        )
    return suite

"""Checks conditions between the parts of a suite, which their types cannot express, and limits its size.

A small file names few things, but their product may be very large. Strategies, attacks and things to build are matched
with tasks: those with classes, and those with scores (STS).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pydantic import ValidationError

from rbench.config.attacks import asks_for_gradients
from rbench.config.check import validate
from rbench.config.code import find
from rbench.config.entries import SuiteEntries
from rbench.config.overrides import PlacedChoice, iter_choices, iter_items, iter_tables, measured_names
from rbench.config.positions import PositionedData, Problems, describe
from rbench.config.registry import Kind, Registry, unknown_message
from rbench.errors import SuiteError
from rbench.schema import (
    ADVERSARIAL,
    CLASSES,
    CLEAN,
    CONTRAST,
    ENCODERS,
    KINDS,
    Evaluation,
    Family,
    Strategy,
    TaskSpec,
    Training,
)


def check_purpose(merged: PositionedData, problems: Problems, of_encoders: Collection[str] = ()) -> None:
    """Check that a suite has `tasks`, unless it only scores encoders, and that it measures what its tables show.

    Args:
        of_encoders: the measures of the suite that read encoders as they are, and name their tasks themselves.
    """
    data = merged.data
    if not data.get("victims"):
        _check_not_empty("encoders", merged, problems)
    asked, built = ({choice.name for choice in iter_choices(merged, key)} for key in ("evaluate", "build"))
    measures = {*measured_names(merged)}
    asked -= measures
    others = asked & {CONTRAST, ADVERSARIAL} or measures - {*of_encoders}
    if not data.get("evaluate") or not (asked or of_encoders) or others or data.get("attacks"):
        _check_not_empty("tasks", merged, problems)
    present = {"sts": asked - {CONTRAST, ADVERSARIAL}} | {name: asked & {name} for name in (CONTRAST, ADVERSARIAL)}
    needs = {"sts": "`evaluate`, a list of STS tasks", CONTRAST: f"`evaluate: [{CONTRAST}]`"}
    present["positives"], needs["positives"] = built & {"positives"}, "`build: [positives]`"
    needs[ADVERSARIAL] = f"`evaluate: [{{{ADVERSARIAL}: DIR}}]`"
    for metric, table in iter_tables(merged):
        if metric in needs and not present[metric] and data.get("evaluate") != []:
            problems.add(table.at(("metric",)), f"a table of {metric} needs {needs[metric]}, which this suite lacks")


def _check_not_empty(key: str, merged: PositionedData, problems: Problems) -> None:
    if key not in merged.data:
        problems.add(merged.at(), f"`{key}` is missing")
    elif merged.data[key] == []:
        problems.add(merged.at((key,)), f"`{key}`: expected at least 1 of them, found a list")


_CHOSEN = ("encoders", "attacks", "evaluate", "build", "figures", "finetune")
"""The lists of a suite whose entries may have options."""


def check_repeats(merged: PositionedData, problems: Problems) -> None:
    """Add a problem for each name that stands twice in a list: it would make the same table cells or figures twice."""
    for key in (*_CHOSEN, "victims", "tasks", "seeds", "train_seeds"):
        if key in _CHOSEN:
            labels = [
                (c.place, _evaluation_label(c) if key == "evaluate" else c.label) for c in iter_choices(merged, key)
            ]
        else:
            labels = [(item.at(), str(item.data)) for item in iter_items(merged, key)]
        seen: set[str] = set()
        for place, label in labels:
            if label in seen:
                problems.add(place, f"`{key}` lists {label} twice; remove one")
            seen.add(label)


def _evaluation_label(choice: PlacedChoice) -> str:
    """Return the label of an evaluation without options that equal the default. Invalid options stay as written."""
    try:
        return Evaluation.model_validate({**choice.options.data, "task": choice.name}).label
    except ValidationError:  # the check of its options reports it
        return choice.label


def check_maps(merged: PositionedData, tasks: set[str], problems: Problems) -> None:
    """Check `num_examples` and `training` where they are maps by task: each key must be a task of this suite.

    `tasks` holds the tasks of the file, of all its profiles and of the overrides. So a map stays valid when a profile
    or an override narrows `tasks`.
    """
    named = {"default", *tasks}
    counts, training = (merged.sub(key) if key in merged.data else None for key in ("num_examples", "training"))
    for key in counts.data if counts is not None and isinstance(counts.data, dict) else ():
        if counts is not None and key not in named:
            problems.add(counts.key_at((key,)), unknown_message("task of this suite", key, named))
    if training is None or not isinstance(training.data, dict):
        return
    valid = {*Training.model_fields, *named}
    for key, value in training.data.items():
        if key not in valid:
            problems.add(training.key_at((key,)), unknown_message("key", key, valid))
        elif key in named and isinstance(value, dict):
            validate(Training, training.sub(key), problems)
        elif key in named:
            problems.add(training.at((key,)), f"`{key}`: expected a mapping, found {describe(value)}")
    validate(Training, training.only(Training.model_fields), problems)


MOST_PROFILES = 100
"""The most profiles of a suite. Each is checked with the whole suite."""


_TASKS: Mapping[Family, str] = {kind.family: kind.tasks for kind in KINDS.values()}
_WITHOUT_CLASSES = tuple(dict.fromkeys(kind.family for kind in KINDS.values() if kind.family != CLASSES))


def match_strategies(entries: SuiteEntries, known: Collection[str]) -> dict[str, tuple[Strategy, ...]]:
    """Return the strategies that make victims for each task of a suite, in the suite's order.

    Add a problem for each task that has no labels, or whose scores have no scale, and for each that no strategy serves;
    for each strategy that serves none of the `known` tasks (those of the file, of its profiles and of the overrides);
    for each encoder without a strategy on a task; and for each attack and thing to build that cannot take a task.
    """
    merged, problems, tasks = entries.merged, entries.problems, entries.tasks.of(entries.merged)
    for place, task in tasks:
        if (reason := task.of_kind.why_no_victims(task)) is not None:
            problems.add(place, reason)
    stated = [kind for name in known if (kind := entries.tasks.stated_kind(name)) is not None]
    _check_goals(entries, {*(task.of_kind.goal for _, task in tasks), *(kind.goal for kind in stated)})
    for family in _WITHOUT_CLASSES:
        _check_served(family, [task for _, task in tasks if task.of_kind.family == family], entries)
    if "finetune" not in merged.data:
        defaults = {task.name: task.of_kind.default_strategy for _, task in tasks}
        for name in defaults.values():
            entries.modules.open("finetune", name, merged.at())
        return {task: (Strategy(name=name),) for task, name in defaults.items()}
    chosen = [(choice, _families_served(entries, "finetune", choice)) for choice in iter_choices(merged, "finetune")]
    if any(families is None for _, families in chosen):
        return {}  # loading that strategy has added a problem
    # A file with errors may be of any kind; it counts as one with classes, and its own errors are told.
    families_here = {
        kind.family if (kind := entries.tasks.stated_kind(name)) is not None else CLASSES for name in known
    }
    for choice, families in chosen:
        if families_here and families_here.isdisjoint(families or ()):
            meant = " and ".join(_TASKS[what] for what in families or ())
            problems.add(choice.place, f"{choice.name} is for {meant}, and this suite has none")
    strategies = {}
    for _, task in tasks:
        kind = task.of_kind
        serving = [choice for choice, families in chosen if kind.family in (families or ())]
        if chosen and not serving:
            able_names = ", ".join(modules_serving("finetune", kind.family, entries.modules.registry))
            what = f"no strategy here is for {task.name}, one of the {kind.tasks}; these are: {able_names}"
            problems.add(merged.at(("finetune",)), what)
        strategies[task.name] = tuple(
            Strategy(
                name=choice.name,
                options=choice.options.data,
                encoders=None if choice.encoders is None else tuple(name for _, name in choice.encoders),
            )
            for choice in serving
        )
        for place, encoder in _encoder_places(merged):
            if serving and not any(strategy.serves(encoder) for strategy in strategies[task.name]):
                what = f"no strategy is for {encoder} on {task.name}; name it under `{ENCODERS}` of one, or take it out"
                problems.add(place, what)
    return strategies


def check_strategies(merged: PositionedData, trees: Iterable[PositionedData], problems: Problems) -> None:
    """Add a problem for each encoder that a strategy is for and that is not among the suite's.

    Args:
        trees: the suite, its profiles, and the suite as it will run. So a strategy's list stays valid when a profile or
            an override narrows `encoders`.
    """
    known = dict.fromkeys(name for tree in trees for _, name in _encoder_places(tree))
    for choice in iter_choices(merged, "finetune"):
        for place, name in choice.encoders or ():
            if name not in known:
                problems.add(place, unknown_message("encoder of this suite", name, known))


def _encoder_places(located: PositionedData) -> Iterator[tuple[str, str]]:
    return ((choice.place, choice.label) for choice in iter_choices(located, "encoders"))


def check_table(entries: SuiteEntries, known: Collection[str]) -> None:
    """Check that a suite with a table of adversarial STS attacks STS tasks, at least in one of its profiles."""
    for metric, table in iter_tables(entries.merged):
        kinds = map(entries.tasks.stated_kind, known)
        attacked = entries.merged.data.get("attacks") and any(kind is not None and kind.has_scores for kind in kinds)
        if metric == "advsts" and not attacked:
            what = "a table of advsts needs `attacks` and STS tasks under `tasks`, which this suite lacks"
            entries.problems.add(table.at(("metric",)), what)


def modules_serving(kind: Kind, what: Family, registry: Registry) -> list[str]:
    """Return the names of all modules of a kind that serve such tasks. Files with errors are skipped."""
    serving = []
    for name in registry.names(kind):
        try:
            module = find(kind, name, registry).open() if registry.path(kind, name).suffix == ".py" else None
        except SuiteError:
            continue
        serving += [name] if module is None or what in module.serves else []  # every recipe can attack both
    return serving


def _families_served(entries: SuiteEntries, kind: Kind, choice: PlacedChoice) -> tuple[Family, ...] | None:
    """Return what a module that was loaded serves, or None where it was not."""
    opened = entries.modules.opened(kind, choice.name)
    return tuple(opened.serves) if opened is not None else None


def _check_goals(entries: SuiteEntries, goals_here: Collection[str | None]) -> None:
    """Add a problem for each goal of an attack on a kind of tasks that neither the suite nor a profile of it has.

    Args:
        goals_here: the goals of the kinds that they have.
    """
    of_kinds = {kind.goal: kind.name for kind in KINDS.values() if kind.goal is not None}
    for choice in iter_choices(entries.merged, "attacks"):
        for goal, kind in of_kinds.items():
            if isinstance(choice.options.data, Mapping) and goal in choice.options.data and goal not in goals_here:
                what = f"`{goal}` is the goal of an attack on tasks of the kind {kind}, and this suite has none"
                entries.problems.add(choice.options.at((goal,)), f"{what}; leave it out")


def _check_served(family: Family, tasks: Sequence[TaskSpec], entries: SuiteEntries) -> None:
    """Add a problem for each attack and each thing to build that needs classes, if there are `tasks`, which have none.

    Args:
        tasks: those of the suite that are of the family.
    """
    if not tasks:
        return
    names, kind = ", ".join(dict.fromkeys(task.name for task in tasks)), tasks[0].of_kind
    for choice in iter_choices(entries.merged, "attacks"):
        spec, module = entries.attacks.found.get(choice.label), entries.modules.found.get(("attacks", choice.name))
        if spec is None:
            continue
        if not kind.gradients and asks_for_gradients(spec, module):
            entries.problems.add(
                choice.place,
                f"attack {choice.name} needs gradients, which attacks on {kind.tasks} do not have; take an attack "
                "without gradients, such as textfooler",
            )
        elif spec.recipe is None and family not in (_families_served(entries, "attacks", choice) or ()):
            able = ", ".join(modules_serving("attacks", family, entries.modules.registry))
            entries.problems.add(
                choice.place,
                f"attack {choice.name} needs classes, and {names} has {kind.has}; take it out, or "
                f"take the task out. Attacks for {kind.tasks}: {able}",
            )
    for choice in iter_choices(entries.merged, "build"):
        message = f"`build: {choice.name}` needs {_TASKS[CLASSES]}, and {names} has {kind.has}"
        entries.problems.add(choice.place, message)


def check_remote(entries: SuiteEntries) -> None:
    """Add a problem for each strategy, attack and measure that needs weights or gradients, and for each task of two
    texts in one input, where encoders of the suite are behind endpoints."""
    merged, problems, encoders = entries.merged, entries.problems, entries.encoders.found
    remote = [
        c.label
        for c in iter_choices(merged, "encoders")
        if c.label in encoders and encoders[c.label].endpoint is not None
    ]
    if not remote:
        return
    whose = f"{', '.join(remote)}, which {'is' if len(remote) == 1 else 'are'} behind an endpoint"
    for place, task in entries.tasks.of(merged):
        if task.of_kind.family == CLASSES and len(task.columns) > 1:
            message = f"{task.name} has two texts in one input, and an endpoint reads one: it cannot be for {whose}"
            problems.add(place, f"{message}. Take a task of single texts, or one of similarity")
    tunes = any(task.of_kind.family == CLASSES for _, task in entries.tasks.of(merged))
    if "finetune" not in merged.data and tunes:
        problems.add(merged.at(), f"`finetune` is {CLEAN} where nothing is said, {_TRAINS.format(whose=whose)}")
    for choice in iter_choices(merged, "finetune"):
        module = entries.modules.found.get(("finetune", choice.name))
        if module is not None and not module.open().frozen:
            problems.add(choice.place, f"{choice.name} {_TRAINS.format(whose=whose)}")
    for choice in iter_choices(merged, "attacks"):
        spec = entries.attacks.found.get(choice.label)
        if spec is not None and asks_for_gradients(spec, entries.modules.found.get(("attacks", choice.name))):
            problems.add(
                choice.place,
                f"attack {choice.name} needs the gradients of a network, and there are none of {whose}. Take an attack "
                "without gradients, such as textfooler",
            )
    for choice in iter_choices(merged, "evaluate"):
        module = entries.modules.found.get(("measures", choice.name))
        if module is not None and module.open().network:
            problems.add(
                choice.place,
                f"the measure {choice.name} looks into networks, and there is none of {whose}. Measure the other "
                "encoders in a suite of their own",
            )


_TRAINS = (
    "needs weights to train, and there are none of {whose}. Write `finetune: [probe]`, which keeps an encoder as it is"
)


def check_victims(entries: SuiteEntries) -> None:
    """Add a problem for each task, evaluation, build and attack that classifiers that exist cannot take, or encoders
    behind endpoints."""
    check_remote(entries)
    merged, problems = entries.merged, entries.problems
    if not (victims := entries.victims):
        return
    for place, task in entries.tasks.of(merged):
        if task.of_kind.family != CLASSES:
            problems.add(
                place,
                f"{task.name} has {task.of_kind.has}, and classifiers that exist have classes: {', '.join(victims)}. "
                "Put the task and its encoders into a suite of their own",
            )
    for choice in iter_choices(merged, "build"):
        if not merged.data.get("encoders"):
            problems.add(choice.place, f"`build: {choice.name}` is made of encoders, and this suite has none")
    for choice in iter_choices(merged, "evaluate"):
        scored = entries.tasks.found.get(choice.name)
        if scored is not None and scored.of_kind.has_scores and not merged.data.get("encoders"):
            problems.add(
                choice.place, f"{choice.name} scores encoders, and this suite has none; name some, or leave it"
            )
        module = entries.modules.found.get(("measures", choice.name))
        if module is not None and module.open().vectors:
            problems.add(
                choice.place,
                f"the measure {choice.name} reads the vectors of encoders, and classifiers that exist may have none: "
                f"{', '.join(victims)}. Measure encoders in a suite of their own",
            )
    blind = [name for name, spec in victims.items() if spec.origin != "model"]
    for choice in iter_choices(merged, "attacks") if blind else ():
        spec = entries.attacks.found.get(choice.label)
        if spec is not None and asks_for_gradients(spec, entries.modules.found.get(("attacks", choice.name))):
            problems.add(
                choice.place,
                f"attack {choice.name} needs the gradients of a network, and {', '.join(blind)} is asked for answers "
                "alone. Give the classifier as a `model` (a folder or a hub id), or take an attack without gradients, "
                "such as textfooler",
            )

"""Finds the measures behind `tables:` and `rbench table --metric NAME`, and checks their options.

A table's metric is one of `rbench.metrics`, or the name of a measure. A metric hides a measure of its name.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from rbench.config.code import Modules
from rbench.config.entries import Entries
from rbench.config.metrics import HEADLINE, Metrics
from rbench.config.overrides import Chosen, choices, items, measured_names
from rbench.config.positions import Positioned, Problems
from rbench.config.registry import Registry, unknown
from rbench.errors import SuiteError
from rbench.schema import ADVERSARIAL, CONTRAST, STS, Choice, MeasureNeeds, Suite, TableSpec


def refused(wanted: TableSpec, metrics: Metrics) -> tuple[str, str] | None:
    """Return what a table cannot honour, and why with the remedy; None where it can honour everything.

    Raises SuiteError where there is no such metric or measure, or its file is wrong.
    """
    name, paper = wanted.metric, "or ask for the layout paper"
    metric = metrics.get(name)
    if metric is None:
        return _refused_of_measure(wanted, metrics.measure(name).open())
    if wanted.options:
        keys = ", ".join(wanted.options)
        return next(iter(wanted.options)), f"`options` are for measures; the metric {name} has none, such as {keys}"
    if wanted.layout == "full" and name != HEADLINE:
        all_of = "every metric of attacks"
        all_of = all_of if metric.about.repeatable else f"{all_of} but {name}"
        return "metric", f"the layout full shows {all_of}, so it has no {name}; leave the metric out, {paper}"
    if wanted.layout == "by-task" and name != HEADLINE:
        shown = "clean accuracy, ASR and words perturbed"
        return "metric", f"the layout by-task shows {shown} whatever the metric; leave {name} out, {paper}"
    if wanted.bold is not None and wanted.layout == "full":
        return "bold", "this table has no bold entries; leave bold out"
    if wanted.bold == "significant" and not metric.about.repeatable:
        return "bold", _untested(name)
    return None


def _refused_of_measure(wanted: TableSpec, module: Any) -> tuple[str, str] | None:
    name, layouts = wanted.metric, getattr(module, "LAYOUTS", ())
    if not layouts:
        wrong = wanted.layout != "paper"
        return ("layout", f"the measure {name} has one layout; leave `layout` out") if wrong else None
    if wanted.options:
        return next(iter(wanted.options)), f"the table of {name} has no options, such as {', '.join(wanted.options)}"
    if wanted.layout not in layouts:
        return "layout", f"the layout {wanted.layout} shows attacks; {name} has the layouts {' and '.join(layouts)}"
    if wanted.bold is not None and (wanted.layout == "full" or not getattr(module, "BOLD", True)):
        return "bold", "this table has no bold entries; leave bold out"
    if wanted.bold == "significant" and not getattr(module, "TESTED", False):
        return "bold", _untested(name)
    return None


def _untested(name: str) -> str:
    return f"entries of {name} are not tested; leave bold out, or ask for best or none"


def check_tables(merged: Positioned, modules: Modules, problems: Problems) -> None:
    """Add a problem for each table whose metric is unknown, and for options that its measure does not have."""
    registry = modules.registry
    metrics, names = Metrics(registry), registry.names("measures")
    for table in items(merged, "tables"):
        metric = table.data.get("metric") if isinstance(table.data, dict) else table.data
        if not isinstance(metric, str):
            continue
        place = table.at(("metric",))
        if metric not in names and metric not in metrics:
            problems.add(place, unknown("metric", metric, {*registry.names("metrics"), *names}))
            continue
        own = {*table.data} - {*TableSpec.model_fields} if isinstance(table.data, dict) else set()
        if metric in metrics and own:
            for key in sorted(own):
                problems.add(table.key_at((key,)), unknown("key", key, TableSpec.model_fields))
            continue
        _check_honoured(table, metrics, problems)
        if metric in metrics or hasattr(metrics.measure(metric).open(), "LAYOUTS"):
            continue
        if not isinstance(table.data, dict):
            modules.check("measures", metric, place, Positioned({}, {(): place}))
        elif isinstance(table.data.get("options"), dict):
            modules.check("measures", metric, place, table.sub("options"))
        else:
            modules.check("measures", metric, place, table.only(own))


def _check_honoured(table: Positioned, metrics: Metrics, problems: Problems) -> None:
    """Add a problem for an entry that the table cannot honour, such as a metric beside the layout full."""
    try:
        wanted = TableSpec.model_validate(table.data)
    except ValueError:
        return  # the suite's own check says what is wrong
    try:
        found = refused(wanted, metrics)
    except SuiteError as error:
        problems.take(error)
        return
    if found is not None:
        what, why = found
        problems.add(table.at((what,)), why)


def name_measured(merged: Positioned, registry: Registry, problems: Problems) -> Positioned:
    """Write the names under `evaluate` that are measures into the suite. A task hides a measure of its name."""
    if "measured" in merged.data:
        problems.add(merged.key_at(("measured",)), "`measured` is not set in a suite; name measures under `evaluate`")
        problems.raise_any()
    tasks, measures = registry.names("tasks"), registry.names("measures")
    named = dict.fromkeys(choice.name for choice in choices(merged, "evaluate"))
    found = [name for name in named if name in measures and name not in {*tasks, STS, CONTRAST, ADVERSARIAL}]
    return merged.put(("measured",), Positioned(found, {(): merged.at(("evaluate",))})) if found else merged


def needs_of(module: Any, what: Choice) -> MeasureNeeds:
    """Return what a measure needs by its file, without tasks and resources. `what` has all of its options."""
    of, stores = getattr(module, "OF", "attacks"), getattr(module, "STORES", "rows")
    return MeasureNeeds(what=what, of=of, stores=stores, unscaled=getattr(module, "UNSCALED", False))


def measured(choice: Chosen, suite: Suite | None, entries: Entries, problems: Problems) -> MeasureNeeds | None:
    """Return a measure under `evaluate` with all of its options, and load the tasks that a measure of encoders reads.

    Where something is wrong, add a problem.
    """
    modules = entries.modules
    module: Any = modules.open("measures", choice.name, choice.place)
    made = modules.check("measures", choice.name, choice.place, choice.options)
    if module is None or made is None or suite is None:
        return None
    if not hasattr(module, "run"):
        said = "asks no models: it reads what the RUN stores. Write it under `tables`: [{metric: "
        problems.add(choice.place, f"the measure {choice.name} {said}{choice.name}}}]")
        return None
    needs = needs_of(module, Choice(name=choice.name, options=made.model_dump(mode="json")))
    if needs.of == "trainings":
        problems.add(choice.place, f"{choice.name} is made of trainings. Write it under `build`: [{choice.name}]")
    if needs.of == "attacks" and not suite.attacks:
        problems.add(choice.place, f"the measure {choice.name} needs `attacks`, which this suite lacks")
    if hasattr(module, "check") and (wrong := module.check(made, suite)) is not None:
        problems.add(choice.place, f"{choice.name}: {wrong}")
    return _of_encoders(choice, module, made, needs, suite, entries, problems) if needs.of == "encoders" else needs


def _of_encoders(
    choice: Chosen,
    module: Any,
    made: BaseModel,
    needs: MeasureNeeds,
    suite: Suite,
    entries: Entries,
    problems: Problems,
) -> MeasureNeeds:
    """Return what a measure of encoders needs: its tasks with their splits, and resources."""
    if not suite.encoders:
        problems.add(
            choice.place,
            f"the measure {choice.name} reads the vectors of encoders as they are, and this suite has none: "
            "classifiers that exist have no frozen vectors. Name `encoders`, or leave it out",
        )
    if missing := [name for name in ("tasks", "splits") if not hasattr(module, name)]:
        problems.add(
            choice.place,
            f"the measure {choice.name} has OF = 'encoders' and exports no {' and no '.join(missing)}; see "
            "docs/guide-add-a-measure.md",
        )
        return needs
    tasks, splits = {}, {}
    for name, own in module.tasks(made).items():
        spec = entries.tasks.load(name, choice.place)
        if spec is None:
            continue
        try:
            splits[name] = tuple(module.splits(own, spec))
        except ValueError as error:
            problems.add(choice.place, f"{choice.name}: {error}")
        tasks[name] = Choice(name=choice.name, options=own.model_dump(mode="json"))
    resources = entries.modules.needs("measures", choice.name, made)
    said = {name: value for name, value in choice.options.data.items() if name not in getattr(module, "BY_TASK", ())}
    label = Choice(name=choice.name, options=said).label
    return needs.model_copy(update={"label": label, "tasks": tasks, "splits": splits, "resources": resources})


def of_encoders(merged: Positioned, modules: Modules) -> set[str]:
    """Return the measures under `evaluate` that read encoders as they are, and name their tasks themselves."""
    found = {name: modules.found.get(("measures", name)) for name in measured_names(merged)}
    return {name for name, one in found.items() if one is not None and getattr(one.open(), "OF", "") == "encoders"}


def check_asked(merged: Positioned, modules: Modules, problems: Problems) -> None:
    """Add a problem for each table of a measure that has a `run` but does not stand under `evaluate`."""
    asked = {choice.name for choice in choices(merged, "evaluate")}
    for table in items(merged, "tables"):
        metric = table.data.get("metric") if isinstance(table.data, dict) else table.data
        found = modules.found.get(("measures", str(metric)))
        loaded_otherwise = metric in (STS, CONTRAST, ADVERSARIAL)  # `check_purpose` knows what their tables need
        if found is not None and not loaded_otherwise and metric not in asked and hasattr(found.open(), "run"):
            place = table.at(("metric",))
            problems.add(place, f"a table of {metric} needs `evaluate: [{metric}]`, which this suite lacks")

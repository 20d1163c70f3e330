"""Loads what `evaluate`, `build` and `tables` ask for: measures, and the sets of texts that victims classify.

A table's metric is one of `rbench.metrics`, or the name of a measure. A metric hides a measure of its name.
A set is a contrast set or an adversarial set. The latter lies in a folder, or an attack of the same RUN makes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rbench.config.check import validate
from rbench.config.code import ModuleLoader
from rbench.config.entries import SuiteEntries
from rbench.config.metrics import HEADLINE, MetricCatalogue
from rbench.config.overrides import PlacedChoice, iter_choices, iter_names, iter_tables, measured_names
from rbench.config.positions import PositionedData, Problems
from rbench.config.registry import Registry, unknown_message
from rbench.errors import ResourceError, SuiteError
from rbench.schema import (
    ADVERSARIAL,
    AS_IS,
    CLASSES,
    CLEAN,
    CONTRAST,
    KINDS,
    STS,
    TEST_ACCURACY,
    AdversarialOptions,
    AdversarialSet,
    AskedSet,
    Choice,
    ContrastOptions,
    EvaluationOptions,
    MeasureNeeds,
    SetFile,
    TableSpec,
    iter_bases,
)
from rbench.system import named
from rbench.system.below import SMALL_BYTES
from rbench.system.own_code import error_message, failing_in


def find_refusal(wanted: TableSpec, metrics: MetricCatalogue) -> tuple[str, str] | None:
    """Return what a table cannot honour, and why with the remedy; None where it can honour everything.

    Raises SuiteError where there is no such metric or measure, or its file is wrong.
    """
    name, paper = wanted.metric, "or ask for the layout paper"
    metric = metrics.get(name)
    if metric is None:
        return _refusal_of_measure(wanted, metrics.measure(name))
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
    for other in wanted.beside:
        if (beside := metrics.get(other)) is None:
            return "beside", f"{other} is no metric of attacks, and only these stand beside each other"
        if "all attacks" in (metric.of, beside.of):
            of_all = name if metric.of == "all attacks" else other
            return "beside", f"{of_all} is of all attacks together, and has a table of its own"
    if wanted.layout in ("by-attack", "means") and metric.of == "all attacks":
        return "layout", f"{name} is of all attacks together; leave the layout {wanted.layout} out"
    if wanted.bold is not None and wanted.layout == "full":
        return "bold", "this table has no bold entries; leave bold out"
    if wanted.bold == "significant" and not metric.about.repeatable:
        return "bold", _untested(name)
    return None


def _refusal_of_measure(wanted: TableSpec, measure: Any) -> tuple[str, str] | None:
    name, layouts = wanted.metric, measure.layouts
    if wanted.beside:
        return "beside", f"{name} is a measure, and only metrics of attacks stand beside each other"
    if not layouts:
        wrong = wanted.layout != "paper"
        return ("layout", f"the measure {name} has one layout; leave `layout` out") if wrong else None
    if wanted.options:
        return next(iter(wanted.options)), f"the table of {name} has no options, such as {', '.join(wanted.options)}"
    if wanted.layout not in layouts:
        return "layout", f"the layout {wanted.layout} shows attacks; {name} has the layouts {' and '.join(layouts)}"
    if wanted.bold is not None and (wanted.layout == "full" or not measure.bold):
        return "bold", "this table has no bold entries; leave bold out"
    if wanted.bold == "significant" and not measure.tested:
        return "bold", _untested(name)
    return None


def _untested(name: str) -> str:
    return f"entries of {name} are not tested; leave bold out, or ask for best or none"


def check_tables(entries: SuiteEntries) -> None:
    """Add a problem for each table whose metric is unknown or not computed here, and for options that it does not have.

    A table of a measure that has a `run` needs the measure under `evaluate` or `build`.
    """
    merged, modules, problems = entries.merged, entries.modules, entries.problems
    metrics, known = MetricCatalogue(modules.registry), modules.registry.names("measures")
    asked_names = {choice.name for key in ("evaluate", "build") for choice in iter_choices(merged, key)}
    for metric, table in iter_tables(merged):
        place = table.at(("metric",))
        if metric not in known and metric not in metrics:
            problems.add(place, unknown_message("metric", metric, {*modules.registry.names("metrics"), *known}))
            continue
        other_keys = {*table.data} - {*TableSpec.model_fields} if isinstance(table.data, dict) else set()
        if metric in metrics and other_keys:
            for key in sorted(other_keys):
                problems.add(table.key_at((key,)), unknown_message("key", key, TableSpec.model_fields))
            continue
        _check_honoured(table, metrics, problems)
        if metric in metrics:
            continue
        if not metrics.measure(metric).layouts:  # such a table has no options
            options = PositionedData({}, place)
            if isinstance(table.data, dict):
                options = (
                    table.sub("options") if isinstance(table.data.get("options"), dict) else table.only(other_keys)
                )
            modules.check("measures", metric, place, options)
        module = modules.found.get(("measures", metric))
        # `check_purpose` knows what the tables of these three need.
        if (
            module is not None
            and metric not in {STS, CONTRAST, ADVERSARIAL, *asked_names}
            and module.open().asks_models
        ):
            problems.add(place, f"a table of {metric} needs `evaluate: [{metric}]`, which this suite lacks")


def _check_honoured(table: PositionedData, metrics: MetricCatalogue, problems: Problems) -> None:
    """Add a problem for an entry that the table cannot honour, such as a metric beside the layout full."""
    try:
        wanted = TableSpec.model_validate(table.data)
    except ValueError:
        return  # the suite's own check says what is wrong
    try:
        refusal = find_refusal(wanted, metrics)
    except SuiteError as error:
        problems.take(error)
        return
    if refusal is not None:
        what, why = refusal
        problems.add(table.at((what,)), why)


def name_measures(merged: PositionedData, registry: Registry, problems: Problems) -> PositionedData:
    """Write the names under `evaluate` that are measures into the suite. A task hides a measure of its name."""
    if "measured" in merged.data:
        problems.add(merged.key_at(("measured",)), "`measured` is not set in a suite; name measures under `evaluate`")
        problems.raise_any()
    tasks, measures = registry.names("tasks"), registry.names("measures")
    named = dict.fromkeys(choice.name for choice in iter_choices(merged, "evaluate"))
    measure_names = [name for name in named if name in measures and name not in {*tasks, STS, CONTRAST, ADVERSARIAL}]
    return (
        merged.put(("measured",), PositionedData(measure_names, merged.at(("evaluate",)))) if measure_names else merged
    )


def measure_needs(measure: Any, what: Choice) -> MeasureNeeds:
    """Return what a measure needs by its file, without tasks and resources. `what` has all of its options."""
    return MeasureNeeds(
        what=what, of=measure.reads, stores=measure.stores, unscaled=measure.unscaled, contrast=measure.contrast
    )


def load_evaluations(entries: SuiteEntries) -> dict[str, MeasureNeeds]:
    """Load the STS tasks under `evaluate`, and return the measures there, by label."""
    names, needs_by_label = measured_names(entries.merged), {}
    for choice in iter_choices(entries.merged, "evaluate"):
        if choice.name in names:
            if (needs := _load_measure(choice, entries)) is not None:
                needs_by_label[choice.label] = needs
        elif choice.name not in (CONTRAST, ADVERSARIAL):
            entries.modules.open("measures", STS, choice.place)
            entries.tasks.load_scored(choice.name, choice.place)
            validate(EvaluationOptions, choice.options, entries.problems)
    if (suite := entries.suite) is not None and suite.attacks and TEST_ACCURACY not in names:
        measure: Any = entries.modules.open("measures", TEST_ACCURACY, entries.merged.at(("attacks",)))
        if measure is not None:
            what = Choice(name=TEST_ACCURACY, options=measure.Options().model_dump(mode="json"))
            needs_by_label[TEST_ACCURACY] = measure_needs(measure, what).model_copy(update={"implied": True})
    return needs_by_label


def _load_measure(choice: PlacedChoice, entries: SuiteEntries) -> MeasureNeeds | None:
    """Return a measure under `evaluate` with all of its options, and load the tasks that a measure of encoders reads.

    Where something is wrong, add a problem.
    """
    name, suite, modules = choice.name, entries.suite, entries.modules
    measure: Any = modules.open("measures", name, choice.place)
    checked_options = modules.check("measures", name, choice.place, choice.options)
    if measure is None or checked_options is None or suite is None:
        return None
    add = functools.partial(entries.problems.add, choice.place)
    if not measure.asks_models:
        reason = "asks no models: it reads what the RUN stores. Write it under `tables`: [{metric: "
        add(f"the measure {name} {reason}{name}}}]")
        return None
    needs = measure_needs(measure, Choice(name=name, options=checked_options.model_dump(mode="json")))
    needs = needs.model_copy(update={"files": tuple(_open_named_files(choice, measure, checked_options, entries))})
    if needs.of == "trainings":
        add(f"{name} is made of trainings. Write it under `build`: [{name}]")
    if needs.of == "attacks" and not suite.attacks:
        add(f"the measure {name} needs `attacks`, which this suite lacks")
    tasks = [task for task_name in suite.tasks if (task := entries.tasks.found.get(task_name)) is not None]
    if needs.of == "victims" and tuple(measure.serves) == (CLASSES,):
        needs = needs.model_copy(update={"classes": True})
        if tasks and not any(task.labels for task in tasks):
            bare = ", ".join(task.name for task in tasks)
            add(f"the measure {name} needs classes, which no task of this suite has ({bare}); take it out")
    if (wrong := measure.check(checked_options, suite)) is not None:
        add(f"{name}: {wrong}")
    for task in tasks if needs.of == "victims" else ():
        if (wrong := measure.check_task(checked_options, task)) is not None:
            add(f"{name}: {wrong}")
    if needs.of == "attacks":
        return needs.model_copy(update={"resources": modules.needs("measures", name, checked_options)})
    if needs.of != "encoders":
        return needs
    if not suite.encoders:
        add(
            f"the measure {name} reads the vectors of encoders as they are, and this suite has none: "
            "classifiers that exist have no frozen vectors. Name `encoders`, or leave it out"
        )
    return _encoder_measure(choice, measure, checked_options, needs, entries)


def _open_named_files(
    choice: PlacedChoice, measure: Any, checked_options: BaseModel, entries: SuiteEntries
) -> Iterator[str]:
    """Find the files that options of a measure name, and yield `kind/name` of each. A problem has the name's place."""
    for option, kind in measure.files.items():
        for i, name in enumerate(getattr(checked_options, option)):
            place = choice.options.at((option, i)) if option in choice.options.data else choice.place
            if entries.modules.open(kind, name, place) is not None:
                yield f"{kind}/{name}"


def _encoder_measure(
    choice: PlacedChoice, measure: Any, checked_options: BaseModel, needs: MeasureNeeds, entries: SuiteEntries
) -> MeasureNeeds:
    """Return what a measure of encoders needs: its tasks with their splits, and resources."""
    tasks, splits = {}, {}
    for name, task_options in measure.tasks(checked_options).items():
        spec = entries.tasks.load(name, choice.place)
        if spec is None:
            continue
        try:
            splits[spec.name] = tuple(measure.splits(task_options, spec))
        except ValueError as error:
            entries.problems.add(choice.place, f"{choice.name}: {error}")
        tasks[spec.name] = Choice(name=choice.name, options=task_options.model_dump(mode="json"))
    resources = entries.modules.needs("measures", choice.name, checked_options)
    shared_options = {name: value for name, value in choice.options.data.items() if name not in measure.options_by_task}
    label = Choice(name=choice.name, options=shared_options).label
    return needs.model_copy(update={"label": label, "tasks": tasks, "splits": splits, "resources": resources})


def encoder_measures(merged: PositionedData, modules: ModuleLoader) -> set[str]:
    """Return the measures under `evaluate` that read encoders as they are, and name their tasks themselves."""
    by_name = {name: modules.found.get(("measures", name)) for name in measured_names(merged)}
    return {name for name, module in by_name.items() if module is not None and module.open().reads == "encoders"}


def load_builds(entries: SuiteEntries) -> dict[str, MeasureNeeds]:
    """Return the things to build, measures of trainings, by label, without those whose module or options are wrong.

    Add a problem for each encoder that was not trained with an objective that a build accepts.
    """
    needs_by_label, problems, encoders = {}, entries.problems, entries.encoders.found
    for choice in iter_choices(entries.merged, "build"):
        measure: Any = entries.modules.open("measures", choice.name, choice.place)
        checked_options = entries.modules.check("measures", choice.name, choice.place, choice.options)
        if measure is None or checked_options is None:
            continue
        if measure.reads != "trainings":
            message = f"`build` takes measures of trainings, and {choice.name} is none (it reads {measure.reads})"
            problems.add(choice.place, message)
            continue
        for encoder in iter_choices(entries.merged, "encoders"):
            if encoder.label not in encoders:
                continue  # the problem was added when the encoder was loaded
            chain = iter_bases(encoders[encoder.label], encoders)
            trainer = next((below.train for below in chain if below.train is not None), None)
            if trainer is None or trainer.objective not in measure.objectives:
                accepted = " or ".join(measure.objectives)
                message = f"`build: {choice.name}` needs encoders that are trained with {accepted}"
                problems.add(choice.place, f"{message}; {encoder.label} is not")
        needs = measure_needs(measure, Choice(name=choice.name, options=checked_options.model_dump(mode="json")))
        needs_by_label[choice.label] = needs.model_copy(update={"label": choice.label})
    return needs_by_label


ABOUT_FILE = Path("rbench.json")
"""The file of a set that says what it holds (`rbench.schema.SetFile`)."""


def read_about(folder: Path) -> SetFile:
    """Read what rbench knows of the set in a folder.

    Raises ResourceError where the file is damaged, and OSError where there is none, so that the folder is no set.
    """
    path = folder / ABOUT_FILE
    with failing_in(path, remedy="Write the set again: rbench attack --out DIR"):
        return SetFile.model_validate_json(named.read(path, SMALL_BYTES))


def load_asked_sets(entries: SuiteEntries) -> dict[str, tuple[AskedSet, ...]]:
    """Return the sets that `evaluate` asks for, by task of the suite: its contrast sets, then its adversarial sets.

    Load the victims, attacks and strategies of the sets that the RUN makes. Add a problem for everything wrong.
    """
    by_task: dict[str, list[AskedSet]] = {}
    for choice in iter_choices(entries.merged, "evaluate"):
        if choice.name not in (CONTRAST, ADVERSARIAL):
            continue
        needs = measure_needs(entries.modules.open("measures", choice.name, choice.place), Choice(name=choice.name))
        for task, asked in (_contrast_sets if choice.name == CONTRAST else _adversarial_sets)(choice, needs, entries):
            earlier_sets = by_task.setdefault(task, [])
            if all(asked_set.set.name != asked.set.name for asked_set in earlier_sets):
                earlier_sets.append(asked)
            elif asked.folder is not None:
                message = f"two sets of {task} are called {asked.set.name}; rename one folder"
                entries.problems.add(choice.options.at(("set",)), message)
    return {
        task: tuple(sorted(task_sets, key=lambda asked_set: asked_set.needs.what.name != CONTRAST))
        for task, task_sets in by_task.items()
    }


def _contrast_sets(choice: PlacedChoice, needs: MeasureNeeds, entries: SuiteEntries) -> Iterator[tuple[str, AskedSet]]:
    """Yield the contrast sets that an entry under `evaluate` means, each with its task."""
    tasks = {name: place for place, name in iter_names(entries.merged, "tasks")}
    options = validate(ContrastOptions, choice.options, entries.problems)
    if options is None:
        return
    if options.set is not None:
        named = [(options.set, choice.options.at(("set",)), tuple(tasks))]
    else:
        known = entries.tasks.found
        loaded = {name: known[name].contrast for name in tasks if name in known}
        if without := [name for name, set_name in loaded.items() if set_name is None]:
            tasks_with_sets = ", ".join(entries.tasks.names_with_contrast())
            entries.problems.add(
                choice.place,
                f"there is no contrast set for {', '.join(without)}; tasks with one: {tasks_with_sets}."
                " To evaluate only some of the suite's tasks, name their sets: {contrast: {set: NAME}}",
            )
        named = [(set_name, tasks[name], (name,)) for name, set_name in loaded.items() if set_name is not None]
    for name, place, meant in named:
        spec = entries.contrast.load(name, place)
        if spec is not None and spec.task in meant:
            yield spec.task, AskedSet(needs=needs, set=spec)
        elif spec is not None:
            where = f"not {meant[0]}, which names it" if options.set is None else "not among the suite's `tasks`"
            entries.problems.add(place, f"contrast set {name} is for the task {spec.task}, {where}")


def _adversarial_sets(
    choice: PlacedChoice, needs: MeasureNeeds, entries: SuiteEntries
) -> Iterator[tuple[str, AskedSet]]:
    """Yield the adversarial sets that an entry under `evaluate` means, each with its task."""
    options = validate(AdversarialOptions, choice.options, entries.problems)
    if options is None or entries.suite is None:
        return
    if options.set is not None:
        folder = Path(options.set).expanduser()
        about = _check_folder_set(folder, choice.options.at(("set",)), entries)
        if about is not None:
            yield about.task, AskedSet(needs=needs, set=about.named(folder.resolve().name), folder=folder)
        return
    asked_set = _load_made_set(choice, options, entries.suite.seeds[0], needs, entries)
    for name in dict.fromkeys(name for _, name in iter_names(entries.merged, "tasks")):
        spec = entries.tasks.found.get(name)
        if spec is not None and spec.of_kind.has_scores:
            message = f"`{ADVERSARIAL}` classifies texts, and {name} is an STS task: it has none"
            entries.problems.add(choice.place, message)
        yield name, asked_set


def _check_folder_set(folder: Path, place: str, entries: SuiteEntries) -> SetFile | None:
    """Return what is said of the set in a folder; None where it does not fit its task, which adds a problem."""
    try:
        about = read_about(folder)
    except (ResourceError, OSError) as error:
        entries.problems.add(place, str(error) if isinstance(error, ResourceError) else error_message(error))
        return None
    task, known = entries.tasks.found.get(about.task), entries.files.registry.names("tasks")
    here = {name for _, name in iter_names(entries.merged, "tasks")}
    if about.task not in here and about.task not in known:
        wrong = f"the set in {folder}: {unknown_message('task', about.task, known)}"
    elif about.task not in here:
        wrong = f"the set in {folder} is of the task {about.task}, not among the suite's `tasks`"
    elif task is None:
        return None  # the problem was added when the task was loaded
    elif KINDS[about.kind].has_scores:
        wrong = f"the set in {folder} is of an STS task: there is nothing to classify"
    elif about.columns == task.columns and about.labels == task.labels:
        return about
    else:
        what = "columns" if about.columns != task.columns else "labels"
        wrong = (
            f"the set in {folder} has the {what} {', '.join(getattr(about, what))}, and its task {task.name} here "
            f"has {', '.join(getattr(task, what))}: it was made of another task of that name"
        )
    entries.problems.add(place, wrong)
    return None


def _load_made_set(
    choice: PlacedChoice, options: AdversarialOptions, first_seed: int, needs: MeasureNeeds, entries: SuiteEntries
) -> AskedSet:
    """Load victim, strategy and attack of a set that the RUN makes."""
    assert options.victim is not None and options.attack is not None
    exists = options.victim in entries.victims
    for chosen in iter_choices(choice.options, "victim") if not exists else ():
        entries.encoders.choose(chosen)
    for chosen in iter_choices(choice.options, "attack"):
        entries.attacks.load(chosen)
    for chosen in iter_choices(choice.options, "finetune"):
        if chosen.label not in entries.strategies:
            entries.strategy(chosen)
    if exists and options.finetune is not None:
        message = f"{options.victim} is a classifier that exists, and is not fine-tuned; leave `finetune` out"
        entries.problems.add(choice.place, message)
    if not exists and options.finetune is None and CLEAN not in entries.strategies:
        entries.modules.open("finetune", CLEAN, choice.place)
    strategy = AS_IS if exists else options.finetune.label if options.finetune is not None else CLEAN
    suffix = "" if options.finetune is None else f"-{strategy}"
    suffix += "" if options.seed is None else f"-seed{options.seed}"
    new_set = AdversarialSet(
        name=f"{options.attack.label}-on-{options.victim}{suffix}",
        encoder=options.victim,
        finetune=strategy,
        attack=options.attack.label,
        seed=options.seed if options.seed is not None else first_seed,
    )
    return AskedSet(needs=needs, set=new_set, strategy=Choice(name=AS_IS) if exists else options.finetune)

"""Loads what `evaluate`, `build` and `tables` ask for: measures, and the sets of texts that victims classify.

A table's metric is one of `rbench.metrics`, or the name of a measure. A metric hides a measure of its name.
A set is a contrast set or an adversarial set. The latter lies in a folder, or an attack of the same RUN makes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rbench.config.check import check
from rbench.config.code import Modules
from rbench.config.entries import Entries
from rbench.config.metrics import HEADLINE, Metrics
from rbench.config.overrides import Chosen, choices, measured_names, names, tables
from rbench.config.positions import Positioned, Problems
from rbench.config.registry import Registry, unknown
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
    bases,
)
from rbench.system import named
from rbench.system.below import SMALL


def refused(wanted: TableSpec, metrics: Metrics) -> tuple[str, str] | None:
    """Return what a table cannot honour, and why with the remedy; None where it can honour everything.

    Raises SuiteError where there is no such metric or measure, or its file is wrong.
    """
    name, paper = wanted.metric, "or ask for the layout paper"
    metric = metrics.get(name)
    if metric is None:
        return _refused_of_measure(wanted, metrics.measure(name))
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


def _refused_of_measure(wanted: TableSpec, measure: Any) -> tuple[str, str] | None:
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


def check_tables(entries: Entries) -> None:
    """Add a problem for each table whose metric is unknown or not computed here, and for options that it does not have.

    A table of a measure that has a `run` needs the measure under `evaluate` or `build`.
    """
    merged, modules, problems = entries.merged, entries.modules, entries.problems
    metrics, known = Metrics(modules.registry), modules.registry.names("measures")
    asked = {choice.name for key in ("evaluate", "build") for choice in choices(merged, key)}
    for metric, table in tables(merged):
        place = table.at(("metric",))
        if metric not in known and metric not in metrics:
            problems.add(place, unknown("metric", metric, {*modules.registry.names("metrics"), *known}))
            continue
        own = {*table.data} - {*TableSpec.model_fields} if isinstance(table.data, dict) else set()
        if metric in metrics and own:
            for key in sorted(own):
                problems.add(table.key_at((key,)), unknown("key", key, TableSpec.model_fields))
            continue
        _check_honoured(table, metrics, problems)
        if metric in metrics:
            continue
        if not metrics.measure(metric).layouts:  # such a table has no options
            options = Positioned({}, place)
            if isinstance(table.data, dict):
                options = table.sub("options") if isinstance(table.data.get("options"), dict) else table.only(own)
            modules.check("measures", metric, place, options)
        found = modules.found.get(("measures", metric))
        # `check_purpose` knows what the tables of these three need.
        if found is not None and metric not in {STS, CONTRAST, ADVERSARIAL, *asked} and found.open().asks_models:
            problems.add(place, f"a table of {metric} needs `evaluate: [{metric}]`, which this suite lacks")


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
    return merged.put(("measured",), Positioned(found, merged.at(("evaluate",)))) if found else merged


def needs_of(measure: Any, what: Choice) -> MeasureNeeds:
    """Return what a measure needs by its file, without tasks and resources. `what` has all of its options."""
    return MeasureNeeds(what=what, of=measure.reads, stores=measure.stores, unscaled=measure.unscaled)


def evaluations(entries: Entries) -> dict[str, MeasureNeeds]:
    """Load the STS tasks under `evaluate`, and return the measures there, by label."""
    names, found = measured_names(entries.merged), {}
    for choice in choices(entries.merged, "evaluate"):
        if choice.name in names:
            if (needs := _measured(choice, entries)) is not None:
                found[choice.label] = needs
        elif choice.name not in (CONTRAST, ADVERSARIAL):
            entries.modules.open("measures", STS, choice.place)
            entries.tasks.scored(choice.name, choice.place)
            check(EvaluationOptions, choice.options, entries.problems)
    if (suite := entries.suite) is not None and suite.attacks and TEST_ACCURACY not in names:
        measure: Any = entries.modules.open("measures", TEST_ACCURACY, entries.merged.at(("attacks",)))
        if measure is not None:
            what = Choice(name=TEST_ACCURACY, options=measure.Options().model_dump(mode="json"))
            found[TEST_ACCURACY] = needs_of(measure, what).model_copy(update={"implied": True})
    return found


def _measured(choice: Chosen, entries: Entries) -> MeasureNeeds | None:
    """Return a measure under `evaluate` with all of its options, and load the tasks that a measure of encoders reads.

    Where something is wrong, add a problem.
    """
    name, suite, modules = choice.name, entries.suite, entries.modules
    measure: Any = modules.open("measures", name, choice.place)
    made = modules.check("measures", name, choice.place, choice.options)
    if measure is None or made is None or suite is None:
        return None
    add = functools.partial(entries.problems.add, choice.place)
    if not measure.asks_models:
        said = "asks no models: it reads what the RUN stores. Write it under `tables`: [{metric: "
        add(f"the measure {name} {said}{name}}}]")
        return None
    needs = needs_of(measure, Choice(name=name, options=made.model_dump(mode="json")))
    needs = needs.model_copy(update={"files": tuple(_files(choice, measure, made, entries))})
    if needs.of == "trainings":
        add(f"{name} is made of trainings. Write it under `build`: [{name}]")
    if needs.of == "attacks" and not suite.attacks:
        add(f"the measure {name} needs `attacks`, which this suite lacks")
    tasks = [task for one in suite.tasks if (task := entries.tasks.found.get(one)) is not None]
    if needs.of == "victims" and tuple(measure.serves) == (CLASSES,):
        needs = needs.model_copy(update={"classes": True})
        if tasks and not any(task.labels for task in tasks):
            bare = ", ".join(task.name for task in tasks)
            add(f"the measure {name} needs classes, which no task of this suite has ({bare}); take it out")
    if (wrong := measure.check(made, suite)) is not None:
        add(f"{name}: {wrong}")
    for task in tasks if needs.of == "victims" else ():
        if (wrong := measure.check_task(made, task)) is not None:
            add(f"{name}: {wrong}")
    if needs.of != "encoders":
        return needs
    if not suite.encoders:
        add(
            f"the measure {name} reads the vectors of encoders as they are, and this suite has none: "
            "classifiers that exist have no frozen vectors. Name `encoders`, or leave it out"
        )
    return _of_encoders(choice, measure, made, needs, entries)


def _files(choice: Chosen, measure: Any, made: BaseModel, entries: Entries) -> Iterator[str]:
    """Find the files that options of a measure name, and yield `kind/name` of each. A problem has the name's place."""
    for option, kind in measure.files.items():
        for i, name in enumerate(getattr(made, option)):
            place = choice.options.at((option, i)) if option in choice.options.data else choice.place
            if entries.modules.open(kind, name, place) is not None:
                yield f"{kind}/{name}"


def _of_encoders(choice: Chosen, measure: Any, made: BaseModel, needs: MeasureNeeds, entries: Entries) -> MeasureNeeds:
    """Return what a measure of encoders needs: its tasks with their splits, and resources."""
    tasks, splits = {}, {}
    for name, own in measure.tasks(made).items():
        spec = entries.tasks.load(name, choice.place)
        if spec is None:
            continue
        try:
            splits[name] = tuple(measure.splits(own, spec))
        except ValueError as error:
            entries.problems.add(choice.place, f"{choice.name}: {error}")
        tasks[name] = Choice(name=choice.name, options=own.model_dump(mode="json"))
    resources = entries.modules.needs("measures", choice.name, made)
    said = {name: value for name, value in choice.options.data.items() if name not in measure.options_by_task}
    label = Choice(name=choice.name, options=said).label
    return needs.model_copy(update={"label": label, "tasks": tasks, "splits": splits, "resources": resources})


def of_encoders(merged: Positioned, modules: Modules) -> set[str]:
    """Return the measures under `evaluate` that read encoders as they are, and name their tasks themselves."""
    found = {name: modules.found.get(("measures", name)) for name in measured_names(merged)}
    return {name for name, one in found.items() if one is not None and one.open().reads == "encoders"}


def building(entries: Entries) -> dict[str, MeasureNeeds]:
    """Return the things to build, measures of trainings, by label, without those whose module or options are wrong.

    Add a problem for each encoder that was not trained with an objective that a build accepts.
    """
    found, problems, encoders = {}, entries.problems, entries.encoders.found
    for choice in choices(entries.merged, "build"):
        measure: Any = entries.modules.open("measures", choice.name, choice.place)
        made = entries.modules.check("measures", choice.name, choice.place, choice.options)
        if measure is None or made is None:
            continue
        if measure.reads != "trainings":
            message = f"`build` takes measures of trainings, and {choice.name} is none (it reads {measure.reads})"
            problems.add(choice.place, message)
            continue
        for encoder in choices(entries.merged, "encoders"):
            if encoder.label not in encoders:
                continue  # the problem was added when the encoder was loaded
            chain = bases(encoders[encoder.label], encoders)
            trained = next((below.train for below in chain if below.train is not None), None)
            if trained is None or trained.objective not in measure.objectives:
                accepted = " or ".join(measure.objectives)
                message = f"`build: {choice.name}` needs encoders that are trained with {accepted}"
                problems.add(choice.place, f"{message}; {encoder.label} is not")
        needs = needs_of(measure, Choice(name=choice.name, options=made.model_dump(mode="json")))
        found[choice.label] = needs.model_copy(update={"label": choice.label})
    return found


ABOUT = Path("rbench.json")
"""The file of a set that says what it holds (`rbench.schema.SetFile`)."""


def read_about(folder: Path) -> SetFile:
    """Read what rbench knows of the set in a folder. Raises ResourceError where the folder holds no set."""
    path = folder / ABOUT
    try:
        return SetFile.model_validate_json(named.read(path, SMALL))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ResourceError(
            f"{folder} is no adversarial set: it has no {ABOUT}. Name a folder that `rbench attack --out` wrote."
        ) from error
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        where = ".".join(map(str, first["loc"]))
        raise ResourceError(
            f"{path}: {f'`{where}`: ' if where else ''}{first['msg']}. Write the set again: rbench attack --out DIR."
        ) from error


def asked_sets(entries: Entries) -> dict[str, tuple[AskedSet, ...]]:
    """Return the sets that `evaluate` asks for, by task of the suite: its contrast sets, then its adversarial sets.

    Load the victims, attacks and strategies of the sets that the RUN makes. Add a problem for everything wrong.
    """
    found: dict[str, list[AskedSet]] = {}
    for choice in choices(entries.merged, "evaluate"):
        if choice.name not in (CONTRAST, ADVERSARIAL):
            continue
        needs = needs_of(entries.modules.open("measures", choice.name, choice.place), Choice(name=choice.name))
        for task, asked in (_contrast if choice.name == CONTRAST else _adversarial)(choice, needs, entries):
            there = found.setdefault(task, [])
            if all(one.set.name != asked.set.name for one in there):
                there.append(asked)
            elif asked.folder is not None:
                message = f"two sets of {task} are called {asked.set.name}; rename one folder"
                entries.problems.add(choice.options.at(("set",)), message)
    return {task: tuple(sorted(own, key=lambda one: one.needs.what.name != CONTRAST)) for task, own in found.items()}


def _contrast(choice: Chosen, needs: MeasureNeeds, entries: Entries) -> Iterator[tuple[str, AskedSet]]:
    """Yield the contrast sets that an entry under `evaluate` means, each with its task."""
    tasks = {name: place for place, name in names(entries.merged, "tasks")}
    options = check(ContrastOptions, choice.options, entries.problems)
    if options is None:
        return
    if options.set is not None:
        named = [(options.set, choice.options.at(("set",)), tuple(tasks))]
    else:
        known = entries.tasks.found
        loaded = {name: known[name].contrast for name in tasks if name in known}
        if without := [name for name, own in loaded.items() if own is None]:
            there = ", ".join(entries.tasks.names_with_contrast())
            entries.problems.add(
                choice.place,
                f"there is no contrast set for {', '.join(without)}; tasks with one: {there}."
                " To evaluate only some of the suite's tasks, name their sets: {contrast: {set: NAME}}",
            )
        named = [(own, tasks[name], (name,)) for name, own in loaded.items() if own is not None]
    for name, place, meant in named:
        spec = entries.contrast.load(name, place)
        if spec is not None and spec.task in meant:
            yield spec.task, AskedSet(needs=needs, set=spec)
        elif spec is not None:
            where = f"not {meant[0]}, which names it" if options.set is None else "not among the suite's `tasks`"
            entries.problems.add(place, f"contrast set {name} is for the task {spec.task}, {where}")


def _adversarial(choice: Chosen, needs: MeasureNeeds, entries: Entries) -> Iterator[tuple[str, AskedSet]]:
    """Yield the adversarial sets that an entry under `evaluate` means, each with its task."""
    options = check(AdversarialOptions, choice.options, entries.problems)
    if options is None or entries.suite is None:
        return
    if options.set is not None:
        folder = Path(options.set).expanduser()
        about = _in_folder(folder, choice.options.at(("set",)), entries)
        if about is not None:
            yield about.task, AskedSet(needs=needs, set=about.named(folder.resolve().name), folder=folder)
        return
    asked = _made(choice, options, entries.suite.seeds[0], needs, entries)
    for name in dict.fromkeys(name for _, name in names(entries.merged, "tasks")):
        spec = entries.tasks.found.get(name)
        if spec is not None and spec.of_kind.has_scores:
            message = f"`{ADVERSARIAL}` classifies texts, and {name} is an STS task: it has none"
            entries.problems.add(choice.place, message)
        yield name, asked


def _in_folder(folder: Path, place: str, entries: Entries) -> SetFile | None:
    """Return what is said of the set in a folder; None where it does not fit its task, which adds a problem."""
    try:
        about = read_about(folder)
    except ResourceError as error:
        entries.problems.add(place, str(error))
        return None
    task, known = entries.tasks.found.get(about.task), entries.files.registry.names("tasks")
    here = {name for _, name in names(entries.merged, "tasks")}
    if about.task not in here and about.task not in known:
        wrong = f"the set in {folder}: {unknown('task', about.task, known)}"
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


def _made(
    choice: Chosen, options: AdversarialOptions, first_seed: int, needs: MeasureNeeds, entries: Entries
) -> AskedSet:
    """Load victim, strategy and attack of a set that the RUN makes."""
    assert options.victim is not None and options.attack is not None
    exists = options.victim in entries.victims
    for one in choices(choice.options, "victim") if not exists else ():
        entries.encoders.choose(one)
    for one in choices(choice.options, "attack"):
        entries.attacks.load(one)
    for one in choices(choice.options, "finetune"):
        if one.label not in entries.strategies:
            entries.strategy(one)
    if exists and options.finetune is not None:
        message = f"{options.victim} is a classifier that exists, and is not fine-tuned; leave `finetune` out"
        entries.problems.add(choice.place, message)
    if not exists and options.finetune is None and CLEAN not in entries.strategies:
        entries.modules.open("finetune", CLEAN, choice.place)
    strategy = AS_IS if exists else options.finetune.label if options.finetune is not None else CLEAN
    said = "" if options.finetune is None else f"-{strategy}"
    said += "" if options.seed is None else f"-seed{options.seed}"
    made = AdversarialSet(
        name=f"{options.attack.label}-on-{options.victim}{said}",
        encoder=options.victim,
        finetune=strategy,
        attack=options.attack.label,
        seed=options.seed if options.seed is not None else first_seed,
    )
    return AskedSet(needs=needs, set=made, strategy=Choice(name=AS_IS) if exists else options.finetune)

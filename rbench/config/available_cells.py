"""Says which cells a suite has, so that claims can be checked against them; those of a RUN are `verdicts.cells`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from pydantic import BaseModel

from rbench.config.code import find
from rbench.config.entries import SuiteEntries
from rbench.config.metrics import Metric, MetricCatalogue
from rbench.errors import RbenchError
from rbench.schema import (
    ADVERSARIAL,
    AS_IS,
    CONTRAST,
    STS,
    AskedSet,
    MeasureNeeds,
    Plan,
    Strategy,
    Suite,
    TaskSpec,
    TrainSpec,
    iter_bases,
)
from rbench.schema.claims import CellOf, ClaimScope, EncoderTraining, test_parts

Cells = Sequence[CellOf]


def suite_scope(
    suite: Suite,
    entries: SuiteEntries,
    tuning: Mapping[str, Sequence[Strategy]],
    asked: Mapping[str, Sequence[AskedSet]],
    measures: Iterable[MeasureNeeds],
) -> ClaimScope:
    """Return what the claims of a suite that is being loaded may speak of.

    Args:
        tuning: the strategies that make victims, by task.
        asked: the sets that victims classify, by task.
        measures: those that the suite asks for.
    """
    victims = _list_victims(suite, tuning)
    victim_cells = [CellOf(encoder, task, None, finetune) for encoder, task, finetune in victims]
    attacked = [cell._replace(attack=attack.label) for cell in victim_cells for attack in suite.attacks]
    tasks = {name: entries.tasks.found[name] for name in suite.tasks if name in entries.tasks.found}
    contrast_sets = set()
    for task, asked_sets in asked.items():
        contrast_sets |= {(task, one.set.name) for one in asked_sets if one.needs.what.name == CONTRAST}
    evaluated = {choice.name for choice in suite.evaluate}
    trained = _find_trainings(suite, entries)
    cells: dict[str, list[CellOf]] = {
        STS: [CellOf(encoder, evaluation.label) for encoder in suite.encoders for evaluation in suite.evaluations],
        CONTRAST: _contrast(victims, contrast_sets),
        ADVERSARIAL: victim_cells if ADVERSARIAL in evaluated else [],
        "parts": [
            CellOf(encoder, part, None, finetune)
            for encoder, task, finetune in victims
            for part in test_parts(tasks.get(task))
        ],
        "advsts": [cell for cell in attacked if cell.task in tasks and tasks[cell.task].of_kind.has_scores],
    }
    labelled: dict[str, dict[str, Cells]] = {}
    for needs in measures:
        name, options = needs.what.name, needs.what.options
        measure = entries.modules.found["measures", name].open()
        if needs.tasks:
            # A measure of one task may have `ways`, which its numbers have in place of the task's name.
            names = (measure.ways or needs.tasks) if len(needs.tasks) == 1 else needs.tasks
            own_cells = [CellOf(encoder, task) for encoder in suite.encoders for task in names]
        else:
            own_cells = attacked
        if needs.of == "victims":
            names_by_task = {task: measure.spoken(options, task, suite) for _, task, _ in victims}
            if any(names is not None for names in names_by_task.values()):
                own_cells = [
                    CellOf(encoder, name_in_claims, None, finetune)
                    for encoder, task, finetune in victims
                    for name_in_claims in names_by_task[task] or ()
                ]
            labels = measure.labels(options)
            if labels:
                labelled[name] = dict.fromkeys(labels, victim_cells)
        cells[name] = list(dict.fromkeys((*cells.get(name, ()), *own_cells)))
    # Other metrics of tables are of attacks.
    cells = dict.fromkeys((table.metric for table in suite.tables), attacked) | cells
    return build_scope(attacked, tasks, cells, trained, MetricCatalogue(entries.modules.registry), labelled)


def _list_victims(suite: Suite, tuning: Mapping[str, Sequence[Strategy]]) -> list[tuple[str, str, str]]:
    """Return encoder, task and strategy of all victims: those that are fine-tuned, then those that exist."""
    victims = []
    for encoder, task in product(suite.encoders, suite.tasks):
        victims += [(encoder, task, choice.label) for choice in tuning.get(task, ()) if choice.serves(encoder)]
    return victims + [(name, task, AS_IS) for name, task in product(suite.victims, suite.tasks)]


def _find_trainings(suite: Suite, entries: SuiteEntries) -> dict[str, EncoderTraining]:
    """Return how each encoder was trained: itself, or the nearest of its bases that was."""
    trained = {}
    for label in suite.encoders:
        spec = entries.encoders.found.get(label)
        chain = iter_bases(spec, entries.encoders.found) if spec is not None else ()
        train = next((below.train for below in chain if below.train is not None), None)
        if train is not None:
            trained[label] = training_settings(train, entries.modules.options_of("objectives", train.objective))
    return trained


def build_scope(
    attacked: Cells,
    tasks: Mapping[str, TaskSpec],
    measured: Mapping[str, Cells],
    trained: Mapping[str, EncoderTraining],
    metrics: MetricCatalogue,
    labelled: Mapping[str, Mapping[str, Cells]],
) -> ClaimScope:
    """Return what claims may speak of, by metric.

    Args:
        attacked: the cells of attacks.
        tasks: those that are attacked.
        measured: the cells of each measure.
        trained: how encoders are trained.
        labelled: the cells of each measure, by label. Claims name those of `typos@0.1` by `noise.typos@0.1`, too.
    """
    all_metrics = metrics.all()
    cells: dict[str, Cells] = {}
    for metric in all_metrics:
        own_tasks = {name for name, task in tasks.items() if metric.is_of(task)}
        own_cells = [cell for cell in attacked if cell.task in own_tasks]
        cells[metric.name] = _of_several(own_cells) if metric.of == "all attacks" else own_cells
    for measure, measure_cells in measured.items():
        if not measure_cells or measure not in metrics.registry.names("measures"):
            continue
        numbers = metrics.numbers_of(measure)
        cells |= dict.fromkeys(numbers, measure_cells)
        for number in numbers:
            cells |= {f"{number}.{label}": label_cells for label, label_cells in labelled.get(measure, {}).items()}
    return ClaimScope(
        {name: tuple(own_cells) for name, own_cells in cells.items() if own_cells},
        trained,
        {metric.name: _describe_needs(metric) for metric in all_metrics},
        metrics.measure_of,
        tuple(metrics.registry.names("objectives")),
        {metric.name: _shown_bounds(metric) for metric in all_metrics if all(map(math.isfinite, metric.bounds))},
    )


def _shown_bounds(metric: Metric) -> tuple[float, float]:
    """Return the least and the largest value of a metric in the units of claims, which write shares in percent."""
    low, high = metric.bounds
    return (100 * low, 100 * high) if metric.about.percent else (low, high)


def training_settings(train: TrainSpec, options: type[BaseModel] | None) -> EncoderTraining:
    """Return how an encoder is trained. Without its objective's `Options` its defaults are not known."""
    settings = train.model_dump(exclude={"objective", "options"})
    objective_options = options.model_validate(train.options).model_dump() if options is not None else train.options
    return EncoderTraining(train.objective, {**settings, **objective_options})


def trained_encoders(plan: Plan) -> dict[str, EncoderTraining]:
    """Return how the encoders of a plan were trained: each itself, or the nearest of its bases that was."""
    jobs = {job.key: job for job in plan.jobs}
    by_encoder: dict[str, EncoderTraining] = {}
    for job in plan.jobs:
        trained_job = jobs.get(job.needs.get("encoder", ""))
        if not (job.tuning is not None or job.untuned) or trained_job is None:
            continue
        assert trained_job.pretraining is not None
        train, name = trained_job.pretraining.encoder.train, plan.draw(job.parts[0]).encoder
        if train is not None and name not in by_encoder:
            by_encoder[name] = training_settings(train, _objective_options(train.objective))
    return by_encoder


def _objective_options(objective: str) -> type[BaseModel] | None:
    """Return the options of one of rbench's objectives; None for that of a user, whose folder is not known."""
    try:
        options: type[BaseModel] = find("objectives", objective).open().Options
    except RbenchError:
        return None
    return options


def _contrast(victims: Iterable[tuple[str, str, str]], sets: Iterable[tuple[str, str]]) -> list[CellOf]:
    """Return the cells of contrast sets. A set has its task's name, or its own where the task has several."""
    names_by_task: dict[str, list[str]] = {}
    for task, name in sets:
        names_by_task.setdefault(task, []).append(name)
    cells = []
    for encoder, task, finetune in victims:
        names = names_by_task.get(task, [])
        cells += [CellOf(encoder, name if len(names) > 1 else task, None, finetune) for name in names]
    return cells


def _of_several(attacked: Cells) -> list[CellOf]:
    """Return the cells of all attacks together: those of victims that meet at least two."""
    num_attacks = Counter(cell._replace(attack=None) for cell in attacked)
    return [cell for cell, count in num_attacks.items() if count > 1]


def _describe_needs(metric: Metric) -> str:
    """Return what a suite needs so that it has a metric, in words."""
    attacks = "two or more `attacks`" if metric.of == "all attacks" else "`attacks`"
    if metric.kind is not None:
        return f"{attacks} and a task of the kind {metric.kind}"
    return f"{attacks} and a task with an oracle, such as mini-sentiment" if metric.oracle else attacks

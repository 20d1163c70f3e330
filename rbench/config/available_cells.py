"""Says which cells a suite has, so that claims can be checked against them; those of a RUN are `verdicts.cells`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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
    victims = [
        (encoder, task, choice.label)
        for encoder in suite.encoders
        for task in suite.tasks
        for choice in tuning.get(task, ())
        if choice.serves(encoder)
    ] + [(name, task, AS_IS) for name in suite.victims for task in suite.tasks]
    attacked = [CellOf(e, task, attack.label, f) for e, task, f in victims for attack in suite.attacks]
    tasks = {name: task for name in suite.tasks if (task := entries.tasks.found.get(name)) is not None}
    sets = {(task, one.set.name) for task, own in asked.items() for one in own if one.needs.what.name == CONTRAST}
    named = {choice.name for choice in suite.evaluate}
    trained = {}
    for label in suite.encoders:
        spec = entries.encoders.found.get(label)
        chain = iter_bases(spec, entries.encoders.found) if spec is not None else ()
        train = next((below.train for below in chain if below.train is not None), None)
        if train is not None:
            trained[label] = training_settings(train, entries.modules.options_of("objectives", train.objective))
    cells = {
        STS: [CellOf(encoder, of.label) for encoder in suite.encoders for of in suite.evaluations],
        CONTRAST: _contrast(victims, sets),
        ADVERSARIAL: [CellOf(e, task, None, f) for e, task, f in victims] if ADVERSARIAL in named else [],
        "parts": [CellOf(e, part, None, f) for e, t, f in victims for part in test_parts(tasks.get(t))],
        "advsts": [cell for cell in attacked if cell.task in tasks and tasks[cell.task].of_kind.has_scores],
    }
    labelled: dict[str, dict[str, Cells]] = {}
    for one in measures:
        measure = entries.modules.found["measures", one.what.name].open()
        of = (measure.ways or one.tasks) if len(one.tasks) == 1 else one.tasks
        own = [CellOf(encoder, task) for encoder in suite.encoders for task in of] if one.tasks else attacked
        if one.of == "victims":
            spoken = {t: measure.spoken(one.what.options, t, suite) for _, t, _ in victims}
            if any(names is not None for names in spoken.values()):
                own = [CellOf(e, name, None, f) for e, t, f in victims for name in spoken[t] or ()]
            if labels := measure.labels(one.what.options):
                labelled[one.what.name] = {label: [CellOf(e, t, None, f) for e, t, f in victims] for label in labels}
        cells[one.what.name] = list(dict.fromkeys((*cells.get(one.what.name, ()), *own)))
    cells = dict.fromkeys((table.metric for table in suite.tables), attacked) | cells
    return build_scope(attacked, tasks, cells, trained, MetricCatalogue(entries.modules.registry), labelled)


def build_scope(
    attacked: Cells,
    tasks: Mapping[str, TaskSpec],
    measured: Mapping[str, Cells],
    trained: Mapping[str, EncoderTraining],
    metrics: MetricCatalogue,
    labelled: Mapping[str, Mapping[str, Cells]],
) -> ClaimScope:
    """Return what may be spoken of, by metric.

    Args:
        attacked: the cells of attacks.
        tasks: those that are attacked.
        measured: the cells of each measure.
        trained: how encoders are trained.
        labelled: the cells of each measure, by label. Claims name those of `typos@0.1` by `noise.typos@0.1`, too.
    """
    having = {
        known_metric.name: {name for name, task in tasks.items() if known_metric.is_of(task)}
        for known_metric in metrics.all()
    }
    cells = {
        known_metric.name: _cells_of_metric(
            known_metric, [cell for cell in attacked if cell.task in having[known_metric.name]]
        )
        for known_metric in metrics.all()
    }
    for measure, measure_cells in measured.items():
        numbers = metrics.numbers_of(measure) if measure_cells and measure in metrics.registry.names("measures") else ()
        cells |= dict.fromkeys(numbers, measure_cells)
        cells |= {
            f"{name}.{label}": own_cells for name in numbers for label, own_cells in labelled.get(measure, {}).items()
        }
    return ClaimScope(
        {metric: tuple(own_cells) for metric, own_cells in cells.items() if own_cells},
        trained,
        {known_metric.name: _describe_needs(known_metric) for known_metric in metrics.all()},
        metrics.measure_of,
        tuple(metrics.registry.names("objectives")),
        {
            known_metric.name: (100 * known_metric.bounds[0], 100 * known_metric.bounds[1])
            if known_metric.about.percent
            else known_metric.bounds
            for known_metric in metrics.all()
            if all(map(math.isfinite, known_metric.bounds))
        },
    )


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
    pairs = [*sets]
    several = {task for task, _ in pairs if sum(other == task for other, _ in pairs) > 1}
    return [
        CellOf(encoder, name if task in several else task, None, finetune)
        for encoder, task, finetune in victims
        for of, name in pairs
        if of == task
    ]


def _of_several(attacked: Cells) -> list[CellOf]:
    """Return the cells of all attacks together: those of victims that meet at least two."""
    met = Counter(cell._replace(attack=None) for cell in attacked)
    return [cell for cell, attacks in met.items() if attacks > 1]


def _cells_of_metric(metric: Metric, attacked: Cells) -> Cells:
    return _of_several(attacked) if metric.of == "all attacks" else attacked


def _describe_needs(metric: Metric) -> str:
    """Return what a suite needs so that it has a metric, in words."""
    attacks = "two or more `attacks`" if metric.of == "all attacks" else "`attacks`"
    if metric.kind is not None:
        return f"{attacks} and a task of the kind {metric.kind}"
    return f"{attacks} and a task with an oracle, such as mini-sentiment" if metric.oracle else attacks

"""Says which cells a suite has, or a stored plan, so that claims can be checked against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel

from rbench.errors import RbenchError
from rbench.load.code import find
from rbench.load.entries import Entries
from rbench.load.metrics import Metric, Metrics
from rbench.load.registry import Registry
from rbench.spec import (
    ADVERSARIAL,
    AS_IS,
    CONTRAST,
    STS,
    TABLES,
    Choice,
    ContrastSpec,
    MeasureNeeds,
    Plan,
    Suite,
    TaskSpec,
    TrainSpec,
    bases,
)
from rbench.spec.claimed import SCORES, CellOf, Ground, Trained, measured_cells

Cells = Sequence[CellOf]


def of_suite(
    suite: Suite,
    entries: Entries,
    tuning: Mapping[str, Sequence[Choice]],
    contrast: Mapping[str, Sequence[ContrastSpec]],
    measures: Iterable[MeasureNeeds],
) -> Ground:
    """Return what the claims of a suite that is being loaded may speak of.

    Args:
        tuning: the strategies that make victims, by task.
        contrast: the contrast sets, by task.
        measures: those that the suite asks for.
    """
    victims = [
        (encoder, task, choice.label)
        for encoder in suite.encoders
        for task in suite.tasks
        for choice in tuning.get(task, ())
    ] + [(name, task, AS_IS) for name in suite.victims for task in suite.tasks]
    attacked = [CellOf(e, task, attack.label, f) for e, task, f in victims for attack in suite.attacks]
    oracles = {name for name in suite.tasks if name in entries.tasks.found and entries.tasks.found[name].has_oracle}
    sets = {(task, spec.name) for task, specs in contrast.items() for spec in specs}
    asked = {choice.name for choice in suite.evaluate}
    trained = {}
    for label in suite.encoders:
        spec = entries.encoders.found.get(label)
        chain = bases(spec, entries.encoders.found) if spec is not None else ()
        train = next((below.train for below in chain if below.train is not None), None)
        if train is not None:
            trained[label] = trained_as(train, entries.modules.options_of("objectives", train.objective))
    return Ground(
        _by_metric(
            attacked,
            [cell for cell in attacked if cell.task in oracles],
            [CellOf(encoder, of.label) for encoder in suite.encoders for of in suite.evaluations],
            _contrast(victims, sets),
            [CellOf(e, task, None, f) for e, task, f in victims] if ADVERSARIAL in asked else [],
            [CellOf(e, part, None, f) for e, t, f in victims for part in _parts(entries.tasks.found.get(t))],
            (suite, Metrics(entries.modules.registry)),
            {
                one.what.name: [cell for e in suite.encoders for cell in measured_cells(one.what.name, e, [*one.tasks])]
                for one in measures
                if one.tasks
            },
        ),
        trained,
        _needed(Metrics(entries.modules.registry)),
        tuple(entries.modules.registry.names("measures")),
        tuple(entries.modules.registry.names("objectives")),
    )


def of_plan(plan: Plan, registry: Registry) -> Ground:
    """Return what claims on a RUN with this plan may speak of."""
    attacked: dict[CellOf, None] = {}
    valid, evaluated, adversarial = dict(attacked), dict(attacked), dict(attacked)
    victims: dict[tuple[str, str, str], None] = {}
    sets: dict[tuple[str, str], None] = {}
    measured: dict[tuple[str, str], list[str]] = {}
    parts_of: dict[CellOf, None] = {}
    attacks = {job.key for job in plan.attacks}
    for job in plan.jobs:
        if job.pretraining is not None:
            continue
        encoder, *parts = plan.draw(job.parts[0]).encoder, *job.parts[1:]
        if job.attacking is not None:
            if job.key not in attacks or encoder not in plan.suite.lineup:
                continue
            cell = CellOf(encoder, parts[0], parts[2], parts[1])
            attacked[cell] = None
            valid |= {cell: None} if job.attacking.task.has_oracle else {}
        elif job.victim is not None:
            parts_of |= {CellOf(encoder, part, None, parts[1]): None for part in _parts(job.victim.task)}
        elif job.what == STS:
            evaluated[CellOf(encoder, parts[0])] = None
        elif job.what == CONTRAST:
            victims[encoder, parts[0], parts[1]] = None
            sets[parts[0], parts[2]] = None
        elif job.what == ADVERSARIAL:
            adversarial[CellOf(encoder, parts[0], None, parts[1])] = None
        elif job.measuring is not None and job.untuned:
            tasks = measured.setdefault((job.measuring.what.name, encoder), [])
            tasks += [job.measuring.task.name] if job.measuring.task.name not in tasks else []
    by_measure: dict[str, list[CellOf]] = {}
    for (name, encoder), tasks in measured.items():
        by_measure.setdefault(name, []).extend(measured_cells(name, encoder, tasks))
    cells = [[*found] for found in (attacked, valid, evaluated)]
    made = ([*adversarial], [*parts_of], (plan.suite, Metrics(registry)), by_measure)
    return Ground(
        _by_metric(cells[0], cells[1], cells[2], _contrast(victims, sets), *made),
        _trained_by(plan),
        _needed(Metrics(registry)),
        tuple(registry.names("measures")),
        tuple(registry.names("objectives")),
    )


def _parts(task: TaskSpec | None) -> list[str]:
    """Return the parts of a task's test split, such as the rounds of ANLI; none for a task of one source."""
    return list(dict.fromkeys(part.name for part in task.parts if part.split == "test")) if task else []


def trained_as(train: TrainSpec, options: type[BaseModel] | None) -> Trained:
    """Return how an encoder is trained. Without its objective's `Options` its defaults are not known."""
    own = train.model_dump(exclude={"objective", "options"})
    made = options.model_validate(train.options).model_dump() if options is not None else train.options
    return Trained(train.objective, {**own, **made})


def _trained_by(plan: Plan) -> dict[str, Trained]:
    """Return how the encoders of a plan were trained: each itself, or the nearest of its bases that was."""
    jobs = {job.key: job for job in plan.jobs}
    found: dict[str, Trained] = {}
    for job in plan.jobs:
        below = jobs.get(job.needs.get("encoder", ""))
        if not (job.tuning is not None or job.untuned) or below is None:
            continue
        assert below.pretraining is not None
        train, name = below.pretraining.encoder.train, plan.draw(job.parts[0]).encoder
        if train is not None and name not in found:
            found[name] = trained_as(train, _options(train.objective))
    return found


def _options(objective: str) -> type[BaseModel] | None:
    """Return the options of one of rbench's objectives; None for that of a user, whose folder is not known."""
    try:
        options: type[BaseModel] = find("objectives", objective).open().Options
    except RbenchError:
        return None
    return options


def _contrast(victims: Iterable[tuple[str, str, str]], sets: Iterable[tuple[str, str]]) -> list[CellOf]:
    """Return the cells of contrast sets. A set has its task's name, or its own where the task has several."""
    found = [*sets]
    several = {task for task, _ in found if sum(other == task for other, _ in found) > 1}
    return [
        CellOf(encoder, name if task in several else task, None, finetune)
        for encoder, task, finetune in victims
        for of, name in found
        if of == task
    ]


def _of_several(attacked: Cells) -> list[CellOf]:
    """Return the cells of all attacks together: those of victims that meet at least two."""
    met = Counter(cell._replace(attack=None) for cell in attacked)
    return [cell for cell, attacks in met.items() if attacks > 1]


def _where(metric: Metric, attacked: Cells) -> Cells:
    return _of_several(attacked) if metric.of == "all attacks" else attacked


def _needed(metrics: Metrics) -> dict[str, str]:
    """Return what a suite needs so that it has each metric, in words."""

    def needs(one: Metric) -> str:
        attacks = "two or more `attacks`" if one.of == "all attacks" else "`attacks`"
        return f"{attacks} and a task with an oracle, such as mini-sentiment" if one.oracle else attacks

    return {one.name: needs(one) for one in metrics.all()}


def _by_metric(
    attacked: Cells,
    valid: Cells,
    evaluated: Cells,
    contrast: Cells,
    adversarial: Cells,
    parts: Cells,
    of: tuple[Suite, Metrics],
    measured: Mapping[str, Cells],
) -> dict[str, tuple[CellOf, ...]]:
    """Return the cells of each metric. `measured`: those of measures of encoders, by the measure's name."""
    suite, metrics = of
    cells = {one.name: _where(one, valid if one.oracle else attacked) for one in metrics.all()}
    tabled = {table.metric for table in suite.tables if table.metric not in metrics and table.metric not in TABLES}
    measures = {*suite.measured, *tabled} - {ADVERSARIAL}
    cells |= dict.fromkeys(measures, attacked) | {name: tuple(dict.fromkeys(own)) for name, own in measured.items()}
    tables = {"sts": evaluated, CONTRAST: contrast, **dict.fromkeys(measures, attacked), "parts": parts}
    cells |= {name: tables[table] for name, table in SCORES.items() if table in tables}
    cells[ADVERSARIAL] = adversarial
    return {metric: tuple(own) for metric, own in cells.items() if own}

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
    AskedSet,
    Choice,
    MeasureNeeds,
    Plan,
    Suite,
    TaskSpec,
    TrainSpec,
    bases,
)
from rbench.spec.claimed import SCORES, CellOf, Ground, Trained, measured_cells

Cells = Sequence[CellOf]
ATTACKED, VALID, PARTS = "attacked", "valid", "parts"
"""Kinds of cells beside those of `sts`, `contrast` and `adversarial`: those of attacks, of attacks on tasks with an
oracle, and of the parts of a task."""


def of_suite(
    suite: Suite,
    entries: Entries,
    tuning: Mapping[str, Sequence[Choice]],
    asked: Mapping[str, Sequence[AskedSet]],
    measures: Iterable[MeasureNeeds],
) -> Ground:
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
    ] + [(name, task, AS_IS) for name in suite.victims for task in suite.tasks]
    attacked = [CellOf(e, task, attack.label, f) for e, task, f in victims for attack in suite.attacks]
    oracles = {name for name in suite.tasks if name in entries.tasks.found and entries.tasks.found[name].has_oracle}
    sets = {(task, one.set.name) for task, own in asked.items() for one in own if one.needs.what.name == CONTRAST}
    named = {choice.name for choice in suite.evaluate}
    trained = {}
    for label in suite.encoders:
        spec = entries.encoders.found.get(label)
        chain = bases(spec, entries.encoders.found) if spec is not None else ()
        train = next((below.train for below in chain if below.train is not None), None)
        if train is not None:
            trained[label] = trained_as(train, entries.modules.options_of("objectives", train.objective))
    cells = {
        ATTACKED: attacked,
        VALID: [cell for cell in attacked if cell.task in oracles],
        STS: [CellOf(encoder, of.label) for encoder in suite.encoders for of in suite.evaluations],
        CONTRAST: _contrast(victims, sets),
        ADVERSARIAL: [CellOf(e, task, None, f) for e, task, f in victims] if ADVERSARIAL in named else [],
        PARTS: [CellOf(e, part, None, f) for e, t, f in victims for part in _parts(entries.tasks.found.get(t))],
    }
    measured = {
        one.what.name: [cell for e in suite.encoders for cell in measured_cells(one.what.name, e, [*one.tasks])]
        for one in measures
        if one.tasks
    }
    return _ground(cells, measured, suite, trained, entries.modules.registry)


def of_plan(plan: Plan, registry: Registry) -> Ground:
    """Return what claims on a RUN with this plan may speak of."""
    cells: dict[str, list[CellOf]] = {kind: [] for kind in (ATTACKED, VALID, STS, ADVERSARIAL, PARTS)}
    victims: dict[tuple[str, str, str], None] = {}
    sets: dict[tuple[str, str], None] = {}
    measured: dict[tuple[str, str], dict[str, None]] = {}
    attacks = {job.key for job in plan.attacks}
    for job in plan.jobs:
        if job.pretraining is not None:
            continue
        encoder, *parts = plan.draw(job.parts[0]).encoder, *job.parts[1:]
        if job.attacking is not None:
            if job.key in attacks and encoder in plan.suite.lineup:
                kinds = (ATTACKED, VALID) if job.attacking.task.has_oracle else (ATTACKED,)
                for kind in kinds:
                    cells[kind].append(CellOf(encoder, parts[0], parts[2], parts[1]))
        elif job.victim is not None:
            cells[PARTS] += [CellOf(encoder, part, None, parts[1]) for part in _parts(job.victim.task)]
        elif job.what == STS:
            cells[STS].append(CellOf(encoder, parts[0]))
        elif job.what == CONTRAST:
            victims[encoder, parts[0], parts[1]] = None
            sets[parts[0], parts[2]] = None
        elif job.what == ADVERSARIAL:
            cells[ADVERSARIAL].append(CellOf(encoder, parts[0], None, parts[1]))
        elif job.measuring is not None and job.untuned:
            measured.setdefault((job.measuring.what.name, encoder), {})[job.measuring.task.name] = None
    by_measure: dict[str, list[CellOf]] = {}
    for (name, encoder), tasks in measured.items():
        by_measure.setdefault(name, []).extend(measured_cells(name, encoder, [*tasks]))
    cells[CONTRAST] = _contrast(victims, sets)
    return _ground(cells, by_measure, plan.suite, _trained_by(plan), registry)


def _ground(
    found: Mapping[str, Cells],
    measured: Mapping[str, Cells],
    suite: Suite,
    trained: Mapping[str, Trained],
    registry: Registry,
) -> Ground:
    """Return what may be spoken of, by metric.

    Args:
        found: the cells of attacks, those of them that have an oracle, and of each table; a cell may stand there twice.
        measured: those of measures of encoders, by the measure's name.
    """
    metrics = Metrics(registry)
    of = {kind: [*dict.fromkeys(own)] for kind, own in found.items()}
    cells = {one.name: _where(one, of[VALID] if one.oracle else of[ATTACKED]) for one in metrics.all()}
    tabled = {table.metric for table in suite.tables if table.metric not in metrics and table.metric not in TABLES}
    measures = dict.fromkeys({*suite.measured, *tabled} - {ADVERSARIAL}, of[ATTACKED])
    cells |= measures | {name: list(dict.fromkeys(own)) for name, own in measured.items()}
    tables = {STS: of[STS], CONTRAST: of[CONTRAST], **measures, PARTS: of[PARTS]}
    cells |= {name: tables[table] for name, table in SCORES.items() if table in tables}
    cells[ADVERSARIAL] = of[ADVERSARIAL]
    return Ground(
        {metric: tuple(own) for metric, own in cells.items() if own},
        trained,
        {one.name: _needed(one) for one in metrics.all()},
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


def _needed(metric: Metric) -> str:
    """Return what a suite needs so that it has a metric, in words."""
    attacks = "two or more `attacks`" if metric.of == "all attacks" else "`attacks`"
    return f"{attacks} and a task with an oracle, such as mini-sentiment" if metric.oracle else attacks

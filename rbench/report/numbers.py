"""Reads the numbers of a page: the heat table, budget curves, series of trainings, and comparisons of encoders.

They are those that `rbench table`, the figures `budget` and `curves`, and `rbench compare` show.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Literal, cast

from rbench.config.metrics import HEADLINE
from rbench.errors import RbenchError, StoreError
from rbench.measures.budget import Curves, panels
from rbench.report.data import (
    BudgetCurve,
    CurvePoint,
    HeatCell,
    HeatMetric,
    Key,
    Laid,
    Pair,
    PairCell,
    Quality,
    SeriesLine,
)
from rbench.schema import TableSpec
from rbench.score.budget import START, Curve
from rbench.score.paired import Difference
from rbench.tables import Results, Table, attack_table, build
from rbench.tables.aggregate import NO_ATTACK, Grid, grid
from rbench.tables.draws import of_table
from rbench.tables.for_people import titled
from rbench.tables.formats import caption, number, signs_said, text_of
from rbench.tables.layouts import every
from rbench.tables.table import Number, p_value
from rbench.verdicts.bold import marked

if TYPE_CHECKING:
    from rbench.verdicts.compare import ComparedCell


def heat(results: Results) -> Iterator[HeatMetric]:
    """Yield the table of each metric that the RUN has, the headline first. Raises StoreError where it has no attacks.

    What depends on the machine is left to `rbench table`.
    """
    for metric in sorted(every(results.metrics, results.plan), key=lambda one: one.name != HEADLINE):
        try:
            table = marked(attack_table(results, metric.name), results)
        except StoreError:
            if metric.name == HEADLINE:
                raise
            continue  # of tasks with an oracle, and there is none
        meaning = metric.about
        yield HeatMetric(
            name=metric.name,
            title=meaning.title,
            short=meaning.column,
            definition=meaning.definition,
            percent=meaning.percent,
            best=meaning.best,
            bold=f"the best of a column{table.bold}" if table.bold else "nothing, since no column shows a difference",
            of=of_table(table, results.plan, results.victims),
            signs=signs_said(table),
            cells=tuple(_cells(table, metric.name)),
        )


def measured(results: Results) -> Iterator[Laid]:
    """Yield the table of each measure that the RUN has: those of its suite first, with the suite's options.

    Raises StoreError where one of the suite's has nothing to show.
    """
    asked = [one for one in results.plan.suite.tables if one.metric not in results.metrics]
    names = dict.fromkeys(job.what for job in results.plan.jobs if job.what is not None)
    there = [*names, *(["judged"] if results.judged is not None else [])]
    more = [TableSpec(metric=name) for name in there if name not in {one.metric for one in asked}]
    for wanted in (*asked, *more):
        how = (wanted.layout, wanted.pick, wanted.aggregation, wanted.options)
        try:
            table = titled(marked(build(results, wanted.metric, *how), results), results.plan, results.metrics)
        except RbenchError:
            if wanted in asked:
                raise
            continue  # it has no table of its own, or nothing to show
        if table.texts:
            continue  # a page may have to do without texts
        yield Laid(
            label=wanted.label,
            tab=_tab(table, wanted.label),
            title=caption(table),
            header=table.header,
            rows=tuple(
                tuple((text_of(one), isinstance(one, Number) and one.best) for one in row) for row in table.rows
            ),
            named=tuple(all(isinstance(row[i], str) for row in table.rows) for i in range(len(table.header))),
            groups=tuple(sorted(table.groups)),
            notes=(*table.notes, *signs_said(table), table.interval),
        )


def _tab(table: Table, label: str) -> str:
    """Return the title of a table of a measure, with the options that tell it from others of the same."""
    _, bracket, options = label.partition("[")
    return f"{table.meaning.column} {bracket}{options}".strip()


def _cells(table: Table, metric: str) -> Iterator[HeatCell]:
    """Yield the cells of a table, then its averages. A cell that is not done is left out."""
    entries = dict(_entries(table, metric))
    for cell in table.cells:
        key: Key = (cell["attack"], cell["encoder"], cell["finetune"], cell["task"])
        entry = entries.pop(key, None)
        if entry is not None:
            told = cell["flags"]
            yield HeatCell(
                key=key,
                value=cell["value"],
                shown=number(entry),
                interval=entry.span,
                low=entry.low,
                high=entry.high,
                n=cell["n"],
                best=entry.best,
                skipped=cell["skipped"],
                errored=cell["errored"],
                seeds=cell["seeds"],
                flags=None if told is None else tuple(told),
            )
    flags = {(*key[:3], ""): () for key in entries}
    for cell in table.cells:
        of = (cell["attack"], cell["encoder"], cell["finetune"], "")
        if of in flags:
            flags[of] = tuple(dict.fromkeys((*flags[of], *(cell["flags"] or ()))))
    for key, entry in entries.items():
        limits = {"interval": entry.span, "low": entry.low, "high": entry.high}
        told = flags[*key[:3], ""] if entry.flagged else ()
        yield HeatCell(key=key, value=entry.value, shown=number(entry), best=entry.best, flags=told, **limits)


def _entries(table: Table, metric: str) -> Iterator[tuple[Key, Number]]:
    """Yield the entries of a table in the layout paper, by the cells that they show. An average has no task, and a
    table of what victims are before attacks has no attacks.
    """
    by_attack = "Attack" in table.header
    for contest in table.contests:
        if contest.metric != metric:
            continue
        average = table.header[contest.column] == "Avg."
        for row, keys in contest.entries:
            entry = table.rows[row][contest.column]
            if isinstance(entry, Number) and keys:
                attack, encoder, finetune, task = keys[0]
                attack = attack if by_attack else NO_ATTACK
                yield (attack, encoder, finetune, "" if average else task), entry


def quality(results: Results) -> Iterator[Quality]:
    """Yield the last column of the table `sts`, the average or the only task, of each encoder that has one."""
    table = build(results, "sts")
    at = table.header.index("Encoder")
    for row in table.rows:
        entry = row[-1]
        if isinstance(entry, Number) and entry.value is not None:
            limits = {"low": entry.low, "high": entry.high}
            yield Quality(encoder=cast(str, row[at]), value=entry.value, shown=number(entry), **limits)


MOST_STEPS = 80
"""The most steps of a curve. More could not be told apart on a screen."""
_BYS: tuple[Literal["queries", "words"], ...] = ("queries", "words")


def budgets(results: Results) -> Iterator[BudgetCurve]:
    """Yield the curve of each cell, by queries and by words. Raises StoreError where outcomes are missing."""
    of = grid(results)
    for by in _BYS:
        for panel in panels(of, Curves(by=by)):
            for cell, curve in panel.curves:
                if curve.n and not of.flags.hiding(cell.jobs):
                    points, flagged = tuple(_points(curve, panel.top)), bool(of.flags.of(cell.jobs))
                    yield BudgetCurve(by=by, key=cell.key, n=curve.n, flagged=flagged, points=points)


def _points(curve: Curve, top: float) -> Iterator[CurvePoint]:
    """Yield the curve at its start, at its steps or evenly chosen ones of them, and at the end of its panel."""
    steps = [step for step in curve.steps if START[curve.by] < step < top]
    if len(steps) > MOST_STEPS:
        steps = [steps[round(i * (len(steps) - 1) / (MOST_STEPS - 1))] for i in range(MOST_STEPS)]
    for x in (START[curve.by], *steps, top):
        score = curve.at(x)
        yield CurvePoint(x=x, y=score.value, low=score.low, high=score.high)


def series(results: Results) -> Iterator[SeriesLine]:
    """Yield what trainings measured. Raises StoreError where the RUN trained no encoder, or no record has a series."""
    from rbench.report.figures.curves import Options, grouped_series, stored_trainings

    found = stored_trainings(Options(), results)
    grouped = grouped_series(Options(), list(dict.fromkeys(name for training in found for name in training.names)))
    for training in found:
        for group, names in grouped.items():
            for name in names:
                steps, values = training.curve(name)
                if steps:
                    yield SeriesLine(
                        training=training.title, group=group, name=name, steps=tuple(steps), values=tuple(values)
                    )


MOST_COMPARED = 12
"""How many encoders are compared with each other. Others are left to `rbench compare`."""


def compared(of: Grid) -> tuple[str, tuple[str, ...]]:
    """Return what is compared with each other, encoders or the strategies of the only one, and their names."""
    return ("encoders", of.encoders) if len(of.encoders) > 1 else ("fine-tuning strategies", of.finetunes)


def pairs(results: Results) -> Iterator[Pair]:
    """Yield the comparison of each two of the first MOST_COMPARED of what is `compared`; or why there is none.

    The outcomes of a side are read once. Raises StoreError where the RUN has no attacks.
    """
    names, metric = compared(grid(results))[1][:MOST_COMPARED], results.metrics[HEADLINE]
    if len(names) < 2:
        return
    from rbench.verdicts.compare import Side, compare_sides

    sides: dict[str, Side | str] = {}
    for one, other in combinations(names, 2):
        for name in (one, other):
            if name not in sides:
                try:
                    sides[name] = Side.of(results, name, metric)
                except StoreError as error:
                    sides[name] = str(error)
        found = [sides[name] for name in (one, other)]
        wrong = [side for side in found if isinstance(side, str)]
        if wrong:
            yield Pair(one=one, other=other, missing=" ".join(wrong))
            continue
        try:
            told = compare_sides((found[0], found[1]), metric)  # type: ignore[arg-type]
            yield Pair(one=one, other=other, cells=tuple(map(_cell, told.cells)), notes=told.notes)
        except StoreError as error:
            yield Pair(one=one, other=other, missing=str(error))


def _cell(cell: ComparedCell) -> PairCell:
    d = cell.difference
    return PairCell(
        task=cell.name.task,
        finetune=cell.name.finetune,
        attack=cell.name.attack,
        n=d.n,
        fourfold=_fourfold(cell.difference, cell.both),
        one=_shown(cell.unpaired[0]),
        other=_shown(cell.unpaired[1]),
        difference=_shown(d.value),
        interval=Number(d.value, True, low=d.low, high=d.high).span,
        p=p_value(cell.p),
        test=_test(d, paired=cell.both is not None),
        verdict=cell.told,
        smallest=_shown(d.smallest),
    )


def _fourfold(d: Difference, both: int | None) -> tuple[int, int, int, int] | None:
    if both is None or d.only_one is None or d.only_other is None:
        return None
    return both, d.only_one, d.only_other, d.n - both - d.only_one - d.only_other


def _test(d: Difference, *, paired: bool) -> str:
    """Name the test that `score.paired` takes."""
    if not paired:
        return "unpaired, by counts"
    if (*d.trainings, d.seeds) == (1, 1, 1) or not (d.only_one or d.only_other):
        return "exact McNemar"
    return "seeds and texts" if max(d.trainings) == 1 else "trainings and texts"


def _shown(value: float | None) -> str:
    """Format a share or a difference of shares as `rbench compare` prints it."""
    return "" if value is None else Number(value, True).shown(value)

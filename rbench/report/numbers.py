"""Reads the numbers of a page: the heat table, budget curves, series of trainings, and comparisons of encoders.

They are those that `rbench table`, the figures `budget` and `curves`, and `rbench compare` show.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Literal, cast

from rbench.config.metrics import HEADLINE
from rbench.errors import RbenchError, StoreError
from rbench.measures.budget import CurveOptions, build_panels
from rbench.report.data import (
    BudgetCurve,
    ComparedPair,
    CurvePoint,
    HeatCell,
    HeatKey,
    HeatMetric,
    PairCell,
    RenderedTable,
    SeriesLine,
    SimilarityScore,
)
from rbench.schema import TableSpec
from rbench.score.budget import RANGE_START, SuccessCurve
from rbench.score.paired import DifferenceEstimate
from rbench.tables import Results, Table, build, build_attack_table
from rbench.tables.aggregate import NO_ATTACK, AttackGrid, attack_grid
from rbench.tables.draws import describe_weights
from rbench.tables.for_people import replace_names
from rbench.tables.formats import format_entry, format_number, list_sign_meanings, write_caption
from rbench.tables.layouts import list_repeatable_metrics
from rbench.tables.table import Number, TableEntry, format_p_value
from rbench.verdicts.bold import mark_bold

if TYPE_CHECKING:
    from rbench.verdicts.compare import ComparedCell


def collect_heat_metrics(results: Results) -> Iterator[HeatMetric]:
    """Yield the table of each metric that the RUN has, the headline first. Raises StoreError where it has no attacks.

    What depends on the machine is left to `rbench table`.
    """
    for metric in sorted(
        list_repeatable_metrics(results.metrics, results.plan), key=lambda shown_metric: shown_metric.name != HEADLINE
    ):
        try:
            table = mark_bold(build_attack_table(results, metric.name), results)
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
            of=describe_weights(table, results.plan, results.victims),
            signs=list_sign_meanings(table),
            cells=tuple(_heat_cells(table, metric.name)),
        )


def collect_measure_tables(results: Results) -> Iterator[RenderedTable]:
    """Yield the table of each measure that the RUN has: those of its suite first, with the suite's options.

    Raises StoreError where one of the suite's has nothing to show.
    """
    suite_tables = [table_spec for table_spec in results.plan.suite.tables if table_spec.metric not in results.metrics]
    named = {table_spec.metric for table_spec in suite_tables}
    measure_names = dict.fromkeys(job.what for job in results.plan.jobs if job.what is not None)
    measures = [*measure_names, *(["judged"] if results.judged is not None else [])]
    other_tables = [TableSpec(metric=name) for name in measures if name not in named]
    for shown_table in (*suite_tables, *other_tables):
        table_options = (shown_table.layout, shown_table.pick, shown_table.aggregation, shown_table.options)
        try:
            table = replace_names(
                mark_bold(build(results, shown_table.metric, *table_options), results), results.plan, results.metrics
            )
        except RbenchError:
            if shown_table in suite_tables:
                raise
            continue  # it has no table of its own, or nothing to show
        if table.texts:
            continue  # a page may have to do without texts
        yield RenderedTable(
            label=shown_table.label,
            tab=_table_title(table, shown_table.label),
            title=write_caption(table),
            header=table.header,
            rows=tuple(tuple(map(_marked_text, row)) for row in table.rows),
            named=tuple(all(isinstance(row[i], str) for row in table.rows) for i in range(len(table.header))),
            groups=tuple(sorted(table.groups)),
            notes=(*table.notes, *list_sign_meanings(table), table.interval),
        )


def _marked_text(entry: TableEntry) -> tuple[str, bool]:
    """Return an entry as text, and whether it shares the mark of the best."""
    return format_entry(entry), isinstance(entry, Number) and entry.best


def _table_title(table: Table, label: str) -> str:
    """Return the title of a table of a measure, with the options that tell it from others of the same."""
    _, bracket, options = label.partition("[")
    return f"{table.meaning.column} {bracket}{options}".strip()


def _heat_cells(table: Table, metric: str) -> Iterator[HeatCell]:
    """Yield the cells of a table, then its averages. A cell that is not done is left out."""
    entries = dict(_entries_by_cell(table, metric))
    for cell in table.cells:
        key: HeatKey = (cell["attack"], cell["encoder"], cell["finetune"], cell["task"])
        entry = entries.pop(key, None)
        if entry is not None:
            known_flags = cell["flags"]
            yield HeatCell(
                key=key,
                value=cell["value"],
                shown=format_number(entry),
                interval=entry.span,
                low=entry.low,
                high=entry.high,
                n=cell["n"],
                best=entry.best,
                skipped=cell["skipped"],
                errored=cell["errored"],
                seeds=cell["seeds"],
                flags=None if known_flags is None else tuple(known_flags),
            )
    # What is left are averages, which have no cell of their own: their flags are those of the cells they average.
    flags = {(*key[:3], ""): () for key in entries}
    for cell in table.cells:
        average_key = (cell["attack"], cell["encoder"], cell["finetune"], "")
        if average_key in flags:
            flags[average_key] = tuple(dict.fromkeys((*flags[average_key], *(cell["flags"] or ()))))
    for key, entry in entries.items():
        limits = {"interval": entry.span, "low": entry.low, "high": entry.high}
        known_flags = flags[*key[:3], ""] if entry.flagged else ()
        yield HeatCell(
            key=key, value=entry.value, shown=format_number(entry), best=entry.best, flags=known_flags, **limits
        )


def _entries_by_cell(table: Table, metric: str) -> Iterator[tuple[HeatKey, Number]]:
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


def collect_similarity(results: Results) -> Iterator[SimilarityScore]:
    """Yield the last column of the table `sts`, the average or the only task, of each encoder that has one."""
    table = build(results, "sts")
    encoder_column = table.header.index("Encoder")
    for row in table.rows:
        entry = row[-1]
        if isinstance(entry, Number) and entry.value is not None:
            limits = {"low": entry.low, "high": entry.high}
            yield SimilarityScore(
                encoder=cast(str, row[encoder_column]), value=entry.value, shown=format_number(entry), **limits
            )


MOST_CURVE_STEPS = 80
"""The most steps of a curve. More could not be told apart on a screen."""
_BUDGETS: tuple[Literal["queries", "words"], ...] = ("queries", "words")


def collect_budget_curves(results: Results) -> Iterator[BudgetCurve]:
    """Yield the curve of each cell, by queries and by words. Raises StoreError where outcomes are missing."""
    attack_cells = attack_grid(results)
    for by in _BUDGETS:
        for panel in build_panels(attack_cells, CurveOptions(by=by)):
            for cell, curve in panel.curves:
                if curve.n and not attack_cells.flags.hiding(cell.jobs):
                    points, flagged = tuple(_curve_points(curve, panel.top)), bool(attack_cells.flags.of(cell.jobs))
                    yield BudgetCurve(by=by, key=cell.key, n=curve.n, flagged=flagged, points=points)


def _curve_points(curve: SuccessCurve, top: float) -> Iterator[CurvePoint]:
    """Yield the curve at its start, at its steps or evenly chosen ones of them, and at the end of its panel."""
    steps = [step for step in curve.steps if RANGE_START[curve.by] < step < top]
    if len(steps) > MOST_CURVE_STEPS:
        steps = [steps[round(i * (len(steps) - 1) / (MOST_CURVE_STEPS - 1))] for i in range(MOST_CURVE_STEPS)]
    for x in (RANGE_START[curve.by], *steps, top):
        score = curve.at(x)
        yield CurvePoint(x=x, y=score.value, low=score.low, high=score.high)


def collect_series(results: Results) -> Iterator[SeriesLine]:
    """Yield what trainings measured."""
    from rbench.report.figures.curves import Options, group_series, stored_trainings

    trainings = stored_trainings(Options(), results)
    names_by_group = group_series(
        Options(), list(dict.fromkeys(name for training in trainings for name in training.names))
    )
    for training in trainings:
        for group, names in names_by_group.items():
            for name in names:
                steps, values = training.curve(name)
                if steps:
                    yield SeriesLine(
                        training=training.title, group=group, name=name, steps=tuple(steps), values=tuple(values)
                    )


MOST_COMPARED = 12
"""How many encoders are compared with each other. Others are left to `rbench compare`."""


def compared_names(attack_cells: AttackGrid) -> tuple[str, tuple[str, ...]]:
    """Return what is compared with each other, encoders or the strategies of the only one, and their names."""
    return (
        ("encoders", attack_cells.encoders)
        if len(attack_cells.encoders) > 1
        else ("fine-tuning strategies", attack_cells.finetunes)
    )


def collect_comparisons(results: Results) -> Iterator[ComparedPair]:
    """Yield the comparison of each two of the first MOST_COMPARED of what is `compared_names`; or why there is none.

    The outcomes of a side are read once. Raises StoreError where the RUN has no attacks.
    """
    names, metric = compared_names(attack_grid(results))[1][:MOST_COMPARED], results.metrics[HEADLINE]
    if len(names) < 2:
        return
    from rbench.verdicts.compare import ComparedSide, compare_sides

    sides: dict[str, ComparedSide | str] = {}
    for first, second in combinations(names, 2):
        for name in (first, second):
            # An error of a side is kept, too, so that outcomes which cannot be read are not read for each pair again.
            if name not in sides:
                try:
                    sides[name] = ComparedSide.of(results, name, metric)
                except StoreError as error:
                    sides[name] = str(error)
        both_sides = [sides[name] for name in (first, second)]
        problems = [side for side in both_sides if isinstance(side, str)]
        if problems:
            yield ComparedPair(one=first, other=second, missing=" ".join(problems))
            continue
        try:
            comparison = compare_sides((both_sides[0], both_sides[1]), metric)  # type: ignore[arg-type]
            yield ComparedPair(
                one=first, other=second, cells=tuple(map(_pair_cell, comparison.cells)), notes=comparison.notes
            )
        except StoreError as error:
            yield ComparedPair(one=first, other=second, missing=str(error))


def _pair_cell(cell: ComparedCell) -> PairCell:
    difference = cell.difference
    return PairCell(
        task=cell.name.task,
        finetune=cell.name.finetune,
        attack=cell.name.attack,
        n=difference.n,
        fourfold=_fourfold_table(cell.difference, cell.both),
        one=_format_share(cell.unpaired[0]),
        other=_format_share(cell.unpaired[1]),
        difference=_format_share(difference.value),
        interval=Number(difference.value, True, low=difference.low, high=difference.high).span,
        p=format_p_value(cell.p),
        test=_test_name(difference, paired=cell.both is not None),
        verdict=cell.told,
        smallest=_format_share(difference.smallest),
    )


def _fourfold_table(difference: DifferenceEstimate, both: int | None) -> tuple[int, int, int, int] | None:
    if both is None or difference.only_one is None or difference.only_other is None:
        return None
    return (
        both,
        difference.only_one,
        difference.only_other,
        difference.n - both - difference.only_one - difference.only_other,
    )


def _test_name(difference: DifferenceEstimate, *, paired: bool) -> str:
    """Name the test that `score.paired` takes."""
    if not paired:
        return "unpaired, by counts"
    if (*difference.trainings, difference.seeds) == (1, 1, 1) or not (difference.only_one or difference.only_other):
        return "exact McNemar"
    return "seeds and texts" if max(difference.trainings) == 1 else "trainings and texts"


def _format_share(value: float | None) -> str:
    """Format a share or a difference of shares as `rbench compare` prints it."""
    return "" if value is None else Number(value, True).shown(value)

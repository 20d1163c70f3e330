"""Lays out tables of attacks: as in the papers, or one row per job.

paper   Rows are attack x encoder (x fine-tuning strategy), columns are tasks and their average. A metric of victims,
        such as clean accuracy, has a row for each victim and no attacks. The most robust entry of each attack and
        column is the best. There is no best and no average where one of the entries is missing.
        Tasks with an oracle have a column of oracle-valid ASR next to ASR, and where victims are scored on test rows
        (`accuracies`) there is a column of their accuracy.
by-task Table 1 of the ADCL paper. Rows are task x encoder (x fine-tuning strategy). Columns are the accuracy on test
        rows, where victims are scored on these, the clean accuracy, which is of the attacked texts, and
        for each attack the success rate and the share of words that it replaced. The best entry of each task and column
        is the most robust one, as in the paper: fewer successes, more words replaced.
full    Each (attack, encoder, finetune, task, seed) has one row with every metric that is repeatable.

After the attacks come the rows of all attacks together (`any_attack`), where the caller counted them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from rbench.errors import StoreError
from rbench.metrics import Metric, MetricCatalogue, Tally
from rbench.schema import TEST_ACCURACY, Plan, Score
from rbench.score import make_score
from rbench.tables.accuracies import ACCURACY_HEADER, ACCURACY_MEANING, VictimAccuracies, read_accuracies
from rbench.tables.aggregate import AXES, NO_ATTACK, AttackCell, AttackGrid
from rbench.tables.any_attack import NONE, AnyAttackCells
from rbench.tables.cells import NUMBER_FIELDS
from rbench.tables.draws import training_seed
from rbench.tables.formats import NO_OUTCOMES
from rbench.tables.notes import ceiling_notes, denominator_note, interval_note, table_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import CellKey, Contest, Number, Table, TableEntry, average_entries, group_starts, mark_best

SHOWN = ("clean", "asr", "perturbed")
"""The metrics of the layout by-task."""


def list_repeatable_metrics(metrics: MetricCatalogue, plan: Plan) -> list[Metric]:
    """Return the metrics of an attack on a victim that a table of all of them shows, of the kinds of a plan's tasks."""
    kinds = {job.attacking.task.kind for job in plan.attacks if job.attacking is not None}
    return [metric for metric in metrics.all("attacks", "victims", kinds=kinds) if metric.about.repeatable]


def build_paper_table(grid: AttackGrid, metric: str, any_attack_cells: AnyAttackCells = NONE) -> Table:
    """Build the papers' layout of one metric.

    Raises StoreError where no task has the oracle that it needs, or a suite not the two attacks.
    """
    shown_metric = grid.metrics[metric]
    tasks = _tasks_with_metric(grid, shown_metric)
    test_accuracy = read_accuracies(grid) if metric == "asr" else VictimAccuracies({})
    at_ceiling = ceiling_notes(grid, tasks) if metric == "asr" else []
    columns = _columns(grid, tasks, metric, test_accuracy)
    before_attacks = shown_metric.of == "victims"
    # Notes and n are of the attacks alone: the rows of all attacks together have other denominators.
    if before_attacks:
        shown_grid = sized_grid = grid.before_attacks()
    elif shown_metric.of == "all attacks":
        shown_grid = sized_grid = any_attack_cells.alone(grid)
    else:
        shown_grid, sized_grid = any_attack_cells.beside(grid), grid
    header = [] if before_attacks else ["Attack"]
    header += ["Encoder", "Fine-tuning"] if grid.several else ["Encoder"]
    first_column = len(header)
    rows: list[tuple[TableEntry, ...]] = []
    contests: list[Contest] = []
    for attack in shown_grid.attacks:
        attack_rows = _attack_rows(shown_grid, attack, columns, metric, test_accuracy)
        # Contests hold the index of a row, so each group is numbered from the rows that are there already.
        victims = {len(rows) + i: victim for i, (victim, _) in enumerate(attack_rows)}
        attack_name = [] if before_attacks else [attack]
        contests += _list_contests(shown_grid, attack, victims, columns, (metric, first_column))
        for (encoder, finetune), numbers in attack_rows:
            victim_names = [encoder, finetune] if grid.several else [encoder]
            rows.append((*attack_name, *victim_names, *numbers))
    heads = {TEST_ACCURACY: ACCURACY_HEADER, "oracle_asr": "oracle-valid"}
    header += [task if kind == metric else heads[kind] for task, kind in columns]
    header += ["Avg."] if len(tasks) > 1 else []
    kinds = sorted({kind for _, kind in columns} - {TEST_ACCURACY}, key=lambda kind: grid.metrics[kind].place)
    accuracy_note = [test_accuracy.note] if test_accuracy.note else []
    own_notes = (
        *list_definitions(grid.metrics[kind] for kind in kinds),
        *accuracy_note,
        denominator_note(sized_grid, metric, tasks),
        *at_ceiling,
        *any_attack_cells.notes(grid, tasks),
        *_served_tasks_note(grid),
    )
    no_attack = {"attack": NO_ATTACK} if before_attacks else {}
    return Table(
        metric=metric,
        header=tuple(header),
        rows=tuple(rows),
        groups=frozenset() if before_attacks else group_starts(rows),
        cells=tuple(
            cell_for_programs(cell, metric, shown_grid) | test_accuracy.told(cell) | no_attack
            for cell in shown_grid.cells.values()
            if cell.task in tasks
        ),
        notes=table_notes(grid, tasks, own_notes),
        interval=interval_note(sized_grid, metric),
        flags=grid.flags.listed(job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs),
        shows=replace(shown_metric.about, among="of each column") if before_attacks else shown_metric.about,
        contests=tuple(contests),
        brief=(*accuracy_note, *at_ceiling),
    )


def build_full_table(grid: AttackGrid, metric: str, any_attack_cells: AnyAttackCells = NONE) -> Table:
    """Build the layout full: one row per job, with every metric. In cells for programs, `value` is `metric`."""
    shown_grid = any_attack_cells.beside(grid)
    metrics = list_repeatable_metrics(grid.metrics, grid.plan)
    shown = [table_metric for table_metric in metrics if grid.tasks_of(table_metric)]
    scored_by = dict.fromkeys((*(table_metric.name for table_metric in metrics), metric))
    several_strategies = len(grid.finetunes) > 1
    rows: list[tuple[TableEntry, ...]] = []
    cells = []
    for cell in shown_grid.cells.values():
        for run in cell.runs:
            names: list[TableEntry] = [cell.attack, cell.encoder]
            names += [cell.finetune] if several_strategies else []
            names += [cell.task, training_seed(run.train_seed)] if cell.drawn else [cell.task]
            rows.append((*names, run.job.seed, *_full_numbers(cell, run, shown, grid)))
            cells.append(_full_cell(cell, run, metric, scored_by, grid))
    header = ["Attack", "Encoder", "Fine-tuning"] if several_strategies else ["Attack", "Encoder"]
    header += ["Task", "Training seed"] if grid.plan.draws else ["Task"]
    header += ["Seed", "n", "Skipped", "Errored"]
    header += ["Without words"] if grid.wordless else []
    return Table(
        metric=metric,
        layout="full",
        header=(*header, *(table_metric.about.column for table_metric in shown)),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(cells),
        notes=table_notes(
            grid, grid.tasks, (*list_definitions(shown), _n_note(grid), *any_attack_cells.notes(grid, grid.tasks))
        ),
        interval="Wilson 95% intervals; of queries and words perturbed, Student's t 95% intervals of the mean.",
        flags=grid.flags.listed(run.job for run in grid.runs),
        shows=grid.metrics[metric].about,
    )


def _full_numbers(cell: AttackCell, run: SeedRun, shown: Sequence[Metric], grid: AttackGrid) -> list[TableEntry]:
    """Return what the layout full has of a job: counts, and its metrics. A job that is not done has a dash in each."""
    tally = run.tally
    if tally is None:
        return [None] * (3 + grid.wordless + len(shown))
    numbers: list[TableEntry] = [tally.total, tally.skipped, tally.errored]
    numbers += [tally.wordless] if grid.wordless else []
    # All attacks together have no number of some metrics.
    return numbers + [_number_of_run(cell, run, one.name) if cell.has(one.name) else "" for one in shown]


def _number_of_run(cell: AttackCell, run: SeedRun, name: str) -> Number:
    """Return a metric of one run; without a value where it is not done, or all attacks together have no such number."""
    counted = cell.metric_of_run(run, name) if run.done and cell.has(name) else None
    score = make_score(name, counted) if counted is not None else Score(name=name, value=None, n=0)
    metric, lost = cell.results.metrics[name], run.done and cell.has(name) and counted is None
    return cell.results.flags.on(Number.of(score, metric.about, lost=lost), run.jobs, attacks=metric.of != "victims")


def _served_tasks_note(grid: AttackGrid) -> list[str]:
    """Return a note on which entries cannot exist, because strategies serve different tasks."""
    served_pairs = {(cell.finetune, cell.task) for cell in grid.cells.values()}
    tasks_by_strategy = {name: [task for task in grid.tasks if (name, task) in served_pairs] for name in grid.finetunes}
    if not grid.several or all(len(tasks) == len(grid.tasks) for tasks in tasks_by_strategy.values()):
        return []
    served = "; ".join(f"{name} {', '.join(tasks)}" for name, tasks in tasks_by_strategy.items())
    return [f"Strategies serve their own tasks: {served}. There are no other entries."]


def _tasks_with_metric(grid: AttackGrid, metric: Metric) -> tuple[str, ...]:
    tasks = grid.tasks_of(metric)
    if not tasks and metric.of_people:
        grid.results.require_judged()
    if not tasks:
        lacking = "has classes"
        if metric.oracle:
            lacking = "has an oracle"
        elif metric.kind:
            lacking = f"is of the kind {metric.kind}"
        raise StoreError(f"no task of this suite {lacking}, so there is no {metric.about.words}.")
    return tasks


def _columns(
    grid: AttackGrid, tasks: Sequence[str], metric: str, test_accuracy: VictimAccuracies
) -> list[tuple[str, str]]:
    """Return task and metric of each column but the average. Oracle-valid ASR follows ASR for tasks with an oracle, and
    accuracy on test rows for tasks whose victims have it."""
    columns: list[tuple[str, str]] = []
    for task in tasks:
        columns.append((task, metric))
        if metric == "asr" and grid.has_oracle(task):
            columns.append((task, "oracle_asr"))
        if test_accuracy.there(task):
            columns.append((task, TEST_ACCURACY))
    return columns


def _attack_rows(
    grid: AttackGrid, attack: str, columns: Sequence[tuple[str, str]], metric: str, test_accuracy: VictimAccuracies
) -> list[tuple[tuple[str, str | None], list[Number | None]]]:
    """Return the rows of one attack: encoder and strategy, and their entries with the average. The best are marked.

    Where each task has one strategy, the strategy is None: tasks with classes and STS tasks then share a row.
    """
    strategies: Sequence[str | None] = grid.finetunes if grid.several else (None,)
    victims = []
    for victim in product(grid.encoders, strategies):
        if any(grid.cell(attack, *victim, task) is not None for task, _ in columns):
            victims.append(victim)
    rows = []
    for victim in victims:
        numbers = _numbers(grid, (attack, *victim), columns, test_accuracy)
        metric_numbers = [number for number, (_, kind) in zip(numbers, columns, strict=True) if kind == metric]
        if len(metric_numbers) > 1:
            numbers.append(average_entries(metric_numbers, grid.metrics[metric].about))
        rows.append(numbers)
    kinds = (*(kind for _, kind in columns), metric)
    marked = mark_best(
        rows, [ACCURACY_MEANING if kind == TEST_ACCURACY else grid.metrics[kind].about for kind in kinds]
    )
    return list(zip(victims, marked, strict=True))


def _list_contests(
    grid: AttackGrid,
    attack: str,
    victims: Mapping[int, tuple[str, str | None]],
    columns: Sequence[tuple[str, str]],
    metric_and_first_column: tuple[str, int],
) -> list[Contest]:
    """Return what is compared in each column of one attack, and in the column of averages.

    Args:
        victims: encoder and strategy by the index of their row.
        metric_and_first_column: the metric of the table, and the index of the first column of numbers.
    """
    metric, first = metric_and_first_column

    def cells(victim: tuple[str, str | None], tasks: Iterable[str]) -> tuple[CellKey, ...]:
        victim_cells = (grid.cell(attack, *victim, task) for task in tasks)
        return tuple(cell.key for cell in victim_cells if cell is not None)

    contested: list[tuple[str, list[str]]] = [(kind, [task]) for task, kind in columns]
    metric_tasks = [task for task, kind in columns if kind == metric]
    contested += [(metric, metric_tasks)] if len(metric_tasks) > 1 else []
    return [
        Contest(kind, first + i, tuple((row, cells(victim, tasks)) for row, victim in victims.items()))
        for i, (kind, tasks) in enumerate(contested)
        # The accuracy is printed beside ASR for reading, and nothing is tested on it.
        if kind != TEST_ACCURACY
    ]


def _numbers(
    grid: AttackGrid,
    row: tuple[str, str, str | None],
    columns: Sequence[tuple[str, str]],
    test_accuracy: VictimAccuracies,
) -> list[Number | None]:
    cells = ((grid.cell(*row, task), metric) for task, metric in columns)
    return [_entry_of_cell(cell, metric, test_accuracy) for cell, metric in cells]


def _entry_of_cell(cell: AttackCell | None, metric: str, test_accuracy: VictimAccuracies) -> Number | None:
    if metric == TEST_ACCURACY:
        return test_accuracy.number(cell)
    return cell.number(metric) if cell is not None else None


def list_definitions(metrics: Iterable[Metric]) -> list[str]:
    """Return one note with its definition for each metric that is repeatable."""
    return [f"{metric.about.title}: {metric.about.definition}." for metric in metrics if metric.about.repeatable]


def _n_note(grid: AttackGrid) -> str:
    more = " and those without words to replace" if grid.wordless else ""
    return f"n: all examples but the errored ones{more}."


def cell_for_programs(cell: AttackCell, metric: str, grid: AttackGrid) -> dict[str, Any]:
    """Return a cell for programs: names, the metric with n and interval, counts and flags.

    `timed_out`, `wordless` and `unusable` are counted if any example is. A cell that the suite withholds has no value.
    """
    pooled = cell.pooled
    return {
        **cell.at(*AXES),
        **cell.told(metric, "seeds", "seed_sd"),
        **({"lost": NO_OUTCOMES} if cell.lost(metric) else {}),
        "skipped": pooled.skipped,
        "errored": pooled.errored,
        **({"timed_out": pooled.timed_out} if grid.timed_out else {}),
        **({"wordless": pooled.wordless} if grid.wordless else {}),
        **({"unusable": pooled.unusable} if grid.unusable else {}),
        "flags": grid.flags.told(cell.jobs),
    }


def _full_cell(
    cell: AttackCell, run: SeedRun, metric: str, scored_by: Iterable[str], grid: AttackGrid
) -> dict[str, Any]:
    tally = run.tally or Tally()
    optional_counts = [name for name in ("timed_out", "wordless") if getattr(grid, name)]
    counts = ("total", "skipped", "errored", "truncated", *optional_counts)
    numbers = {kind: _number_of_run(cell, run, kind) for kind in scored_by}
    scores = {kind: {field: getattr(number, field) for field in NUMBER_FIELDS} for kind, number in numbers.items()}
    return {
        **cell.at(*AXES),
        **({"train_seed": run.train_seed} if cell.drawn else {}),
        "seed": run.job.seed,
        **scores[metric],
        **{name: getattr(tally, name) for name in counts},
        "flags": grid.flags.told(run.jobs),
        "scores": scores,
    }


def build_by_task_table(grid: AttackGrid, metric: str, any_attack_cells: AnyAttackCells = NONE) -> Table:
    """Build the layout by-task. `metric` changes nothing that is shown; in cells for programs, `value` is `metric`."""
    shown_grid = any_attack_cells.beside(grid)
    test_accuracy = read_accuracies(grid)
    columns: list[tuple[str, str]] = [("", TEST_ACCURACY)] if test_accuracy.of else []
    columns += [("", "clean"), *((attack, "asr") for attack in shown_grid.attacks)]
    columns += [(attack, "perturbed") for attack in grid.attacks]
    several_strategies = len(grid.finetunes) > 1
    rows: list[tuple[TableEntry, ...]] = []
    contests: list[Contest] = []
    header = ["Task", "Encoder", "Fine-tuning"] if several_strategies else ["Task", "Encoder"]
    first_column = len(header)
    kinds = [kind for _, kind in columns]
    meanings = [ACCURACY_MEANING if kind == TEST_ACCURACY else grid.metrics[kind].about for kind in kinds]
    for task in grid.tasks:
        victims = []
        for encoder, finetune in product(grid.encoders, grid.finetunes):
            if any((attack, encoder, finetune, task) in grid.cells for attack in grid.attacks):
                victims.append((encoder, finetune))
        # Columns of accuracies have no attack: `shown` then takes the victim's first cell that is done.
        cell_rows = [[shown_grid.shown(attack, *victim, task) for attack, _ in columns] for victim in victims]
        numbers = []
        for cell_row in cell_rows:
            row_kinds = zip(cell_row, kinds, strict=True)
            numbers.append([_entry_of_cell(cell, kind, test_accuracy) for cell, kind in row_kinds])
        marked = mark_best(numbers, meanings) if numbers else []
        for i, kind in enumerate(kinds):
            if kind == TEST_ACCURACY:
                continue
            column_cells = [cell_row[i] for cell_row in cell_rows]
            keys = [() if cell is None else (cell.key,) for cell in column_cells]
            contests.append(Contest(kind, first_column + i, tuple(enumerate(keys, len(rows)))))
        for (encoder, finetune), entries in zip(victims, marked, strict=True):
            victim_names = [encoder, finetune] if several_strategies else [encoder]
            rows.append((task, *victim_names, *entries))
    titles = {"asr": "ASR", "perturbed": "words", "clean": "Clean", TEST_ACCURACY: "Accuracy"}
    header += [f"{titles[kind]} {attack}".strip() for attack, kind in columns]
    accuracy_note = [test_accuracy.note] if test_accuracy.note else []
    at_ceiling = ceiling_notes(grid, grid.tasks)
    own_notes = (
        *accuracy_note,
        *list_definitions(grid.metrics[name] for name in SHOWN),
        denominator_note(grid, "asr", grid.tasks),
        *at_ceiling,
        *any_attack_cells.notes(grid, grid.tasks),
    )
    return Table(
        metric=metric,
        layout="by-task",
        header=tuple(header),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(
            cell_for_programs(cell, metric, shown_grid) | test_accuracy.told(cell) for cell in shown_grid.cells.values()
        ),
        notes=table_notes(grid, grid.tasks, own_notes),
        interval=interval_note(grid, "asr"),
        flags=grid.flags.listed(run.job for run in grid.runs),
        shows=grid.metrics[metric].about,
        contests=tuple(contests),
        best="the most robust, that is the highest accuracy, the lowest ASR and the most words,",
        brief=(*accuracy_note, *at_ceiling),
    )

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
from typing import Any

from rbench.errors import StoreError
from rbench.metrics import Metric, Metrics, Tally
from rbench.schema import TEST_ACCURACY, Plan, Score
from rbench.score import scored
from rbench.tables.accuracies import HEADER, PRINTED, Accuracies, accuracies
from rbench.tables.aggregate import AXES, NO_ATTACK, Cell, Grid
from rbench.tables.any_attack import NONE, AnyAttack
from rbench.tables.cells import PLAIN
from rbench.tables.draws import training_seed
from rbench.tables.formats import LOST
from rbench.tables.notes import interval_note, notes, sizes
from rbench.tables.results import Run
from rbench.tables.table import CellKey, Contest, Entry, Number, Table, average, groups_of, mark_best

SHOWN = ("clean", "asr", "perturbed")
"""The metrics of the layout by-task."""


def every(metrics: Metrics, plan: Plan) -> list[Metric]:
    """Return the metrics of an attack on a victim that a table of all of them shows, of the kinds of a plan's tasks."""
    kinds = {job.attacking.task.kind for job in plan.attacks if job.attacking is not None}
    return [metric for metric in metrics.all("attacks", "victims", kinds=kinds) if metric.about.repeatable]


def paper(grid: Grid, metric: str, together: AnyAttack = NONE) -> Table:
    """Build the papers' layout of one metric.

    Raises StoreError where no task has the oracle that it needs, or a suite not the two attacks.
    """
    of = grid.metrics[metric]
    tasks = _tasks(grid, of)
    beside = accuracies(grid) if metric == "asr" else Accuracies({})
    columns = _columns(grid, tasks, metric, beside)
    several = grid.several
    before = of.of == "victims"
    alone = of.of == "all attacks"
    whole = grid.of_victims() if before else together.alone(grid) if alone else together.beside(grid)
    own = whole if alone or before else grid
    rows: list[tuple[Entry, ...]] = []
    contests: list[Contest] = []
    for attack in whole.attacks:
        group = _group(whole, attack, columns, metric, beside)
        victims = {len(rows) + i: victim for i, (victim, _) in enumerate(group)}
        names = [] if before else [attack]
        contests += _contests(whole, attack, victims, columns, (metric, len(names) + 1 + several))
        rows += [(*names, name, *([finetune] if several else []), *numbers) for (name, finetune), numbers in group]
    header = [*([] if before else ["Attack"]), "Encoder", *(["Fine-tuning"] if several else [])]
    header += [{metric: task, TEST_ACCURACY: HEADER}.get(kind, "oracle-valid") for task, kind in columns]
    kinds = sorted({kind for _, kind in columns} - {TEST_ACCURACY}, key=lambda kind: grid.metrics[kind].place)
    return Table(
        metric=metric,
        header=(*header, *(["Avg."] if len(tasks) > 1 else [])),
        rows=tuple(rows),
        groups=frozenset() if before else groups_of(rows),
        cells=tuple(
            described(cell, metric, whole) | beside.told(cell) | ({"attack": NO_ATTACK} if before else {})
            for cell in whole.cells.values()
            if cell.task in tasks
        ),
        notes=notes(
            grid,
            tasks,
            (
                *definitions(grid.metrics[kind] for kind in kinds),
                *filter(None, [beside.note]),
                sizes(own, metric, tasks),
                *together.notes(grid, tasks),
                *_served(grid),
            ),
        ),
        interval=interval_note(own, metric),
        flags=grid.flags.listed(job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs),
        shows=replace(of.about, among="of each column") if before else of.about,
        contests=tuple(contests),
        brief=tuple(filter(None, [beside.note])),
    )


def full(grid: Grid, metric: str, together: AnyAttack = NONE) -> Table:
    """Build the layout full: one row per job, with every metric. In cells for programs, `value` is `metric`."""
    whole = together.beside(grid)
    known = every(grid.metrics, grid.plan)
    shown = [one for one in known if grid.tasks_of(one)]
    scored_by = dict.fromkeys((*(one.name for one in known), metric))
    several = len(grid.finetunes) > 1
    rows: list[tuple[Entry, ...]] = []
    cells = []
    for cell in whole.cells.values():
        for run in cell.runs:
            names: list[Entry] = [cell.attack, cell.encoder, *([cell.finetune] if several else []), cell.task]
            names += [training_seed(run.train_seed)] if cell.drawn else []
            tally = run.tally
            measured: list[Entry] = [None] * (3 + grid.wordless + len(shown))
            if tally is not None:
                measured = [tally.total, tally.skipped, tally.errored, *([tally.wordless] if grid.wordless else [])]
                # All attacks together have no number of some metrics.
                measured += [_number(cell, run, one.name) if cell.has(one.name) else "" for one in shown]
            rows.append((*names, run.job.seed, *measured))
            cells.append(_full_cell(cell, run, metric, scored_by, grid))
    header = ["Attack", "Encoder", *(["Fine-tuning"] if several else []), "Task"]
    header += [*(["Training seed"] if grid.plan.draws else []), "Seed", "n", "Skipped", "Errored"]
    header += ["Without words"] if grid.wordless else []
    return Table(
        metric=metric,
        layout="full",
        header=(*header, *(one.about.column for one in shown)),
        rows=tuple(rows),
        groups=groups_of(rows),
        cells=tuple(cells),
        notes=notes(grid, grid.tasks, (*definitions(shown), _total(grid), *together.notes(grid, grid.tasks))),
        interval="Wilson 95% intervals; of queries and words perturbed, Student's t 95% intervals of the mean.",
        flags=grid.flags.listed(run.job for run in grid.runs),
        shows=grid.metrics[metric].about,
    )


def _number(cell: Cell, run: Run, name: str) -> Number:
    """Return a metric of one run; without a value where it is not done, or all attacks together have no such number."""
    found = cell.of_run(run, name) if run.done and cell.has(name) else None
    score = scored(name, found) if found is not None else Score(name=name, value=None, n=0)
    metric, lost = cell.results.metrics[name], run.done and cell.has(name) and found is None
    return cell.results.flags.on(Number.of(score, metric.about, lost=lost), run.jobs, attacks=metric.of != "victims")


def _served(grid: Grid) -> list[str]:
    """Return a note on which entries cannot exist, because strategies serve different tasks."""
    there = {(cell.finetune, cell.task) for cell in grid.cells.values()}
    of = {name: [task for task in grid.tasks if (name, task) in there] for name in grid.finetunes}
    if not grid.several or all(len(tasks) == len(grid.tasks) for tasks in of.values()):
        return []
    served = "; ".join(f"{name} {', '.join(tasks)}" for name, tasks in of.items())
    return [f"Strategies serve their own tasks: {served}. There are no other entries."]


def _tasks(grid: Grid, metric: Metric) -> tuple[str, ...]:
    tasks = grid.tasks_of(metric)
    if not tasks and metric.of_people and grid.results.judged is None:
        raise StoreError(
            f"{grid.results.root} is not judged, so there is no {metric.about.words}. rbench judge export makes sheets "
            "for people who judge its texts."
        )
    if not tasks:
        lacks = "has an oracle" if metric.oracle else f"is of the kind {metric.kind}" if metric.kind else "has classes"
        raise StoreError(f"no task of this suite {lacks}, so there is no {metric.about.words}.")
    return tasks


def _columns(grid: Grid, tasks: Sequence[str], metric: str, beside: Accuracies) -> list[tuple[str, str]]:
    """Return task and metric of each column but the average. Oracle-valid ASR follows ASR for tasks with an oracle, and
    accuracy on test rows for tasks whose victims have it."""
    columns: list[tuple[str, str]] = []
    for task in tasks:
        columns.append((task, metric))
        if metric == "asr" and grid.has_oracle(task):
            columns.append((task, "oracle_asr"))
        if beside.there(task):
            columns.append((task, TEST_ACCURACY))
    return columns


def _group(
    grid: Grid, attack: str, columns: Sequence[tuple[str, str]], metric: str, beside: Accuracies
) -> list[tuple[tuple[str, str | None], list[Number | None]]]:
    """Return the rows of one attack: encoder and strategy, and their entries with the average. The best are marked.

    Where each task has one strategy, the strategy is None: tasks with classes and STS tasks then share a row.
    """
    victims = [
        (encoder, finetune)
        for encoder in grid.encoders
        for finetune in (grid.finetunes if grid.several else (None,))
        if any(grid.cell(attack, encoder, finetune, task) is not None for task, _ in columns)
    ]
    rows = []
    for victim in victims:
        numbers = _numbers(grid, (attack, *victim), columns, beside)
        of_metric = [number for number, (_, kind) in zip(numbers, columns, strict=True) if kind == metric]
        mean = [average(of_metric, grid.metrics[metric].about)] if len(of_metric) > 1 else []
        rows.append(numbers + mean)
    kinds = (*(kind for _, kind in columns), metric)
    marked = mark_best(rows, [PRINTED if kind == TEST_ACCURACY else grid.metrics[kind].about for kind in kinds])
    return list(zip(victims, marked, strict=True))


def _contests(
    grid: Grid,
    attack: str,
    victims: Mapping[int, tuple[str, str | None]],
    columns: Sequence[tuple[str, str]],
    of: tuple[str, int],
) -> list[Contest]:
    """Return what is compared in each column of one attack, and in the column of averages.

    Args:
        victims: encoder and strategy by the index of their row.
        of: the metric of the table, and the index of the first column of numbers.
    """
    metric, first = of

    def cells(victim: tuple[str, str | None], tasks: Iterable[str]) -> tuple[CellKey, ...]:
        found = (grid.cell(attack, *victim, task) for task in tasks)
        return tuple(cell.key for cell in found if cell is not None)

    among: list[tuple[str, list[str]]] = [(kind, [task]) for task, kind in columns]
    own = [task for task, kind in columns if kind == metric]
    among += [(metric, own)] if len(own) > 1 else []
    return [
        Contest(kind, first + i, tuple((row, cells(victim, tasks)) for row, victim in victims.items()))
        for i, (kind, tasks) in enumerate(among)
        if kind != TEST_ACCURACY
    ]


def _numbers(
    grid: Grid, row: tuple[str, str, str | None], columns: Sequence[tuple[str, str]], beside: Accuracies
) -> list[Number | None]:
    cells = ((grid.cell(*row, task), metric) for task, metric in columns)
    return [_entry(cell, metric, beside) for cell, metric in cells]


def _entry(cell: Cell | None, metric: str, beside: Accuracies) -> Number | None:
    if metric == TEST_ACCURACY:
        return beside.number(cell)
    return cell.number(metric) if cell is not None else None


def definitions(metrics: Iterable[Metric]) -> list[str]:
    """Return one note with its definition for each metric that is repeatable."""
    return [f"{one.about.title}: {one.about.definition}." for one in metrics if one.about.repeatable]


def _total(grid: Grid) -> str:
    more = " and those without words to replace" if grid.wordless else ""
    return f"n: all examples but the errored ones{more}."


def described(cell: Cell, metric: str, grid: Grid) -> dict[str, Any]:
    """Return a cell for programs: names, the metric with n and interval, counts and flags.

    `timed_out`, `wordless` and `unusable` are counted if any example is. A cell that the suite withholds has no value.
    """
    pooled = cell.pooled
    return {
        **cell.at(*AXES),
        **cell.told(metric, "seeds", "seed_sd"),
        **({"lost": LOST} if cell.lost(metric) else {}),
        "skipped": pooled.skipped,
        "errored": pooled.errored,
        **({"timed_out": pooled.timed_out} if grid.timed_out else {}),
        **({"wordless": pooled.wordless} if grid.wordless else {}),
        **({"unusable": pooled.unusable} if grid.unusable else {}),
        "flags": grid.flags.told(cell.jobs),
    }


def _full_cell(cell: Cell, run: Run, metric: str, scored_by: Iterable[str], grid: Grid) -> dict[str, Any]:
    tally = run.tally or Tally()
    rare = [name for name in ("timed_out", "wordless") if getattr(grid, name)]
    counts = ("total", "skipped", "errored", "truncated", *rare)
    numbers = {kind: _number(cell, run, kind) for kind in scored_by}
    scores = {kind: {each: getattr(number, each) for each in PLAIN} for kind, number in numbers.items()}
    return {
        **cell.at(*AXES),
        **({"train_seed": run.train_seed} if cell.drawn else {}),
        "seed": run.job.seed,
        **scores[metric],
        **{name: getattr(tally, name) for name in counts},
        "flags": grid.flags.told(run.jobs),
        "scores": scores,
    }


def by_task(grid: Grid, metric: str, together: AnyAttack = NONE) -> Table:
    """Build the table. `metric` does not change what is shown: it is what `value` means in the cells for programs."""
    whole = together.beside(grid)
    beside = accuracies(grid)
    columns: list[tuple[str, str]] = [("", TEST_ACCURACY)] if beside.of else []
    columns += [("", "clean"), *((attack, "asr") for attack in whole.attacks)]
    columns += [(attack, "perturbed") for attack in grid.attacks]
    several = len(grid.finetunes) > 1
    rows: list[tuple[Entry, ...]] = []
    contests: list[Contest] = []
    for task in grid.tasks:
        names = [
            (encoder, finetune)
            for encoder in grid.encoders
            for finetune in grid.finetunes
            if any((attack, encoder, finetune, task) in grid.cells for attack in grid.attacks)
        ]
        cells = [[whole.shown(attack, *name, task) for attack, _ in columns] for name in names]
        numbers = [[_entry(cell, kind, beside) for cell, (_, kind) in zip(row, columns, strict=True)] for row in cells]
        kinds = [kind for _, kind in columns]
        abouts = [PRINTED if kind == TEST_ACCURACY else grid.metrics[kind].about for kind in kinds]
        marked = mark_best(numbers, abouts) if numbers else []
        for column, kind in enumerate(kinds):
            if kind == TEST_ACCURACY:
                continue
            keys = ((cell.key,) if (cell := row[column]) is not None else () for row in cells)
            contests.append(Contest(kind, 2 + several + column, tuple(enumerate(keys, len(rows)))))
        for (encoder, finetune), entries in zip(names, marked, strict=True):
            rows.append((task, encoder, *([finetune] if several else []), *entries))
    titles = {"asr": "ASR", "perturbed": "words", "clean": "Clean", TEST_ACCURACY: "Accuracy"}
    header = ["Task", "Encoder", *(["Fine-tuning"] if several else [])]
    header += [f"{titles[kind]} {attack}".strip() for attack, kind in columns]
    first = (
        *filter(None, [beside.note]),
        *definitions(grid.metrics[name] for name in SHOWN),
        sizes(grid, "asr", grid.tasks),
        *together.notes(grid, grid.tasks),
    )
    return Table(
        metric=metric,
        layout="by-task",
        header=tuple(header),
        rows=tuple(rows),
        groups=groups_of(rows),
        cells=tuple(described(cell, metric, whole) | beside.told(cell) for cell in whole.cells.values()),
        notes=notes(grid, grid.tasks, first),
        interval=interval_note(grid, "asr"),
        flags=grid.flags.listed(run.job for run in grid.runs),
        shows=grid.metrics[metric].about,
        contests=tuple(contests),
        best="the most robust, that is the highest accuracy, the lowest ASR and the most words,",
        brief=tuple(filter(None, [beside.note])),
    )

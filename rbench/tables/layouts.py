"""Lays out tables of attacks: as in the papers, or one row per job.

paper   Rows are attack x encoder (x fine-tuning strategy), columns are tasks and their average. The most robust entry
        of each attack and column is the best. There is no best and no average where one of the entries is missing.
        Tasks with an oracle have a column of oracle-valid ASR next to ASR.
by-task Table 1 of the ADCL paper. It is in the module `by_task`.
full    Each (attack, encoder, finetune, task, seed) has one row with every metric but seconds, which depend on the
        machine.

After the attacks come the rows of all attacks together (`any_attack`), where the caller counted them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rbench.errors import StoreError
from rbench.score import SHARES, Tally
from rbench.spec import AttackMetric, Flag, Job
from rbench.tables.aggregate import Cell, Grid, Run
from rbench.tables.any_attack import ANY, NONE, AnyAttack
from rbench.tables.columns import average, mark_best
from rbench.tables.draws import plain, training_seed
from rbench.tables.notes import interval_note, notes, sizes
from rbench.tables.table import MEANING, CellKey, Contest, Entry, Number, Table

_FULL: tuple[AttackMetric, ...] = ("clean", "asr", "oracle_asr", "aua", "queries", "perturbed")
_SHORT: dict[AttackMetric, str] = {
    "clean": "Clean",
    "asr": "ASR",
    "oracle_asr": "Oracle-valid ASR",
    "aua": "AUA",
    "queries": "Queries",
    "perturbed": "Perturbed",
    "seconds": "Seconds",
}


def paper(grid: Grid, metric: AttackMetric, together: AnyAttack = NONE) -> Table:
    """Build the papers' layout of one metric. Raises StoreError for oracle_asr where no task has an oracle."""
    tasks = _tasks(grid, metric)
    columns = _columns(grid, tasks, metric)
    several = grid.several
    whole = together.beside(grid)
    rows: list[tuple[Entry, ...]] = []
    groups, contests = [], []
    for attack in whole.attacks:
        group = _group(whole, attack, columns, metric)
        groups += [len(rows)] if group else []
        victims = {len(rows) + i: victim for i, (victim, _) in enumerate(group)}
        contests += _contests(whole, attack, victims, columns, (metric, 2 + several))
        rows += [(attack, name, *([finetune] if several else []), *numbers) for (name, finetune), numbers in group]
    header = ["Attack", "Encoder", *(["Fine-tuning"] if several else [])]
    header += [task if kind == metric else "oracle-valid" for task, kind in columns]
    kinds = {kind for _, kind in columns}
    return Table(
        metric=metric,
        layout="paper",
        header=(*header, *(["Avg."] if len(tasks) > 1 else [])),
        rows=tuple(rows),
        groups=frozenset(groups[1:]),
        cells=tuple(described(cell, metric, whole) for cell in whole.cells.values() if cell.task in tasks),
        notes=notes(
            grid,
            tasks,
            (*definitions(kinds), sizes(grid, metric, tasks), *together.notes(grid, tasks), *_served(grid)),
        ),
        interval=interval_note(grid, metric),
        flags=grid.flags.listed(job for cell in grid.cells.values() if cell.task in tasks for job in cell.jobs),
        contests=tuple(contests),
    )


def full(grid: Grid, metric: AttackMetric, together: AnyAttack = NONE) -> Table:
    """Build the layout full: one row per job, with every metric. In cells for programs, `value` is `metric`."""
    whole = together.beside(grid)
    shown = [kind for kind in _FULL if kind != "oracle_asr" or any(map(grid.has_oracle, grid.tasks))]
    several = len(grid.finetunes) > 1
    rows: list[tuple[Entry, ...]] = []
    cells = []
    groups = set()
    for cell in whole.cells.values():
        if rows and rows[-1][0] != cell.attack:
            groups.add(len(rows))
        for run in cell.runs:
            names: list[Entry] = [cell.attack, cell.encoder, *([cell.finetune] if several else []), cell.task]
            names += [training_seed(run.train_seed)] if cell.drawn else []
            tally = run.tally
            measured: list[Entry] = [None] * (3 + grid.wordless + len(shown))
            if tally is not None:
                measured = [tally.total, tally.skipped, tally.errored, *([tally.wordless] if grid.wordless else [])]
                measured += [_measured(grid, cell, run, tally, kind) for kind in shown]
            rows.append((*names, run.job.seed, *measured))
            cells.append(_full_cell(cell, run, metric, grid))
    header = ["Attack", "Encoder", *(["Fine-tuning"] if several else []), "Task"]
    header += [*(["Training seed"] if grid.plan.draws else []), "Seed", "n", "Skipped", "Errored"]
    header += ["Without words"] if grid.wordless else []
    return Table(
        metric=metric,
        layout="full",
        header=(*header, *(_SHORT[kind] for kind in shown)),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(cells),
        notes=notes(grid, grid.tasks, (*definitions(shown), _total(grid), *together.notes(grid, grid.tasks))),
        interval="Wilson 95% intervals; of queries and words perturbed, Student's t 95% intervals of the mean.",
        flags=grid.flags.listed(run.job for run in grid.runs),
    )


def _measured(grid: Grid, cell: Cell, run: Run, tally: Tally, metric: AttackMetric) -> Entry:
    """Return an entry of the layout full. It is empty where all attacks together have no such number."""
    if cell.attack == ANY and metric not in SHARES:
        return ""
    return Number.of(tally.score(metric), metric).hidden(hiding(grid, run.jobs, metric))


def _served(grid: Grid) -> list[str]:
    """Return a note on which entries cannot exist, because strategies serve different tasks."""
    there = {(cell.finetune, cell.task) for cell in grid.cells.values()}
    of = {name: [task for task in grid.tasks if (name, task) in there] for name in grid.finetunes}
    if not grid.several or all(len(tasks) == len(grid.tasks) for tasks in of.values()):
        return []
    served = "; ".join(f"{name} {', '.join(tasks)}" for name, tasks in of.items())
    return [f"Strategies serve their own tasks: {served}. There are no other entries."]


def _tasks(grid: Grid, metric: AttackMetric) -> tuple[str, ...]:
    if metric != "oracle_asr":
        return grid.tasks
    tasks = tuple(task for task in grid.tasks if grid.has_oracle(task))
    if not tasks:
        raise StoreError("no task of this suite has an oracle, so there is no oracle-valid attack success rate.")
    return tasks


def _columns(grid: Grid, tasks: Sequence[str], metric: AttackMetric) -> list[tuple[str, AttackMetric]]:
    """Return task and metric of each column but the average. Oracle-valid ASR follows ASR for tasks with an oracle."""
    columns: list[tuple[str, AttackMetric]] = []
    for task in tasks:
        columns.append((task, metric))
        if metric == "asr" and grid.has_oracle(task):
            columns.append((task, "oracle_asr"))
    return columns


def _group(
    grid: Grid, attack: str, columns: Sequence[tuple[str, AttackMetric]], metric: AttackMetric
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
        numbers = _numbers(grid, (attack, *victim), columns)
        of_metric = [number for number, (_, kind) in zip(numbers, columns, strict=True) if kind == metric]
        rows.append(numbers + average(of_metric, metric))
    marked = mark_best(rows, [*(kind for _, kind in columns), metric])
    return list(zip(victims, marked, strict=True))


def _contests(
    grid: Grid,
    attack: str,
    victims: Mapping[int, tuple[str, str | None]],
    columns: Sequence[tuple[str, AttackMetric]],
    of: tuple[AttackMetric, int],
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

    among: list[tuple[AttackMetric, list[str]]] = [(kind, [task]) for task, kind in columns]
    own = [task for task, kind in columns if kind == metric]
    among += [(metric, own)] if len(own) > 1 else []
    return [
        Contest(kind, first + i, tuple((row, cells(victim, tasks)) for row, victim in victims.items()))
        for i, (kind, tasks) in enumerate(among)
    ]


def _numbers(
    grid: Grid, row: tuple[str, str, str | None], columns: Sequence[tuple[str, AttackMetric]]
) -> list[Number | None]:
    found: list[Number | None] = []
    for task, metric in columns:
        cell = grid.cell(*row, task)
        number = cell.number(metric) if cell is not None else None
        if cell is not None and number is not None:
            number = grid.flags.on(number, cell.jobs, attacks=metric != "clean")
        found.append(number)
    return found


def hiding(grid: Grid, jobs: Iterable[Job], metric: AttackMetric) -> tuple[Flag, ...]:
    """Return the flags that withhold a metric. Those of an attack do not withhold the accuracy before it."""
    return grid.flags.hiding(jobs, attacks=metric != "clean")


def definitions(metrics: Collection[AttackMetric]) -> list[str]:
    """Return one note per metric with its definition."""
    return [f"{MEANING[metric].title}: {MEANING[metric].definition}." for metric in _FULL if metric in metrics]


def _total(grid: Grid) -> str:
    more = " and those without words to replace" if grid.wordless else ""
    return f"n: all examples but the errored ones{more}."


def described(cell: Cell, metric: AttackMetric, grid: Grid) -> dict[str, Any]:
    """Return a cell for programs: names, the metric with n and interval, counts and flags.

    `timed_out`, `wordless` and `unusable` are counted if any example is. A cell that the suite withholds has no value.
    """
    score, pooled = cell.score(metric), cell.pooled
    number = Number.of(score, metric, seed_sd=cell.seed_sd(metric), draws=cell.draws(metric))
    number = number.hidden(hiding(grid, cell.jobs, metric))
    return {
        "attack": cell.attack,
        "encoder": cell.encoder,
        "finetune": cell.finetune,
        "task": cell.task,
        "value": number.value,
        "n": score.n,
        "low": number.low,
        "high": number.high,
        "seeds": len({run.job.seed for run in cell.runs if run.tally is not None}),
        "seed_sd": number.seed_sd,
        **plain(number.draws),
        "skipped": pooled.skipped,
        "errored": pooled.errored,
        **({"timed_out": pooled.timed_out} if grid.timed_out else {}),
        **({"wordless": pooled.wordless} if grid.wordless else {}),
        **({"unusable": pooled.unusable} if grid.unusable else {}),
        "flags": grid.flags.told(cell.jobs),
    }


def _full_cell(cell: Cell, run: Run, metric: AttackMetric, grid: Grid) -> dict[str, Any]:
    tally = run.tally or Tally()
    rare = [name for name in ("timed_out", "wordless") if getattr(grid, name)]
    counts = ("total", "skipped", "errored", "truncated", *rare)
    kinds = dict.fromkeys((*_FULL, metric))
    scores = {kind: tally.score(kind).model_dump(include={"value", "n", "low", "high"}) for kind in kinds}
    for kind in kinds:
        if hiding(grid, run.jobs, kind):
            scores[kind] |= {"value": None, "low": None, "high": None}
    return {
        "attack": cell.attack,
        "encoder": cell.encoder,
        "finetune": cell.finetune,
        "task": cell.task,
        **({"train_seed": run.train_seed} if cell.drawn else {}),
        "seed": run.job.seed,
        **scores[metric],
        **{name: getattr(tally, name) for name in counts},
        "flags": grid.flags.told(run.jobs),
        "scores": scores,
    }

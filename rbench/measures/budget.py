"""Attack success rate by budget: of the queries that an attack may ask, or of the words that it may change.

One row for each attack, task and encoder: the area under the curve, the rate within some budgets, and the rate without
a limit, which is that of the table of attack success rates. All are read off the outcomes of one run. The area is ours;
`rbench.score.budget` defines it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema import Score
from rbench.schema.common import Strict
from rbench.score.budget import START, By, Curve, Spent, shared_top
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.formats import unknown
from rbench.tables.notes import counted, notes
from rbench.tables.table import Entry, Meaning, Number, groups_of, mark_best

BUDGETS: dict[By, tuple[float, ...]] = {
    "queries": (25, 50, 100, 200, 500, 1000),
    "words": (1, 2, 3, 5, 10, 20),
    "share": (0.05, 0.1, 0.2, 0.4),
}
_WHAT: dict[By, str] = {"queries": "queries", "words": "words changed", "share": "of the words changed"}
_SCALE: dict[By, str] = {"queries": "logarithmic", "words": "linear", "share": "linear"}
_SPENT: dict[By, str] = {"queries": "num_queries", "words": "num_words_changed", "share": "perturbed_share"}
"""The field of an outcome that a budget limits."""


class Curves(Strict):
    """Which curves, and over which range: what the table and the figure have in common."""

    by: By = "queries"
    """What the budget limits: `queries`, `words` or the `share` of words."""
    attack: str | None = None
    """The only attack to show; None: all."""
    task: str | None = None
    """The only task to show; None: all."""
    most: Annotated[float, Field(gt=0)] | None = None
    """Where the range of budgets ends; None: at what was spent at most (`Curve.most`), by attack and task.
    Areas of several RUNs can be compared only over the same range."""

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        if self.most is not None and self.most <= START[self.by]:
            raise ValueError(f"`most` must be above {START[self.by]:g}, where the range of {self.by} starts")
        return self


class Options(Curves):
    """What a suite may set."""

    budgets: tuple[Annotated[float, Field(ge=0)], ...] = ()
    """The budgets that have a column. None named: those of BUDGETS that limit some attack."""


@dataclass(frozen=True)
class Panel:
    """The curves of one attack on one task, of all victims. Their areas are over the same range."""

    attack: str
    task: str
    curves: tuple[tuple[Cell, Curve], ...]
    """Cells of which at least one seed is done, in the suite's order."""
    top: float
    """Where the range of budgets ends."""


def panels(of: Grid, asked: Curves) -> list[Panel]:
    """Return the panels of a RUN, attack by attack. Those of which nothing is done are left out.

    Raises StoreError where there is no such attack or task, nothing is done, or outcomes are missing or damaged.
    """
    found = []
    for attack in _chosen("attack", asked.attack, of.attacks):
        for task in _chosen("task", asked.task, of.tasks):
            cells = [one for one in of.cells.values() if (one.attack, one.task) == (attack, task) and one.present]
            if curves := tuple((cell, curve(cell, asked.by)) for cell in cells):
                top = shared_top(one for _, one in curves) if asked.most is None else asked.most
                found.append(Panel(attack, task, curves, top))
    if not found:
        root = of.results.root
        raise StoreError(f"no attack of {root} is done, so there is no budget curve yet. Run the suite first.")
    return found


def curve(cell: Cell, by: By) -> Curve:
    """Return a cell's curve from the outcomes of the seeds that are done. Raises StoreError where they are missing."""
    spent: list[Spent] = []
    done = [run for run in cell.runs if run.tally is not None]
    for run in done:
        seen = cell.results.observations(run.job)
        amounts = np.nan_to_num(getattr(seen, _SPENT[by])[seen.attacked]).tolist()
        spent += map(Spent, seen.unit[seen.attacked].tolist(), seen.fell[seen.attacked].tolist(), amounts)
    return Curve(by, tuple(spent), cell.repeats)


def _chosen(what: str, name: str | None, there: Sequence[str]) -> Sequence[str]:
    if name is not None and name not in there:
        raise unknown(what, name, there)
    return there if name is None else (name,)


class Budget(Measure[Options]):
    """Attack success rate by budget: of the queries that an attack may ask, or of the words that it may change."""

    title = "Attack success rate by queries or words allowed, and the area under the curve"

    def table(self, options: Options, results: Results) -> Table:
        """Make the table. Raises StoreError where nothing is done, outcomes are missing, or a name is unknown."""
        of, by = grid(results), options.by
        found = panels(of, options)
        widest = max(panel.top for panel in found)
        budgets = sorted(set(options.budgets)) or [budget for budget in BUDGETS[by] if budget < widest]
        several = len(of.finetunes) > 1
        rows: list[tuple[Entry, ...]] = []
        cells = []
        for panel in found:
            entries = []
            for cell, curve in panel.curves:
                area = _area(panel, curve.area(panel.top) if panel.top > START[by] else None)
                scores = {"area": area, **{_name(by, b): curve.at(b) for b in budgets}, "asr": cell.sampled("asr")}
                numbers = {name: _number(of, cell, name, score) for name, score in scores.items()}
                entries.append(list(numbers.values()))
                cells.append(_cell(of, panel, cell, numbers))
            marked = mark_best(entries, [of.metrics["asr"].about] * (len(budgets) + 2))
            for (cell, _), numbers_ in zip(panel.curves, marked, strict=True):
                rows.append((panel.attack, panel.task, cell.encoder, *([cell.finetune] if several else []), *numbers_))
        header = ["Attack", "Task", "Encoder", *(["Fine-tuning"] if several else []), "Area"]
        tasks = tuple(dict.fromkeys(panel.task for panel in found))
        attacked = [cell for panel in found for cell, _ in panel.curves]
        return Table(
            metric="budget",
            header=(*header, *(f"≤ {_shown(by, budget)}" for budget in budgets), "ASR"),
            rows=tuple(rows),
            groups=groups_of(rows, 2),
            cells=tuple(cells),
            notes=notes(of, tasks, [*_notes(by, found), f"n: {counted(attacked, 'asr', tasks)}."]),
            interval="Wilson 95% intervals of the rates, percentile bootstrap 95% intervals of the areas, over "
            "examples.",
            flags=of.flags.listed(job for cell in attacked for job in cell.jobs),
            about=Meaning(
                f"Attack success rate by {_WHAT[by].removeprefix('of the ')}",
                "successes within the budget / (succeeded + failed)",
                "lowest",
            ),
        )


def _name(by: By, budget: float) -> str:
    return f"{by}_{budget:g}"


def _shown(by: By, budget: float) -> str:
    return f"{100 * budget:g}%" if by == "share" else f"{budget:g}"


def _area(panel: Panel, score: Score | None) -> Score:
    """Return the area, which has no value where no range is left: nothing was spent on any example."""
    return score if score is not None else Score(name="area", value=None, n=0)


def _number(of: Grid, cell: Cell, name: str, score: Score) -> Number:
    percent = name != "area"
    number = Number(
        score.value, percent, score.n, score.low, score.high, partial=cell.partial, digits=1 if percent else 3
    )
    return of.flags.on(number, cell.jobs)


def _cell(of: Grid, panel: Panel, cell: Cell, numbers: dict[str, Number]) -> dict[str, object]:
    """Return a row for programs."""
    values: dict[str, object] = {}
    for name, number in numbers.items():
        values |= {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}
    return {
        **cell.at("attack", "task", "encoder", "finetune"),
        "n": numbers["asr"].n,
        "top": panel.top,
        **values,
        "flags": of.flags.told(cell.jobs),
    }


def _notes(by: By, found: list[Panel]) -> list[str]:
    ranges = "; ".join(f"{panel.attack} on {panel.task} {_shown(by, panel.top)}" for panel in found)
    return [
        f"≤ b: examples that fell within b {_WHAT[by]} / (succeeded + failed), read off attacks without a limit. "
        "ASR: without a limit.",
        *(
            [
                "These examples fall to attacks with the option query_budget: b too. So may others, because the last "
                "step of a search may ask about several texts, and a budget cuts off those beyond it."
            ]
            if by == "queries"
            else []
        ),
        f"Area: mean height of the curve, in 0..1, over {_WHAT[by]} from {START[by]:g} to an end, on a {_SCALE[by]} "
        f"scale (ours). Ends: {ranges}.",
        "Bold: the lowest of each attack and task, which is the most robust.",
    ]

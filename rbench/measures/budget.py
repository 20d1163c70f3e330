"""Attack success rate by budget: of the queries that an attack may ask, or of the words that it may change.

One row for each attack, task and encoder: the area under the curve, the rate within some budgets, and the rate without
a limit, which is that of the table of attack success rates. All are read off the outcomes of one run. The area is ours;
`rbench.score.budget` defines it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from rbench.measures import Measure
from rbench.schema import Score
from rbench.schema.common import Strict
from rbench.score.budget import RANGE_START, AttackCost, BudgetKind, SuccessCurve, common_range_end
from rbench.tables import Results, Table
from rbench.tables.aggregate import AttackCell, AttackGrid, attack_grid
from rbench.tables.notes import count_by_task, table_notes
from rbench.tables.table import Meaning, Number, TableEntry, group_starts, mark_best

BUDGETS: dict[BudgetKind, tuple[float, ...]] = {
    "queries": (25, 50, 100, 200, 500, 1000),
    "words": (1, 2, 3, 5, 10, 20),
    "share": (0.05, 0.1, 0.2, 0.4),
}
_WHAT_IS_LIMITED: dict[BudgetKind, str] = {
    "queries": "queries",
    "words": "words changed",
    "share": "of the words changed",
}
_SCALE_OF_AXIS: dict[BudgetKind, str] = {"queries": "logarithmic", "words": "linear", "share": "linear"}
_FIELD_LIMITED: dict[BudgetKind, str] = {
    "queries": "num_queries",
    "words": "num_words_changed",
    "share": "perturbed_share",
}
"""The field of an outcome that a budget limits."""


class CurveOptions(Strict):
    """Which curves, and over which range: what the table and the figure have in common."""

    by: BudgetKind = "queries"
    """What the budget limits: `queries`, `words` or the `share` of words."""
    attack: str | None = None
    """The only attack to show; None: all."""
    task: str | None = None
    """The only task to show; None: all."""
    most: Annotated[float, Field(gt=0)] | None = None
    """Where the range of budgets ends; None: at what was spent at most (`SuccessCurve.range_end`), by attack and task.
    Areas of several RUNs can be compared only over the same range."""

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        if self.most is not None and self.most <= RANGE_START[self.by]:
            raise ValueError(f"`most` must be above {RANGE_START[self.by]:g}, where the range of {self.by} starts")
        return self


class Options(CurveOptions):
    """What a suite may set."""

    budgets: tuple[Annotated[float, Field(ge=0)], ...] = ()
    """The budgets that have a column. None named: those of BUDGETS that limit some attack."""


@dataclass(frozen=True)
class CurvePanel:
    """The curves of one attack on one task, of all victims. Their areas are over the same range."""

    attack: str
    task: str
    curves: tuple[tuple[AttackCell, SuccessCurve], ...]
    """Cells of which at least one seed is done, in the suite's order."""
    top: float
    """Where the range of budgets ends."""


def build_panels(of: AttackGrid, options: CurveOptions) -> list[CurvePanel]:
    """Return the panels of a RUN, attack by attack. Those of which nothing is done are left out.

    Raises StoreError where outcomes are missing or damaged.
    """
    built = []
    for attack in of.attacks if options.attack is None else (options.attack,):
        for task in of.tasks if options.task is None else (options.task,):
            cells = [cell for cell in of.cells.values() if (cell.attack, cell.task) == (attack, task) and cell.present]
            curves = tuple((cell, read_curve(cell, options.by)) for cell in cells)
            if not curves:
                continue
            top = options.most
            if top is None:
                top = common_range_end(cell_curve for _, cell_curve in curves)
            built.append(CurvePanel(attack, task, curves, top))
    return built


def read_curve(cell: AttackCell, by: BudgetKind) -> SuccessCurve:
    """Return a cell's curve from the outcomes of the seeds that are done. Raises StoreError where they are missing."""
    spent: list[AttackCost] = []
    done = [run for run in cell.runs if run.tally is not None]
    for run in done:
        observed = cell.results.observations(run.job)
        # An attack that failed spent as much as it did, and falls at no budget; only attacked examples are in the rate.
        amounts = np.nan_to_num(getattr(observed, _FIELD_LIMITED[by])[observed.attacked]).tolist()
        spent += map(
            AttackCost, observed.unit[observed.attacked].tolist(), observed.fell[observed.attacked].tolist(), amounts
        )
    return SuccessCurve(by, tuple(spent), cell.repeats)


class BudgetCurves(Measure[Options]):
    """Attack success rate by budget: of the queries that an attack may ask, or of the words that it may change."""

    title = "Attack success rate by queries or words allowed, and the area under the curve"

    def table(self, options: Options, results: Results) -> Table:
        """Make the table. Raises StoreError where outcomes are missing."""
        of, by = attack_grid(results), options.by
        panels = build_panels(of, options)
        widest = max((panel.top for panel in panels), default=0.0)
        budgets = sorted(set(options.budgets)) or [budget for budget in BUDGETS[by] if budget < widest]
        several = len(of.finetunes) > 1
        rows: list[tuple[TableEntry, ...]] = []
        cells = []
        for panel in panels:
            entries = []
            for cell, curve in panel.curves:
                area = _area_score(panel, curve.area(panel.top) if panel.top > RANGE_START[by] else None)
                scores = {
                    "area": area,
                    **{_name_of_budget(by, b): curve.at(b) for b in budgets},
                    "asr": cell.sampled("asr"),
                }
                numbers = {name: _build_number(of, cell, name, score) for name, score in scores.items()}
                entries.append(list(numbers.values()))
                cells.append(_program_row(of, panel, cell, numbers))
            marked = mark_best(entries, [of.metrics["asr"].about] * (len(budgets) + 2))
            for (cell, _), numbers_ in zip(panel.curves, marked, strict=True):
                rows.append((panel.attack, panel.task, cell.encoder, *([cell.finetune] if several else []), *numbers_))
        header = ["Attack", "Task", "Encoder", *(["Fine-tuning"] if several else []), "Area"]
        tasks = tuple(dict.fromkeys(panel.task for panel in panels))
        attacked = [cell for panel in panels for cell, _ in panel.curves]
        return Table(
            metric="budget",
            header=(*header, *(f"≤ {_format_budget(by, budget)}" for budget in budgets), "ASR"),
            rows=tuple(rows),
            groups=group_starts(rows, 2),
            cells=tuple(cells),
            notes=table_notes(of, tasks, [*_build_notes(by, panels), f"n: {count_by_task(attacked, 'asr', tasks)}."]),
            interval="Wilson 95% intervals of the rates, percentile bootstrap 95% intervals of the areas, over "
            "examples.",
            flags=of.flags.listed(job for cell in attacked for job in cell.jobs),
            about=Meaning(
                f"Attack success rate by {_WHAT_IS_LIMITED[by].removeprefix('of the ')}",
                "successes within the budget / (succeeded + failed)",
                "lowest",
            ),
        )


def _name_of_budget(by: BudgetKind, budget: float) -> str:
    return f"{by}_{budget:g}"


def _format_budget(by: BudgetKind, budget: float) -> str:
    return f"{100 * budget:g}%" if by == "share" else f"{budget:g}"


def _area_score(panel: CurvePanel, score: Score | None) -> Score:
    """Return the area, which has no value where no range is left: nothing was spent on any example."""
    return score if score is not None else Score(name="area", value=None, n=0)


def _build_number(of: AttackGrid, cell: AttackCell, name: str, score: Score) -> Number:
    percent = name != "area"
    number = Number(
        score.value, percent, score.n, score.low, score.high, partial=cell.partial, digits=1 if percent else 3
    )
    return of.flags.on(number, cell.jobs)


def _program_row(of: AttackGrid, panel: CurvePanel, cell: AttackCell, numbers: dict[str, Number]) -> dict[str, object]:
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


def _build_notes(by: BudgetKind, panels_shown: list[CurvePanel]) -> list[str]:
    ranges = "; ".join(f"{panel.attack} on {panel.task} {_format_budget(by, panel.top)}" for panel in panels_shown)
    return [
        f"≤ b: examples that fell within b {_WHAT_IS_LIMITED[by]} / (succeeded + failed), read off attacks without a "
        "limit. ASR: without a limit.",
        *(
            [
                "These examples fall to attacks with the option query_budget: b too. So may others, because the last "
                "step of a search may ask about several texts, and a budget cuts off those beyond it."
            ]
            if by == "queries"
            else []
        ),
        f"Area: mean height of the curve, in 0..1, over {_WHAT_IS_LIMITED[by]} from {RANGE_START[by]:g} to an end, on "
        f"a {_SCALE_OF_AXIS[by]} scale (ours). Ends: {ranges}.",
        "Bold: the lowest of each attack and task, which is the most robust.",
    ]

"""Lay out our numbers beside a paper's.

paper   The paper's own rows and columns, as far as they have a number of ours: `84.2 (76.5, +7.7)` is ours, the
        paper's, and ours less the paper's. Rows of systems that the paper only cites stand there as printed.
full    A row for each number, with our interval and n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rbench.errors import StoreError
from rbench.spec import Plan
from rbench.tables.formats import listed
from rbench.tables.notes import spanned
from rbench.tables.table import Beside, Entry, Meaning, Number, Table
from rbench.verdicts.beside import Comparison, Pair

Grid = tuple[tuple[str, ...], list[tuple[Entry, ...]]]
"""Header and rows."""
SMALL = (
    "Encoders, data or sizes here are not the paper's: a difference is no failed reproduction, and an agreement no "
    "successful one."
)


def table(compared: Comparison, plan: Plan, layout: str, metric: str | None = None) -> Table:
    """Lay out a comparison.

    Args:
        compared: the printed table with our numbers.
        plan: the RUN's plan.
        layout: `paper` or `full`.
        metric: the only metric whose columns are shown; None: all.

    Raises:
        StoreError: no printed number has one of ours beside it; with the reasons.
    """
    if not compared.matched:
        has = f"This RUN has {listed(plan.suite.lineup)}."
        remedy = "Name the printed table that has its tasks and systems, or run a suite that has the paper's."
        raise StoreError(f"{_count(compared)} {_left_out(compared)} {has} {remedy}")
    chosen = [
        i
        for i, column in enumerate(compared.printed.columns)
        if metric in (None, column.metric) and any(row[i].ours is not None for row in compared.pairs)
    ]
    if not chosen:
        there = dict.fromkeys(pair.found.metric for pair in compared.matched)
        raise StoreError(f"no {metric} of {compared.name} has one of ours beside it; there is {', '.join(there)}")
    shown = [i for i, row in enumerate(compared.pairs) if compared.cited(i) or any(row[j].ours for j in chosen)]
    header, rows = (_paper if layout == "paper" else _full)(compared, shown, chosen)
    notes = _notes(compared, plan)
    counts = [pair.ours.n for pair in compared.matched if pair.ours is not None and pair.ours.n]
    own = list(dict.fromkeys(said for one in compared.tables for said in one.brief))
    sizes = [f"n of ours: {spanned(counts)}."] if counts else []
    return Table(
        metric="with_paper",
        layout="paper" if layout == "paper" else "full",
        header=header,
        rows=tuple(rows),
        groups=frozenset(),
        cells=tuple(_cell(compared, i, compared.pairs[i][j]) for i in shown for j in chosen),
        notes=(*notes, *sizes, *own, *plan.suite.notes),
        interval="95% intervals of ours, as the RUN's own tables have them. Papers print none.",
        flags=_flags(compared),
        about=Meaning(
            f"{compared.printed.title} ({compared.name})",
            "ours (the paper's, ours less the paper's)",
            percent=False,
            undefined="the source cannot be read",
        ),
        brief=(*notes, *own),
    )


def _paper(compared: Comparison, shown: list[int], chosen: list[int]) -> Grid:
    names = _names(compared)
    header = (*map(_heading, names), *(compared.printed.columns[j].label for j in chosen))
    rows = []
    for i in shown:
        label = compared.printed.rows[i].label
        entries = [_entry(compared.pairs[i][j], cited=compared.cited(i)) for j in chosen]
        rows.append((*(label.get(name, "") for name in names), *entries))
    return header, rows


def _full(compared: Comparison, shown: list[int], chosen: list[int]) -> Grid:
    names, rows = _names(compared), []
    for i in shown:
        for pair in (compared.pairs[i][j] for j in chosen):
            if pair.ours is None and not compared.cited(i):
                continue
            label, column = compared.printed.rows[i].label, _column(compared, pair)
            alone = Beside(pair.found.cell.printed or "", inside=pair.inside, cited=compared.cited(i))
            ours, less = _number(pair), pair.difference
            rows.append(
                (
                    *(label.get(name, "") for name in names),
                    column.label,
                    alone,
                    ours,
                    None if less is None else Number(less, percent=False, digits=_digits(pair)),
                    None if pair.ours is None else pair.ours.n,
                )
            )
    return (*map(_heading, names), "Column", "Paper", "Ours", "Ours less paper's", "n"), rows


def _names(compared: Comparison) -> list[str]:
    return list(dict.fromkeys(name for row in compared.printed.rows for name in row.label))


def _heading(name: str) -> str:
    return name[:1].upper() + name[1:]


def _column(compared: Comparison, pair: Pair) -> Any:
    return next(column for column in compared.printed.columns if column.name == pair.found.column)


def _entry(pair: Pair, *, cited: bool) -> Entry:
    """Return an entry; a number without ours stands there only in a row of a cited system."""
    if pair.ours is None and not cited:
        return ""
    return Beside(pair.found.cell.printed or "", _number(pair), pair.inside, cited)


def _number(pair: Pair) -> Number | None:
    if pair.ours is None:
        return None
    return Number(
        pair.ours.value, percent=False, n=pair.ours.n, low=pair.ours.low, high=pair.ours.high, digits=_digits(pair)
    )


def _digits(pair: Pair) -> int:
    return len((pair.found.cell.printed or "").partition(".")[2])


def _cell(compared: Comparison, row: int, pair: Pair) -> dict[str, Any]:
    where, ours = pair.found.where, pair.ours
    return {
        "table": compared.name,
        "row": ", ".join(pair.found.row.values()),
        "column": pair.found.column,
        "quantity": pair.found.metric,
        "unit": compared.printed.metrics[pair.found.metric].unit,
        "task": where.task,
        "attack": where.attack,
        "finetune": where.strategy,
        "part": where.part,
        "printed": pair.found.cell.value,
        "encoder": ours.encoder if ours is not None else None,
        "stand_in": ours is not None and ours.encoder in compared.stand_ins.values(),
        "cited": compared.cited(row),
        "value": ours.value if ours is not None else None,
        "low": ours.low if ours is not None else None,
        "high": ours.high if ours is not None else None,
        "n": ours.n if ours is not None else None,
        "difference": pair.difference,
        "inside": pair.inside,
        "left_out": None if ours is not None or compared.cited(row) else _reason(pair.why),
    }


def _reason(why: tuple[str, str]) -> str:
    return f"{why[0]}: {why[1]}" if why[1] else why[0]


def _notes(compared: Comparison, plan: Plan) -> list[str]:
    source = compared.printed.source
    said = [
        f"Printed: {source.paper}, Table {source.table} ({source.place}). Ours: {plan.suite.title or plan.suite.name}."
    ]
    said += [SMALL] if _small(compared, plan) else []
    if compared.stand_ins:
        pairs = "; ".join(f"{ours} beside {theirs}" for theirs, ours in compared.stand_ins.items())
        said.append(f"Another encoder of ours stands in: {pairs}.")
    said.append(f"{_count(compared)} {_left_out(compared)}".rstrip())
    judged = [pair.inside for pair in compared.matched if pair.inside is not None]
    if judged:
        said.append(f"*: the printed number lies in our 95% interval ({sum(judged)} of {len(judged)}).")
    cited = [", ".join(row.label.values()) for i, row in enumerate(compared.printed.rows) if compared.cited(i)]
    said += [f"‡: as printed; rbench does not have {listed(cited)}."] if cited else []
    return said


def _small(compared: Comparison, plan: Plan) -> bool:
    """Whether the RUN is smaller than the paper's experiment, or of other things."""
    training = plan.suite.training
    parts = (training, *(part for part in training.values() if isinstance(part, Mapping)))
    cut = any("max_train" in part for part in parts)
    return bool(compared.stand_ins) or cut or not plan.suite.resources.profile.startswith("standard")


def _count(compared: Comparison) -> str:
    every, there = (
        sum(not compared.cited(i) for i, row in enumerate(compared.pairs) for _ in row),
        len(compared.matched),
    )
    some = f"{there} of the {every} numbers" if there else f"None of the {every} numbers"
    rest = "have one of ours beside them" if there > 1 else "has one of ours beside it"
    return f"{some} of {compared.name} {rest}."


def _left_out(compared: Comparison) -> str:
    """Count what has no number of ours, by reason."""
    found: dict[str, dict[str, int]] = {}
    for i, row in enumerate(compared.pairs):
        for pair in row:
            if pair.ours is None and not compared.cited(i):
                names = found.setdefault(pair.why[0], {})
                names[pair.why[1]] = names.get(pair.why[1], 0) + 1
    parts = []
    for reason, names in found.items():
        named = listed([name for name in names if name])
        parts.append(f"{sum(names.values())} {reason}" + (f" ({named})" if named else ""))
    return f"Left out: {'; '.join(parts)}." if parts else ""


def _flags(compared: Comparison) -> tuple[dict[str, Any], ...]:
    found = {str(flag): flag for table in compared.tables for flag in table.flags}
    return tuple(found.values())

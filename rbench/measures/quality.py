"""Quality and robustness side by side: how good the vectors of each encoder are, and how often they are fooled.

A row is an encoder, fine-tuned with a strategy on a task. STS is of the encoder as it is, clean accuracy, ASR and
accuracy under attack are of its victims. Every number is that of the table of its own metric.
"""

from __future__ import annotations

from typing import Any, Literal

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.measures.sts import SCORE, Evaluated, similarity
from rbench.schema import Strict
from rbench.tables import Results, Table
from rbench.tables.aggregate import Grid, grid
from rbench.tables.notes import interval_note, notes, sizes
from rbench.tables.table import Entry, Meaning, Number, groups_of


class Options(Strict):
    """What is shown."""

    sets: Literal["average", "each"] = "average"
    """STS: the average over the sets of the suite, or each set."""
    attacked: str = "both"
    """Under each attack: a metric of attacks such as `asr` or `aua`; or `both` of these."""


class Quality(Measure[Options]):
    """Quality and robustness side by side: how good the vectors of each encoder are, and how often they are fooled."""

    title = "Quality of vectors (STS, clean accuracy) beside robustness (ASR, accuracy under attack)"

    def table(self, options: Options, results: Results) -> Table:
        """Make the table. Raises StoreError where the suite has no attacks."""
        of, vectors = grid(results), similarity(results)
        several = len(of.finetunes) > 1
        shown: list[tuple[str, str]] = [("", "clean")]
        chosen: tuple[str, ...] = ("asr", "aua") if options.attacked == "both" else (options.attacked,)
        shown += [(attack, metric) for metric in chosen for attack in of.attacks]
        sets = _sets(vectors, options)
        rows: list[tuple[Entry, ...]] = []
        cells: list[dict[str, Any]] = []
        for task, encoder, finetune in _victims(of):
            numbers = {(name, "sts"): _correlation(vectors, encoder, name) for name in sets}
            attacked = {key: of.shown(key[0], encoder, finetune, task) for key in shown}
            numbers |= {key: cell.number(key[1]) if cell is not None else None for key, cell in attacked.items()}
            rows.append((task, encoder, *([finetune] if several else []), *numbers.values()))
            cells += [_cell(task, encoder, finetune, *key, number) for key, number in numbers.items()]
        if not any(isinstance(entry, Number) for row in rows for entry in row):
            raise StoreError(f"{results.root}: nothing is done yet. Run the suite again, and make the table then.")
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else [])]
        header += [name if name in vectors.labels else f"STS, mean of {len(vectors.labels)}" for name in sets]
        return Table(
            metric="quality",
            header=(*header, *(f"{of.metrics[metric].about.column} {attack}".rstrip() for attack, metric in shown)),
            rows=tuple(rows),
            groups=groups_of(rows),
            cells=tuple(cells),
            notes=notes(of, of.tasks, (*_said(vectors), sizes(of, "asr", of.tasks))),
            interval=f"{interval_note(of, 'asr')} Those of STS are as in the table sts.",
            flags=of.flags.listed(run.job for run in of.runs),
            about=Meaning("Quality and robustness", "high STS, clean accuracy and AUA are good, and a low ASR"),
            brief=tuple(_said(vectors)),
        )


def _sets(vectors: Evaluated, options: Options) -> tuple[str, ...]:
    """Return the columns of STS; the empty name is the average."""
    if not vectors.labels:
        return ()
    return vectors.labels if options.sets == "each" or len(vectors.labels) == 1 else ("",)


def _victims(of: Grid) -> list[tuple[str, str, str]]:
    """Return task, encoder and strategy of each row, task by task in the suite's order."""
    there = {(cell.task, cell.encoder, cell.finetune) for cell in of.cells.values()}
    every = ((task, encoder, finetune) for task in of.tasks for encoder in of.encoders for finetune in of.finetunes)
    return [victim for victim in every if victim in there]


def _correlation(vectors: Evaluated, encoder: str, name: str) -> Number | None:
    cell = vectors.cells.get((encoder, name))
    if not name:
        return vectors.mean(encoder)
    return cell.number(SCORE) if cell is not None else None


def _cell(task: str, encoder: str, finetune: str, name: str, quantity: str, number: Number | None) -> dict[str, Any]:
    own = number or Number(None, percent=True)
    return {
        "task": task,
        "encoder": encoder,
        "finetune": finetune,
        "quantity": quantity,
        "attack": name if quantity != "sts" and name else None,
        "evaluation": name if quantity == "sts" and name else None,
        "value": own.value,
        "n": own.n,
        "low": own.low,
        "high": own.high,
        "flagged": own.flagged,
    }


def _said(vectors: Evaluated) -> list[str]:
    if not vectors.labels:
        return ["STS is not shown, because the suite has no STS task under `evaluate`."]
    sets = ", ".join(vectors.labels)
    return [
        f"STS: Spearman ×100 of the encoder as it is, on {sets}; the rest is of its victims, in %.",
        *vectors.sets.brief(),
    ]

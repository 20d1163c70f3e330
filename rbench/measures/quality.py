"""Quality and robustness side by side: how good the vectors of each encoder are, and how often they are fooled.

A row is an encoder, fine-tuned with a strategy on a task. STS is of the encoder as it is, clean accuracy, ASR and
accuracy under attack are of its victims. Every number is that of the table of its own metric.
"""

from __future__ import annotations

from typing import Any, Literal

from rbench.measures import Measure
from rbench.measures.sts import SCORE, EvaluatedGrid, collect_similarity
from rbench.schema import Strict
from rbench.tables import Results, Table
from rbench.tables.aggregate import AttackGrid, attack_grid
from rbench.tables.notes import denominator_note, interval_note, table_notes
from rbench.tables.table import Meaning, Number, TableEntry, group_starts


class Options(Strict):
    """What is shown."""

    sets: Literal["average", "each"] = "average"
    """STS: the average over the sets of the suite, or each set."""
    attacked: str = "both"
    """Under each attack: a metric of attacks such as `asr` or `aua`; or `both` of these."""


class QualityAndRobustness(Measure[Options]):
    """Quality and robustness side by side: how good the vectors of each encoder are, and how often they are fooled."""

    title = "Quality of vectors (STS, clean accuracy) beside robustness (ASR, accuracy under attack)"

    def table(self, options: Options, results: Results) -> Table:
        """Make the table. Raises StoreError where the suite has no attacks."""
        of, vectors = attack_grid(results), collect_similarity(results)
        several = len(of.finetunes) > 1
        shown: list[tuple[str, str]] = [("", "clean")]
        chosen: tuple[str, ...] = ("asr", "aua") if options.attacked == "both" else (options.attacked,)
        shown += [(attack, metric) for metric in chosen for attack in of.attacks]
        sets = _choose_sets(vectors, options)
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, Any]] = []
        for task, encoder, finetune in _list_victims(of):
            numbers = {(name, "sts"): _correlation_of(vectors, encoder, name) for name in sets}
            attacked = {key: of.shown(key[0], encoder, finetune, task) for key in shown}
            numbers |= {key: cell.number(key[1]) if cell is not None else None for key, cell in attacked.items()}
            rows.append((task, encoder, *([finetune] if several else []), *numbers.values()))
            cells += [_program_row(task, encoder, finetune, *key, number) for key, number in numbers.items()]
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else [])]
        header += [name if name in vectors.labels else f"STS, mean of {len(vectors.labels)}" for name in sets]
        return Table(
            metric="quality",
            header=(*header, *(f"{of.metrics[metric].about.column} {attack}".rstrip() for attack, metric in shown)),
            rows=tuple(rows),
            groups=group_starts(rows),
            cells=tuple(cells),
            notes=table_notes(of, of.tasks, (*_describe_sts(vectors), denominator_note(of, "asr", of.tasks))),
            interval=f"{interval_note(of, 'asr')} Those of STS are as in the table sts.",
            flags=of.flags.listed(run.job for run in of.runs),
            about=Meaning("Quality and robustness", "high STS, clean accuracy and AUA are good, and a low ASR"),
            brief=tuple(_describe_sts(vectors)),
        )


def _choose_sets(vectors: EvaluatedGrid, options: Options) -> tuple[str, ...]:
    """Return the columns of STS; the empty name is the average."""
    if not vectors.labels:
        return ()
    return vectors.labels if options.sets == "each" or len(vectors.labels) == 1 else ("",)


def _list_victims(of: AttackGrid) -> list[tuple[str, str, str]]:
    """Return task, encoder and strategy of each row, task by task in the suite's order."""
    existing = {(cell.task, cell.encoder, cell.finetune) for cell in of.cells.values()}
    all_victims = (
        (task, encoder, finetune) for task in of.tasks for encoder in of.encoders for finetune in of.finetunes
    )
    return [victim for victim in all_victims if victim in existing]


def _correlation_of(vectors: EvaluatedGrid, encoder: str, name: str) -> Number | None:
    cell = vectors.cells.get((encoder, name))
    if not name:
        return vectors.mean(encoder)
    return cell.number(SCORE) if cell is not None else None


def _program_row(
    task: str, encoder: str, finetune: str, name: str, quantity: str, number: Number | None
) -> dict[str, Any]:
    shown_number = number or Number(None, percent=True)
    return {
        "task": task,
        "encoder": encoder,
        "finetune": finetune,
        "quantity": quantity,
        "attack": name if quantity != "sts" and name else None,
        "evaluation": name if quantity == "sts" and name else None,
        "value": shown_number.value,
        "n": shown_number.n,
        "low": shown_number.low,
        "high": shown_number.high,
        "flagged": shown_number.flagged,
    }


def _describe_sts(vectors: EvaluatedGrid) -> list[str]:
    if not vectors.labels:
        return ["STS is not shown, because the suite has no STS task under `evaluate`."]
    sets = ", ".join(vectors.labels)
    return [
        f"STS: Spearman ×100 of the encoder as it is, on {sets}; the rest is of its victims, in %.",
        *vectors.sets.brief(),
    ]

"""Shows what a file of `rbench judge best` knows beside what the attacks of a RUN found, in the table of strength."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rbench.score import Proportion, make_score
from rbench.tables.aggregate import attack_grid
from rbench.tables.results import Results
from rbench.tables.table import Meaning, Number, Table, TableEntry

BEST_KNOWN_HEADER = "Best known"
"""The column to the right of which it stands: the same, of the RUN alone."""


def add_known_column(table: Table, results: Results, known: Mapping[str, tuple[int, int]], name: str) -> Table:
    """Add how many of the texts of each attack a file knows to fall.

    Args:
        table: of the metric strength, a row for each attack.
        known: by job key the number of texts that are known to fall, and of those that the attack attacked.
        name: of the file. It stands in the header, and where the file has nothing of a victim in a space.
    """
    header, column = f"{BEST_KNOWN_HEADER}, {name}", table.header.index(BEST_KNOWN_HEADER) + 1
    attack_cells, rows, table_cells = attack_grid(results).cells, [], []
    for row, names in zip(table.rows, table.cells, strict=True):
        cell = attack_cells[names["attack"], names["encoder"], names["finetune"], names["task"]]
        counts = [known[run.job.key] for run in cell.done if run.job.key in known]
        entry: TableEntry = f"not in {name}" if cell.done else None
        known_fields: dict[str, object] = dict.fromkeys(("known", "known_n", "known_low", "known_high"))
        if counts:
            share = Proportion(sum(hits for hits, _ in counts), sum(n for _, n in counts))
            known_share = Number.of(
                make_score("known", share, len(counts)), Meaning(header, header), partial=cell.partial
            )
            number = results.flags.on(known_share, cell.jobs)
            entry = number
            known_fields = {
                "known": number.value,
                "known_n": number.n,
                "known_low": number.low,
                "known_high": number.high,
            }
        rows.append((*row[:column], entry, *row[column:]))
        table_cells.append({**names, **known_fields})
    note = f"{header}: of the texts that the attack attacked, those for which {name} has an adversarial text."
    header_row = (*table.header[:column], header, *table.header[column:])
    return replace(table, header=header_row, rows=tuple(rows), cells=tuple(table_cells), notes=(*table.notes, note))

"""Shows what a file of `rbench judge best` knows beside what the attacks of a RUN found, in the table of strength."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rbench.score import Share, scored
from rbench.tables.aggregate import grid
from rbench.tables.results import Results
from rbench.tables.table import Entry, Meaning, Number, Table

BESIDE = "Best known"
"""The column to the right of which it stands: the same, of the RUN alone."""


def with_known(table: Table, results: Results, known: Mapping[str, tuple[int, int]], name: str) -> Table:
    """Add how many of the texts of each attack a file knows to fall.

    Args:
        table: of the metric strength, a row for each attack.
        known: by job key the number of texts that are known to fall, and of those that the attack attacked.
        name: of the file. It stands in the header, and where the file has nothing of a victim in a space.
    """
    header, place = f"{BESIDE}, {name}", table.header.index(BESIDE) + 1
    there, rows, told = grid(results).cells, [], []
    for row, names in zip(table.rows, table.cells, strict=True):
        cell = there[names["attack"], names["encoder"], names["finetune"], names["task"]]
        counts = [known[run.job.key] for run in cell.done if run.job.key in known]
        entry: Entry = f"not in {name}" if cell.done else None
        more: dict[str, object] = dict.fromkeys(("known", "known_n", "known_low", "known_high"))
        if counts:
            share = Share(sum(hits for hits, _ in counts), sum(n for _, n in counts))
            known_share = Number.of(scored("known", share, len(counts)), Meaning(header, header), partial=cell.partial)
            number = results.flags.on(known_share, cell.jobs)
            entry = number
            more = {"known": number.value, "known_n": number.n, "known_low": number.low, "known_high": number.high}
        rows.append((*row[:place], entry, *row[place:]))
        told.append({**names, **more})
    note = f"{header}: of the texts that the attack attacked, those for which {name} has an adversarial text."
    header_row = (*table.header[:place], header, *table.header[place:])
    return replace(table, header=header_row, rows=tuple(rows), cells=tuple(told), notes=(*table.notes, note))

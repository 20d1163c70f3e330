"""Says what was found of the data that a suite names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbench.tasks import ContrastData, TaskData


def data_notes(data: TaskData) -> list[str]:
    """Return where a task's rows are from, how many there are, and which were left out."""
    sizes = ", ".join(f"{split} {rows}" for split, rows in data.sizes.items())
    notes = [f"{data.spec.name}: {data.origin} ({sizes})"]
    notes += [
        f"{data.spec.name}: its {split} split has {rows:,} rows here; the published one has {published:,}"
        for split, (rows, published) in data.unlike_published.items()
    ]
    notes.extend(f"{data.spec.name}: {rows} rows left out: {reason}" for reason, rows in data.dropped.items() if rows)
    return notes


def contrast_notes(data: ContrastData) -> list[str]:
    """Return the same for a contrast set."""
    counts = data.counts
    notes = [f"{data.spec.name}: {data.origin} ({counts['bundles']} bundles, {counts['edits']} edits)"]
    notes.extend(f"{data.spec.name}: {rows} rows left out: {reason}" for reason, rows in data.dropped.items())
    return notes

"""Says what was found of the data that a suite names, and what its number of seeds means for intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbench.spec import Suite
    from rbench.tasks import ContrastData, TaskData
    from rbench.tasks.adversarial import AdversarialData


def all_notes(
    suite: Suite,
    data: Mapping[str, TaskData],
    contrast: Mapping[str, tuple[ContrastData, ...]],
    adversarial: Iterable[AdversarialData],
) -> list[str]:
    """Return what was found of the suite's tasks, contrast sets and adversarial sets, and what its seeds can show."""
    noted = dict.fromkeys((*suite.tasks, *(evaluation.task for evaluation in suite.evaluations)))
    return [
        *(note for name in noted for note in data_notes(data[name])),
        *(note for sets in contrast.values() for one in sets for note in contrast_notes(one)),
        *(f"{one.folder.name}: set of {len(one.rows)} rows in {one.folder}" for one in adversarial),
        *seed_notes(suite),
    ]


def seed_notes(suite: Suite) -> list[str]:
    """Return what two seeds mean for the intervals of differences, which are those of Student's t over the seeds."""
    if not suite.attacks or suite.train_seeds or len(suite.seeds) != 2:
        return []
    return [
        "two seeds: the 95% interval of a difference reaches 12.7 standard errors to each side; with three seeds it "
        "reaches 4.3"
    ]


def data_notes(data: TaskData) -> list[str]:
    """Return where a task's rows are from, how many there are, and which were left out."""
    sizes = ", ".join(f"{split} {rows}" for split, rows in data.sizes.items())
    notes = [f"{data.spec.name}: {data.origin} ({sizes})"]
    notes += [
        f"{data.spec.name}: its {split} split has {rows:,} rows here; the published one has {published:,}"
        for split, (rows, published) in data.unlike_published.items()
    ]
    notes.extend(f"{data.spec.name}: {said}" for said in data.left_out)
    notes.extend(f"{data.spec.name}: {said}" for said in data.contradicted)
    return notes


def contrast_notes(data: ContrastData) -> list[str]:
    """Return the same for a contrast set."""
    counts = data.counts
    notes = [f"{data.spec.name}: {data.origin} ({counts['bundles']} bundles, {counts['edits']} edits)"]
    notes.extend(f"{data.spec.name}: {rows} rows left out: {reason}" for reason, rows in data.dropped.items())
    return notes

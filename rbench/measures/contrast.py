"""Contrast sets: the victim's prediction for each text, and scores over the bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rbench.measures._context import Measured, VictimContext
from rbench.measures._options import Plain
from rbench.measures._predicted import asked, unlike_predictions
from rbench.schema import Prediction, Record, TableSpec
from rbench.score import SCORES, contrast_scores, judged
from rbench.tables import Results, Table
from rbench.tables.contrast import METRICS as METRICS
from rbench.tables.contrast import contrasts, full, paper
from rbench.tables.picked import picked

if TYPE_CHECKING:
    from rbench.encoders.classify import Classified
    from rbench.tasks import Bundle, Example

TITLE = "Contrast sets: accuracy on originals and edits, and consistency over both"
VERSION = 1
OF = "victims"
STORES = "predictions"
USES = ("encoders.classify", "score.contrast")
REQUIRED = SCORES
"""The scores of every complete record."""
TOLD = "to classify: {:,} texts of contrast sets"

Options, cells = Plain, contrasts
LAYOUTS: dict[str, Callable[[Results, TableSpec], Table]] = {
    "paper": lambda results, wanted: paper(picked(contrasts(results), wanted.pick)),
    "full": lambda results, wanted: full(contrasts(results)),
}


def run(options: Plain, context: VictimContext) -> Measured:
    """Classify every original and every edit once.

    Counts are those of the set, its rows that were left out, and two more. `texts_cut` counts the texts that are longer
    than the victim's input. `edits_read_as_original` counts the edits that have the same tokens as their original for
    the victim, for instance because the edited part was cut off.
    """
    import numpy as np

    assert context.set is not None
    data = context.set
    bundles: tuple[Bundle, ...] = data.rows
    members = list(_members(bundles))
    found = asked(context, [one.texts for _, one in members])
    predictions = [
        Prediction(
            bundle=bundle.id,
            example_id=one.id,
            original=one is bundle.original,
            label=int(one.label or 0),  # never None in a contrast set
            prediction=int(label),
            cluster=bundle.cluster,
        )
        for (bundle, one), label in zip(members, found.labels, strict=True)
    ]
    scores = contrast_scores(judged(predictions))
    (consistency,) = (one.value for one in scores if one.name == "con")
    said = f"consistency {consistency:.3f}, {len(bundles)} bundles" if consistency is not None else ""
    context.progress(len(members), len(members), said)
    counts = {
        **data.counts,
        "texts_cut": int(np.sum(found.cut)),
        "edits_read_as_original": _alike(bundles, found),
        **{f"rows left out, {reason}": rows for reason, rows in data.dropped.items()},
    }
    return Measured(predictions, scores, counts)


def _members(bundles: Sequence[Bundle]) -> Iterator[tuple[Bundle, Example]]:
    for bundle in bundles:
        for one in (bundle.original, *bundle.edits):
            yield bundle, one


def _alike(bundles: Sequence[Bundle], found: Classified) -> int:
    """Count the edits whose tokens equal those of their original."""
    alike, at = 0, 0
    for bundle in bundles:
        edits = found.read[at + 1 : at + 1 + len(bundle.edits)]
        alike += sum(ids == found.read[at] for ids in edits)
        at += 1 + len(bundle.edits)
    return alike


def examples(prepared: Any, job: Any) -> int:
    """Return how many texts a job classifies."""
    found = next(one for one in prepared.sets[job.spec.task.name] if one.set == job.spec.set)
    return sum(len(bundle.members) for bundle in found.rows)


def unlike(record: Record, lines: Sequence[Prediction]) -> Iterator[str]:
    """Say which numbers of a record are not those of its predictions."""
    return unlike_predictions(record, lines, contrast_scores, ("bundles", "edits"))

"""Sensitivity to people's edits: the other number beside success rates, which say what must not move a victim.

A contrast set has originals, and edits by which people (in the embedded world: the oracle) changed the label. Of each
original that the victim gets right, the share of such edits is taken that the victim follows: it gives the new label.
An original whose edits all keep the label has none. Originals of one cluster, such as perspectives on one claim, are
not independent, and count once, with their mean. Ours; after the directional tests of CheckList and contrast sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rbench.measures import Column, Mean, Measure, Row
from rbench.measures._context import VictimContext
from rbench.measures._predicted import ask_victim
from rbench.schema import CONTRAST, Suite
from rbench.schema.extension import NoOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbench.tasks.contrast import ContrastBundle

VERSION = 1
USES = ("encoders.classify",)


class Sensitivity(Measure[NoOptions]):
    """Sensitivity: the share of people's label-changing edits that a victim follows."""

    title = "Sensitivity: label-changing edits by people that the victim follows, of originals that it gets right"
    reads = "victims"
    contrast = True
    workload = "to classify: {:,} texts of contrast sets"
    columns = (
        Mean(
            "sensitivity",
            "mean over the originals that the victim gets right of the share of their label-changing edits to which it "
            "gives the new label",
            best="highest",
            percent=True,
            undefined="no original that the victim gets right has a label-changing edit",
        ),
        Column("originals", "originals of the set with a label-changing edit", digits=0),
    )

    def check(self, options: NoOptions, suite: Suite) -> str | None:
        """Refuse a suite that asks for no contrast set."""
        reads_contrast = any(evaluation.name == CONTRAST for evaluation in suite.evaluate)
        return None if reads_contrast else f"it reads contrast sets; write `evaluate: [{CONTRAST}, sensitivity]`"

    def run(self, options: NoOptions, context: VictimContext) -> Iterator[Row]:
        """Classify originals and edits once, and yield one row whose units are the clusters of bundles."""
        assert context.set is not None
        bundles: tuple[ContrastBundle, ...] = context.set.rows
        members = [member for bundle in bundles for member in bundle.members]
        predicted = ask_victim(context, [member.texts for member in members]).labels
        followed = average_clusters(bundles, followed_edits(bundles, predicted))
        eligible = [any(edit.label != bundle.original.label for edit in bundle.edits) for bundle in bundles]
        yield Row({"sensitivity": followed, "originals": sum(eligible)})

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many texts a job classifies."""
        set_data = next(candidate for candidate in prepared.sets[job.spec.task.name] if candidate.set == job.spec.set)
        return sum(len(bundle.members) for bundle in set_data.rows)


def followed_edits(bundles: tuple[ContrastBundle, ...], predicted: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each bundle the share of its label-changing edits that get the new label, (bundles,).

    NaN where the original is classified wrong, or no edit changes the label.

    Args:
        predicted: the class of each text, bundle by bundle, the original before its edits.
    """
    shares, start = np.full(len(bundles), np.nan), 0
    for i, bundle in enumerate(bundles):
        of_bundle = predicted[start : start + 1 + len(bundle.edits)]
        start += 1 + len(bundle.edits)
        followed = [
            label == edit.label
            for edit, label in zip(bundle.edits, of_bundle[1:], strict=True)
            if edit.label != bundle.original.label
        ]
        if of_bundle[0] == bundle.original.label and followed:
            shares[i] = np.mean(followed)
    return shares


def average_clusters(bundles: tuple[ContrastBundle, ...], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean share of each cluster, (clusters,), in the order of their first bundles.

    A bundle without a cluster is one. Bundles with NaN do not count; a cluster of such bundles alone has NaN.
    """
    by_cluster: dict[str, list[float]] = {}
    for bundle, share in zip(bundles, shares.tolist(), strict=True):
        known = by_cluster.setdefault(bundle.cluster or bundle.id, [])
        if not np.isnan(share):
            known.append(share)
    return np.array([np.mean(known) if known else np.nan for known in by_cluster.values()])

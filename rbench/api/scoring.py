"""Compare two systems by scores of single items that any tool wrote, or that Python has at hand."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.config.item_scores import Item, ItemScores, number_of, read_item_scores
from rbench.errors import PlanError
from rbench.verdicts.item_scores import ScoreComparison, compare_items


def compare_scores(
    a: Any,
    b: Any,
    cluster: str | Sequence[Any] | Mapping[Any, Any] | None = None,
    *,
    score: str | None = None,
    gold: str | os.PathLike[str] | None = None,
) -> ScoreComparison:
    """Compare two systems by their scores of the same items: difference, interval, test, what so many could show.

    >>> rbench.compare_scores("samples_a.jsonl", "samples_b.jsonl").difference.p
    >>> rbench.compare_scores([1, 0, 1, 1], [1, 1, 1, 1], cluster=["doc1", "doc1", "doc2", "doc2"])

    Args:
        a, b: files, such as samples of lm-eval, predictions of mteb, logs of inspect or TextAttack, or a table with
            the columns id and score; or scores as numbers in the same order, by item (a mapping or a pandas Series), or
            a data frame with such columns.
        cluster: items of one cluster are alike, such as those of one document. Of files and data frames a column; of
            numbers the cluster of each, in the same order or by item. None: a column `cluster`, `document` or `group`
            where there is one, else items are independent. A column `seed` is a level of its own.
        score: which score, where a file has several.
        gold: of mteb's predictions: a table of the labels in the order of the split, or qrels.

    Raises:
        ResourceError: a file cannot be read or has no such column or score, or a score is no finite number.
        PlanError: a side is neither numbers nor a file, or an item has no cluster.
        StoreError: nothing is common, or items of one id are not the same.
    """
    return compare_items(
        *(_scores_of(side, name, cluster, score, gold) for side, name in ((a, "a"), (b, "b"))),
    )


def _scores_of(
    side: Any, name: str, cluster: Any, score: str | None, gold: str | os.PathLike[str] | None
) -> ItemScores:
    if isinstance(side, ItemScores):
        return side
    if isinstance(side, str | os.PathLike):
        where = None if gold is None else Path(gold)
        return read_item_scores(Path(side).expanduser(), score=score, cluster=cluster, gold=where)
    if hasattr(side, "columns") and hasattr(side, "to_dict"):
        return _of_frame(side, name, cluster, score)
    if isinstance(side, Mapping) or hasattr(side, "items"):
        values = {str(key): value for key, value in side.items()}
    elif hasattr(side, "__len__") and not isinstance(side, bytes):
        values = {str(i): value for i, value in enumerate(side)}
    else:
        raise PlanError(f"{name}={side!r}: expected a file, or scores as numbers, a mapping or a data frame")
    items = []
    groups = _clusters_of(cluster, list(values))
    for key, value in values.items():
        number = number_of(value.item() if hasattr(value, "item") else value, f"{name}[{key}]")
        if number is not None:
            items.append(Item(key, number, groups.get(key)))
    return ItemScores(name, score or "score", tuple(items), "cluster" if groups else None)


def _clusters_of(cluster: Any, keys: Sequence[str]) -> dict[str, str]:
    if cluster is None:
        return {}
    if isinstance(cluster, str):
        raise PlanError(f"cluster={cluster!r}: of numbers, give the cluster of each item")
    if isinstance(cluster, Mapping):
        known = {str(key): str(value) for key, value in cluster.items()}
        if missing := [key for key in keys if key not in known]:
            raise PlanError(f"cluster has no entry for item {missing[0]}")
        return known
    return dict(zip(keys, map(str, cluster), strict=True))


def _of_frame(frame: Any, name: str, cluster: Any, score: str | None) -> ItemScores:
    from rbench.config.item_scores import of_table
    from rbench.config.tabular import FileTable, TableRow

    rows = [TableRow(f"{name}, row {i}", row) for i, row in enumerate(frame.to_dict("records"))]
    return of_table(FileTable(Path(name), tuple(map(str, frame.columns)), rows), score, cluster)

"""Contrast sets: test examples of a task, each with small edits that mostly change its label.

A bundle is an original with all its edits. Rows are one bundle where their originals have the same label and the same
text, comparing letters and digits and ignoring case. An original that stands in several rows is therefore classified
and counted once:

| set                  | bundles | a bundle                                                                    |
|----------------------|---------|-----------------------------------------------------------------------------|
| contrast_imdb        |     488 | a review, and the review edited (Gardner et al. 2020)                       |
| contrast_imdb_cad    |     488 | the same reviews, and other edits (Kaushik et al. 2020)                     |
| contrast_snli        |     400 | a pair, its premise revised to either other label, its hypothesis likewise  |
| contrast_perspectrum |     217 | a claim with a perspective, and the claim edited with the same perspective  |
| contrast_boolq       |      68 | a question about a passage, and 1 to 11 other questions about it            |

A row is left out, and counted, where one of its two labels is not one of the task's (PERSPECTRUM's `unk`: 277 of 494
rows) or a text is empty. Some edits keep the label, are the original's text again, or repeat an edit of the bundle.
They stay in, as published, and are counted. Where a set names clusters, bundles whose first rows have the same value
there are one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rbench.errors import ResourceError
from rbench.spec import ContrastSpec, TaskSpec
from rbench.tasks.clean import Columns, Dropped, Example, Reserved, Row, example, key, normalised
from rbench.tasks.contrast_rows import filled, numbered_rows, side_of
from rbench.tasks.data import content_hash


class Bundle(NamedTuple):
    """An original with its edits; `id` is that of its first row."""

    id: str
    original: Example
    edits: tuple[Example, ...]
    cluster: str | None = None
    """Id of the first bundle of its cluster, which may be itself; None where the set names none."""

    @property
    def members(self) -> tuple[Example, ...]:
        """The original, then its edits."""
        return (self.original, *self.edits)


@dataclass(frozen=True)
class ContrastData:
    """A contrast set that was read. `dropped` counts rows by reason, `where` has the first few of their places."""

    spec: ContrastSpec
    origin: str
    fingerprint: str
    dropped: dict[str, int]
    where: dict[str, list[str]]
    bundles: tuple[Bundle, ...] = field(repr=False)
    reserved: Reserved = field(repr=False)
    """What a victim that is evaluated on the set may not be trained on."""
    counts: dict[str, int]
    """How many bundles and edits there are, and how many edits of which kind."""

    @property
    def texts(self) -> int:
        """How many texts (or pairs of texts) are classified."""
        return sum(1 + len(bundle.edits) for bundle in self.bundles)


def open_contrast(spec: ContrastSpec, task: TaskSpec, data_path: Sequence[Path] = ()) -> ContrastData:
    """Read a contrast set of `task`: generated, or from the first folder of `data_path` that has its file.

    Raises:
        ResourceError: there is no such file (the message says where it was looked for and where the set was
            published), a row lacks a column, two rows have the same id, or no row has two labels of the task.
    """
    origin, rows = numbered_rows(spec, data_path)
    dropped = Dropped()
    pairs = _pairs(spec, task, rows, dropped)
    if not pairs:
        reasons = ", ".join(f"{n} {reason}" for reason, n in dropped.counts.items()) or "it has no rows"
        raise ResourceError(f"contrast set `{spec.name}`: nothing is left of it ({reasons})")
    bundles = _bundles(spec, task, pairs)
    return ContrastData(
        spec=spec,
        origin=origin,
        fingerprint=content_hash({_decides(bundle): bundle.members for bundle in bundles}),
        dropped=dict(dropped.counts),
        where=dropped.places,
        bundles=bundles,
        reserved=_reserved(spec, task, pairs, bundles),
        counts=_counts(task, bundles),
    )


class _Pair(NamedTuple):
    """What is kept of a row: an original with one of its edits."""

    original: Example
    edit: Example
    cluster: Any
    """Value of the column that names clusters; None where it is empty or the set names no clusters."""
    shared: dict[int, list[str]]
    """Normalised texts that training may not have, by position of the task's column."""


def _pairs(spec: ContrastSpec, task: TaskSpec, rows: Iterable[Row], dropped: Dropped) -> list[_Pair]:
    """One pair a row, in the order of the rows. Rows that cannot be used are counted in `dropped`."""
    columns = Columns.of(task, {})
    pairs = []
    for row in rows:
        original, edit = (example(task, columns, side_of(spec, row, side)) for side in ("original", "perturbed"))
        if isinstance(original, str) or isinstance(edit, str):
            dropped.add(original if isinstance(original, str) else str(edit), row.where)
            continue
        cluster = None if spec.cluster is None else filled(spec, row, spec.cluster)
        shared = {
            task.columns.index(column): [normalised(str(filled(spec, row, template))) for template in templates]
            for column, templates in spec.shares.items()
        }
        pairs.append(_Pair(original, edit, cluster, shared))
    return pairs


def _bundles(spec: ContrastSpec, task: TaskSpec, pairs: Sequence[_Pair]) -> tuple[Bundle, ...]:
    """The pairs by original, in the order in which originals first appear.

    Where the set names clusters, each bundle has the one that its first row names; a bundle without one is alone.
    Clusters are named by ids, because a value may be a text and stored predictions must hold none.
    """
    grouped: dict[tuple[bytes, Any], list[_Pair]] = {}
    for pair in pairs:
        grouped.setdefault((key(task, pair.original.texts), pair.original.label), []).append(pair)
    first: dict[str, str] = {}
    bundles = []
    for members in grouped.values():
        original, value = members[0].original, members[0].cluster
        name = original.id.removesuffix(":original")
        cluster = None
        if spec.cluster is not None:
            cluster = name if value is None else first.setdefault(str(value), name)
        bundles.append(Bundle(name, original, tuple(member.edit for member in members), cluster))
    return tuple(bundles)


def _reserved(spec: ContrastSpec, task: TaskSpec, pairs: Sequence[_Pair], bundles: Sequence[Bundle]) -> Reserved:
    """What training may not have: texts of shared columns where the set names some, else its examples."""
    if not spec.shares:
        return Reserved(spec.name, frozenset(key(task, one.texts) for bundle in bundles for one in bundle.members))
    columns = [task.columns.index(column) for column in spec.shares]
    shared = {column: frozenset(text for pair in pairs for text in pair.shared[column]) for column in columns}
    return Reserved(spec.name, frozenset(), shared)


def _decides(bundle: Bundle) -> str:
    """What decides scores beside a bundle's examples: its id and its cluster. Both enter the fingerprint."""
    return bundle.id if bundle.cluster is None else f"{bundle.id} in {bundle.cluster}"


def _counts(task: TaskSpec, bundles: Sequence[Bundle]) -> dict[str, int]:
    """`ContrastData.counts`."""
    edits = [(bundle.original, edit) for bundle in bundles for edit in bundle.edits]
    changed = sum(original.label != edit.label for original, edit in edits)
    distinct = [{key(task, edit.texts) for edit in bundle.edits} for bundle in bundles]
    clusters = {bundle.cluster for bundle in bundles if bundle.cluster is not None}
    return {
        "bundles": len(bundles),
        **({"clusters": len(clusters)} if clusters else {}),
        "edits": len(edits),
        "edits_label_changed": changed,
        "edits_label_kept": len(edits) - changed,
        "edits_same_text": sum(key(task, original.texts) == key(task, edit.texts) for original, edit in edits),
        "edits_repeated": len(edits) - sum(map(len, distinct)),
    }

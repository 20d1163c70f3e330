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

A contrast set names its columns in its own way. For each column of the task, `original` and `perturbed` of its spec
have a template: the name of a column of the set, or a text with such names in braces, `{premise} {hypothesis}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.tabular import check_unicode
from rbench.errors import ResourceError
from rbench.schema import ContrastSpec, TaskSpec
from rbench.tasks import lines, local
from rbench.tasks.clean import (
    DroppedRows,
    Example,
    ReservedTexts,
    SetData,
    SourceColumns,
    SourceRow,
    hash_texts,
    make_example,
    normalise_text,
)
from rbench.tasks.data import hash_examples

_COLUMN_NAME = re.compile(r"\{(\w+)\}")


class ContrastBundle(NamedTuple):
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


def open_contrast(spec: ContrastSpec, task: TaskSpec, data_path: Sequence[Path] = ()) -> SetData:
    """Read a contrast set of `task`: generated, or from the first folder of `data_path` that has its file.

    Raises:
        ResourceError: there is no such file (the message says where it was looked for and where the set was
            published), a row lacks a column, two rows have the same id, or no row has two labels of the task.
    """
    path = None if spec.generator is not None else _find_file(spec, data_path)
    dropped = DroppedRows()
    if path is not None:
        numbered_rows = ((f"{path}:{number}", values) for number, values in lines.read(path))
    else:
        from rbench import mini

        generated_rows = enumerate(mini.contrast_rows(str(spec.generator)))
        numbered_rows = ((f"generated ({spec.generator}) row {i}", row) for i, row in generated_rows)
    pairs = _make_pairs(spec, task, _give_ids(spec, numbered_rows), dropped)
    if not pairs:
        reasons = ", ".join(f"{n} {reason}" for reason, n in dropped.counts.items()) or "it has no rows"
        raise ResourceError(f"contrast set `{spec.name}`: nothing is left of it ({reasons})")
    bundles = _group_bundles(spec, task, pairs)
    # Of a bundle its id and its cluster decide scores beside its examples.
    members_of = {b.id if b.cluster is None else f"{b.id} in {b.cluster}": b.members for b in bundles}
    return SetData(
        set=spec,
        origin=f"generated ({spec.generator})" if path is None else f"local {path.parent}",
        files=() if path is None else (path,),
        fingerprint=hash_examples(members_of),
        rows=bundles,
        reserved=_collect_reserved(spec, task, pairs, bundles),
        counts=_count_edits(task, bundles),
        dropped=dict(dropped.counts),
        where=dropped.places,
    )


def locate_contrast(spec: ContrastSpec, data_path: Sequence[Path] = ()) -> str:
    """Say where `open_contrast` would take the rows from, as a text for people.

    Raises:
        ResourceError: no folder of `data_path` has the set's file.
    """
    return f"generated ({spec.generator})" if spec.generator is not None else f"file {_find_file(spec, data_path)}"


def find_files(spec: ContrastSpec, data_path: Sequence[Path]) -> list[Path]:
    """Return the set's file in the first folder that has it; none where rows are generated or no folder has it."""
    paths = (path for root in data_path if spec.local for path in local.source_files(root, spec.local))
    set_file = next((path for path in paths if path.is_file()), None)
    return [set_file] if set_file is not None else []


def _find_file(spec: ContrastSpec, data_path: Sequence[Path]) -> Path:
    """The set's file in the first folder that has it."""
    assert spec.local is not None
    if set_files := find_files(spec, data_path):
        return set_files[0]
    searched = ", ".join(str(path) for path in data_path) or "the data path, which is empty"
    columns = dict.fromkeys(
        name
        for side in (spec.original, spec.perturbed)
        for template in side.values()
        for name in _columns_named(template)
    )
    published = f"It was published as {spec.source}. " if spec.source else ""
    raise ResourceError(
        f"contrast set `{spec.name}`: no {local.file_of_source(spec.local)} in {searched}; rbench knows no data set on "
        f"the hub that has it. {published}Put it as JSON Lines, one pair of an original and an edit a line (columns "
        f"{', '.join((spec.id, *columns))}), into a folder DIR and pass --data DIR or set RBENCH_DATA=DIR."
    )


def _give_ids(spec: ContrastSpec, numbered_rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[SourceRow]:
    """Rows with their ids; a row without one gets its number. Predictions are stored by id, so ids must differ."""
    places: dict[str, str] = {}
    for number, (where, values) in enumerate(numbered_rows):
        stated_id = values.get(spec.id)
        name = f"row {number}" if stated_id is None else str(stated_id)
        check_unicode(name, f"{where}: contrast set `{spec.name}`: `{spec.id}`")
        if name in places:
            raise ResourceError(
                f"{where}: contrast set `{spec.name}`: `{spec.id}` is {name!r}, as at {places[name]}; give each row "
                "one of its own, or none (rows of one original are a bundle whatever they are called)"
            )
        places[name] = where
        yield SourceRow(name, where, values)


class _EditPair(NamedTuple):
    """What is kept of a row: an original with one of its edits."""

    original: Example
    edit: Example
    cluster: Any
    """Value of the column that names clusters; None where it is empty or the set names no clusters."""
    shared: dict[int, list[str]]
    """Normalised texts that training may not have, by position of the task's column."""


def _make_pairs(spec: ContrastSpec, task: TaskSpec, rows: Iterable[SourceRow], dropped: DroppedRows) -> list[_EditPair]:
    """One pair a row, in the order of the rows. Rows that cannot be used are counted in `dropped`."""
    columns = SourceColumns.of(task, {})
    pairs = []
    for row in rows:
        # Both sides of the row, under the task's names of columns.
        sides = ((":original", spec.original), ("", spec.perturbed))
        rows_of = (
            SourceRow(
                row.id + end,
                row.where,
                {name: _fill_template(spec, row, template) for name, template in templates_of.items()},
            )
            for end, templates_of in sides
        )
        original, edit = (make_example(task, columns, side) for side in rows_of)
        if isinstance(original, str) or isinstance(edit, str):
            dropped.add(original if isinstance(original, str) else str(edit), row.where)
            continue
        cluster = None if spec.cluster is None else _fill_template(spec, row, spec.cluster)
        shared = {
            task.columns.index(column): [
                normalise_text(str(_fill_template(spec, row, template))) for template in templates
            ]
            for column, templates in spec.shares.items()
        }
        pairs.append(_EditPair(original, edit, cluster, shared))
    return pairs


def _group_bundles(spec: ContrastSpec, task: TaskSpec, pairs: Sequence[_EditPair]) -> tuple[ContrastBundle, ...]:
    """The pairs by original, in the order in which originals first appear.

    Where the set names clusters, each bundle has the one that its first row names; a bundle without one is alone.
    Clusters are named by ids, because a value may be a text and stored predictions must hold none.
    """
    grouped: dict[tuple[bytes, Any], list[_EditPair]] = {}
    for pair in pairs:
        grouped.setdefault((hash_texts(task, pair.original.texts), pair.original.label), []).append(pair)
    first_bundle: dict[str, str] = {}
    bundles = []
    for members in grouped.values():
        original, cluster_value = members[0].original, members[0].cluster
        bundle_id = original.id.removesuffix(":original")
        cluster = None
        if spec.cluster is not None:
            # The id of the first bundle of the cluster and not the value, which may be a text.
            cluster = bundle_id if cluster_value is None else first_bundle.setdefault(str(cluster_value), bundle_id)
        bundles.append(ContrastBundle(bundle_id, original, tuple(member.edit for member in members), cluster))
    return tuple(bundles)


def _collect_reserved(
    spec: ContrastSpec, task: TaskSpec, pairs: Sequence[_EditPair], bundles: Sequence[ContrastBundle]
) -> ReservedTexts:
    """What training may not have: texts of shared columns where the set names some, else its examples."""
    if not spec.shares:
        return ReservedTexts(
            spec.name, frozenset(hash_texts(task, member.texts) for bundle in bundles for member in bundle.members)
        )
    columns = [task.columns.index(column) for column in spec.shares]
    shared = {column: frozenset(text for pair in pairs for text in pair.shared[column]) for column in columns}
    return ReservedTexts(spec.name, frozenset(), shared)


def _count_edits(task: TaskSpec, bundles: Sequence[ContrastBundle]) -> dict[str, int]:
    """`SetData.counts`."""
    edits = [(bundle.original, edit) for bundle in bundles for edit in bundle.edits]
    changed = sum(original.label != edit.label for original, edit in edits)
    distinct = [{hash_texts(task, edit.texts) for edit in bundle.edits} for bundle in bundles]
    clusters = {bundle.cluster for bundle in bundles if bundle.cluster is not None}
    return {
        "bundles": len(bundles),
        **({"clusters": len(clusters)} if clusters else {}),
        "edits": len(edits),
        "edits_label_changed": changed,
        "edits_label_kept": len(edits) - changed,
        "edits_same_text": sum(
            hash_texts(task, original.texts) == hash_texts(task, edit.texts) for original, edit in edits
        ),
        "edits_repeated": len(edits) - sum(map(len, distinct)),
    }


def _fill_template(spec: ContrastSpec, row: SourceRow, template: str) -> Any:
    """What a template gives for a row: the value of a column, or a text with columns filled in.

    Raises:
        ResourceError: the row lacks a column.
    """
    missing = [name for name in _columns_named(template) if name not in row.values]
    if missing:
        column_names = ", ".join(row.values)
        raise ResourceError(
            f"{row.where}: contrast set `{spec.name}` needs a column `{missing[0]}`; this row has {column_names}"
        )
    if "{" not in template:
        return row.values[template]
    if any(row.values[name] is None for name in _columns_named(template)):
        return None
    return _COLUMN_NAME.sub(lambda part: str(row.values[part[1]]), template)


def _columns_named(template: str) -> list[str]:
    """The columns that a template needs."""
    return _COLUMN_NAME.findall(template) if "{" in template else [template]

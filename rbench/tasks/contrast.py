"""Contrast sets: test examples of a task, each with small edits that mostly change its label.

A bundle is an original with all its edits. Rows whose originals have the same text (letters and digits compared, case
ignored) and label are one bundle, so an original that stands in several rows is classified and counted once:

| set                  | bundles | a bundle                                                                    |
|----------------------|---------|-----------------------------------------------------------------------------|
| contrast_imdb        |     488 | a review, and the review edited (Gardner et al. 2020)                       |
| contrast_imdb_cad    |     488 | the same reviews, and other edits (Kaushik et al. 2020)                     |
| contrast_snli        |     400 | a pair, its premise revised to either other label, its hypothesis likewise  |
| contrast_perspectrum |     217 | a claim with a perspective, and the claim edited with the same perspective  |
| contrast_boolq       |      68 | a question about a passage, and 1 to 11 other questions about it            |

A row is left out, and counted, where one of its two labels is none of the task's (PERSPECTRUM's `unk`: 277 of 494
rows) or a text is empty. Edits that keep the label, that are the original's text again, or that repeat an edit of the
bundle stay in, as published, and are counted. Where a set names clusters, bundles of which the first rows have the
same value there are one cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rbench.errors import ResourceError
from rbench.spec import ContrastSpec, TaskSpec
from rbench.tasks import lines, local
from rbench.tasks.clean import Columns, Example, Left, Reserved, Row, check_unicode, example, key, normalised
from rbench.tasks.data import content_hash

_PART = re.compile(r"\{(\w+)\}")


class Bundle(NamedTuple):
    """An original with its edits; `id` is that of its first row."""

    id: str
    original: Example
    edits: tuple[Example, ...]
    cluster: str | None = None
    """Id of the first bundle of its cluster, which may be itself; None where the set names none."""


@dataclass(frozen=True)
class ContrastData:
    """A contrast set, read. `dropped` counts rows by reason, `where` has the first few of their places."""

    spec: ContrastSpec
    origin: str
    fingerprint: str
    dropped: dict[str, int]
    where: dict[str, list[str]]
    bundles: tuple[Bundle, ...] = field(repr=False)
    reserved: Reserved = field(repr=False)
    """What may not be trained on by a victim that is to be evaluated on the set."""
    counts: dict[str, int]
    """Of bundles and edits: how many, and of which kinds."""

    @property
    def texts(self) -> int:
        """How many texts (or pairs of texts) are classified."""
        return sum(1 + len(bundle.edits) for bundle in self.bundles)


def open_contrast(spec: ContrastSpec, task: TaskSpec, data_path: Sequence[Path] = ()) -> ContrastData:
    """The bundles of a contrast set of `task`: generated, or from the first data folder that has its file.

    Raises:
        ResourceError: there is no such file (says where it looked and where the set was published), a row lacks a
            column, two rows have the same id, or no row has two labels of the task.
    """
    origin, rows = _rows(spec, data_path)
    columns, left = Columns.of(task, {}), Left()
    grouped: dict[tuple[bytes, Any], list[tuple[Example, Example]]] = {}
    clusters: dict[str, Any] = {}
    shared: dict[int, set[str]] = {task.columns.index(column): set() for column in spec.shares}
    for row in rows:
        made = [example(task, columns, _side(spec, row, side)) for side in ("original", "perturbed")]
        original, edit = made
        if isinstance(original, str) or isinstance(edit, str):
            left.add(next(one for one in made if isinstance(one, str)), row.where)
            continue
        grouped.setdefault((key(task, original.texts), original.label), []).append((original, edit))
        if spec.cluster is not None:
            clusters[original.id] = _filled(spec, row, spec.cluster)
        for column, templates in spec.shares.items():
            texts = (normalised(str(_filled(spec, row, template))) for template in templates)
            shared[task.columns.index(column)].update(texts)
    if not grouped:
        reasons = ", ".join(f"{n} {reason}" for reason, n in left.counts.items()) or "it has no rows"
        raise ResourceError(f"contrast set `{spec.name}`: nothing is left of it ({reasons})")
    bundles = tuple(_bundle(pairs) for pairs in grouped.values())
    if spec.cluster is not None:
        bundles = _clustered(bundles, clusters)
    members = [one for bundle in bundles for one in (bundle.original, *bundle.edits)]
    keys = frozenset() if shared else frozenset(key(task, member.texts) for member in members)
    return ContrastData(
        spec=spec,
        origin=origin,
        fingerprint=content_hash({_decides(bundle): (bundle.original, *bundle.edits) for bundle in bundles}),
        dropped=dict(left.counts),
        where=left.places,
        bundles=bundles,
        reserved=Reserved(spec.name, keys, {column: frozenset(texts) for column, texts in shared.items()}),
        counts=_counts(task, bundles),
    )


def locate_contrast(spec: ContrastSpec, data_path: Sequence[Path] = ()) -> str:
    """Where `open_contrast` would take the rows from, for people; ResourceError as for that."""
    if spec.generator is not None:
        return f"generated ({spec.generator})"
    return f"file {_find(spec, data_path)}"


def _rows(spec: ContrastSpec, data_path: Sequence[Path]) -> tuple[str, Iterator[Row]]:
    """Where the rows come from, in words, and the rows, no two of the same id."""
    if spec.generator is not None:
        from rbench import mini

        made = mini.contrast_rows(spec.generator)
        name = f"generated ({spec.generator})"
        return name, _identified(spec, ((f"{name} row {i}", row) for i, row in enumerate(made)))
    path = _find(spec, data_path)
    read = ((f"{path}:{number}", values) for number, values in lines.read(path))
    return f"local {path.parent}", _identified(spec, read)


def _identified(spec: ContrastSpec, read: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Row]:
    """Rows with their ids, or their numbers for them. What a victim said is kept by id: no two may be alike."""
    seen: dict[str, str] = {}
    for number, (where, values) in enumerate(read):
        given = values.get(spec.id)
        name = f"row {number}" if given is None else str(given)
        check_unicode(name, f"{where}: contrast set `{spec.name}`: `{spec.id}`")
        if name in seen:
            raise ResourceError(
                f"{where}: contrast set `{spec.name}`: `{spec.id}` is {name!r}, as at {seen[name]}; give each row one "
                "of its own, or none (rows of one original are a bundle whatever they are called)"
            )
        seen[name] = where
        yield Row(name, where, values)


def _find(spec: ContrastSpec, data_path: Sequence[Path]) -> Path:
    assert spec.local is not None
    for root in data_path:
        for path in local.source_files(root, spec.local):
            if path.is_file():
                return path
    looked = ", ".join(str(path) for path in data_path) or "the data path, which is empty"
    columns = dict.fromkeys(
        name for side in (spec.original, spec.perturbed) for template in side.values() for name in _names(template)
    )
    published = f"It was published as {spec.source}. " if spec.source else ""
    raise ResourceError(
        f"contrast set `{spec.name}`: no {local.file_of(spec.local)} in {looked}; rbench knows no data set on the hub "
        f"that has it. {published}Put it as JSON Lines, one pair of "
        f"an original and an edit a line (columns {', '.join((spec.id, *columns))}), into a folder DIR and pass "
        "--data DIR or set RBENCH_DATA=DIR."
    )


def _side(spec: ContrastSpec, row: Row, side: str) -> Row:
    """The original or the edit of a row, under the task's names."""
    names: Mapping[str, str] = getattr(spec, side)
    suffix = ":original" if side == "original" else ""
    return Row(row.id + suffix, row.where, {name: _filled(spec, row, template) for name, template in names.items()})


def _filled(spec: ContrastSpec, row: Row, template: str) -> Any:
    """The value of a column, or a text with columns in braces."""
    missing = [name for name in _names(template) if name not in row.values]
    if missing:
        has = ", ".join(row.values)
        raise ResourceError(
            f"{row.where}: contrast set `{spec.name}` needs a column `{missing[0]}`; this row has {has}"
        )
    if "{" not in template:
        return row.values[template]
    return _PART.sub(lambda part: str(row.values[part[1]]), template)


def _names(template: str) -> list[str]:
    return _PART.findall(template) if "{" in template else [template]


def _bundle(pairs: Sequence[tuple[Example, Example]]) -> Bundle:
    original = pairs[0][0]
    return Bundle(original.id.removesuffix(":original"), original, tuple(edit for _, edit in pairs))


def _clustered(bundles: Sequence[Bundle], values: Mapping[str, Any]) -> tuple[Bundle, ...]:
    """The bundles with their clusters, by the values that their first rows have; without one a bundle is alone.

    Clusters are named by ids, for a value may be a text, and predictions are to hold none.
    """
    first: dict[str, str] = {}
    found = []
    for bundle in bundles:
        value = values[bundle.original.id]
        own = bundle.id if value is None else first.setdefault(str(value), bundle.id)
        found.append(bundle._replace(cluster=own))
    return tuple(found)


def _decides(bundle: Bundle) -> str:
    """What of a bundle, beside its examples, decides the scores."""
    return bundle.id if bundle.cluster is None else f"{bundle.id} in {bundle.cluster}"


def _counts(task: TaskSpec, bundles: Sequence[Bundle]) -> dict[str, int]:
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

"""Reads the rows of a contrast set: finds them, numbers them, and fills the task's columns from the set's own.

A contrast set names its columns in its own way. For each column of the task, `original` and `perturbed` of its spec
have a template: the name of a column of the set, or a text with such names in braces, `{premise} {hypothesis}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.errors import ResourceError
from rbench.spec import ContrastSpec
from rbench.tabular import check_unicode
from rbench.tasks import lines, local
from rbench.tasks.clean import Row

_PART = re.compile(r"\{(\w+)\}")


def locate_contrast(spec: ContrastSpec, data_path: Sequence[Path] = ()) -> str:
    """Say where `open_contrast` would take the rows from, as a text for people.

    Raises:
        ResourceError: no folder of `data_path` has the set's file.
    """
    if spec.generator is not None:
        return f"generated ({spec.generator})"
    return f"file {_find(spec, data_path)}"


def numbered_rows(spec: ContrastSpec, data_path: Sequence[Path]) -> tuple[str, Iterator[Row]]:
    """Where the rows come from, in words, and the rows, each with an id of its own.

    Raises:
        ResourceError: no folder of `data_path` has the set's file; while rows are read: two have the same id.
    """
    if spec.generator is not None:
        from rbench import mini

        made = mini.contrast_rows(spec.generator)
        name = f"generated ({spec.generator})"
        return name, _identified(spec, ((f"{name} row {i}", row) for i, row in enumerate(made)))
    path = _find(spec, data_path)
    read = ((f"{path}:{number}", values) for number, values in lines.read(path))
    return f"local {path.parent}", _identified(spec, read)


def _identified(spec: ContrastSpec, read: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Row]:
    """Rows with their ids; a row without one gets its number. Predictions are stored by id, so ids must differ."""
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
    """The set's file in the first folder that has it."""
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


def side_of(spec: ContrastSpec, row: Row, side: str) -> Row:
    """The `original` or the `perturbed` side of a row, under the task's names of columns."""
    names: Mapping[str, str] = getattr(spec, side)
    suffix = ":original" if side == "original" else ""
    return Row(row.id + suffix, row.where, {name: filled(spec, row, template) for name, template in names.items()})


def filled(spec: ContrastSpec, row: Row, template: str) -> Any:
    """What a template gives for a row: the value of a column, or a text with columns filled in.

    Raises:
        ResourceError: the row lacks a column.
    """
    missing = [name for name in _names(template) if name not in row.values]
    if missing:
        has = ", ".join(row.values)
        raise ResourceError(
            f"{row.where}: contrast set `{spec.name}` needs a column `{missing[0]}`; this row has {has}"
        )
    if "{" not in template:
        return row.values[template]
    if any(row.values[name] is None for name in _names(template)):
        return None
    return _PART.sub(lambda part: str(row.values[part[1]]), template)


def _names(template: str) -> list[str]:
    """The columns that a template needs."""
    return _PART.findall(template) if "{" in template else [template]

"""Reads tasks that are made of several sources, any of which may be absent: `parts` in a task file.

A part is read from the first data folder that has all of its files, else from the hub. A part that is in neither is
left out, and the log and the task's origin name it. Each split needs one part at least. The id of an example is the
name of its part and its row, so a task's fingerprint says which parts were there.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rbench.errors import ResourceError
from rbench.schema import HubData, Part, TaskSpec
from rbench.tasks import lines, local, online
from rbench.tasks.clean import Columns, Example, Row

logger = logging.getLogger("rbench")
T = TypeVar("T")


def read(spec: TaskSpec, data_path: Sequence[Path]) -> tuple[str, Columns, dict[str, list[Row]]]:
    """Return the origin of a task's rows, for people, their columns, which are the task's own, and the rows by split.

    Raises:
        ResourceError: no part of a split is there (with the files that would be one), or a file cannot be read.
    """
    rows: dict[str, list[Row]] = {}
    origin, found = _each(spec, data_path, lambda part: _rows(part, data_path))
    for part in spec.parts:
        rows.setdefault(part.split, []).extend(found.get(part.name, ()))
    return origin, Columns.of(spec, {}), rows


def locate(spec: TaskSpec, data_path: Sequence[Path]) -> str:
    """Describe where the parts are, without reading or downloading them. Raises ResourceError as `read` does."""
    return _each(spec, data_path, lambda part: _located(part, data_path))[0]


def files(part: Part, data_path: Sequence[Path]) -> list[Path]:
    """Return the files of a part in the first data folder that has all of them; none where no folder has."""
    for root in data_path if part.local else ():
        found = [path for source in part.local for path in local.source_files(root, source)]
        if found and all(path.is_file() for path in found):
            return found
    return []


def counts(spec: TaskSpec, examples: Mapping[str, Sequence[Example]]) -> dict[str, int]:
    """Return the number of examples of each part of a task; 0 for a part that is absent, or of which none is left."""
    there = Counter(part_of(example) for own in examples.values() for example in own)
    return {part.name: there[part.name] for part in spec.parts}


def part_of(example: Example) -> str:
    """Return the name of the part that an example came from."""
    return example.id.rpartition(":")[0]


def _each(spec: TaskSpec, data_path: Sequence[Path], ask: Callable[[Part], T]) -> tuple[str, dict[str, T]]:
    """Ask for each part. Return which are there and which absent, for people, and the answers by name."""
    found: dict[str, T] = {}
    absent: dict[str, str] = {}
    for part in spec.parts:
        try:
            found[part.name] = ask(part)
        except _AbsentError as error:
            absent[part.name] = str(error)
    told = []
    for split in dict.fromkeys(part.split for part in spec.parts):
        own = [part for part in spec.parts if part.split == split]
        if all(part.name in absent for part in own):
            raise ResourceError(_nothing(spec, split, own, data_path, absent))
        told.append(f"{split}: {' + '.join(part.name for part in own if part.name in found)}")
    for reason in dict.fromkeys(absent.values()):
        names = ", ".join(name for name, why in absent.items() if why == reason)
        logger.warning("task %s: absent: %s: %s", spec.name, names, reason)
    told += [f"absent: {', '.join(absent)}"] if absent else []
    return f"several sources ({'; '.join(told)})", found


class _AbsentError(Exception):
    """A part is not there; says why."""


def _rows(part: Part, data_path: Sequence[Path]) -> list[Row]:
    """Return a part's rows, with its name in their ids."""
    if part.generator is not None:
        own = Row.generated(part.generator, part.split)
    else:
        there = files(part, data_path)
        own = [Row("", f"{path}:{line}", row) for path in there for line, row in lines.read(path)] or _from_hub(part)
    first, last = part.rows or (0, len(own))
    return [Row(f"{part.name}:{first + i}", row.where, row.values) for i, row in enumerate(own[first:last])]


def _located(part: Part, data_path: Sequence[Path]) -> str:
    if part.generator is not None or files(part, data_path):
        return part.name
    source = _hub(part)
    try:
        return online.locate(source)
    except ResourceError as error:
        raise _AbsentError(str(error)) from error


def _from_hub(part: Part) -> list[Row]:
    """Return a part's rows under the task's column names, with labels by the source's label map.

    A label that the map does not have becomes None, and the row is left out.
    """
    source, rows = _hub(part), []
    try:
        _, found = online.read(source)
    except ResourceError as error:
        raise _AbsentError(str(error)) from error
    for row in found[part.split]:
        values = {name: row.values[column] for name, column in source.columns.items() if column in row.values}
        if source.label_map is not None and "label" in values:
            values["label"] = source.label_map.get(str(values["label"]))
        rows.append(row._replace(values=values))
    return rows


def _hub(part: Part) -> HubData:
    """Return a part's data set on the hub. Raises _AbsentError where it has none."""
    if part.hub is None:
        raise _AbsentError(f"there is no {' + '.join(map(local.file_of, part.local))} in a data folder")
    return HubData(splits={part.split: part.hub.split}, **part.hub.model_dump(exclude={"split"}))


def _nothing(
    spec: TaskSpec, split: str, lacking: Sequence[Part], data_path: Sequence[Path], absent: Mapping[str, str]
) -> str:
    looked = ", ".join(map(str, data_path)) or "the data path, which is empty"
    wanted = ", or ".join(" + ".join(map(local.file_of, part.local)) for part in lacking if part.local)
    reasons = "; ".join(dict.fromkeys(f"{part.name}: {absent[part.name]}" for part in lacking))
    return (
        f"task `{spec.name}`: no part of its {split} split is in {looked} or on the hub ({reasons}). "
        f"Put {wanted} (columns {', '.join((*spec.columns, 'label'))}) into a folder DIR and pass --data DIR or set "
        "RBENCH_DATA=DIR."
    )

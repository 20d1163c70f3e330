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
from rbench.schema import HubData, TaskPart, TaskSpec
from rbench.tasks import lines, local, online
from rbench.tasks.clean import Example, SourceColumns, SourceRow

logger = logging.getLogger("rbench")
AnswerT = TypeVar("AnswerT")


def read(spec: TaskSpec, data_path: Sequence[Path]) -> tuple[str, SourceColumns, dict[str, list[SourceRow]]]:
    """Return the origin of a task's rows, for people, their columns, which are the task's own, and the rows by split.

    Raises:
        ResourceError: no part of a split is there (with the files that would be one), or a file cannot be read.
    """
    rows: dict[str, list[SourceRow]] = {}
    origin, rows_of_parts = _ask_each(spec, data_path, lambda part: _read_part(part, data_path))
    for part in spec.parts:
        rows.setdefault(part.split, []).extend(rows_of_parts.get(part.name, ()))
    return origin, SourceColumns.of(spec, {}), rows


def locate(spec: TaskSpec, data_path: Sequence[Path]) -> str:
    """Describe where the parts are, without reading or downloading them. Raises ResourceError as `read` does."""
    return _ask_each(spec, data_path, lambda part: _locate_part(part, data_path))[0]


def find_part_files(part: TaskPart, data_path: Sequence[Path]) -> list[Path]:
    """Return the files of a part in the first data folder that has all of them; none where no folder has."""
    for root in data_path if part.local else ():
        part_files = [path for source in part.local for path in local.source_files(root, source)]
        if part_files and all(path.is_file() for path in part_files):
            return part_files
    return []


def count_examples(spec: TaskSpec, examples: Mapping[str, Sequence[Example]]) -> dict[str, int]:
    """Return the number of examples of each part of a task; 0 for a part that is absent, or of which none is left."""
    by_part = Counter(part_of(example) for split_examples in examples.values() for example in split_examples)
    return {part.name: by_part[part.name] for part in spec.parts}


def part_of(example: Example) -> str:
    """Return the name of the part that an example came from."""
    return example.id.rpartition(":")[0]


def _ask_each(
    spec: TaskSpec, data_path: Sequence[Path], ask: Callable[[TaskPart], AnswerT]
) -> tuple[str, dict[str, AnswerT]]:
    """Ask for each part. Return which are there and which absent, for people, and the answers by name."""
    answers: dict[str, AnswerT] = {}
    absent: dict[str, str] = {}
    for part in spec.parts:
        try:
            answers[part.name] = ask(part)
        except _AbsentError as error:
            absent[part.name] = str(error)
    lines_of_splits = []
    for split in dict.fromkeys(part.split for part in spec.parts):
        split_parts = [part for part in spec.parts if part.split == split]
        if all(part.name in absent for part in split_parts):
            raise ResourceError(_nothing_message(spec, split, split_parts, data_path, absent))
        lines_of_splits.append(f"{split}: {' + '.join(part.name for part in split_parts if part.name in answers)}")
    for reason in dict.fromkeys(absent.values()):
        names = ", ".join(name for name, absence in absent.items() if absence == reason)
        logger.warning("task %s: absent: %s: %s", spec.name, names, reason)
    lines_of_splits += [f"absent: {', '.join(absent)}"] if absent else []
    return f"several sources ({'; '.join(lines_of_splits)})", answers


class _AbsentError(Exception):
    """A part is not there; says why."""


def _read_part(part: TaskPart, data_path: Sequence[Path]) -> list[SourceRow]:
    """Return a part's rows, with its name in their ids."""
    if part.generator is not None:
        part_rows = SourceRow.generated(part.generator, part.split)
    else:
        part_files = find_part_files(part, data_path)
        part_rows = [
            SourceRow("", f"{path}:{line}", row) for path in part_files for line, row in lines.read(path)
        ] or _read_from_hub(part)
    first_row, end_row = part.rows or (0, len(part_rows))
    return [
        SourceRow(f"{part.name}:{first_row + i}", row.where, row.values)
        for i, row in enumerate(part_rows[first_row:end_row])
    ]


def _locate_part(part: TaskPart, data_path: Sequence[Path]) -> str:
    if part.generator is not None or find_part_files(part, data_path):
        return part.name
    source = _hub_source(part)
    try:
        return online.locate(source)
    except ResourceError as error:
        raise _AbsentError(str(error)) from error


def _read_from_hub(part: TaskPart) -> list[SourceRow]:
    """Return a part's rows under the task's column names, with labels by the source's label map.

    A label that the map does not have becomes None, and the row is left out.
    """
    source, rows = _hub_source(part), []
    try:
        _, hub_rows = online.read(source)
    except ResourceError as error:
        raise _AbsentError(str(error)) from error
    for row in hub_rows[part.split]:
        # Parts of several sources are joined, so each is given the names of the task before that.
        values = {name: row.values[column] for name, column in source.columns.items() if column in row.values}
        if source.label_map is not None and "label" in values:
            values["label"] = source.label_map.get(str(values["label"]))
        rows.append(row._replace(values=values))
    return rows


def _hub_source(part: TaskPart) -> HubData:
    """Return a part's data set on the hub. Raises _AbsentError where it has none."""
    if part.hub is None:
        raise _AbsentError(f"there is no {' + '.join(map(local.file_of_source, part.local))} in a data folder")
    return HubData(splits={part.split: part.hub.split}, **part.hub.model_dump(exclude={"split"}))


def _nothing_message(
    spec: TaskSpec, split: str, lacking: Sequence[TaskPart], data_path: Sequence[Path], absent: Mapping[str, str]
) -> str:
    searched = ", ".join(map(str, data_path)) or "the data path, which is empty"
    missing_files = ", or ".join(" + ".join(map(local.file_of_source, part.local)) for part in lacking if part.local)
    reasons = "; ".join(dict.fromkeys(f"{part.name}: {absent[part.name]}" for part in lacking))
    return (
        f"task `{spec.name}`: no part of its {split} split is in {searched} or on the hub ({reasons}). Put "
        f"{missing_files} (columns {', '.join((*spec.columns, 'label'))}) into a folder DIR and pass --data DIR or set "
        "RBENCH_DATA=DIR."
    )

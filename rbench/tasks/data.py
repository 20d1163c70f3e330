"""Opens a task: finds its data, divides it into splits, cleans it, and counts what was left out."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from rbench.config.tabular import list_files
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks.clean import (
    FEW_UNKNOWN,
    MOST_UNKNOWN,
    ColumnsOfSplits,
    Example,
    ReservedTexts,
    SourceColumns,
    SourceRow,
    clean_rows,
)

logger = logging.getLogger("rbench")


@dataclass(frozen=True)
class TaskData:
    """A task with its examples, cleaned by the rules of `rbench.tasks.clean`.

    `dropped` counts the rows left out, by split and reason (`train: also in test`). `where` has the first few of their
    places (`file:line`). `conflicts` counts the texts that a split has under several labels, which are kept.
    `fingerprint` is the hash of all examples of all splits: ids, texts and labels. `read` has the number of rows that
    were read, before any was left out, by split. `untaught` has the labels of the test split that no training row has:
    how many rows, and the place of the first.
    """

    spec: TaskSpec
    origin: str
    fingerprint: str
    dropped: dict[str, int]
    where: dict[str, list[str]]
    conflicts: dict[str, int]
    examples: Mapping[str, Sequence[Example]] = field(repr=False)
    read: Mapping[str, int] = field(default_factory=dict)
    subsets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """For each split whose rows name their subsets (`TaskSpec.subsets`), the subset of each example by its id."""
    collection: Any = field(default=None, repr=False)
    """What a task has beside its examples: the documents of a ranking (`rbench.tasks.ranking.DocumentCollection`),
    whose examples are its queries. None: nothing."""
    untaught: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """A cache of `split_fingerprint`, by split."""

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples by split."""
        return {name: len(examples) for name, examples in self.examples.items()}

    @property
    def unlike_published(self) -> dict[str, tuple[int, int]]:
        """The rows read and the rows published, by split, where the two differ."""
        published = {name: size for name, size in self.spec.sizes.items() if name in self.read}
        return {name: (self.read[name], size) for name, size in published.items() if self.read[name] != size}

    @property
    def own(self) -> bool:
        """Whether it is a table of the user's."""
        return self.spec.local is not None and self.spec.local.file is not None

    @property
    def contradicted(self) -> list[str]:
        """The texts that have several labels, as phrases. Of a user's own table alone: published sets have some."""
        return [
            f"{texts:,} text{'s' if texts > 1 else ''} of its {split} split stand there under several labels; "
            "the rows are kept, and no victim can be right on all of them"
            for split, texts in self.conflicts.items()
            if texts and self.own
        ]

    @property
    def left_out(self) -> list[str]:
        """The rows that were left out, as phrases. Of a user's own table, with the first places."""
        return [
            f"{count} rows left out: {reason}" + (f" ({', '.join(self.where[reason])})" if self.own else "")
            for reason, count in self.dropped.items()
            if count
        ]

    @property
    def unlearnable(self) -> list[str]:
        """The labels of the test split that no training row has, as phrases with the place of their first row."""
        return [
            f"{where}: label {label} has no row in train, and {n:,} in test; no victim can learn it here"
            for label, (n, where) in self.untaught.items()
        ]

    @property
    def teaches_too_little(self) -> bool:
        """Whether so many test rows have such labels that they are misspelt rather than rare, or all have."""
        n, size = sum(count for count, _ in self.untaught.values()), self.sizes.get("test", 0)
        return n > max(FEW_UNKNOWN, MOST_UNKNOWN * size) or n == size > 0

    def split(self, name: str) -> list[Example]:
        """Return the examples of a split, in the order of their source.

        Raises:
            ResourceError: the task has no such split.
        """
        if name not in self.examples:
            raise ResourceError(f"task `{self.spec.name}` has no {name} split; it has {', '.join(self.examples)}")
        return list(self.examples[name])

    def with_train(self, examples: Sequence[Example]) -> TaskData:
        """Return the same task with other training examples. The fingerprint does not change."""
        return replace(self, examples={**self.examples, "train": examples})

    def split_fingerprint(self, name: str) -> str:
        """Return the hash of the examples of one split. Raises ResourceError as `split` does."""
        if self.collection is not None and name in self.examples:
            return self.fingerprint  # the documents decide what is measured of the queries
        if name not in self._hashes:
            self._hashes[name] = hash_examples({name: self.split(name)})
        return self._hashes[name]


def open_task(spec: TaskSpec, data_path: Sequence[Path] = (), reserved: Sequence[ReservedTexts] = ()) -> TaskData:
    """Open the data of `spec`: generated, from a file, from the first complete copy in a data folder, or from the hub.

    `reserved` holds what contrast sets keep out of training and validation, because victims are evaluated on them.

    Raises:
        ResourceError: there is no data (says where it looked and how to get it), or it is unreadable (says where).
    """
    if (reader := spec.of_kind.module_in("rbench.tasks")) is not None:
        return cast(TaskData, reader.open_task(spec, data_path))
    origin, columns, rows = _find_source(spec, data_path).read()
    examples, dropped = clean_rows(spec, columns, rows, reserved, origin)
    for reason, count in dropped.counts.items():
        logger.info("task %s: %d rows left out, %s: %s", spec.name, count, reason, ", ".join(dropped.places[reason]))
    return TaskData(
        spec,
        origin,
        hash_examples(examples),
        dict(dropped.counts),
        dropped.places,
        dropped.conflicts,
        examples,
        {name: len(source_rows) for name, source_rows in rows.items()},
        read_subsets(spec, columns, rows),
        untaught=dropped.untaught,
    )


def locate_task(spec: TaskSpec, data_path: Sequence[Path] = ()) -> str:
    """Describe where `open_task` would take the data from, for people. Nothing is read or downloaded.

    Raises:
        ResourceError: there is no data (says where it looked and how to get it).
    """
    return _find_any_source(spec, data_path).locate()


def list_task_files(spec: TaskSpec, data_path: Sequence[Path]) -> list[Path]:
    """Return the files of a task's rows. The list is empty where rows are generated or come from the hub.

    Raises:
        ResourceError: the task is a corpus file or a table, and it is not there.
    """
    return _find_any_source(spec, data_path).files()


_ReadRows = tuple[str, ColumnsOfSplits, Mapping[str, Sequence[SourceRow]]]
"""A description of where rows come from, the meaning of their columns, and the rows by split."""


class DataSource(Protocol):
    """Where the rows of a task are. Rows are read, and the hub is asked, when a field is called."""

    @property
    def locate(self) -> Callable[[], str]: ...
    @property
    def files(self) -> Callable[[], list[Path]]: ...


class _ReadableSource(NamedTuple):
    """Where the rows of a task are. Rows are read, and the hub is asked, when a field is called."""

    locate: Callable[[], str]
    files: Callable[[], list[Path]]
    read: Callable[[], _ReadRows]


def _find_any_source(spec: TaskSpec, data_path: Sequence[Path]) -> DataSource:
    """Return where the rows of a task of any kind are."""
    if (reader := spec.of_kind.module_in("rbench.tasks")) is not None:
        return cast(DataSource, reader.source(spec, data_path))
    return _find_source(spec, data_path)


def _find_source(spec: TaskSpec, data_path: Sequence[Path]) -> _ReadableSource:
    """Return the first that a task has: a generator, a corpus file, a table, parts, a local copy, data of the hub."""
    if spec.generator is not None:
        generated_from = f"generated ({spec.generator})"
        return _ReadableSource(
            lambda: generated_from, list, lambda: (generated_from, SourceColumns.of(spec, {}), _generate_rows(spec))
        )
    if spec.local is not None and spec.local.file is not None:
        from rbench.tasks import lines, tables

        if not tables.is_corpus(spec):
            where = tables.find_table(spec, data_path)
            return _ReadableSource(
                lambda: f"table {where}", lambda: list_files(where), lambda: tables.read(spec, where)
            )
        path, file_columns = (
            lines.find_place(spec.local.file, data_path, f"corpus {spec.local.file}"),
            SourceColumns.of(spec, spec.local.columns),
        )
        file_name = f"file {path.name}"
        return _ReadableSource(
            lambda: f"file {path}",
            lambda: [path],
            lambda: (file_name, file_columns, {"train": lines.read_corpus(path)}),
        )
    if spec.parts:
        from rbench.tasks import parts

        return _ReadableSource(
            lambda: parts.locate(spec, data_path),
            lambda: [path for part in spec.parts for path in parts.find_part_files(part, data_path)],
            lambda: parts.read(spec, data_path),
        )
    from rbench.tasks import local

    local_copy = local.find_copy(spec, data_path)
    if local_copy is None:
        from rbench.tasks import online

        return _ReadableSource(
            lambda: online.locate_task(spec, data_path), list, lambda: online.read_task(spec, data_path)
        )
    local_origin = local.describe_copy(*local_copy)

    def read() -> _ReadRows:
        columns, rows = SourceColumns.of(spec, spec.local.columns if spec.local else {}), local.read(*local_copy)
        # Ids from 0 would lose one label and shift the others where labels are numbers.
        if spec.has_numbers_as_labels:
            from rbench.tasks import tables

            rows = tables.with_known_labels(spec, rows)
        return local_origin, columns, rows

    return _ReadableSource(lambda: local_origin, lambda: local.list_files(*local_copy), read)


def _generate_rows(spec: TaskSpec) -> dict[str, list[SourceRow]]:
    from rbench import mini

    generator = str(spec.generator)
    return {split: SourceRow.generated(generator, split) for split in mini.splits(generator)}


def hash_examples(examples: Mapping[str, Sequence[Example]]) -> str:
    """Return the hash of all examples of all splits: ids, texts and labels."""
    digest = hashlib.sha256()
    for split in sorted(examples):
        digest.update(f"{split}\n".encode())
        for example in examples[split]:
            # Each part with its length, so that no two lists of parts give the same bytes.
            parts = (example.id, *example.texts, repr(example.label))
            line = "".join(f"{len(part)}:{part}" for part in parts) + "\n"
            digest.update(line.encode())
    return digest.hexdigest()


def read_subsets(
    spec: TaskSpec, columns: ColumnsOfSplits, rows: Mapping[str, Sequence[SourceRow]]
) -> dict[str, dict[str, str]]:
    """Return the subset of each row by its id, for each split whose subsets the task lists.

    A source without a column of subsets, such as the hub's copies, has none: its splits are left out.

    Raises:
        ResourceError: a row names no subset where others do, or one that the task does not list.
    """
    subsets: dict[str, dict[str, str]] = {}
    for split, known in spec.subsets.items():
        column = (columns if isinstance(columns, SourceColumns) else columns[split]).subset if split in rows else ""
        rows_with_subset = [row for row in rows.get(split, ()) if column in row.values]
        if rows_with_subset:
            subsets[split] = {row.id: _read_subset(spec, row, column, known) for row in rows[split]}
    return subsets


def _read_subset(spec: TaskSpec, row: SourceRow, column: str, known: Mapping[str, int]) -> str:
    name = row.values.get(column)
    if isinstance(name, str) and name in known:
        return name
    problem = "this row names none" if name is None else f"{name!r} is not one of them"
    close_names = get_close_matches(str(name), known, n=1)
    hint = f" (did you mean `{close_names[0]}`?)" if close_names else ""
    raise ResourceError(
        f"{row.where}: `{column}` must be a subset of task `{spec.name}` ({', '.join(known)}); {problem}{hint}. "
        "Correct the row, or list the subset under `subsets` of the task's file"
    )

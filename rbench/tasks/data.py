"""Opens a task: finds its data, divides it into splits, cleans it, and counts what was left out."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from rbench.config.tabular import files_of
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks.clean import FEW, MOST_UNKNOWN, Columns, Example, Reserved, Row, SplitColumns, clean

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
    """What a task has beside its examples: the documents of a ranking (`rbench.tasks.ranking.Collection`), whose
    examples are its queries. None: nothing."""
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
        return n > max(FEW, MOST_UNKNOWN * size) or n == size > 0

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
            self._hashes[name] = content_hash({name: self.split(name)})
        return self._hashes[name]


def open_task(spec: TaskSpec, data_path: Sequence[Path] = (), reserved: Sequence[Reserved] = ()) -> TaskData:
    """Open the data of `spec`: generated, from a file, from the first complete copy in a data folder, or from the hub.

    `reserved` holds what contrast sets keep out of training and validation, because victims are evaluated on them.

    Raises:
        ResourceError: there is no data (says where it looked and how to get it), or it is unreadable (says where).
    """
    if (reader := spec.of_kind.module_in("rbench.tasks")) is not None:
        return cast(TaskData, reader.open_task(spec, data_path))
    origin, columns, rows = _source(spec, data_path).read()
    examples, dropped = clean(spec, columns, rows, reserved, origin)
    for reason, count in dropped.counts.items():
        logger.info("task %s: %d rows left out, %s: %s", spec.name, count, reason, ", ".join(dropped.places[reason]))
    return TaskData(
        spec,
        origin,
        content_hash(examples),
        dict(dropped.counts),
        dropped.places,
        dropped.conflicts,
        examples,
        {name: len(found) for name, found in rows.items()},
        subsets_of(spec, columns, rows),
        untaught=dropped.untaught,
    )


def locate_task(spec: TaskSpec, data_path: Sequence[Path] = ()) -> str:
    """Describe where `open_task` would take the data from, for people. Nothing is read or downloaded.

    Raises:
        ResourceError: there is no data (says where it looked and how to get it).
    """
    return _any_source(spec, data_path).locate()


def files_of_task(spec: TaskSpec, data_path: Sequence[Path]) -> list[Path]:
    """Return the files of a task's rows. The list is empty where rows are generated or come from the hub.

    Raises:
        ResourceError: the task is a corpus file or a table, and it is not there.
    """
    return _any_source(spec, data_path).files()


_Read = tuple[str, SplitColumns, Mapping[str, Sequence[Row]]]
"""A description of where rows come from, the meaning of their columns, and the rows by split."""


class DataPlace(Protocol):
    """Where the rows of a task are. Rows are read, and the hub is asked, when a field is called."""

    @property
    def locate(self) -> Callable[[], str]: ...
    @property
    def files(self) -> Callable[[], list[Path]]: ...


class _Source(NamedTuple):
    """Where the rows of a task are. Rows are read, and the hub is asked, when a field is called."""

    locate: Callable[[], str]
    files: Callable[[], list[Path]]
    read: Callable[[], _Read]


def _any_source(spec: TaskSpec, data_path: Sequence[Path]) -> DataPlace:
    """Return where the rows of a task of any kind are."""
    if (reader := spec.of_kind.module_in("rbench.tasks")) is not None:
        return cast(DataPlace, reader.source(spec, data_path))
    return _source(spec, data_path)


def _source(spec: TaskSpec, data_path: Sequence[Path]) -> _Source:
    """Return the first that a task has: a generator, a corpus file, a table, parts, a local copy, data of the hub."""
    if spec.generator is not None:
        made = f"generated ({spec.generator})"
        return _Source(lambda: made, list, lambda: (made, Columns.of(spec, {}), _generated(spec)))
    if spec.local is not None and spec.local.file is not None:
        from rbench.tasks import lines, tables

        if not tables.is_corpus(spec):
            where = tables.find(spec, data_path)
            return _Source(lambda: f"table {where}", lambda: files_of(where), lambda: tables.read(spec, where))
        path, of = lines.find(spec.local.file, data_path), Columns.of(spec, spec.local.columns)
        named = f"file {path.name}"
        return _Source(lambda: f"file {path}", lambda: [path], lambda: (named, of, {"train": lines.corpus(path)}))
    if spec.parts:
        from rbench.tasks import parts

        return _Source(
            lambda: parts.locate(spec, data_path),
            lambda: [path for part in spec.parts for path in parts.files(part, data_path)],
            lambda: parts.read(spec, data_path),
        )
    from rbench.tasks import local

    found = local.find(spec, data_path)
    if found is None:
        from rbench.tasks import online

        return _Source(lambda: online.locate_task(spec, data_path), list, lambda: online.read_task(spec, data_path))
    told = local.describe(*found)

    def read() -> _Read:
        columns, rows = Columns.of(spec, spec.local.columns if spec.local else {}), local.read(*found)
        # Ids from 0 would lose one label and shift the others where labels are numbers.
        if spec.has_numbers_as_labels:
            from rbench.tasks import tables

            rows = tables.with_known_labels(spec, rows)
        return told, columns, rows

    return _Source(lambda: told, lambda: local.files(*found), read)


def _generated(spec: TaskSpec) -> dict[str, list[Row]]:
    from rbench import mini

    generator = str(spec.generator)
    return {split: Row.generated(generator, split) for split in mini.splits(generator)}


def content_hash(examples: Mapping[str, Sequence[Example]]) -> str:
    """Return the hash of all examples of all splits: ids, texts and labels."""
    digest = hashlib.sha256()
    for split in sorted(examples):
        digest.update(f"{split}\n".encode())
        for example in examples[split]:
            parts = (example.id, *example.texts, repr(example.label))
            line = "".join(f"{len(part)}:{part}" for part in parts) + "\n"
            digest.update(line.encode())
    return digest.hexdigest()


def subsets_of(spec: TaskSpec, columns: SplitColumns, rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, str]]:
    """Return the subset of each row by its id, for each split whose subsets the task lists.

    A source without a column of subsets, such as the hub's copies, has none: its splits are left out.

    Raises:
        ResourceError: a row names no subset where others do, or one that the task does not list.
    """
    found: dict[str, dict[str, str]] = {}
    for split, known in spec.subsets.items():
        column = (columns if isinstance(columns, Columns) else columns[split]).subset if split in rows else ""
        named = [row for row in rows.get(split, ()) if column in row.values]
        if named:
            found[split] = {row.id: _subset(spec, row, column, known) for row in rows[split]}
    return found


def _subset(spec: TaskSpec, row: Row, column: str, known: Mapping[str, int]) -> str:
    name = row.values.get(column)
    if isinstance(name, str) and name in known:
        return name
    said = "this row names none" if name is None else f"{name!r} is not one of them"
    near = get_close_matches(str(name), known, n=1)
    hint = f" (did you mean `{near[0]}`?)" if near else ""
    raise ResourceError(
        f"{row.where}: `{column}` must be a subset of task `{spec.name}` ({', '.join(known)}); {said}{hint}. "
        "Correct the row, or list the subset under `subsets` of the task's file"
    )

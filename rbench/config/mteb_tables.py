"""Tasks of the package mteb that a suite names in place of a task: `tasks: [mteb:Banking77Classification]`.

    mteb:NAME[:SUBSET]

mteb loads the rows at the revision that its metadata pins, and says which columns hold texts and labels, which split
is evaluated and what is relevant to a query. rbench saves them once into its cache: classifications, pairs and
similarities as a table, rankings as a folder in BEIR's layout.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.hub_tables import SavedTable, ranking_content, save_splits
from rbench.errors import ResourceError
from rbench.schema import Origin
from rbench.system import scratch
from rbench.system.own_code import failing_in

PREFIX = "mteb:"
_FORM = re.compile(r"mteb:(?P<name>[\w.+-]+)(?::(?P<subset>[\w.+-]+))?")
KINDS = ("Classification", "STS", "PairClassification", "Retrieval")


class MtebTable(NamedTuple):
    """A task of mteb, as a suite names it."""

    task: str
    subset: str | None

    @property
    def name(self) -> str:
        return "-".join(part for part in self if part)

    def __str__(self) -> str:
        return PREFIX + ":".join(part for part in self if part)

    def saved(self) -> SavedTable:
        """Return the rows in the cache, loaded by mteb first where its revision is not there.

        Raises ResourceError where mteb is not installed or has no such English task, or where it cannot load the rows.
        """
        task = _load_task(self)
        folder, kind, revision = self._save(task), str(task.metadata.type), _revision_of(task)
        note = f"{self} is read by mteb at revision {revision}; its metadata say which columns and splits"
        origin = Origin(id=str(task.metadata.dataset["path"]), revision=revision, config=self.subset)
        return SavedTable(folder, (note,), origin, _READ[kind](task, folder))

    def open_task(self) -> MtebTask:
        """Return mteb's own task with the rows of the cache, so that mteb can evaluate an encoder without the hub.

        Raises ResourceError as `saved` does.
        """
        task, subset, split = self.find()
        read = _read_ranking if task.metadata.type == "Retrieval" else _read_table
        task.dataset, task.data_loaded = {subset: read(task, self._save(task), split)}, True
        return MtebTask(task, subset, split)

    def find(self) -> MtebTask:
        """Return mteb's own task without rows. Raises ResourceError where mteb has no such English task."""
        task = _load_task(self)
        return MtebTask(task, _choose_subset(self, [*task.hf_subsets]), _tested_split(task, task.metadata.eval_splits))

    def _save(self, task: Any) -> Path:
        """Return the folder of the task in the cache, written first where it is not there."""
        subset = _choose_subset(self, [*task.hf_subsets])
        name = f"mteb--{'--'.join(part for part in self if part)}@{_revision_of(task)}"
        folder = scratch.default_cache() / "datasets" / name
        if not folder.is_dir():
            _load_rows(self, task)
            save = _save_ranking if task.metadata.type == "Retrieval" else _save_table
            save(task, subset, folder)
        return folder


class MtebTask(NamedTuple):
    """A task of mteb, and what of it is evaluated."""

    task: Any
    """mteb's `AbsTask`."""
    subset: str
    split: str


def is_mteb_table(written: str) -> bool:
    return written.startswith(PREFIX)


def read_mteb_name(written: str) -> MtebTable:
    """Return the task that a text names. Raises ResourceError where it is not of the form above."""
    match = _FORM.fullmatch(written)
    if match is None:
        raise ResourceError(f"{written}: expected mteb:NAME or mteb:NAME:SUBSET")
    return MtebTable(match["name"], match["subset"])


def _load_task(mteb_table: MtebTable) -> Any:
    if importlib.util.find_spec("mteb") is None:
        raise ResourceError(f"{mteb_table}: the package mteb is not installed (`pip install 'rbench[mteb]'`)")
    import mteb

    with failing_in(str(mteb_table)):
        task = mteb.get_task(mteb_table.task, languages=["eng"])
    if task.metadata.type not in KINDS:
        raise ResourceError(f"{mteb_table} is of mteb's type {task.metadata.type}; rbench reads {', '.join(KINDS)}")
    if not any(str(language).startswith("eng") for language in task.metadata.languages):
        raise ResourceError(f"{mteb_table} has no English texts, which attacks change")
    return task


def _revision_of(task: Any) -> str:
    return str(task.metadata.dataset.get("revision") or "unpinned")


def _choose_subset(mteb_table: MtebTable, subsets: Iterable[str]) -> str:
    """Return the subset that is read: the one named, the only one, `default` or `en`."""
    names = list(subsets)
    only = names[0] if len(names) == 1 else None
    chosen = mteb_table.subset or next((name for name in ("default", "en") if name in names), only)
    if chosen not in names:
        raise ResourceError(f"{mteb_table}: name one of its subsets, mteb:{mteb_table.task}:SUBSET: {', '.join(names)}")
    return chosen


def _load_rows(mteb_table: MtebTable, task: Any) -> None:
    with failing_in(str(mteb_table)):  # loaders of more than a thousand tasks raise errors of any kind
        task.load_data()
        if task.metadata.type == "Retrieval":
            task.convert_v1_dataset_format_to_v2(num_proc=None)


def _tested_split(task: Any, split_names: Iterable[str]) -> str:
    names = list(split_names)
    evaluated: list[str] = task.metadata.eval_splits
    return next(name for name in ("test", *evaluated, *names) if name in names and name in evaluated)


def _columns_of(task: Any) -> dict[str, str]:
    """Return the columns that a task of mteb has, by the names that rbench gives them."""
    kind = task.metadata.type
    if kind == "Classification":
        return {"text": str(task.input_column_name), "label": task.label_column_name}
    if kind == "STS":
        first, second = task.column_names
        return {"sentence1": first, "sentence2": second, "score": "score"}
    return {
        "sentence1": task.input1_column_name,
        "sentence2": task.input2_column_name,
        "label": task.label_column_name,
    }


def _save_table(task: Any, subset: str, folder: Path) -> None:
    """Save the columns of texts and labels of the splits that rbench uses."""
    by_split = task.dataset.get(subset, task.dataset)
    tested = _tested_split(task, by_split)
    train = getattr(task, "train_split", "train")
    parts = {"train": train, "validation": "validation", "test": tested}
    columns = _columns_of(task)
    splits = {
        split: _select_columns(by_split[mteb_split], columns)
        for split, mteb_split in parts.items()
        if mteb_split in by_split and (split == "test" or mteb_split != tested)
    }
    save_splits(splits, folder)


def _read_table(task: Any, folder: Path, tested: str) -> Any:
    """Return what `_save_table` saved with mteb's names of splits and columns."""
    import datasets

    mteb_splits = {"train": getattr(task, "train_split", "train"), "validation": "validation", "test": tested}
    saved = datasets.load_from_disk(str(folder)).rename_columns(_columns_of(task))
    return datasets.DatasetDict({mteb_splits[split]: rows for split, rows in saved.items()})


def _select_columns(rows: Any, columns: Mapping[str, str]) -> Any:
    """Return a data set with these columns alone. Some tasks have all rows in one, as lists."""
    import datasets

    values = {name_here: list(rows[mteb_name]) for name_here, mteb_name in columns.items()}
    if len(rows) == 1 and all(isinstance(column_values[0], list) for column_values in values.values()):
        values = {name: column_values[0] for name, column_values in values.items()}
    features = rows.features.get(columns.get("label", ""))
    dataset = datasets.Dataset.from_dict(values)
    return dataset.cast_column("label", features) if isinstance(features, datasets.ClassLabel) else dataset


def _save_ranking(task: Any, subset: str, folder: Path) -> None:
    """Save documents, queries and relevance in BEIR's layout."""
    by_split = task.dataset[subset]
    parts = by_split[_tested_split(task, by_split)]
    with scratch.writable_cache(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder.parent))
        try:
            (unfinished / "set" / "qrels").mkdir(parents=True)
            _write_lines(unfinished / "set" / "corpus.jsonl", parts["corpus"], ("title", "text"))
            _write_lines(unfinished / "set" / "queries.jsonl", parts["queries"], ("text",))
            with (unfinished / "set" / "qrels" / "test.tsv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter="\t", lineterminator="\n")
                writer.writerow(("query-id", "corpus-id", "score"))
                for query, grades in parts["relevant_docs"].items():
                    writer.writerows((query, document, grade) for document, grade in grades.items())
            (unfinished / "set").replace(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _read_ranking(task: Any, folder: Path, tested: str) -> dict[str, Any]:
    """Return what `_save_ranking` saved as mteb has it."""
    import datasets

    def read_rows(name: str) -> Any:
        with (folder / f"{name}.jsonl").open(encoding="utf-8") as file:
            return datasets.Dataset.from_list([json.loads(line) for line in file]).rename_column("_id", "id")

    relevance: dict[str, dict[str, int]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            relevance.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    parts = {"corpus": read_rows("corpus"), "queries": read_rows("queries"), "relevant_docs": relevance}
    return {tested: parts | {"top_ranked": None}}


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> None:
    names = tuple(columns)
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            content = {"_id": str(row["id"]), **{name: row.get(name) or "" for name in names}}
            file.write(json.dumps(content, ensure_ascii=False) + "\n")


def _table_content(kind: str | None) -> Callable[[Any, Path], dict[str, Any]]:
    def content(task: Any, folder: Path) -> dict[str, Any]:
        *texts, label = _columns_of(task)
        scale = {"scale": [task.min_score, task.max_score]} if kind == "sts" else {}
        return {"text": texts, "label": label, **({"kind": kind} if kind else {}), **scale}

    return content


_READ: dict[str, Callable[[Any, Path], dict[str, Any]]] = {
    "Classification": _table_content(None),
    "STS": _table_content("sts"),
    "PairClassification": _table_content("paraphrase"),
    "Retrieval": lambda task, folder: ranking_content(folder),
}
"""What the metadata of a task say of the saved rows, by mteb's type: options of a table, or a ranking task."""

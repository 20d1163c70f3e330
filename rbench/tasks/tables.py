"""Reads a task's rows from a table: the `file` of its `local`, which may be a folder with a table for each split.

- A folder with splits is taken as it is. If it has training rows and no validation split, a seeded tenth of the former
  is the latter (`split.draw_holdout`). A single table is divided by `split.divide_in_three` with the shares of
  `schema.Unsplit`, unless the task says `split: test`: then all its rows are test rows.
- Ids are `<split>:<row>`, and `row:<row>` where one table is divided. They hold no name of a file. So the same rows
  have the same ids, and their jobs the same keys, in whatever format they are.
- A label is a label's name. If no name is a number, it may be an id too. 1, 1.0 and "1.0" are the label `1`.
- More than `MOST_UNKNOWN` of all rows with other labels are an error. Fewer are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rbench.config.registry import nearest_names
from rbench.config.tabular import FileTable, TablePlace, check_unicode, open_place, text_of_label
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, Unsplit, is_text_file
from rbench.tasks import split
from rbench.tasks.clean import MOST_UNKNOWN, SourceColumns, SourceRow, find_label
from rbench.tasks.lines import find_place

FEWEST_ROWS = 11
"""The fewest rows that the rule divides into three splits, none of them empty."""
SMALL_TABLE = 2000
"""With fewer rows, `quarters` takes a quarter where the rule takes a tenth, which would leave few texts to attack."""


def is_corpus(spec: TaskSpec) -> bool:
    """Whether the task's `file` is a corpus, which `lines.read_corpus` reads: unlabelled texts in .txt or .jsonl."""
    assert spec.local is not None and spec.local.file is not None
    return spec.of_kind.label_column is None and is_text_file(spec.local.file)


def find_table(spec: TaskSpec, data_path: Sequence[Path]) -> Path:
    """Find the task's table: a path, or a path below a data folder.

    Raises:
        ResourceError: there is no such file or folder; names files in its folder with similar names.
    """
    assert spec.local is not None and spec.local.file is not None
    return find_place(spec.local.file, data_path, f"task `{spec.name}`")


def table_columns(spec: TaskSpec) -> SourceColumns:
    """Return the columns of the task's table, and the label ids of the names that stand there."""
    source_columns = SourceColumns.of(spec, spec.local.columns if spec.local is not None else {})
    if not spec.of_kind.has_classes:
        return source_columns
    ids = {} if spec.has_numbers_as_labels else {str(i): i for i in range(len(spec.labels))}
    return source_columns._replace(label_map=ids | {name: i for i, name in enumerate(spec.labels)})


def read(spec: TaskSpec, path: Path) -> tuple[str, SourceColumns, dict[str, list[SourceRow]]]:
    """Return where the rows come from, for people, what their columns mean, and the rows by split.

    Raises:
        ResourceError: the table cannot be read, lacks a column or a test split, has too few rows to be divided, or too
            many of them have labels that the task does not have.
    """
    assert spec.local is not None
    place = open_place(path)
    needed_columns = table_columns(spec)
    for table in place.tables:
        if table.rows:  # an empty table may have no columns
            _check_columns(spec, needed_columns, table)
    if place.whole is None:
        origin, rows = f"table {place.path}", _read_splits(spec, place)
    elif spec.of_kind.label_column is None or spec.local.split == "test":
        name = spec.local.split or "train"
        origin, rows = f"table {place.path} (all rows: {name})", {name: _number_rows(name, place.whole)}
    else:
        origin, rows = _divide(place.whole, quarters=spec.local.split == "quarters")
    return origin, needed_columns, with_known_labels(spec, rows)


def _check_columns(spec: TaskSpec, needed: SourceColumns, table: FileTable) -> None:
    """Raise ResourceError where a table lacks a column that the task needs."""
    names = needed.texts if needed.label is None else (*needed.texts, needed.label)
    missing = next((name for name in names if name not in table.columns), None)
    if missing is None:
        return
    close = nearest_names(missing, table.columns, n=1)
    hint = f" (did you mean `{close[0]}`?)" if close else ""
    raise ResourceError(
        f"{table.path}: task `{spec.name}` needs a column `{missing}`; there are {', '.join(table.columns)}{hint}"
    )


def _read_splits(spec: TaskSpec, place: TablePlace) -> dict[str, list[SourceRow]]:
    rows = {name: _number_rows(name, table) for name, table in place.splits.items()}
    if spec.of_kind.label_column is not None and "test" not in rows:
        raise ResourceError(
            f"{place.path}: it has {' and '.join(rows)} but no test split, which is attacked. Add a test file, or name "
            "the single table that rbench shall divide"
        )
    if "train" in rows and "validation" not in rows and spec.of_kind.label_column is not None:
        held_out = set(split.draw_holdout(len(rows["train"])))
        rows["validation"] = [row for i, row in enumerate(rows["train"]) if i in held_out]
        rows["train"] = [row for i, row in enumerate(rows["train"]) if i not in held_out]
    return rows


def _divide(table: FileTable, *, quarters: bool = False) -> tuple[str, dict[str, list[SourceRow]]]:
    rows, rule = _number_rows("row", table), Unsplit(source="")
    if quarters and len(rows) < SMALL_TABLE:
        rule = Unsplit(source="", test=0.25, validation=0.25)
    if len(rows) < FEWEST_ROWS:
        raise ResourceError(
            f"{table.path}: it has {len(rows)} rows, and at least {FEWEST_ROWS} are divided into train, validation and "
            "test. A classifier that exists is attacked on all of them: --classifier, or `split: test` in a suite"
        )
    places = split.divide_in_three(len(rows), seed=rule.seed, validation=rule.validation, test=rule.test)
    how = f"divided by seed {rule.seed}; test: {rule.test:.0%}, then {rule.validation:.0%} validation"
    return f"table {table.path} ({how})", {name: [rows[i] for i in places[name]] for name in places}


def _number_rows(name: str, table: FileTable) -> list[SourceRow]:
    return [SourceRow(f"{name}:{i}", line.where, line.values) for i, line in enumerate(table.rows)]


def with_known_labels(spec: TaskSpec, rows: Mapping[str, list[SourceRow]]) -> dict[str, list[SourceRow]]:
    """Return the rows with labels as text. In rows with an unknown label, `where` names it too.

    Raises:
        ResourceError: more than `MOST_UNKNOWN` of all rows have labels that the task does not have.
    """
    known_columns = table_columns(spec)
    if known_columns.label is None:
        return dict(rows)
    written: dict[str, list[SourceRow]] = {}
    unknown: list[SourceRow] = []
    for name, split_rows in rows.items():
        written[name] = []
        for row in split_rows:
            new_row, is_known = _write_label(spec, known_columns, row)
            written[name].append(new_row)
            if not is_known:
                unknown.append(new_row)
    total = sum(len(split_rows) for split_rows in rows.values())
    if len(unknown) > MOST_UNKNOWN * total:
        expected = "a number" if spec.of_kind.has_scores else f"one of the labels {', '.join(spec.labels)}"
        raise ResourceError(
            f"{unknown[0].where} in the column `{known_columns.label}` is not {expected}. {len(unknown)} of {total} "
            f"rows have no such label, and more than {MOST_UNKNOWN:.0%} are refused. Name all labels, or take these "
            "rows out"
        )
    return written


def _write_label(spec: TaskSpec, known_columns: SourceColumns, row: SourceRow) -> tuple[SourceRow, bool]:
    """Return the row with its label as text, and whether the task has the label. If not, `where` names it too."""
    assert known_columns.label is not None
    value = row.values.get(known_columns.label)
    text = value if spec.of_kind.has_scores else text_of_label(value)
    check_unicode(str(text), f"{row.where}: the label")
    is_known = find_label(spec, known_columns, text) is not None
    shown = "" if value is None else value
    where = row.where if is_known else f'{row.where}: "{shown}"'
    return row._replace(where=where, values={**row.values, known_columns.label: text}), is_known

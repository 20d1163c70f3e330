"""Reads a task's rows from a table: the `file` of its `local`, which may be a folder with a table for each split.

- A folder with splits is taken as it is. If it has training rows and no validation split, a seeded tenth of the former
  is the latter (`split.holdout`). A single table is divided by `split.three_way` with the shares of `schema.Unsplit`,
  unless the task says `split: test`: then all its rows are test rows.
- Ids are `<split>:<row>`, and `row:<row>` where one table is divided. They hold no name of a file. So the same rows
  have the same ids, and their jobs the same keys, in whatever format they are.
- A label is a label's name. If no name is a number, it may be an id too. 1, 1.0 and "1.0" are the label `1`.
- More than `MOST_UNKNOWN` of all rows with other labels are an error. Fewer are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rbench.config.registry import nearest
from rbench.config.tabular import Place, Table, check_unicode, open_place, text_of_label
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, Unsplit, is_text_file
from rbench.tasks import split
from rbench.tasks.clean import MOST_UNKNOWN, Columns, Row, label_id
from rbench.tasks.lines import places_of

FEWEST = 11
"""The fewest rows that the rule divides into three splits, none of them empty."""
SMALL = 2000
"""With fewer rows, `quarters` takes a quarter where the rule takes a tenth, which would leave few texts to attack."""


def is_corpus(spec: TaskSpec) -> bool:
    """Whether the task's `file` is a corpus, which `lines.corpus` reads: unlabelled texts in .txt or .jsonl."""
    assert spec.local is not None and spec.local.file is not None
    return spec.of_kind.label_column is None and is_text_file(spec.local.file)


def find(spec: TaskSpec, data_path: Sequence[Path]) -> Path:
    """Find the task's table: a path, or a path below a data folder.

    Raises:
        ResourceError: there is no such file or folder; names files in its folder with similar names.
    """
    assert spec.local is not None and spec.local.file is not None
    path, _, places = places_of(spec.local.file, data_path)
    if (found := next(filter(Path.exists, places), None)) is not None:
        return found
    folders = [place.parent for place in places]
    there = [one.name for folder in folders if folder.is_dir() for one in folder.iterdir()]
    hint = f"; did you mean {' or '.join(close)}?" if (close := nearest(path.name, there)) else ""
    raise ResourceError(
        f"task `{spec.name}`: there is no {path.name} in {', '.join(str(folder) for folder in folders)}{hint}"
    )


def columns(spec: TaskSpec) -> Columns:
    """Return the columns of the task's table, and the label ids of the names that stand there."""
    made = Columns.of(spec, spec.local.columns if spec.local is not None else {})
    if not spec.of_kind.has_classes:
        return made
    ids = {} if spec.has_numbers_as_labels else {str(i): i for i in range(len(spec.labels))}
    return made._replace(label_map=ids | {name: i for i, name in enumerate(spec.labels)})


def read(spec: TaskSpec, path: Path) -> tuple[str, Columns, dict[str, list[Row]]]:
    """Return where the rows come from, for people, what their columns mean, and the rows by split.

    Raises:
        ResourceError: the table cannot be read, lacks a column or a test split, has too few rows to be divided, or too
            many of them have labels that the task does not have.
    """
    assert spec.local is not None
    place = open_place(path)
    needed = columns(spec)
    for table in place.tables:
        for column in (*needed.texts, *((needed.label,) if needed.label is not None else ())):
            if table.rows and column not in table.columns:
                hint = f" (did you mean `{close[0]}`?)" if (close := nearest(column, table.columns, n=1)) else ""
                there = f"there are {', '.join(table.columns)}{hint}"
                raise ResourceError(f"{table.path}: task `{spec.name}` needs a column `{column}`; {there}")
    if place.whole is None:
        origin, rows = f"table {place.path}", _splits(spec, place)
    elif spec.of_kind.label_column is None or spec.local.split == "test":
        name = spec.local.split or "train"
        origin, rows = f"table {place.path} (all rows: {name})", {name: _numbered(name, place.whole)}
    else:
        origin, rows = _divided(place.whole, quarters=spec.local.split == "quarters")
    return origin, needed, with_known_labels(spec, rows)


def _splits(spec: TaskSpec, place: Place) -> dict[str, list[Row]]:
    rows = {name: _numbered(name, table) for name, table in place.splits.items()}
    if spec.of_kind.label_column is not None and "test" not in rows:
        raise ResourceError(
            f"{place.path}: it has {' and '.join(rows)} but no test split, which is attacked. Add a test file, or name "
            "the single table that rbench shall divide"
        )
    if "train" in rows and "validation" not in rows and spec.of_kind.label_column is not None:
        held = set(split.holdout(len(rows["train"])))
        rows["validation"] = [row for i, row in enumerate(rows["train"]) if i in held]
        rows["train"] = [row for i, row in enumerate(rows["train"]) if i not in held]
    return rows


def _divided(table: Table, *, quarters: bool = False) -> tuple[str, dict[str, list[Row]]]:
    rows, rule = _numbered("row", table), Unsplit(source="")
    if quarters and len(rows) < SMALL:
        rule = Unsplit(source="", test=0.25, validation=0.25)
    if len(rows) < FEWEST:
        raise ResourceError(
            f"{table.path}: it has {len(rows)} rows, and at least {FEWEST} are divided into train, validation and test."
            " A classifier that exists is attacked on all of them: --classifier, or `split: test` in a suite"
        )
    parts = split.three_way(len(rows), seed=rule.seed, validation=rule.validation, test=rule.test)
    how = f"divided by seed {rule.seed}; test: {rule.test:.0%}, then {rule.validation:.0%} validation"
    return f"table {table.path} ({how})", {name: [rows[i] for i in numbers] for name, numbers in parts.items()}


def _numbered(name: str, table: Table) -> list[Row]:
    return [Row(f"{name}:{i}", line.where, line.values) for i, line in enumerate(table.rows)]


def with_known_labels(spec: TaskSpec, rows: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the rows with labels as text. The places of rows with unknown labels say which label it is.

    Raises:
        ResourceError: more than `MOST_UNKNOWN` of all rows have labels that the task does not have.
    """
    of = columns(spec)
    if of.label is None:
        return dict(rows)
    written = {name: [_written(spec, of, row) for row in part] for name, part in rows.items()}
    unknown = [
        row for name in rows for old, row in zip(rows[name], written[name], strict=True) if row.where != old.where
    ]
    total = sum(map(len, rows.values()))
    if len(unknown) > MOST_UNKNOWN * total:
        what = "a number" if spec.of_kind.has_scores else f"one of the labels {', '.join(spec.labels)}"
        raise ResourceError(
            f"{unknown[0].where} in the column `{of.label}` is not {what}. {len(unknown)} of {total} rows have no such "
            f"label, and more than {MOST_UNKNOWN:.0%} are refused. Name all labels, or take these rows out"
        )
    return written


def _written(spec: TaskSpec, of: Columns, row: Row) -> Row:
    """Return the row with its label as text, and with the label in its place if it is unknown."""
    assert of.label is not None
    value = row.values.get(of.label)
    text = value if spec.of_kind.has_scores else text_of_label(value)
    check_unicode(str(text), f"{row.where}: the label")
    where = row.where if label_id(spec, of, text) is not None else f'{row.where}: "{"" if value is None else value}"'
    return row._replace(where=where, values={**row.values, of.label: text})

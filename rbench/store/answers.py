"""Reads the files that raters send back, all or none: each mistake is one line with its place and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.config.registry import nearest_names
from rbench.config.tabular import TableRow, read_delimited
from rbench.errors import ResourceError, StoreError
from rbench.schema import TaskSpec
from rbench.schema.judged import SCALE, TEXTS, UNSURE, Answer, Item, Sheet

NEEDED_COLUMNS = ("sheet", "rater", "item", "label", "natural", "meaning")
UNSURE_NAME = "?"
"""What a file has for `cannot tell`."""
_NATURAL_VALUES = {"": None, "yes": True, "no": False}
_MAX_MISTAKES = 20
"""How many mistakes a message lists."""
_LONGEST_SECONDS = 3600.0
"""Seconds that count for an item at most: a page may stay open over night."""


def read_answers(paths: Sequence[Path], sheet: Sheet, tasks: Mapping[str, TaskSpec]) -> tuple[Answer, ...]:
    """Return the answers of some files. Items that nobody answered are left out.

    Args:
        sheet: the key of the sheet that was given to raters.
        tasks: by name those of its items.

    Raises:
        StoreError: anything in any file is wrong. The message has a line for each mistake.
    """
    mistakes: list[str] = []
    first_places: dict[tuple[int, str], str] = {}
    answers: list[Answer] = []
    for path in paths:
        try:
            rows = _read_rows(path)
        except (ResourceError, OSError) as error:
            mistakes.append(str(error) if isinstance(error, ResourceError) else f"{path}: {error.strerror or error}")
            continue
        for row in rows:
            try:
                answer = _parse_answer(row, sheet, tasks)
            except ValueError as error:
                mistakes.append(f"{row.where}: {error}")
                continue
            if (answer.label, answer.natural, answer.meaning) == (None, None, None):
                continue
            if (first := first_places.get((answer.rater, answer.item))) is not None:
                twice_answered = f"rater {answer.rater} has answered the item {answer.item} already, at {first}"
                mistakes.append(f"{row.where}: {twice_answered}; remove one of the rows, or name one file only")
            # The first place stays, so that every later row of the same item names it.
            first_places.setdefault((answer.rater, answer.item), row.where)
            answers.append(answer)
    if mistakes:
        count_of_others = [f"and {len(mistakes) - _MAX_MISTAKES} more"] if len(mistakes) > _MAX_MISTAKES else []
        raise StoreError("\n".join(["nothing was imported:", *mistakes[:_MAX_MISTAKES], *count_of_others]))
    if not answers:
        raise StoreError(f"nothing was imported: there is no answer in {', '.join(map(str, paths))}")
    return tuple(answers)


def _read_rows(path: Path) -> list[TableRow]:
    table = read_delimited(path, ",")
    if missing := [name for name in NEEDED_COLUMNS if name not in table.columns]:
        raise ResourceError(
            f"{path}:1: the column {missing[0]} is missing; expected the columns {', '.join(NEEDED_COLUMNS)}, as a "
            "sheet has them"
        )
    return list(table.rows)


def _parse_answer(row: TableRow, sheet: Sheet, tasks: Mapping[str, TaskSpec]) -> Answer:
    """Return what a row says. Raises ValueError with what is wrong and the remedy."""
    texts = {name: str(row.values.get(name) or "").strip() for name in (*NEEDED_COLUMNS, "seconds")}
    if texts["sheet"] != sheet.id:
        raise ValueError(
            f"this row is of the sheet {texts['sheet'][:20] or '(empty)'}, and the key is of {sheet.id}: import it "
            "with the key, and into the RUN, of its own sheet"
        )
    item = sheet.by_id.get(texts["item"])
    labels = tasks[item.task].labels if item is not None and item.kind in TEXTS else ()
    if item is None:
        raise ValueError(
            f"the sheet {sheet.id} has no item {texts['item'][:20]!r}; take the row as the page exported it"
        )
    if not texts["rater"].isdecimal() or not 1 <= int(texts["rater"]) <= sheet.raters:
        raise ValueError(f"the rater is {texts['rater'][:20]!r}; expected a number from 1 to {sheet.raters}")
    if not_asked := [name for name in _fields_not_asked(item) if texts[name]]:
        raise ValueError(f"item {item.id} does not ask for {not_asked[0]}; leave it empty")
    return Answer(
        rater=int(texts["rater"]),
        item=item.id,
        label=_parse_label(texts["label"], labels),
        natural=_parse_choice("natural", texts["natural"].lower(), _NATURAL_VALUES),
        meaning=_parse_choice("meaning", texts["meaning"], {"": None} | {str(i): i for i in range(1, SCALE + 1)}),
        seconds=_parse_seconds(texts["seconds"]),
    )


def _fields_not_asked(item: Item) -> Iterator[str]:
    yield from ("meaning",) if item.kind in TEXTS else ("label", "natural")


def _parse_label(value: str, labels: Sequence[str]) -> int | None:
    if not value:
        return None
    if value == UNSURE_NAME and value not in labels:
        return UNSURE
    if value not in labels:
        close_labels = nearest_names(value, labels)
        hint = f" (did you mean {close_labels[0]}?)" if close_labels else ""
        raise ValueError(f"unknown label {value[:40]!r}; expected {', '.join(labels)} or {UNSURE_NAME}{hint}")
    return list(labels).index(value)


def _parse_choice(name: str, value: str, valid: Mapping[str, Any]) -> Any:
    if value not in valid:
        raise ValueError(f"{name} is {value[:20]!r}; expected {', '.join(filter(None, valid))}, or nothing")
    return valid[value]


def _parse_seconds(value: str) -> float | None:
    """Return seconds; None where they are no number, because no answer depends on them."""
    try:
        return min(max(float(value), 0.0), _LONGEST_SECONDS)
    except ValueError:
        return None

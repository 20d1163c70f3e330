"""Reads the files that raters send back, all or none: each mistake is one line with its place and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.config.registry import nearest
from rbench.config.tabular import Line, read_delimited
from rbench.errors import ResourceError, StoreError
from rbench.schema import TaskSpec
from rbench.schema.judged import SCALE, TEXTS, UNSURE, Answer, Item, Sheet

NEEDED = ("sheet", "rater", "item", "label", "natural", "meaning")
UNSURE_NAME = "?"
"""What a file has for `cannot tell`."""
_FORMULAS = ("=", "+", "-", "@")
_NATURAL = {"": None, "yes": True, "no": False}
_MOST = 20
"""How many mistakes a message lists."""
_LONGEST = 3600.0
"""Seconds that count for an item at most: a page may stay open over night."""


def read_answers(paths: Sequence[Path], sheet: Sheet, tasks: Mapping[str, TaskSpec]) -> tuple[Answer, ...]:
    """Return the answers of some files. Items that nobody answered are left out.

    Args:
        sheet: the key of the sheet that was given to raters.
        tasks: by name those of its items.

    Raises:
        StoreError: anything in any file is wrong. The message has a line for each mistake.
    """
    wrong: list[str] = []
    places: dict[tuple[int, str], str] = {}
    found: list[Answer] = []
    for path in paths:
        try:
            rows = _rows(path)
        except (ResourceError, OSError) as error:
            wrong.append(str(error) if isinstance(error, ResourceError) else f"{path}: {error.strerror or error}")
            continue
        for row in rows:
            try:
                answer = _answer(row, sheet, tasks)
            except ValueError as error:
                wrong.append(f"{row.where}: {error}")
                continue
            if (answer.label, answer.natural, answer.meaning) == (None, None, None):
                continue
            if (first := places.get((answer.rater, answer.item))) is not None:
                said = f"rater {answer.rater} has answered the item {answer.item} already, at {first}"
                wrong.append(f"{row.where}: {said}; remove one of the rows, or name one file only")
            places.setdefault((answer.rater, answer.item), row.where)
            found.append(answer)
    if wrong:
        more = [f"and {len(wrong) - _MOST} more"] if len(wrong) > _MOST else []
        raise StoreError("\n".join(["nothing was imported:", *wrong[:_MOST], *more]))
    if not found:
        raise StoreError(f"nothing was imported: there is no answer in {', '.join(map(str, paths))}")
    return tuple(found)


def _rows(path: Path) -> list[Line]:
    table = read_delimited(path, ",")
    if missing := [name for name in NEEDED if name not in table.columns]:
        raise ResourceError(
            f"{path}:1: the column {missing[0]} is missing; expected the columns {', '.join(NEEDED)}, as a sheet has "
            "them"
        )
    return list(table.rows)


def _answer(row: Line, sheet: Sheet, tasks: Mapping[str, TaskSpec]) -> Answer:
    """Return what a row says. Raises ValueError with what is wrong and the remedy."""
    given = {name: str(row.values.get(name) or "").strip() for name in (*NEEDED, "seconds")}
    if given["sheet"] != sheet.id and not given["sheet"].startswith(_FORMULAS):
        raise ValueError(
            f"this row is of the sheet {given['sheet'][:20] or '(empty)'}, and the key is of {sheet.id}: import it "
            "with the key, and into the RUN, of its own sheet"
        )
    item = sheet.by_id.get(given["item"])
    labels = tasks[item.task].labels if item is not None and item.kind in TEXTS else ()
    for name, value in given.items():
        if value.startswith(_FORMULAS) and not (name == "label" and value in labels):
            raise ValueError(f"{name} holds {value[:20]!r}, a formula of a spreadsheet; write the plain answer")
    if item is None:
        raise ValueError(
            f"the sheet {sheet.id} has no item {given['item'][:20]!r}; take the row as the page exported it"
        )
    if not given["rater"].isdecimal() or not 1 <= int(given["rater"]) <= sheet.raters:
        raise ValueError(f"the rater is {given['rater'][:20]!r}; expected a number from 1 to {sheet.raters}")
    if not_asked := [name for name in _not_asked(item) if given[name]]:
        raise ValueError(f"item {item.id} does not ask for {not_asked[0]}; leave it empty")
    return Answer(
        rater=int(given["rater"]),
        item=item.id,
        label=_label(given["label"], labels),
        natural=_chosen("natural", given["natural"].lower(), _NATURAL),
        meaning=_chosen("meaning", given["meaning"], {"": None} | {str(i): i for i in range(1, SCALE + 1)}),
        seconds=_seconds(given["seconds"]),
    )


def _not_asked(item: Item) -> Iterator[str]:
    yield from ("meaning",) if item.kind in TEXTS else ("label", "natural")


def _label(value: str, labels: Sequence[str]) -> int | None:
    if not value:
        return None
    if value == UNSURE_NAME and value not in labels:
        return UNSURE
    if value not in labels:
        near = nearest(value, labels)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"unknown label {value[:40]!r}; expected {', '.join(labels)} or {UNSURE_NAME}{hint}")
    return list(labels).index(value)


def _chosen(name: str, value: str, valid: Mapping[str, Any]) -> Any:
    if value not in valid:
        raise ValueError(f"{name} is {value[:20]!r}; expected {', '.join(filter(None, valid))}, or nothing")
    return valid[value]


def _seconds(value: str) -> float | None:
    """Return seconds; None where they are no number, because no answer depends on them."""
    try:
        return min(max(float(value), 0.0), _LONGEST)
    except ValueError:
        return None

"""Makes sheets by which people judge the texts of a RUN, blind: what is drawn, in which order, and as which files.

Drawn are successes of each attacked cell, the originals of the same texts, pairs of both, and pairs of originals that
have nothing to do with each other; a tenth of all is asked twice. First come single texts, then pairs, since a text
that was seen beside its original is not judged alone any more. Within either part each rater has an order of its own,
and what an item shows is all that tells what it is: ids are random numbers, and spacing is made the same.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from rbench.errors import StoreError
from rbench.schema import Outcome, TaskSpec
from rbench.schema.judged import SCALE, TEXTS, Item, Kind, Sheet
from rbench.store.judged import ShownTexts, collect_texts, find_classification_task, hash_sheet, hash_texts
from rbench.system.console import csv_cell
from rbench.tables import Results
from rbench.tables.aggregate import AttackCell, attack_grid

ANSWERS = ("sheet", "rater", "item", "label", "natural", "meaning", "seconds")
"""The columns of answers."""
SHOWN = ("task", "first", "second", "choices")
"""The columns of a sheet that only say what is asked."""
ONE_REPEATED_IN = 10
"""One of so many items is asked twice."""
ONE_UNRELATED_IN = 20
"""One of so many pairs is of two texts that have nothing to do with each other; there are two or more."""
_OPEN_LICENCES = re.compile(r"\b(apache|mit|bsd|cc0|cc[- ]by([- ]sa)?[- ][0-9]|odc|public domain)", re.IGNORECASE)
_CLOSED_LICENCES = re.compile(r"\b(nc|nd|non-?commercial|others)\b", re.IGNORECASE)


class SheetItem(NamedTuple):
    """An item with what it shows."""

    item: Item
    texts: ShownTexts


class DrawnSheet(NamedTuple):
    """A sheet, and what its items show."""

    sheet: Sheet
    asked: tuple[SheetItem, ...]
    tasks: dict[str, TaskSpec]

    def order(self, rater: int) -> list[SheetItem]:
        """Return the items in the order of a rater, with the texts of each pair in a random order."""
        rng = random.Random(f"{self.sheet.id}/{rater}")
        # Single texts (0) before pairs (1). Each part is shuffled by itself.
        parts: list[list[SheetItem]] = [[], []]
        for sheet_item in self.asked:
            parts[sheet_item.item.kind not in TEXTS].append(sheet_item)
        for items_of_part in parts:
            rng.shuffle(items_of_part)
        return [
            sheet_item._replace(texts=sheet_item.texts[:: rng.choice((1, -1))])
            for items_of_part in parts
            for sheet_item in items_of_part
        ]


def draw_sheet(results: Results, per_cell: int, raters: int, seed: int) -> DrawnSheet:
    """Draw the items of a sheet. The same RUN and settings give the same sheet.

    Raises StoreError where no attack on a task with classes has a success, or the RUN keeps no texts.
    """
    outcomes: dict[str, dict[str, Outcome]] = {}
    tasks: dict[str, TaskSpec] = {}
    uses: dict[tuple[Kind, str, ShownTexts], list[tuple[str, str]]] = {}

    def outcome(key: str, example: str) -> Outcome:
        return outcomes[key][example]

    for attack_cell in attack_grid(results).cells.values():
        if attack_cell.done and (task := find_classification_task(attack_cell.done[0].job)) is not None:
            tasks[task.name] = task
            for run in attack_cell.done:
                outcomes[run.job.key] = {
                    example_outcome.example_id: example_outcome for example_outcome in results.store.outcomes(run.job)
                }
            for use in _draw_successes(attack_cell, outcomes, per_cell, seed):
                for kind in ("changed", "original", "pair"):
                    probe = Item(id="", kind=kind, task=task.name, uses=(use,), text="")
                    # The same text may come from several cells: it is one item, and its answers count for each use.
                    uses.setdefault((kind, task.name, collect_texts(probe, outcome)), []).append(use)
    if not uses:
        raise StoreError(
            f"{results.root}: no text fell in any attack on a task with classes, so there is none to judge"
        )
    sheet_items = list(_make_items(uses, random.Random(f"{seed}/{results.plan.suite.name}/{len(uses)}"), outcome))
    items = tuple(asked_item.item for asked_item in sheet_items)
    sheet = Sheet(
        id=hash_sheet(items, per_cell, raters, seed), per_cell=per_cell, raters=raters, seed=seed, items=items
    )
    return DrawnSheet(sheet, tuple(sheet_items), tasks)


def _draw_successes(
    attack_cell: AttackCell, outcomes: dict[str, dict[str, Outcome]], per_cell: int, seed: int
) -> Iterator[tuple[str, str]]:
    """Yield successes of a cell, at random: of each of its jobs the same share, but two where there are two.

    All cells of a task have one random order of its examples, so that they share originals, and can be compared text by
    text.
    """
    succeeded = {
        run.job.key: sorted(
            (
                example_outcome.example_id
                for example_outcome in outcomes[run.job.key].values()
                if example_outcome.status == "succeeded"
            ),
            # Sorted by a hash of the example alone, so the first ones of all cells are mostly the same examples.
            key=lambda example: sha256(f"{seed}/{attack_cell.task}/{example}".encode()).digest(),
        )
        for run in attack_cell.done
    }
    total = sum(map(len, succeeded.values()))
    for key, examples in succeeded.items():
        wanted = round(per_cell * len(examples) / total) if total > per_cell else len(examples)
        yield from ((key, example) for example in examples[: max(2, wanted)])


def _make_items(
    uses: dict[tuple[Kind, str, ShownTexts], list[tuple[str, str]]],
    rng: random.Random,
    outcome: Callable[[str, str], Outcome],
) -> Iterator[SheetItem]:
    """Yield all items. Texts that are the same are asked once."""
    uses_by_text: dict[tuple[Kind, str, ShownTexts], tuple[tuple[str, str], ...]] = {
        key: tuple(used) for key, used in uses.items()
    }
    for task in dict.fromkeys(task for _, task, _ in uses):
        originals = [
            used[0] for (kind, task_of_text, _), used in uses.items() if (kind, task_of_text) == ("original", task)
        ]
        wanted = max(2, len(originals) // ONE_UNRELATED_IN) if len(originals) > 1 else 0
        for _ in range(wanted):
            unrelated = tuple(rng.sample(originals, 2))
            uses_by_text[
                "other", task, collect_texts(Item(id="", kind="other", task=task, uses=unrelated, text=""), outcome)
            ] = unrelated
    sheet_items = []
    for (kind, task, texts), used in uses_by_text.items():
        item = Item(id=_draw_id(rng), kind=kind, task=task, uses=used, text=hash_texts(texts))
        sheet_items.append(SheetItem(item, texts))
    yield from sheet_items
    for single in (True, False):
        # Unrelated pairs only show whether a rater reads, so they are not asked twice.
        repeatable = [
            repeated
            for repeated in sheet_items
            if (repeated.item.kind in TEXTS) == single and repeated.item.kind != "other"
        ]
        for repeated in rng.sample(repeatable, -(-len(repeatable) // ONE_REPEATED_IN)):
            new_id = {"id": _draw_id(rng), "repeats": repeated.item.id}
            yield repeated._replace(item=repeated.item.model_copy(update=new_id))


def _draw_id(rng: random.Random) -> str:
    """Return an id. Spreadsheets read those of digits, and such as 12e4, as numbers, but none that begins with "t"."""
    return f"t{rng.getrandbits(48):012x}"


def list_closed_tasks(tasks: Sequence[TaskSpec]) -> list[str]:
    """Name the tasks whose licence does not clearly allow to pass their texts on, with what their files state."""
    return [f"{task.name}: {task.licence or 'not stated'}" for task in tasks if not may_pass_on(task.licence)]


def may_pass_on(licence: str) -> bool:
    """Whether the licence that a task's file states is one that is known to allow to pass texts on."""
    return bool(_OPEN_LICENCES.search(licence)) and not _CLOSED_LICENCES.search(licence)


def page_data(drawn_sheet: DrawnSheet, rater: int) -> dict[str, Any]:
    """Return what the page of a rater holds."""
    return {
        "sheet": drawn_sheet.sheet.id,
        "rater": rater,
        "scale": SCALE,
        "columns": list(ANSWERS),
        "tasks": {name: {"columns": task.columns, "labels": task.labels} for name, task in drawn_sheet.tasks.items()},
        "items": [
            {"id": sheet_item.item.id, "task": sheet_item.item.task, "texts": sheet_item.texts}
            for sheet_item in drawn_sheet.order(rater)
        ],
    }


def sheet_as_csv(drawn_sheet: DrawnSheet, rater: int) -> str:
    """Return the sheet of a rater for other tools: a row for each item, with empty columns for answers.

    Text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*ANSWERS[:3], *SHOWN, *ANSWERS[3:]])
    for sheet_item in drawn_sheet.order(rater):
        task = drawn_sheet.tasks[sheet_item.item.task]
        has_names = len(task.columns) > 1
        texts = [
            "\n".join(
                f"{column}: {text}" if has_names else text for column, text in zip(task.columns, texts, strict=True)
            )
            for texts in sheet_item.texts
        ]
        choices = f"{', '.join(task.labels)} or ?" if len(texts) == 1 else f"1 to {SCALE}"
        row = [
            drawn_sheet.sheet.id,
            rater,
            sheet_item.item.id,
            task.name,
            texts[0],
            "".join(texts[1:]),
            choices,
            "",
            "",
            "",
            "",
        ]
        writer.writerow([csv_cell(value) for value in row])
    return file.getvalue()

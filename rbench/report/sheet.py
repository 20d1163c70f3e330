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
from rbench.store.judged import Shown, classes_of, hashed, named_as, shown
from rbench.system.console import cell
from rbench.tables import Results
from rbench.tables.aggregate import Cell, grid

ANSWERS = ("sheet", "rater", "item", "label", "natural", "meaning", "seconds")
"""The columns of answers."""
SHOWN = ("task", "first", "second", "choices")
"""The columns of a sheet that only say what is asked."""
REPEATED = 10
"""One of so many items is asked twice."""
APART = 20
"""One of so many pairs is of two texts that have nothing to do with each other; there are two or more."""
_OPEN = re.compile(r"\b(apache|mit|bsd|cc0|cc[- ]by([- ]sa)?[- ][0-9]|odc|public domain)", re.IGNORECASE)
_CLOSED = re.compile(r"\b(nc|nd|non-?commercial|others)\b", re.IGNORECASE)


class Asked(NamedTuple):
    """An item with what it shows."""

    item: Item
    texts: Shown


class Drawn(NamedTuple):
    """A sheet, and what its items show."""

    sheet: Sheet
    asked: tuple[Asked, ...]
    tasks: dict[str, TaskSpec]

    def order(self, rater: int) -> list[Asked]:
        """Return the items in the order of a rater, with the texts of each pair in a random order."""
        rng = random.Random(f"{self.sheet.id}/{rater}")
        parts: list[list[Asked]] = [[], []]
        for one in self.asked:
            parts[one.item.kind not in TEXTS].append(one)
        for part in parts:
            rng.shuffle(part)
        return [one._replace(texts=one.texts[:: rng.choice((1, -1))]) for part in parts for one in part]


def draw(results: Results, per_cell: int, raters: int, seed: int) -> Drawn:
    """Draw the items of a sheet. The same RUN and settings give the same sheet.

    Raises StoreError where no attack on a task with classes has a success, or the RUN keeps no texts.
    """
    outcomes: dict[str, dict[str, Outcome]] = {}
    tasks: dict[str, TaskSpec] = {}
    uses: dict[tuple[Kind, str, Shown], list[tuple[str, str]]] = {}

    def outcome(key: str, example: str) -> Outcome:
        return outcomes[key][example]

    for one in grid(results).cells.values():
        if one.done and (task := classes_of(one.done[0].job)) is not None:
            tasks[task.name] = task
            for run in one.done:
                outcomes[run.job.key] = {each.example_id: each for each in results.store.outcomes(run.job)}
            for use in _successes(one, outcomes, per_cell, seed):
                for kind in ("changed", "original", "pair"):
                    probe = Item(id="", kind=kind, task=task.name, uses=(use,), text="")
                    uses.setdefault((kind, task.name, shown(probe, outcome)), []).append(use)
    if not uses:
        raise StoreError(
            f"{results.root}: no text fell in any attack on a task with classes, so there is none to judge"
        )
    asked = list(_items(uses, random.Random(f"{seed}/{results.plan.suite.name}/{len(uses)}"), outcome))
    items = tuple(one.item for one in asked)
    sheet = Sheet(id=named_as(items, per_cell, raters, seed), per_cell=per_cell, raters=raters, seed=seed, items=items)
    return Drawn(sheet, tuple(asked), tasks)


def _successes(
    of: Cell, outcomes: dict[str, dict[str, Outcome]], per_cell: int, seed: int
) -> Iterator[tuple[str, str]]:
    """Yield successes of a cell, at random: of each of its jobs the same share, but two where there are two.

    All cells of a task have one random order of its examples, so that they share originals, and can be compared text by
    text.
    """
    fell = {
        run.job.key: sorted(
            (one.example_id for one in outcomes[run.job.key].values() if one.status == "succeeded"),
            key=lambda example: sha256(f"{seed}/{of.task}/{example}".encode()).digest(),
        )
        for run in of.done
    }
    total = sum(map(len, fell.values()))
    for key, examples in fell.items():
        wanted = round(per_cell * len(examples) / total) if total > per_cell else len(examples)
        yield from ((key, example) for example in examples[: max(2, wanted)])


def _items(
    uses: dict[tuple[Kind, str, Shown], list[tuple[str, str]]],
    rng: random.Random,
    outcome: Callable[[str, str], Outcome],
) -> Iterator[Asked]:
    """Yield all items. Texts that are the same are asked once."""
    made: dict[tuple[Kind, str, Shown], tuple[tuple[str, str], ...]] = {key: tuple(of) for key, of in uses.items()}
    for task in dict.fromkeys(task for _, task, _ in uses):
        originals = [of[0] for (kind, own, _), of in uses.items() if (kind, own) == ("original", task)]
        wanted = max(2, len(originals) // APART) if len(originals) > 1 else 0
        for _ in range(wanted):
            two = tuple(rng.sample(originals, 2))
            made["other", task, shown(Item(id="", kind="other", task=task, uses=two, text=""), outcome)] = two
    found = []
    for (kind, task, texts), of in made.items():
        item = Item(id=f"{rng.getrandbits(48):012x}", kind=kind, task=task, uses=of, text=hashed(texts))
        found.append(Asked(item, texts))
    yield from found
    for part in (True, False):
        here = [one for one in found if (one.item.kind in TEXTS) == part and one.item.kind != "other"]
        for one in rng.sample(here, -(-len(here) // REPEATED)):
            again = {"id": f"{rng.getrandbits(48):012x}", "repeats": one.item.id}
            yield one._replace(item=one.item.model_copy(update=again))


def closed(tasks: Sequence[TaskSpec]) -> list[str]:
    """Name the tasks whose licence does not clearly allow to pass their texts on, with what their files state."""
    return [f"{task.name}: {task.licence or 'not stated'}" for task in tasks if not may_pass_on(task.licence)]


def may_pass_on(licence: str) -> bool:
    """Whether the licence that a task's file states is one that is known to allow to pass texts on."""
    return bool(_OPEN.search(licence)) and not _CLOSED.search(licence)


def page_data(drawn: Drawn, rater: int) -> dict[str, Any]:
    """Return what the page of a rater holds."""
    return {
        "sheet": drawn.sheet.id,
        "rater": rater,
        "scale": SCALE,
        "columns": list(ANSWERS),
        "tasks": {name: {"columns": task.columns, "labels": task.labels} for name, task in drawn.tasks.items()},
        "items": [{"id": one.item.id, "task": one.item.task, "texts": one.texts} for one in drawn.order(rater)],
    }


def as_csv(drawn: Drawn, rater: int) -> str:
    """Return the sheet of a rater for other tools: a row for each item, with empty columns for answers.

    Text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*ANSWERS[:3], *SHOWN, *ANSWERS[3:]])
    for one in drawn.order(rater):
        task = drawn.tasks[one.item.task]
        named = len(task.columns) > 1
        texts = [
            "\n".join(f"{column}: {text}" if named else text for column, text in zip(task.columns, texts, strict=True))
            for texts in one.texts
        ]
        choices = f"{', '.join(task.labels)} or ?" if len(texts) == 1 else f"1 to {SCALE}"
        row = [drawn.sheet.id, rater, one.item.id, task.name, texts[0], "".join(texts[1:]), choices, "", "", "", ""]
        writer.writerow([cell(value) for value in row])
    return file.getvalue()

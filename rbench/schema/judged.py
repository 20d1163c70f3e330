"""What people said of a RUN's texts: the sheet that they were shown, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from rbench.schema.common import Positive, Strict

Kind = Literal["changed", "original", "pair", "other"]
"""What an item of a sheet shows: the text of a success; an original; an original beside its changed text; or two
originals that have nothing to do with each other, by which attention is checked."""
TEXTS: tuple[Kind, ...] = ("changed", "original")
"""Kinds of items that show one text, and ask for its label and whether a person wrote it. The others show two, and ask
whether they mean the same."""
SCALE = 5
"""Answers on meaning are 1 (something else) to 5 (the same)."""
KEPT = 4
"""From which answer on a meaning counts as kept."""
Probability = Annotated[float, Field(ge=0, le=1)]
UNSURE = -1
"""Stands for the label of a text of which a rater could not tell any."""


class Item(Strict):
    """One question of a sheet. It holds no text: many may not be passed on."""

    id: str
    kind: Kind
    task: str
    uses: tuple[tuple[str, str], ...]
    """The attack jobs and examples that it is about: a key and an example's id. Victims share originals."""
    text: str
    """The first 16 hex digits of the sha256 of what is shown."""
    repeats: str | None = None
    """The id of the item that it asks again, for the consistency of a rater."""


class Sheet(Strict):
    """The key to a sheet. It stays with the owner of a RUN; raters do not see it."""

    id: str
    """A hash of the items and of how they were drawn."""
    per_cell: Positive
    raters: Positive
    seed: int
    items: tuple[Item, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        return {item.id: item for item in self.items}


class Answer(Strict):
    """What one rater said of one item."""

    rater: int
    """From 1 on."""
    item: str
    label: int | None = None
    """Of a text: the place of the label in the task's list, or UNSURE. None: not answered."""
    natural: bool | None = None
    """Of a text: whether it reads as if a person wrote it. None: not answered."""
    meaning: int | None = None
    """Of a pair: 1 to SCALE. None: not answered."""
    seconds: float | None = None
    """How long the item was on the screen; None where that was not measured."""


class ProxyAnswer(Strict):
    """What a proxy said of one success."""

    example: str
    label: Probability | None = None
    """How probable it finds the true label in the changed text. None: not asked, or no answer that could be read."""
    meaning: Probability | None = None
    """How probable it finds that original and changed text mean the same."""


class Proxy(Strict):
    """What a classifier said of all successes of the attacks that people judged some of."""

    name: str
    mark: str
    """A hash of what decides its answers: what was asked, and the weights, or the version of a function or server."""
    said: dict[str, tuple[ProxyAnswer, ...]]
    """By the key of the attack job."""


class HumanJudgements(Strict):
    """All that people said of a RUN's texts: the file judged.json of a RUN."""

    sheet: Sheet
    answers: tuple[Answer, ...]
    proxies: tuple[Proxy, ...] = ()
    """By the order in which they were asked first."""

    def of(self, job: str) -> Iterator[tuple[str, Item, Answer]]:
        """Yield the answers about one attack job, with their example and item. Items that repeat one are left out."""
        for example, item, answers in self._by_job.get(job, ()):
            yield from ((example, item, answer) for answer in answers)

    @cached_property
    def raters(self) -> tuple[int, ...]:
        """Those who answered anything."""
        return tuple(sorted({answer.rater for answer in self.answers}))

    @cached_property
    def by_item(self) -> Mapping[str, list[Answer]]:
        """The answers to each item that has any."""
        by_id: dict[str, list[Answer]] = {}
        for answer in self.answers:
            by_id.setdefault(answer.item, []).append(answer)
        return by_id

    @cached_property
    def _by_job(self) -> Mapping[str, list[tuple[str, Item, list[Answer]]]]:
        by_key: dict[str, list[tuple[str, Item, list[Answer]]]] = {}
        for item in self.sheet.items:
            for key, example in item.uses if item.repeats is None and item.id in self.by_item else ():
                by_key.setdefault(key, []).append((example, item, self.by_item[item.id]))
        return by_key

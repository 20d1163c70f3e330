"""Reads texts and labels that a call from Python gives, as the examples of a task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rbench.errors import PlanError
from rbench.load.registry import unknown
from rbench.spec import Outcome, TaskSpec
from rbench.tasks import Example

NAME = "texts"
"""The name of the task that such texts make."""
FIRST = 8
"""Texts that a function is asked for, until it answers one, to know its labels."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class GivenTexts:
    """Texts as rows of columns, and a label for each: the number of a class, or its name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: tuple[int | str, ...]

    @property
    def first(self) -> list[str | tuple[str, ...]]:
        """The first texts as a victim gets them: strings, or tuples of columns. They are valid Unicode in any case."""
        rows = map(_whole, self.rows[:FIRST])
        return [row[0] if len(self.columns) == 1 else row for row in rows]

    def task(self, names: Sequence[str]) -> TaskSpec:
        """Return the task of these texts, whose classes have `names`.

        With the columns premise and hypothesis it is of the kind `nli`, in which attacks leave the premise alone.
        """
        pair = "nli" if self.columns == ("premise", "hypothesis") else "pair"
        kind = "single" if len(self.columns) == 1 else pair
        return TaskSpec.model_validate(
            {"name": NAME, "title": "texts", "kind": kind, "columns": self.columns, "labels": tuple(names)}
        )

    def examples(self, names: Sequence[str]) -> list[Example]:
        """Return the examples, whose ids are the positions of the texts from 0.

        Raises PlanError where a label is none of `names`, and none of their numbers.
        """
        ids = {name.casefold(): i for i, name in enumerate(names)}
        found = []
        for i, (row, label) in enumerate(zip(self.rows, self.labels, strict=True)):
            number = ids.get(label.casefold()) if isinstance(label, str) else label
            if number is None:
                raise PlanError(
                    f"labels[{i}]: {unknown('label', str(label), names)}. If the victim's outputs mean something else, "
                    "say what, in their order: label_names=[...]"
                )
            if not 0 <= number < len(names):
                raise PlanError(f"labels[{i}] is {number}, and the victim has the labels 0 to {len(names) - 1}")
            found.append(Example(str(i), row, number))
        return found


def read(texts: Iterable[Any], labels: Iterable[Any], columns: Sequence[str] | None) -> GivenTexts:
    """Read texts (strings, tuples of strings, or mappings by column) and labels (whole numbers, or names).

    Raises PlanError where there are none, their numbers differ, or one is of another type.
    """
    if isinstance(texts, str | Mapping):
        raise PlanError("texts is a single text; give a list of texts, and a list of their labels")
    if not isinstance(texts, Iterable):
        raise PlanError(f"texts is {texts!r}; give a list of texts")
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise PlanError(f"labels is {labels!r}; give a list with a label for each text")
    given, known = list(texts), list(labels)
    if not given:
        raise PlanError("there are no texts to attack")
    if len(given) != len(known):
        raise PlanError(f"there are {len(given)} texts and {len(known)} labels; each text needs one")
    if columns is None:
        columns = _columns(given[0])
    rows = tuple(_row(i, text, tuple(columns)) for i, text in enumerate(given))
    return GivenTexts(tuple(columns), rows, tuple(_label(i, label) for i, label in enumerate(known)))


def unreadable(example: Example) -> Outcome | None:
    """Return the outcome of a text that is not valid Unicode, so that no victim can read it; None for other texts.

    Such texts come from files that were read with errors="surrogateescape", and from halves of emojis in JSON. The
    outcome has U+FFFD in the places of the half characters, so that it can be printed and written.
    """
    found = next((found for text in example.texts if (found := _SURROGATE.search(text))), None)
    if found is None:
        return None
    return Outcome(
        example_id=example.id,
        status="errored",
        original=_whole(example.texts),
        label=example.label,
        error=f"UnicodeError: texts[{example.id}] has half a character (a lone surrogate) at position {found.start()}, "
        'which is not valid Unicode. Read its file with errors="replace", or leave it out.',
    )


def _whole(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(_SURROGATE.sub("\ufffd", text) for text in texts)


def _columns(first: Any) -> tuple[str, ...]:
    """Return the names of columns, from the first text: those of a mapping, else `text`, or `text_1`, `text_2`."""
    if isinstance(first, Mapping):
        return tuple(map(str, first))
    if isinstance(first, str) or not isinstance(first, list | tuple) or len(first) == 1:
        return ("text",)
    return tuple(f"text_{i + 1}" for i in range(len(first)))


def _row(i: int, text: Any, columns: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(text, Mapping):
        if {*map(str, text)} != {*columns}:
            raise PlanError(f"texts[{i}] has the columns {', '.join(map(str, text))}, not {', '.join(columns)}")
        text = [text[column] for column in columns]
    parts = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, list | tuple) else (text,)
    for part in parts:
        if not isinstance(part, str):
            raise PlanError(f"texts[{i}]: expected a text, or a tuple of texts, found {type(part).__name__}")
    if len(parts) != len(columns):
        raise PlanError(
            f"texts[{i}] has {len(parts)} texts, and there are {len(columns)} columns: {', '.join(columns)}"
        )
    return parts


def _label(i: int, label: Any) -> int | str:
    if hasattr(label, "item") and getattr(label, "ndim", None) == 0:  # numbers of numpy and torch
        label = label.item()
    if isinstance(label, float) and label.is_integer():  # a column of pandas with gaps elsewhere
        label = int(label)
    if isinstance(label, bool):
        label = int(label)
    if not isinstance(label, int | str):
        raise PlanError(f"labels[{i}]: expected a whole number or a name, found {label!r}")
    return label

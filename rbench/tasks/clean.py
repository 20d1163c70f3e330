"""Rows into examples: what is kept, what is left out, and why. The same rules for every task and every origin.

- White space around a text is cut. A row with an empty text is left out.
- A label is an id (0..n-1), a label's name, or, on the hub, a key of the task's label map. A row whose label is none of
  these (SNLI's -1, "no gold label") is left out. A score (kind `sts`) is any finite number.
- A training row whose normalised text also occurs in the test split is left out: "also in test". Normalised means lower
  case, letters and digits only; all text columns count, in either order for paraphrase and sts.
- A training or validation row that also occurs in a contrast set on which the victim will be evaluated is left out:
  "also in contrast_imdb". Of some sets a row occurs where it shares one column, a passage for instance, with any of
  theirs. A row that is in several sets is counted for each: what a set says of itself does not depend on the others.
- Texts that occur with several labels in one split are counted as conflicts and left alone.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, NamedTuple

from rbench.errors import ResourceError
from rbench.spec import TaskSpec

EXAMPLES_OF_WHERE = 5
"""So many places are remembered for each reason for which rows are left out."""

EMPTY = "text is empty"
NO_LABEL = "label outside the map"
IN_TEST = "also in test"
IN_SET = "also in {}"
"""Of a contrast set by name."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_WORD = re.compile(r"[\W_]+")
_NOT_WORD_ASCII = bytes(byte for byte in range(256) if not chr(byte).isalnum() or byte > 127)


class Row(NamedTuple):
    """A row as read: its id, where it is for a person to find (`file:line`), and its values by column."""

    id: str
    where: str
    values: Mapping[str, Any]


class Example(NamedTuple):
    """One example: a stable id, its texts in the order of the task's columns, and its label id, score or None."""

    id: str
    texts: tuple[str, ...]
    label: int | float | None


@dataclass
class Left:
    """What was left out: rows by reason (`train: also in test`), the first few places of each, conflicts by split.

    A row may have several reasons.
    """

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)
    conflicts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, where: str) -> None:
        """Count one row."""
        self.counts[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < EXAMPLES_OF_WHERE:
            places.append(where)


@dataclass(frozen=True)
class Reserved:
    """What a contrast set keeps from being trained on, and from choosing an epoch."""

    name: str
    keys: frozenset[bytes]
    """`key` of whole rows."""
    shared: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Normalised texts, by position of the column that may not have one of them."""

    def has(self, example: Example, key: bytes) -> bool:
        """Whether an example is one that may not be trained on; `key` is its own."""
        return key in self.keys or any(normalised(example.texts[i]) in texts for i, texts in self.shared.items())


class Columns(NamedTuple):
    """Which columns of a source hold the texts and the label, and which labels it uses."""

    texts: tuple[str, ...]
    label: str | None
    label_map: Mapping[str, int] | None

    @classmethod
    def of(cls, spec: TaskSpec, renamed: Mapping[str, str], label_map: Mapping[str, int] | None = None) -> Columns:
        """The columns of `spec` under a source's own names."""
        label = {"unlabelled": None, "sts": "score"}.get(spec.kind, "label")
        texts = tuple(renamed.get(column, column) for column in spec.columns)
        return cls(texts, label and renamed.get(label, label), label_map)


def clean(
    spec: TaskSpec, columns: Columns, rows: Mapping[str, Sequence[Row]], reserved: Sequence[Reserved] = ()
) -> tuple[dict[str, list[Example]], Left]:
    """Examples by split, and what was left out; `reserved` is what contrast sets keep out of training and validation.

    Raises:
        ResourceError: a row lacks a column, has a text that is no text, or nothing is left of a split.
    """
    left = Left()
    found = {split: _examples(spec, columns, split, rows[split], left) for split in rows}
    keys = {split: [key(spec, example.texts) for example in found[split]] for split in found}
    for split, examples in found.items():
        left.conflicts[split] = _conflicts(spec, examples, keys[split])
    if "test" in found and "train" in found:
        tested = set(keys["test"])
        leaks = {f"train: {IN_TEST}": [one in tested for one in keys["train"]]}
        found["train"] = _without(leaks, found["train"], rows["train"], left)
    for split in ("train", "validation"):
        if not reserved or split not in found:
            continue
        keyed = [(example, key(spec, example.texts)) for example in found[split]]
        leaks = {f"{split}: {IN_SET.format(one.name)}": [one.has(*pair) for pair in keyed] for one in reserved}
        found[split] = _without(leaks, found[split], rows[split], left)
    for split, examples in found.items():
        if not examples:
            reasons = ", ".join(f"{n} {reason}" for reason, n in left.counts.items()) or "it has no rows"
            raise ResourceError(f"task `{spec.name}`: nothing is left of its {split} split ({reasons})")
    return found, left


def example(spec: TaskSpec, columns: Columns, row: Row) -> Example | str:
    """The row as an example, or the reason for which it is none; ResourceError where it lacks a column."""
    texts = tuple(_text(spec, row, column) for column in columns.texts)
    if not all(texts):
        return EMPTY
    label = None if columns.label is None else label_id(spec, columns, _value(spec, row, columns.label))
    return NO_LABEL if label is None and columns.label is not None else Example(row.id, texts, label)


def key(spec: TaskSpec, texts: Sequence[str]) -> bytes:
    """What rows of the same text share: a hash of the normalised texts, sorted where their order means nothing.

    Sixteen bytes: keys of half a million long reviews are held at once.
    """
    normal = [normalised(text) for text in texts]
    text = "\0".join(sorted(normal) if spec.kind in ("paraphrase", "sts") else normal)
    return blake2b(text.encode(), digest_size=16).digest()


def check_unicode(text: str, what: str) -> None:
    """ResourceError, beginning with `what`, where JSON's escapes made a text that no file can hold."""
    if not text.isascii() and _SURROGATE.search(text):
        raise ResourceError(f"{what} has half a character (a lone surrogate): not Unicode text")


def normalised(text: str) -> str:
    """Lower case, letters and digits only; a text without any of them stays as it is."""
    lower = text.lower()
    if lower.isascii():  # the common case, twenty times faster than the regular expression
        return lower.encode().translate(None, _NOT_WORD_ASCII).decode() or lower
    return _NOT_WORD.sub("", lower) or lower


def label_id(spec: TaskSpec, columns: Columns, value: Any) -> int | float | None:
    """The label id or score that `value` stands for; None where it stands for none."""
    if columns.label_map is not None:
        return columns.label_map.get(str(value))
    if spec.kind == "sts":
        return _finite(value)
    if isinstance(value, str) and value in spec.labels:
        return spec.labels.index(value)
    number = _finite(value)
    if number is None or number != int(number) or not 0 <= number < (len(spec.labels) or math.inf):
        return None
    return int(number)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # JSON's integers may be larger than any float
        return None
    return number if math.isfinite(number) else None


def _examples(spec: TaskSpec, columns: Columns, split: str, rows: Sequence[Row], left: Left) -> list[Example]:
    examples = []
    for row in rows:
        made = example(spec, columns, row)
        if isinstance(made, str):
            left.add(f"{split}: {made}", row.where)
        else:
            examples.append(made)
    return examples


def _value(spec: TaskSpec, row: Row, column: str) -> Any:
    try:
        return row.values[column]
    except KeyError:
        near = get_close_matches(column, row.values, n=1)
        hint = f" (did you mean `{near[0]}`?)" if near else ""
        raise ResourceError(
            f"{row.where}: task `{spec.name}` needs a column `{column}`; this row has {', '.join(row.values)}{hint}"
        ) from None


def _text(spec: TaskSpec, row: Row, column: str) -> str:
    value = _value(spec, row, column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ResourceError(f"{row.where}: `{column}` is {reprlib.repr(value)}, not a text")
    check_unicode(value, f"{row.where}: `{column}`")
    return value.strip()


def _without(
    leaks: Mapping[str, Sequence[bool]], examples: list[Example], rows: Sequence[Row], left: Left
) -> list[Example]:
    """The examples that are no leaks, whatever the reason; the others are counted under each of theirs."""
    out: set[str] = set()
    for reason, flags in leaks.items():
        ids = {example.id for example, leak in zip(examples, flags, strict=True) if leak}
        for row in rows if ids else ():
            if row.id in ids:
                left.add(reason, row.where)
        out |= ids
    return [example for example in examples if example.id not in out]


def _conflicts(spec: TaskSpec, examples: Sequence[Example], keys: Sequence[bytes]) -> int:
    """How many normalised texts have more than one label; scores never conflict."""
    if spec.kind in ("sts", "unlabelled"):
        return 0
    first: dict[bytes, Any] = {}
    return len(
        {
            key
            for key, example in zip(keys, examples, strict=True)
            if first.setdefault(key, example.label) != example.label
        }
    )

"""Turn rows into examples, and leave out unusable rows. The rules are the same for every task and every source.

- Surrounding white space is removed from texts. A row with an empty text is left out.
- A label is an id (0..n-1), a label's name, or, on the hub, a key of the task's label map. Where a label's name is a
  number, a number is a name and no id: 1 is the label `1`. A row with any other label (SNLI's -1, "no gold label") is
  left out. A score (kind `sts`) is any finite number. If the task states a scale, a row whose score lies outside it is
  left out.
- A training row that is also in the test split is left out ("also in test"). Rows are equal if all their normalised
  texts are; normalised texts are lower case and have letters and digits only, with their marks, in Unicode's composed
  form (NFC). For paraphrase and sts the two texts may be in either order.
- A training or validation row that is also in a contrast set on which the victim will be evaluated is left out ("also
  in contrast_imdb"). For some sets it is enough that one column matches, for example the passage. A row that is in
  several sets is counted for each, so that the count of a set does not depend on the others.
- A text that has several labels in one split is counted as a conflict, and its rows are kept.
"""

from __future__ import annotations

import math
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.tabular import check_unicode, text_of_label
from rbench.errors import ResourceError
from rbench.schema import AdversarialSet, ContrastSpec, TaskSpec
from rbench.system.words import fold_letters

PLACES_A_REASON = 5
"""Number of places that are kept for each reason."""

MOST_UNKNOWN = 0.01
"""The largest share of rows whose label is none of the task's, of a user's table and where a label has no row."""
FEW_UNKNOWN = 5
"""So few such rows are left out all the same: they are no misspelt label."""
EMPTY = "text is empty"
NO_LABEL = "label outside the map"
OFF_SCALE = "score outside the scale"
IN_TEST = "also in test"
IN_SET = "also in {}"
"""The reason for rows of a contrast set; the set's name is filled in."""

_NOT_WORD_ASCII = bytes(byte for byte in range(256) if not chr(byte).isalnum() or byte > 127)


class SourceRow(NamedTuple):
    """A row as it was read: its id, its place for messages (`file:line`), and its values by column."""

    id: str
    where: str
    values: Mapping[str, Any]

    @classmethod
    def generated(cls, generator: str, split: str) -> list[SourceRow]:
        """Return the rows that a generator of the embedded world makes of a split."""
        from rbench import mini

        place = f"{generator} {split} row"
        return [cls(f"{split}:{n}", f"{place} {n}", row) for n, row in enumerate(mini.rows(generator, split))]


class Example(NamedTuple):
    """One example: a stable id, its texts in the order of the task's columns, and its label id or score.

    The label is None if the task has no labels.
    """

    id: str
    texts: tuple[str, ...]
    label: int | float | None

    @property
    def length(self) -> int:
        """Number of characters of all texts, which decides roughly how long an attack takes."""
        return sum(map(len, self.texts))


@dataclass
class DroppedRows:
    """The rows that were left out, and the conflicts that were found.

    `counts` has the number of rows by reason (`train: also in test`), `places` the first few places by reason, and
    `conflicts` the number of texts with several labels by split. A row may have several reasons.
    """

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)
    conflicts: dict[str, int] = field(default_factory=dict)
    untaught: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The labels of test rows that no training row has: how many rows, and the place of the first. They are kept."""

    def add(self, reason: str, where: str) -> None:
        """Count one row, and keep its place if there are few yet."""
        self.counts[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < PLACES_A_REASON:
            places.append(where)


@dataclass(frozen=True)
class ReservedTexts:
    """The rows that a contrast set keeps out of training and validation."""

    name: str
    keys: frozenset[bytes]
    """The `hash_texts` of each row of the set."""
    shared: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Normalised texts that may not occur in a column, by the column's position."""

    def has(self, example: Example, key: bytes) -> bool:
        """Return whether an example, whose key is `hash_texts`, is kept out of training."""
        return key in self.keys or any(normalise_text(example.texts[i]) in texts for i, texts in self.shared.items())


@dataclass(frozen=True)
class SetData:
    """A set of texts that victims classify as they are, as it was read.

    `counts` says what there is of which kind. `dropped` counts rows that were left out by reason, `where` has the first
    few of their places.
    """

    set: ContrastSpec | AdversarialSet
    origin: str
    """Where the rows are from, for people."""
    fingerprint: str
    """Content hash of the rows."""
    rows: tuple[Any, ...] = field(repr=False)
    """`contrast.ContrastBundle`s of a contrast set, `adversarial.AdversarialRow`s of an adversarial set."""
    reserved: ReservedTexts = field(repr=False)
    """What a victim that is evaluated on the set may not be trained on."""
    files: tuple[Path, ...] = ()
    """The files that it was read from."""
    counts: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    where: Mapping[str, list[str]] = field(default_factory=dict)


class SourceColumns(NamedTuple):
    """The columns of a source that hold the texts, the label and the subset, and its label map."""

    texts: tuple[str, ...]
    label: str | None
    label_map: Mapping[str, int] | None
    subset: str = "subset"

    @classmethod
    def of(
        cls, spec: TaskSpec, renamed: Mapping[str, str], label_map: Mapping[str, int] | None = None
    ) -> SourceColumns:
        """Return the columns of `spec` under the source's names, which `renamed` gives where they differ."""
        label = spec.of_kind.label_column
        texts = tuple(renamed.get(column, column) for column in spec.columns)
        return cls(texts, label and renamed.get(label, label), label_map, renamed.get("subset", "subset"))


ColumnsOfSplits = SourceColumns | Mapping[str, SourceColumns]
"""The columns of all splits, or of each split where they come from several sources."""


def clean_rows(
    spec: TaskSpec,
    columns: ColumnsOfSplits,
    rows: Mapping[str, Sequence[SourceRow]],
    reserved: Sequence[ReservedTexts] = (),
    origin: str = "",
) -> tuple[dict[str, list[Example]], DroppedRows]:
    """Turn the rows of each split into examples, by the rules at the head of this module.

    Args:
        reserved: the rows that contrast sets keep out of training and validation.
        origin: where the rows are from, for people.

    Returns:
        The examples by split, and the rows that were left out.

    Raises:
        ResourceError: a row lacks a column, a text is not a string, no example of a split is left, or a label of the
            task has no row in a split of which more than `MOST_UNKNOWN` have other labels.
    """
    dropped = DroppedRows()
    columns_of = dict.fromkeys(rows, columns) if isinstance(columns, SourceColumns) else columns
    examples_of = {split: _make_examples(spec, columns_of[split], split, rows[split], dropped) for split in rows}
    keys = {split: [hash_texts(spec, example.texts) for example in examples_of[split]] for split in examples_of}
    for split, examples in examples_of.items():
        dropped.conflicts[split] = _count_conflicts(spec, examples, keys[split])
    if "test" in examples_of and "train" in examples_of:
        # Keys are compared and not texts, which finds rows that differ in case or punctuation alone.
        # Training rows are removed, not test rows, so that results stay comparable with published ones.
        tested = set(keys["test"])
        leaks = {f"train: {IN_TEST}": [train_key in tested for train_key in keys["train"]]}
        examples_of["train"] = _remove_leaks(leaks, examples_of["train"], rows["train"], dropped)
    for split in ("train", "validation"):
        if not reserved or split not in examples_of:
            continue
        with_keys = [(example, hash_texts(spec, example.texts)) for example in examples_of[split]]
        leaks = {
            f"{split}: {IN_SET.format(reserved_set.name)}": [reserved_set.has(*pair) for pair in with_keys]
            for reserved_set in reserved
        }
        examples_of[split] = _remove_leaks(leaks, examples_of[split], rows[split], dropped)
    for split, examples in examples_of.items():
        if not examples:
            dropped_here = {reason: n for reason, n in dropped.counts.items() if reason.startswith(f"{split}: ")}
            reasons = ", ".join(
                f"{n} {reason}, such as {dropped.places[reason][0]}" for reason, n in dropped_here.items()
            )
            raise ResourceError(
                f"task `{spec.name}`: nothing is left of its {split} split ({reasons or 'it has no rows'}). Give it "
                f"rows with texts and labels of the task, which are in no other split{origin and f': {origin}'}"
            )
    if spec.labels and {"train", "test"} <= examples_of.keys():
        dropped.untaught = _find_untaught(spec, examples_of, rows["test"])
    return examples_of, dropped


def _find_untaught(
    spec: TaskSpec, examples_of: Mapping[str, Sequence[Example]], rows: Sequence[SourceRow]
) -> dict[str, tuple[int, str]]:
    """Return the labels of test examples that nothing teaches, with how many they are and the place of the first."""
    # Validation rows may have been taken out of the training file.
    taught = {labelled.label for split in ("train", "validation") for labelled in examples_of.get(split, ())}
    untaught_label = {
        labelled.id: spec.labels[int(labelled.label or 0)]
        for labelled in examples_of["test"]
        if labelled.label not in taught
    }
    counts, first_places = Counter(untaught_label.values()), dict[str, str]()
    for row in rows if untaught_label else ():
        if row.id in untaught_label:
            first_places.setdefault(untaught_label[row.id], row.where)
    return {label: (n, first_places[label]) for label, n in counts.items()}


def make_example(spec: TaskSpec, columns: SourceColumns, row: SourceRow) -> Example | str:
    """Return the row as an example, or the reason why it is left out. Raises ResourceError if it lacks a column."""
    texts = tuple(_read_text(spec, row, column) for column in columns.texts)
    if not all(texts):
        return EMPTY
    label = None if columns.label is None else find_label(spec, columns, _read_value(spec, row, columns.label))
    if label is None and columns.label is not None:
        return NO_LABEL
    if label is not None and spec.scale is not None and not spec.scale[0] <= label <= spec.scale[1]:
        return OFF_SCALE
    return Example(row.id, texts, label)


def hash_texts(spec: TaskSpec, texts: Sequence[str]) -> bytes:
    """Return a hash (16 bytes) of the normalised texts of a row. Rows with equal keys are duplicates.

    The texts are sorted where their order has no meaning. A hash is used because the keys of
    half a million long reviews are in memory at once.
    """
    # A change here changes which rows of all tasks are left out, and so the fingerprints in the keys of all jobs.
    normal = [normalise_text(text) for text in texts]
    text = "\0".join(normal if spec.of_kind.ordered else sorted(normal))
    return blake2b(text.encode(), digest_size=16).digest()


def normalise_text(text: str) -> str:
    """Return the text in lower case with letters, their marks and digits only.

    A text without any keeps its other characters.
    """
    lower = text.lower()
    if lower.isascii():  # the common case; twenty times faster than the regular expression
        return lower.encode().translate(None, _NOT_WORD_ASCII).decode() or lower
    return fold_letters(text) or lower


def find_label(spec: TaskSpec, columns: SourceColumns, value: Any) -> int | float | None:
    """Return the label id or score that `value` stands for, or None if it is neither."""
    if columns.label_map is not None:
        return columns.label_map.get(str(value))
    if spec.of_kind.has_scores:
        return _to_finite(value)
    if isinstance(value, str) and value in spec.labels:
        return spec.labels.index(value)
    if spec.has_numbers_as_labels:
        name = text_of_label(value)
        return spec.labels.index(name) if name in spec.labels else None
    number = _to_finite(value)
    if number is None or number != int(number) or not 0 <= number < (len(spec.labels) or math.inf):
        return None
    return int(number)


def _to_finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # OverflowError: an integer in JSON may be larger than any float
        return None
    return number if math.isfinite(number) else None


def _make_examples(
    spec: TaskSpec, columns: SourceColumns, split: str, rows: Sequence[SourceRow], dropped: DroppedRows
) -> list[Example]:
    examples = []
    for row in rows:
        example_or_reason = make_example(spec, columns, row)
        if isinstance(example_or_reason, str):
            dropped.add(f"{split}: {example_or_reason}", row.where)
        else:
            examples.append(example_or_reason)
    _check_labels(spec, columns, split, rows, examples, dropped.counts[f"{split}: {NO_LABEL}"])
    return examples


def _check_labels(
    spec: TaskSpec,
    columns: SourceColumns,
    split: str,
    rows: Sequence[SourceRow],
    examples: Sequence[Example],
    unknown: int,
) -> None:
    """Refuse a split in which rows have other labels than the task, and one of the task's labels has no row.

    A misspelt label would otherwise halve the data, and leave a victim with a single class.
    """
    present = {labelled.label for labelled in examples}
    lacking = [name for label, name in enumerate(spec.labels) if label not in present]
    if columns.label is None or not (lacking and examples) or unknown <= max(FEW_UNKNOWN, MOST_UNKNOWN * len(rows)):
        return
    unknown_labels: dict[str, str] = {}
    for row in rows:
        value = _read_value(spec, row, columns.label)
        if find_label(spec, columns, value) is None:
            unknown_labels.setdefault(str(value), row.where)
    value, where = next(iter(unknown_labels.items()))
    close_labels = get_close_matches(lacking[0], unknown_labels, n=1)
    hint = f"; did you mean {reprlib.repr(close_labels[0])}?" if close_labels else ""
    raise ResourceError(
        f"{where}: the label {reprlib.repr(value)} is none of task `{spec.name}`, which has {', '.join(spec.labels)}. "
        f"{unknown:,} of {len(rows):,} rows of its {split} split have other labels, and none has the label "
        f"{lacking[0]}{hint}"
    )


def _read_value(spec: TaskSpec, row: SourceRow, column: str) -> Any:
    try:
        return row.values[column]
    except KeyError:
        close_columns = get_close_matches(column, row.values, n=1)
        hint = f" (did you mean `{close_columns[0]}`?)" if close_columns else ""
        raise ResourceError(
            f"{row.where}: task `{spec.name}` needs a column `{column}`; this row has {', '.join(row.values)}{hint}"
        ) from None


def _read_text(spec: TaskSpec, row: SourceRow, column: str) -> str:
    value = _read_value(spec, row, column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ResourceError(f"{row.where}: `{column}` is {reprlib.repr(value)}, not a string")
    check_unicode(value, f"{row.where}: `{column}`")
    return value.strip()


def _remove_leaks(
    leaks: Mapping[str, Sequence[bool]], examples: list[Example], rows: Sequence[SourceRow], dropped: DroppedRows
) -> list[Example]:
    """Return the examples without the leaks, which `leaks` flags by reason. A leak is counted once for each reason."""
    removed_ids: set[str] = set()
    for reason, flags in leaks.items():
        ids = {example.id for example, leak in zip(examples, flags, strict=True) if leak}
        for row in rows if ids else ():
            if row.id in ids:
                dropped.add(reason, row.where)
        removed_ids |= ids
    return [example for example in examples if example.id not in removed_ids]


def _count_conflicts(spec: TaskSpec, examples: Sequence[Example], keys: Sequence[bytes]) -> int:
    """Return how many normalised texts have more than one label; 0 for tasks with scores or without labels."""
    if not spec.of_kind.has_classes:
        return 0
    first_label: dict[bytes, Any] = {}
    return len(
        {
            key
            for key, example in zip(keys, examples, strict=True)
            if first_label.setdefault(key, example.label) != example.label
        }
    )

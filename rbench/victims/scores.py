"""Reads what a function or an endpoint gives for one text as probabilities in the order of the task's labels.

Whatever cannot be read with certainty is refused: a wrong reading gives plausible wrong numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rbench.errors import AnswerError, ResourceError
from rbench.masking import masked
from rbench.victims.config import match_labels

# Part of the key of every job that asks a function or an endpoint (config/versions.py): raise it if an answer is read
# otherwise; all such jobs are then run anew.
VERSION = 1

Row = NDArray[np.float64]
_STRIPPED = " \t\r\n.,;:!\"'`*()[]"
"""What may stand around the name of a label."""

SUM_TOLERANCE = 0.01
"""How far from 1 probabilities may sum that a server rounded. Such a row is divided by its sum."""
EXACT_WITHIN = 5e-7
"""A row whose sum is as near to 1 as this is taken as it is, so that equal numbers stay equal. TextAttack takes numbers
for logits if they miss 1 by 1e-6."""


class ScoreReader:
    """Reads the scores of one text.

    Args:
        task_labels: the labels of the task, in its order.
        given: what the user says of the classifier's labels, as `config.match_labels` takes it.
        scores: whether the numbers are probabilities or logits; or it gives the name of a label alone.
        in_task_order: whether a bare list of numbers without `given` is in the order of the task's labels.
    """

    def __init__(
        self,
        task_labels: Sequence[str],
        given: Mapping[str, str],
        scores: Literal["probabilities", "logits", "names"],
        *,
        in_task_order: bool,
    ) -> None:
        self.labels, self.given, self.scores = tuple(task_labels), dict(given), scores
        self.in_task_order = in_task_order
        self._order = lru_cache(maxsize=64)(self._match_order)

    def __call__(self, raw: Any) -> Row:
        """Return the probabilities (labels,) of one text, float64, in the task's order.

        Raises:
            AnswerError: it is not one finite number for each of the task's labels, or no distribution.
        """
        if self.scores == "names":
            return self._named(raw)
        names, numbers = read_labels_and_numbers(raw)
        if len(numbers) != len(self.labels):
            raise AnswerError(
                f"it gave {len(numbers)} numbers ({shorten(', '.join(names or map(str, numbers)))}), and the task has "
                f"{len(self.labels)} labels; ask it for all of them (Hugging Face: `top_k: null` among `parameters`)"
            )
        row = np.array([numbers[place] for place in self._order(names)], dtype=np.float64)
        if not np.isfinite(row).all():
            raise AnswerError(f"it gave {shorten(numbers)}, which has NaN or infinity")
        return softmax(row) if self.scores == "logits" else _as_distribution(row)

    def _named(self, raw: Any) -> Row:
        """Return 1 for the label that an answer names, alone but for case, blanks, quotes and stops, and else 0."""
        name = raw.strip(_STRIPPED).casefold() if isinstance(raw, str) else None
        label_by_name = {label.casefold(): label for label in self.labels}
        label_by_name |= {theirs.casefold(): label for theirs, label in self.given.items()}
        if name not in label_by_name or label_by_name[name] not in self.labels:
            raise AnswerError(f"it gave {shorten(repr(raw))}; expected the name of one of {', '.join(self.labels)}")
        return np.array([float(label == label_by_name[name]) for label in self.labels])

    def read_or_error(self, raw: Any) -> Row | AnswerError:
        """As a call, but return the error that it raises."""
        try:
            return self(raw)
        except AnswerError as error:
            return error

    def _match_order(self, names: tuple[str, ...] | None) -> tuple[int, ...]:
        if names is None and self.in_task_order and not self.given:
            return tuple(range(len(self.labels)))
        try:
            if names is not None:
                model_labels = sorted(names)
                # Numbers in `given` are refused where the answer has names: there is no order that they could mean.
                names_given = {name.casefold() for name in model_labels}
                unknown_names = [key for key in self.given if key.casefold() not in names_given]
                if unknown_names:
                    raise AnswerError(
                        f"`labels` names {', '.join(unknown_names)}, and its labels are {', '.join(model_labels)}"
                    )
                return tuple(
                    names.index(model_labels[place]) for place in match_labels(model_labels, self.labels, self.given)
                )
            if not self.given:
                written = ", ".join(f"{i}: ?" for i in range(len(self.labels)))
                raise ResourceError(
                    f"it gives numbers without labels. Say what each means, with one of {', '.join(self.labels)} in "
                    f"place of each question mark: `labels: {{{written}}}`"
                )
            return match_labels([str(i) for i in range(len(self.labels))], self.labels, self.given)
        except ResourceError as error:
            raise AnswerError(str(error)) from None


def read_labels_and_numbers(raw: Any) -> tuple[tuple[str, ...] | None, list[float]]:
    """Return the names of labels, where there are any, and the numbers.

    Raises AnswerError where it is none of a list of numbers, a mapping from label to number, a list of mappings with a
    label and a number, and a mapping with a list of labels and a list of numbers.
    """
    raw = to_plain(raw)
    # From the plainest form to the least certain one: what fits several is read as the first.
    if isinstance(raw, list) and raw and all(map(_is_number, raw)):
        return None, [float(number) for number in raw]
    if isinstance(raw, list) and raw and all(isinstance(entry, Mapping) for entry in raw):
        pairs = [_label_and_number(entry) for entry in raw]
        if None not in pairs:
            return tuple(pair[0] for pair in pairs if pair), [pair[1] for pair in pairs if pair]
    if isinstance(raw, Mapping) and raw:
        values = [to_plain(value) for value in raw.values()]
        if all(map(_is_number, values)):
            return tuple(str(key) for key in raw), [float(value) for value in values]
        only_pair = _label_and_number(raw) if len(raw) == 2 else None
        if only_pair:
            return (only_pair[0],), [only_pair[1]]
        names = [value for value in values if _is_list_of(value, lambda entry: isinstance(entry, str))]
        numbers = [value for value in values if _is_list_of(value, _is_number)]
        if len(names) == len(numbers) == 1 and len(names[0]) == len(numbers[0]):
            return tuple(names[0]), [float(number) for number in numbers[0]]
    raise AnswerError(
        f"it gave {shorten(raw)}, which is neither a list of numbers nor a number for each label; of an endpoint, "
        "`path` says where in the answer they are"
    )


def is_single_row(raw: Any) -> bool:
    """Return whether something is the scores of one text, right or wrong, and not a list of those of several."""
    try:
        read_labels_and_numbers(raw)
    except AnswerError:
        return False
    return True


def to_plain(value: Any) -> Any:
    """Return a torch tensor, an array or a tuple as a list, and a number of numpy's as Python's."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double()  # numpy has no bfloat16
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [to_plain(entry) if not isinstance(entry, float | Mapping) else entry for entry in value]
    return value


def softmax(logits: Row) -> Row:
    """Return probabilities, computed in float32, as for victims whose network rbench runs itself."""
    import torch

    return torch.from_numpy(logits).float().softmax(dim=0).double().numpy()


def _as_distribution(row: Row) -> Row:
    total = math.fsum(row)
    if row.min() < 0 or abs(total - 1) > SUM_TOLERANCE:
        raise AnswerError(
            f"it gave {shorten(row.tolist())}, which are no probabilities (their sum is {total:.6g}). If they are "
            "logits, write `scores: logits`; otherwise have it give probabilities that sum to 1"
        )
    # Dividing by a sum that is 1 but for rounding would make equal probabilities differ in their last bits.
    return row if abs(total - 1) <= EXACT_WITHIN else row / total


def _label_and_number(entry: Mapping[Any, Any]) -> tuple[str, float] | None:
    values = list(entry.values())
    names = [value for value in values if isinstance(value, str)]
    numbers = [float(to_plain(value)) for value in values if _is_number(to_plain(value))]
    return (names[0], numbers[0]) if len(names) == len(numbers) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_list_of(value: Any, fits: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(fits, value))


def shorten(value: Any) -> str:
    """Return a value for a message, without secrets and cut."""
    text = masked(str(value))  # before it is cut: half a secret is one too
    return text if len(text) <= 200 else text[:200] + "..."

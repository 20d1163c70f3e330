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
from rbench.victims.config import match

VERSION = 1

Row = NDArray[np.float64]
_AROUND = " \t\r\n.,;:!\"'`*()[]"
"""What may stand around the name of a label."""

SUM_TOLERANCE = 0.01
"""How far from 1 probabilities may sum that a server rounded. Such a row is divided by its sum."""
EXACT = 5e-7
"""A row whose sum is as near to 1 as this is taken as it is, so that equal numbers stay equal. TextAttack takes numbers
for logits if they miss 1 by 1e-6."""


class Reader:
    """Reads the scores of one text.

    Args:
        task_labels: the labels of the task, in its order.
        given: what the user says of the classifier's labels, as `config.match` takes it.
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
        self._order = lru_cache(maxsize=64)(self._matched)

    def __call__(self, raw: Any) -> Row:
        """Return the probabilities (labels,) of one text, float64, in the task's order.

        Raises:
            AnswerError: it is not one finite number for each of the task's labels, or no distribution.
        """
        if self.scores == "names":
            return self._named(raw)
        try:
            names, numbers = unpacked(raw)
        except (OverflowError, RecursionError) as error:
            what = "a number beyond all floats" if isinstance(error, OverflowError) else "an answer nested too deeply"
            raise AnswerError(f"it gave {what}") from None
        if names is None and len(numbers) != len(self.labels):
            raise AnswerError(f"it gave {len(numbers)} numbers, and the task has {len(self.labels)} labels")
        if names is not None and len(names) < len(self.labels):
            raise AnswerError(
                f"it gave scores for {', '.join(names) or 'no label'} alone, and the task has {len(self.labels)} "
                "labels; ask it for the scores of all labels (Hugging Face: `top_k: null` among `parameters`)"
            )
        row = np.array([numbers[place] for place in self._order(names)], dtype=np.float64)
        if not np.isfinite(row).all():
            raise AnswerError(f"it gave {shown(numbers)}, which has NaN or infinity")
        return softmax(row) if self.scores == "logits" else _distribution(row)

    def _named(self, raw: Any) -> Row:
        """Return 1 for the label that an answer names, alone but for case, blanks, quotes and stops, and else 0."""
        said = raw.strip(_AROUND).casefold() if isinstance(raw, str) else None
        known = {label.casefold(): label for label in self.labels}
        known |= {theirs.casefold(): label for theirs, label in self.given.items()}
        if said not in known or known[said] not in self.labels:
            raise AnswerError(f"it gave {shown(repr(raw))}; expected the name of one of {', '.join(self.labels)}")
        return np.array([float(label == known[said]) for label in self.labels])

    def tried(self, raw: Any) -> Row | AnswerError:
        """As a call, but return the error that it raises."""
        try:
            return self(raw)
        except AnswerError as error:
            return error

    def _matched(self, names: tuple[str, ...] | None) -> tuple[int, ...]:
        if names is None and self.in_task_order and not self.given:
            return tuple(range(len(self.labels)))
        try:
            if names is not None:
                theirs = sorted(names)
                # Numbers in `given` are refused where the answer has names: there is no order that they could mean.
                known = {name.casefold() for name in theirs}
                if strange := [key for key in self.given if key.casefold() not in known]:
                    raise AnswerError(f"`labels` names {', '.join(strange)}, and its labels are {', '.join(theirs)}")
                return tuple(names.index(theirs[place]) for place in match(theirs, self.labels, self.given))
            if not self.given:
                written = ", ".join(f"{i}: ?" for i in range(len(self.labels)))
                raise ResourceError(
                    f"it gives numbers without labels. Say what each means, with one of {', '.join(self.labels)} in "
                    f"place of each question mark: `labels: {{{written}}}`"
                )
            return match([str(i) for i in range(len(self.labels))], self.labels, self.given)
        except ResourceError as error:
            raise AnswerError(str(error)) from None


def unpacked(raw: Any) -> tuple[tuple[str, ...] | None, list[float]]:
    """Return the names of labels, where there are any, and the numbers.

    Raises AnswerError where it is none of a list of numbers, a mapping from label to number, a list of mappings with a
    label and a number, and a mapping with a list of labels and a list of numbers.
    """
    raw = plain(raw)
    if isinstance(raw, list) and raw and all(map(_is_number, raw)):
        return None, [float(number) for number in raw]
    if isinstance(raw, list) and raw and all(isinstance(entry, Mapping) for entry in raw):
        pairs = [_label_and_number(entry) for entry in raw]
        if None not in pairs:
            return _distinct([pair[0] for pair in pairs if pair]), [pair[1] for pair in pairs if pair]
    if isinstance(raw, Mapping) and raw:
        values = [plain(value) for value in raw.values()]
        if all(map(_is_number, values)):
            return _distinct([str(key) for key in raw]), [float(value) for value in values]
        if len(raw) == 2 and (one := _label_and_number(raw)):
            return (one[0],), [one[1]]
        names = [value for value in values if _is_list_of(value, lambda entry: isinstance(entry, str))]
        numbers = [value for value in values if _is_list_of(value, _is_number)]
        if len(names) == len(numbers) == 1 and len(names[0]) == len(numbers[0]):
            return _distinct(names[0]), [float(number) for number in numbers[0]]
    raise AnswerError(
        f"it gave {shown(raw)}, which is neither a list of numbers nor a number for each label; of an endpoint, "
        "`path` says where in the answer they are"
    )


def is_row(raw: Any) -> bool:
    """Return whether something is the scores of one text, right or wrong, and not a list of those of several."""
    try:
        unpacked(raw)
    except AnswerError:
        return False
    return True


def plain(value: Any) -> Any:
    """Return a torch tensor, an array or a tuple as a list, and a number of numpy's as Python's."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double()  # numpy has no bfloat16
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [plain(entry) if not isinstance(entry, float | Mapping) else entry for entry in value]
    return value


def softmax(logits: Row) -> Row:
    """Return probabilities, computed in float32, as for victims whose network rbench runs itself."""
    import torch

    return torch.from_numpy(logits).float().softmax(dim=0).double().numpy()


def _distribution(row: Row) -> Row:
    total = math.fsum(row)
    if row.min() < 0 or abs(total - 1) > SUM_TOLERANCE:
        raise AnswerError(
            f"it gave {shown(row.tolist())}, which are no probabilities (their sum is {total:.6g}). If they are "
            "logits, write `scores: logits`; otherwise have it give probabilities that sum to 1"
        )
    # Dividing by a sum that is 1 but for rounding would make equal probabilities differ in their last bits.
    return row if abs(total - 1) <= EXACT else row / total


def _label_and_number(entry: Mapping[Any, Any]) -> tuple[str, float] | None:
    values = list(entry.values())
    names = [value for value in values if isinstance(value, str)]
    numbers = [float(plain(value)) for value in values if _is_number(plain(value))]
    return (names[0], numbers[0]) if len(names) == len(numbers) == 1 else None


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise AnswerError(f"it gave two numbers for one label, in {', '.join(names)}")
    return tuple(names)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_list_of(value: Any, fits: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(fits, value))


def shown(value: Any) -> str:
    """Return a value for a message, without secrets and cut."""
    text = masked(str(value))  # before it is cut: half a secret is one too
    return text if len(text) <= 200 else text[:200] + "..."

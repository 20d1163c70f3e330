"""The columns that a measure declares, and the rows that it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rbench.schema import Meaning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Column:
    """A number of each row, one a row, without an interval. `Share` and `Mean` have intervals."""

    name: str
    """The name by which claims, comparisons and conditions ask for it, and which programs get."""
    definition: str
    """What it is, in words: `texts made against one victim that fool another`."""
    best: Literal["lowest", "highest"] | None = None
    """Which end is good; None: neither."""
    title: str = ""
    """The head of the column. Empty: the name with a capital letter."""
    percent: bool = False
    """Whether tables show it multiplied by 100."""
    digits: int = 1
    """Digits behind the point in tables."""
    undefined: str = "nothing in the denominator"
    """Why it may have no value."""

    @property
    def meaning(self) -> Meaning:
        """The column as a metric."""
        title = self.title or self.name.replace("_", " ").capitalize()
        more: dict[str, Any] = {"percent": self.percent, "digits": self.digits, "undefined": self.undefined}
        return Meaning(title, self.definition, self.best, good="better", among="of each column", **more)


@dataclass(frozen=True)
class Share(Column):
    """A share of units, such as texts, each of which has it or not. Its interval is Wilson's."""

    percent: bool = True


@dataclass(frozen=True)
class Mean(Column):
    """The mean of a number of each unit. Its interval is Student's t."""


@dataclass(frozen=True)
class Row:
    """What `run` yields, and `of_attack` returns, of a measure with `columns`."""

    values: Mapping[str, ArrayLike | float | None]
    """By column: of a `Share` or a `Mean` an array (n,) with the value of each unit, NaN for one that is in no
    denominator; of a `Column` a number, or None."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What the row is of, besides encoder, task, attack and so on, which the job has: `{"kind": "typos"}`. In a measure
    of attacks `encoder` and `finetune` say of which victim it is."""
    units: Sequence[str] | None = None
    """The names of the units, for a measure of attacks: two rows are compared unit by unit where both have the same.
    Other measures read the same rows in the same order, and need none."""

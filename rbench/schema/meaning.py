"""The name and definition of what a table shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Meaning:
    """Name and definition of a metric, and whether low or high values are good. For attacks, good means robust."""

    title: str
    definition: str
    best: Literal["lowest", "highest"] | None = None
    """None: a measure of which neither end is good."""
    percent: bool = True
    """Whether values are shown multiplied by 100."""
    digits: int = 1
    """Number of digits after the decimal point."""
    unit: str = "%"
    """Unit of values multiplied by 100."""
    stored: str = "Shares are fractions of 1."
    """Note for programs, which get values that are not multiplied by 100."""
    undefined: str = "no example in the denominator"
    """Reason why an entry may have no value."""
    good: str = "more robust"
    among: str = "of each attack and column"
    """Entries among which the best is bold."""
    short: str = ""
    """The title where there is little room, as in the header of a column. Empty: the title."""
    said: str = ""
    """What it is called within a sentence. Empty: the title, with a small first letter."""
    repeatable: bool = True
    """Whether the same run gives the same values again. Values that depend on the machine are left out of tables of all
    metrics and of reports, and are not tested for bold."""

    @property
    def arrow(self) -> str:
        return "↓" if self.best == "lowest" else "↑"

    @property
    def column(self) -> str:
        """The header of a column."""
        return self.short or self.title

    @property
    def words(self) -> str:
        """What it is called within a sentence."""
        return self.said or self.title[:1].lower() + self.title[1:]

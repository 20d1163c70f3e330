"""The one rule for correcting p values: which comparisons are one family.

*A family is all comparisons that one question makes*, and Holm's procedure corrects their p values together:

- A table asks what differs among all that it shows. Its bold tests every two entries of every column, so these are one
  family. With no difference anywhere, at most 5% of tables have any bold.
- `rbench compare` asks where two encoders differ. All cells that it compares are one family.
- A claim asks one thing, which was chosen before. Its own comparisons are one family, however many claims stand beside
  it, and none that it did not ask for counts.

So a claim may be decided where a table leaves the same two cells undecided: who asks one question looks once, and who
looks for what stands out looks everywhere (confirmatory and exploratory comparisons: Bender and Lange, 2001, "Adjusting
for multiple testing: when and how?"; Rubin, 2021, "When to adjust alpha during multiple testing"). Every verdict says
of which family its p is. A gate (`score.gate`) asks whether anything in a check got worse: its rows are one family.
"""

from __future__ import annotations

from typing import Literal

from rbench.score.paired import Difference

ALPHA = 0.05
"""A verdict needs a corrected p below this."""


Way = Literal["lower", "higher", "undecided"]


def way(found: Difference | None, p: float | None, bound: float = 0.0) -> Way:
    """Say on which side of a bound a difference lies, if its corrected p decides that."""
    if found is None or found.value is None or p is None or p >= ALPHA or found.value == bound:
        return "undecided"
    return "lower" if found.value < bound else "higher"


def correction(comparisons: int, of: str) -> str:
    """Say how the p values of a family are corrected: `Holm over the 102 comparisons of this table, alpha 0.05`."""
    many = "the only comparison" if comparisons == 1 else f"the {comparisons:,} comparisons"
    return f"Holm over {many} of {of}, alpha {ALPHA}"

"""Compute the accuracy of a victim on an adversarial set, beside its accuracy on the same originals.

| score          | numerator                                                     | denominator   |
|----------------|---------------------------------------------------------------|---------------|
| clean          | originals classified correctly                                | rows          |
| adversarial    | rows classified correctly: changed texts, and originals that  | rows          |
|                | no attack changed                                             |               |
| clean_changed  | originals of changed texts classified correctly               | changed texts |
| changed        | changed texts classified correctly                            | changed texts |

A changed text is one with which the attack succeeded on the victim that the set was made against. `adversarial` is
"accuracy on the adversarial test set" (CLINE, section 4.4, Table 5), which does not say which texts it counts: all rows
is ours. The label of a changed text is its original's. Intervals are Wilson's 95% intervals; a row counts once.
"""

from __future__ import annotations

from collections.abc import Sequence

from rbench.schema import Score
from rbench.score.contrast import Judged
from rbench.score.statistics import Share, scored

VERSION = 1

SET_SCORES = ("clean", "adversarial", "clean_changed", "changed")


def adversarial_scores(rows: Sequence[Judged]) -> tuple[Score, ...]:
    """Return all SET_SCORES, shares in 0..1; None where the denominator is 0.

    Args:
        rows: each with its original and, where the attack succeeded, its changed text as the one edit
            (`rbench.score.contrast.judged` makes them of stored predictions).
    """
    changed = [(row.original, row.edits[0][0]) for row in rows if row.edits]
    right = {
        "clean": [row.original for row in rows],
        "adversarial": [_survived(row) for row in rows],
        "clean_changed": [original for original, _ in changed],
        "changed": [right for _, right in changed],
    }
    return tuple(scored(name, Share(sum(right[name]), len(right[name]))) for name in SET_SCORES)


def adversarial_values(rows: Sequence[Judged]) -> list[float]:
    """Return for each row whether it is classified correctly, 1 or 0; their mean is the score `adversarial`."""
    return [float(_survived(row)) for row in rows]


def _survived(row: Judged) -> bool:
    return row.edits[0][0] if row.edits else row.original

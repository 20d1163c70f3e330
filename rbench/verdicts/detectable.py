"""Say which differences a RUN could have shown, so that "no difference" and "too few examples" are told apart."""

from __future__ import annotations

from itertools import combinations

from rbench.score.paired import Difference
from rbench.spec.claimed import CellOf, Comparison, Ground, Group
from rbench.verdicts.cells import Cells
from rbench.verdicts.judge import Bound, judge


def detectable(ground: Ground, cells: Cells) -> str | None:
    """Say how large a difference in ASR between two encoders must be to show in a cell of this RUN.

    Returns None where no two encoders were attacked in a cell that is done and whose outcomes are kept.
    """
    found: list[Difference] = []
    for one, other in combinations(ground.cells.get("asr", ()), 2):
        if one.encoder != other.encoder and one[1:] == other[1:]:
            judged = _compared(one, other, cells)
            found += [judged] if judged is not None and judged.n else []
    sizes = sorted(100 * d.smallest for d in found if d.smallest is not None)
    if not found:
        return None
    if not sizes:
        return "What this run could have shown: no difference in ASR between two encoders, for it has too few texts."
    pairs = "1 pair" if len(found) == 1 else f"{len(found)} pairs"
    blind = len(found) - len(sizes)
    none = f"; {blind} of these could show none" if blind else ""
    span = f"{sizes[0]:.0f}" if round(sizes[0]) == round(sizes[-1]) else f"{sizes[0]:.0f} to {sizes[-1]:.0f}"
    counts = sorted(d.n for d in found)
    n = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return (
        f"What this run could have shown: in one cell, a difference in ASR between two encoders of {span} points or "
        f"more (power 80% at p < 0.05, before any correction; {pairs} of cells, n {n}{none}). Smaller true "
        "differences mostly go unseen."
    )


def _compared(one: CellOf, other: CellOf, cells: Cells) -> Difference | None:
    comparison = Comparison((), one.encoder, other.encoder, "lower", (Group((one,), (other,)),))
    found = judge(comparison, "asr", Bound(), cells)
    return None if found.unpaired else found.difference

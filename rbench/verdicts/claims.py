"""Judge the claims of a suite on its RUN: supported, contradicted or undecided.

A claim is taken apart into comparisons (`spec.claimed`). Each is judged by its two-sided p value against what the claim
says, corrected by Holm for all comparisons of the claim: below 0.05 it is supported or contradicted, by the side on
which the value lies, and otherwise undecided. A claim is contradicted if one of its comparisons is, and supported if
all are. So a claim that is true is called contradicted in at most 5% of RUNs, however many comparisons it has. The
comparisons of a claim are one family (`verdicts.family`).

A claim is about methods unless it says `about: weights`. One training, or one fine-tuning, decides nothing of a method
(`rbench.tables.about`), whatever its p.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rbench.score.paired import Difference
from rbench.spec import Claim
from rbench.spec.claimed import Comparison, Ground, comparisons
from rbench.tables.about import METHODS, WEIGHTS, alone, trainings
from rbench.verdicts.cells import Cells
from rbench.verdicts.family import ALPHA, corrected
from rbench.verdicts.judge import Bound, Found, judge

Verdict = Literal["supported", "contradicted", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "undecided")


@dataclass(frozen=True)
class Judged:
    """One comparison of a claim, and what the RUN says of it. Shares are in 0..1."""

    comparison: Comparison
    bound: Bound
    found: Found
    p: float | None = None
    """Corrected by Holm for all comparisons of the claim."""
    alone: str = ""
    """Why it is about these weights; empty where it is about methods."""
    barred: bool = False
    """Whether that leaves it undecided, because the claim is about methods."""

    @property
    def difference(self) -> Difference | None:
        return self.found.difference

    @property
    def verdict(self) -> Verdict:
        d = self.difference
        if d is None or d.value is None or self.p is None or self.p >= ALPHA or d.value == self.bound.value:
            return "undecided"
        if self.barred:
            return "undecided"
        below = d.value < self.bound.value
        return "supported" if below == (self.comparison.direction == "lower") else "contradicted"

    @property
    def why(self) -> str:
        """Why it is undecided, where no number says it."""
        if self.found.why or self.difference is None or self.difference.value is None:
            return self.found.why or "no example is common"
        if self.difference.p is None:
            return "the values do not vary, so there is no interval"
        return self.alone if self.barred else ""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its comparisons."""

    claim: Claim
    judged: tuple[Judged, ...]
    percent: bool
    """Whether the metric is shown multiplied by 100."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of comparisons by verdict."""
        found = Counter(one.verdict for one in self.judged)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def verdict(self) -> Verdict:
        if self.counts["contradicted"]:
            return "contradicted"
        return "supported" if self.counts["supported"] == len(self.judged) > 0 else "undecided"

    @property
    def about(self) -> str:
        """Whom the verdict is about: these weights, or these methods; empty where nothing was compared."""
        there = [one.alone for one in self.judged if one.difference is not None]
        return (WEIGHTS if any(there) else METHODS) if there else ""

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the verdict: whom it is about, and what it was computed from."""
        said = []
        why = "; ".join(dict.fromkeys(one.alone for one in self.judged if one.alone and one.difference is not None))
        if why and self.claim.about == "method":
            said.append(f"undecided, since it speaks of methods ({why}); with `about: weights` it speaks of {WEIGHTS}")
        elif why:
            said.append(f"about {WEIGHTS} and not about a method ({why})")
        if any(one.found.unpaired for one in self.judged):
            said.append("judged unpaired, by counts or by the intervals of tables, not example by example")
        if left := sum(one.comparison.left_out for one in self.judged):
            said.append(f"{left} cells without a counterpart are left out of averages")
        return said


def judge_claims(claims: Sequence[Claim], ground: Ground, cells: Cells) -> tuple[JudgedClaim, ...]:
    """Judge claims on a RUN. A claim that nothing matches is undecided, without a comparison."""
    return tuple(_judged(claim, ground, cells) for claim in claims)


def _judged(claim: Claim, ground: Ground, cells: Cells) -> JudgedClaim:
    percent = cells.percent(claim.metric)
    bound = _bound(claim, 100.0 if percent else 1.0)
    trained = trainings(cells.results.plan)
    found = [
        _barred(Judged(one, bound, judge(one, claim.metric, bound, cells)), claim, trained)
        for one in comparisons(claim, ground)
    ]
    p = corrected([one.difference.p if one.difference is not None else None for one in found])
    return JudgedClaim(claim, tuple(replace(one, p=q) for one, q in zip(found, p, strict=True)), percent)


def _barred(one: Judged, claim: Claim, trained: Mapping[str, int]) -> Judged:
    """Return a comparison with whom it is about."""
    groups = one.comparison.groups
    first, second = ({cell.encoder for group in groups for cell in group[side]} for side in (0, 1))
    tunings = one.difference.seeds if one.difference is not None else 1
    why = alone(first, second, trained, tunings)
    return replace(one, alone=why, barred=bool(why) and claim.about == "method")


def _bound(claim: Claim, scale: float) -> Bound:
    """Return what the comparisons of a claim are judged against, in the units of records."""
    if claim.kind == "of":
        limit = claim.at_most if claim.at_most is not None else claim.at_least
        assert limit is not None
        return Bound(1.0, limit / scale)
    by = (claim.by or 0.0) / scale
    return Bound(1.0 if claim.times is None else claim.times, -by if claim.lower is not None else by)

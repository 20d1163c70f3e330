"""Lay out the verdicts on claims of printed tables: a row for each claim, a cell for each of its combinations."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from rbench.spec.claims import Claim
from rbench.tables.table import Entry, Meaning, Number, Table
from rbench.verdicts.printed import Combination, Judged, Weighed

_MEANING = Meaning(
    "Claims on the papers' own printed tables",
    "in how many combinations of task, attack and so on each sentence holds",
    percent=False,
    digits=2,
)


VERDICTS = ("in full", "in part", "not at all")
"""What is said of a sentence."""


class Sentence(NamedTuple):
    """A sentence of a paper over all of its parts: `cline-above-roberta.ori`, `.rev` and `.con` are one."""

    holding: int
    of: int

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return VERDICTS[0 if self.holding == self.of else 1 if self.holding else 2]


def kind(claim: Claim) -> str:
    """Name the kind of a claim as docs/claims.md does."""
    if claim.kind == "of":
        return "at most" if claim.at_most is not None else "at least"
    if claim.times is not None:
        return "ratio"
    return f"{claim.kind} by" if claim.by is not None else claim.kind


def sentences(judged: Sequence[Judged]) -> dict[str, Sentence]:
    """Count combinations by sentence. What follows a dot in an id names a part."""
    found: dict[str, Sentence] = {}
    for one in judged:
        name = one.claim.id.partition(".")[0]
        before = found.get(name, Sentence(0, 0))
        found[name] = Sentence(before.holding + one.holding, before.of + len(one.combinations))
    return found


def table(judged: Sequence[Judged]) -> Table:
    """Lay out verdicts, grouped by printed table."""
    rows = tuple(_row(one) for one in judged)
    return Table(
        metric="claims",
        layout="full",
        header=("Table", "Claim", "Kind", "Metric", "Holds", "Closest", "Against", "Value", "Its value", "By"),
        rows=rows,
        groups=frozenset(i for i in range(1, len(rows)) if rows[i][0] != rows[i - 1][0]),
        cells=tuple(_cell(one, combination) for one in judged for combination in one.combinations),
        notes=tuple(_notes(judged)),
        interval="",
        about=_MEANING,
    )


def _row(one: Judged) -> tuple[Entry, ...]:
    ties = f" ({one.ties} tied)" if one.ties else ""
    closest, weighed = one.closest, one.closest.weighed
    return (
        one.table,
        one.claim.id,
        kind(one.claim),
        one.claim.metric,
        f"{one.holding} of {len(one.combinations)}{ties}",
        ", ".join(closest.at.values()) or "all",
        weighed.other or "its limit",
        _number(weighed.value),
        _number(weighed.reference),
        by(one),
    )


def by(one: Judged) -> str:
    """Format how far apart both sides of the closest combination are: `+1.59`, or `×0.514` for a ratio."""
    weighed = one.closest.weighed
    ratio = _ratio(weighed) if one.claim.times is not None else None
    return f"{float(weighed.value - weighed.reference):+.2f}" if ratio is None else f"×{ratio:.3f}"


def _number(value: Fraction) -> Number:
    return Number(float(value), percent=False, digits=2)


def _cell(one: Judged, combination: Combination) -> dict[str, Any]:
    claim, weighed = one.claim, combination.weighed
    return {
        "table": one.table,
        "claim": claim.id,
        "kind": kind(claim),
        "metric": claim.metric,
        **{axis: combination.at.get(axis) for axis in ("encoder", "task", "attack", "finetune")},
        "verdict": combination.verdict,
        "value": float(weighed.value),
        "against": weighed.other or None,
        "against_value": float(weighed.reference),
        "difference": float(weighed.value - weighed.reference),
        "ratio": _ratio(weighed),
        "averaged_over": weighed.n,
        "source": claim.source,
        "note": claim.note or None,
    }


def _ratio(weighed: Weighed) -> float | None:
    return float(weighed.value / weighed.reference) if weighed.reference else None


def _notes(judged: Sequence[Judged]) -> list[str]:
    found = sentences(judged)
    count = {verdict: sum(one.verdict == verdict for one in found.values()) for verdict in VERDICTS}
    said = [
        f"Sentences: {len(found)}. They hold in full: {count['in full']}, in part: {count['in part']}, "
        f"not at all: {count['not at all']}.",
        "A printed table has no spread: no verdict says whether a difference is more than noise. A tie does not hold.",
        "Averages are computed from the printed numbers, not taken from the paper's own averages.",
        "Closest: the combination with the least margin, which is the worst failure where one fails. The columns after "
        "it are about this combination; By is the difference, or the ratio where the claim is one.",
    ]
    return said + [f"{one.claim.id}: {one.claim.note}" for one in judged if one.claim.note]

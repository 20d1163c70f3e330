"""Lay out the verdicts on claims: a row for each comparison in a table, or a line for each claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rbench.tables import Table
from rbench.tables.table import Entry, Meaning, Number, p_value
from rbench.verdicts.claims import VERDICTS, Judged, JudgedClaim
from rbench.verdicts.family import ALPHA

ABOUT = Meaning("Claims", "what the RUN says of each", percent=False)


def table(found: Sequence[JudgedClaim]) -> Table:
    """Lay out claims: a row for each claim with its counts, and below it a row for each of its comparisons."""
    rows: list[tuple[Entry, ...]] = []
    groups, cells = [], []
    for claim in found:
        groups.append(len(rows))
        if len(claim.judged) != 1:
            rows.append((claim.claim.id, f"{claim.claim}{_each(claim)}", "", "", "", "", "", "", _counted(claim)))
        for one in claim.judged:
            rows.append(_row(claim, one))
            cells.append(_cell(claim, one))
        if not claim.judged:
            cells.append(_unmatched(claim))
    return Table(
        metric="claims",
        layout="paper",
        header=("Claim", "What is judged", "n", "One", "Other", "Difference", "95% interval", "p", "Verdict"),
        rows=tuple(rows),
        groups=frozenset(groups[1:]),
        cells=tuple(cells),
        notes=tuple(_notes(found)),
        interval="",
        about=ABOUT,
    )


def lines(found: Sequence[JudgedClaim]) -> list[str]:
    """Return one line for each claim: its verdict, its id, what it says, and the counts or the only number."""
    return [f"{one.verdict}: {one.claim.id}, {sentence(one)} ({brief(one)})" for one in found]


def sentence(found: JudgedClaim) -> str:
    """Return what is claimed, in words."""
    return f"{found.claim}{_each(found)}"


def _each(found: JudgedClaim) -> str:
    axes = found.claim.for_each
    return f", for each {' and '.join(axes)}" if axes else ""


def _counted(found: JudgedClaim) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in found.counts.items() if n)
    return f"{found.verdict}{_about(found)} ({counts or 'nothing here matches it'})"


def _about(found: JudgedClaim) -> str:
    """Say whom a verdict is about, where there is one."""
    return f", {found.about}" if found.verdict != "undecided" else ""


def brief(found: JudgedClaim) -> str:
    """Return the counts of verdicts, or the only number with its interval, p and n; and whom the verdict is about."""
    whom = f", {found.about}" if found.about else ""
    if len(found.judged) != 1:
        return ", ".join(f"{found.counts[verdict]} {verdict}" for verdict in VERDICTS) + whom
    (one,) = found.judged
    d = one.difference
    if d is None or (one.why and one.p is None):
        return one.why
    said = f"{_difference(found, one)}, 95% interval {_interval(found, one)}"
    why = f": {one.why}" if one.why else ""
    return f"{said}, p {p_value(one.p)}, n {d.n}{whom}{why}" if one.p is not None else f"{said}, n {d.n}{whom}"


def _row(found: JudgedClaim, one: Judged) -> tuple[Entry, ...]:
    d, alone = one.difference, len(found.judged) == 1
    what = str(found.claim) if alone else _what(one)
    return (
        found.claim.id,
        what,
        str(d.n) if d is not None else "",
        _number(found, one.found.one),
        _number(found, one.found.other) if one.comparison.other else "",
        _difference(found, one),
        _interval(found, one),
        p_value(one.p),
        one.verdict + (_about(found) if alone else "") + (f": {one.why}" if one.why else ""),
    )


def _what(one: Judged) -> str:
    """Say what is compared: the names on the axes of `for_each`, then both sides."""
    where = "/".join(str(name) for _, name in one.comparison.combination)
    sides = " and ".join(side for side in (one.comparison.one, one.comparison.other) if side)
    return f"{where}: {sides}" if where and sides else where or sides


def _number(found: JudgedClaim, value: float | None) -> str:
    """Format a number of the claim's metric as tables do; nothing where there is none."""
    number = Number(value, found.percent, digits=1 if found.percent else 2)
    return "" if value is None else number.shown(value)


def _difference(found: JudgedClaim, one: Judged) -> str:
    return _number(found, one.difference.value if one.difference is not None else None)


def _interval(found: JudgedClaim, one: Judged) -> str:
    d = one.difference
    if d is None or d.low is None or d.high is None:
        return ""
    return f"{_number(found, d.low)} to {_number(found, d.high)}"


def _cell(found: JudgedClaim, one: Judged) -> dict[str, Any]:
    d = one.difference
    names = dict.fromkeys(("encoder", "task", "attack", "finetune")) | dict(one.comparison.combination)
    return {
        "claim": found.claim.id,
        "claim_verdict": found.verdict,
        "of_metric": found.claim.metric,
        **names,
        "one": one.comparison.one,
        "other": one.comparison.other or None,
        "expected": one.comparison.direction,
        "times": one.bound.times,
        "bound": one.bound.value,
        "verdict": one.verdict,
        "why": one.why or None,
        "one_value": one.found.one,
        "other_value": one.found.other,
        **{name: getattr(d, name) if d is not None else None for name in _FIELDS},
        "p_holm": one.p,
        "comparisons": sum(other.p is not None for other in found.judged),
        "about": None if d is None else "weights" if one.alone else "method",
        "trainings_one": d.trainings[0] if d is not None else None,
        "trainings_other": d.trainings[1] if d is not None else None,
        "paired": None if d is None else not one.found.unpaired,
        "source": found.claim.source or None,
    }


_FIELDS = ("n", "value", "low", "high", "p", "smallest", "seeds")


def _unmatched(found: JudgedClaim) -> dict[str, Any]:
    return {"claim": found.claim.id, "claim_verdict": found.verdict, "of_metric": found.claim.metric}


def _notes(found: Sequence[JudgedClaim]) -> Iterator[str]:
    total = sum(one.p is not None for claim in found for one in claim.judged)
    claims = f"{len(found)} claim{'s' * (len(found) != 1)} with {total} comparison{'s' * (total != 1)}"
    yield (
        "Difference: One less Other (times the claim's factor), or One alone where it is held against a number. p is "
        f"two-sided; a verdict needs p < {ALPHA}. A claim is supported if all of its comparisons are, and contradicted "
        f"if one is. There are {claims}. The comparisons of each claim are a family of their own, corrected by Holm. "
        "Tables, and rbench compare, correct for all that they show, and may leave the same cells undecided."
    )
    yield (
        "The interval is not corrected. Where it is wide, undecided means too few examples or seeds, and not that "
        "there is no difference. One and Other are over the examples that are compared, so they may differ from "
        "tables. n counts these, once for each training and fine-tuning seed, however many attacks are averaged."
    )
    about: dict[str, list[str]] = {}
    for one in found:
        for note in one.notes:
            about.setdefault(note, []).append(one.claim.id)
    for note, ids in about.items():
        yield f"{', '.join(ids)}: {note}."
    for one in found:
        said = [*([f"from {one.claim.source}"] if one.claim.source else []), one.claim.note.rstrip(".")]
        if told := "; ".join(part for part in said if part):
            yield f"{one.claim.id}: {told}."

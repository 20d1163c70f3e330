"""Judge the claims of a suite on its RUN: supported, contradicted or undecided.

A claim is taken apart into comparisons (`schema.claims`). Each is judged by its two-sided p value against what the
claim says, corrected by Holm for all comparisons of the claim: below 0.05 it is supported or contradicted, by the side
on which the value lies, and otherwise undecided. A claim is contradicted if one of its comparisons is, and supported if
all are. So a claim that is true is called contradicted in at most 5% of RUNs, however many comparisons it has. The
comparisons of a claim are one family (`verdicts.pairing`).

A comparison is judged by examples where the RUN keeps outcomes, otherwise by the numbers of tables.

A claim is about methods unless it says `about: weights`. One training, or one fine-tuning, decides nothing of a method
(`rbench.tables.draws`), whatever its p.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal, NamedTuple

from rbench.errors import RbenchError
from rbench.schema import Claim
from rbench.schema.claims import CellOf, Comparison, Ground, Group, comparisons, worded
from rbench.score.combined import Part, combine
from rbench.score.paired import Difference, combine_stated, compare, holm
from rbench.tables import Results, Table
from rbench.tables.draws import METHODS, WEIGHTS, alone, trainings, tunings
from rbench.tables.nested_means import Observed, Rows, part
from rbench.tables.table import Entry, Meaning, Number, groups_of, p_value
from rbench.verdicts.cells import Cells
from rbench.verdicts.pairing import ALPHA, by_counts, matched, sample_of, way

Verdict = Literal["supported", "contradicted", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "undecided")
INCLUDE = "name the folder that holds its file with --include DIR"


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
        found = way(self.difference, self.p, self.bound.value)
        if self.barred or found == "undecided":
            return "undecided"
        return "supported" if found == self.comparison.direction else "contradicted"

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
    words: str = ""
    """What is claimed, without options of strategies that are the only ones of their names."""
    unknown: str = ""
    """Why nothing is judged: the metric is not known here."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of comparisons by verdict."""
        found = Counter(one.verdict for one in self.judged)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def verdict(self) -> Verdict:
        """What all comparisons say together. With `holds_in` what combinations do, each of which holds if all of its
        comparisons do."""
        by: dict[object, list[Verdict]] = {}
        for one in self.judged:
            key = one.comparison.combination if self.claim.holds_in is not None else len(by)
            by.setdefault(key, []).append(one.verdict)
        needed = min(self.claim.holds_in or len(by), len(by))
        # Even if all other combinations hold, they are fewer than needed.
        if sum("contradicted" in those for those in by.values()) > len(by) - needed:
            return "contradicted"
        held = sum({*those} == {"supported"} for those in by.values())
        return "supported" if by and held >= needed else "undecided"

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
        there = len({one.comparison.combination for one in self.judged})
        if self.claim.holds_in is not None and 0 < there < self.claim.holds_in:
            said.append(
                f"holds_in asks for {self.claim.holds_in} combinations, and there are {there}: it is judged in each"
            )
        if left := sum(one.comparison.left_out for one in self.judged):
            said.append(f"{left} cells without a counterpart are left out of averages")
        return said


def judge_claims(claims: Sequence[Claim], ground: Ground, cells: Cells) -> tuple[JudgedClaim, ...]:
    """Judge claims on a RUN. A claim that nothing matches is undecided, without a comparison.

    So is one whose metric is not known: a RUN may be read without the folder in which a user has the metric's file.
    """
    return tuple(_judged(claim, ground, cells) for claim in claims)


def _judged(claim: Claim, ground: Ground, cells: Cells) -> JudgedClaim:
    if not ground.knows(claim.metric):
        return JudgedClaim(
            claim, (), percent=False, words=str(claim), unknown=f"{claim.metric} is unknown here; {INCLUDE}"
        )
    percent = cells.percent(claim.metric)
    bound = _bound(claim, 100.0 if percent else 1.0)
    trained = trainings(cells.results.plan)
    found = [
        _barred(Judged(one, bound, judge(one, claim.metric, bound, cells)), claim, trained, cells.results.victims)
        for one in comparisons(claim, ground)
    ]
    p = holm([one.difference.p if one.difference is not None else None for one in found])
    judged = tuple(replace(one, p=q) for one, q in zip(found, p, strict=True))
    return JudgedClaim(claim, judged, percent, worded(claim, ground))


def _barred(
    one: Judged, claim: Claim, trained: Mapping[str, int], victims: Mapping[tuple[str, str, str], int]
) -> Judged:
    """Return a comparison with whom it is about. Seeds that attacked the same victim again are no fine-tunings."""
    groups = one.comparison.groups
    first, second = ({cell.encoder for group in groups for cell in group[side]} for side in (0, 1))
    seeds = one.difference.seeds if one.difference is not None else 1
    keys = [(cell.encoder, cell.task or "", cell.finetune or "") for group in groups for side in group for cell in side]
    why = alone(first, second, trained, min([seeds, *(tunings(key, seeds, victims) for key in keys)]))
    return replace(one, alone=why, barred=bool(why) and claim.about == "method")


def _bound(claim: Claim, scale: float) -> Bound:
    """Return what the comparisons of a claim are judged against, in the units of records."""
    if claim.kind == "of":
        limit = claim.at_most if claim.at_most is not None else claim.at_least
        assert limit is not None
        return Bound(1.0, limit / scale)
    by = (claim.by or 0.0) / scale
    return Bound(1.0 if claim.times is None else claim.times, -by if claim.lower is not None else by)


# --------------------------------------------------------------------------------------------------- how they are shown


PAIRS = 1000
"""Most pairs of cells of which a run says what they could have shown."""
ABOUT = Meaning("Claims", "what the RUN says of each", percent=False)


def table(found: Sequence[JudgedClaim]) -> Table:
    """Lay out claims: a row for each claim with its counts, and below it a row for each of its comparisons."""
    rows: list[tuple[Entry, ...]] = []
    cells = []
    for claim in found:
        if len(claim.judged) != 1:
            rows.append((claim.claim.id, f"{claim.words}{_each(claim)}", "", "", "", "", "", "", _counted(claim)))
        for one in claim.judged:
            rows.append(_row(claim, one))
            cells.append(_cell(claim, one))
        if not claim.judged:
            cells.append(_unmatched(claim))
    return Table(
        metric="claims",
        header=("Claim", "What is judged", "n", "One", "Other", "Difference", "95% interval", "p", "Verdict"),
        rows=tuple(rows),
        groups=groups_of(rows),
        cells=tuple(cells),
        notes=tuple(_notes(found)),
        about=ABOUT,
    )


def lines(found: Sequence[JudgedClaim]) -> list[str]:
    """Return one line for each claim: its verdict, its id, what it says, and the counts or the only number."""
    return [f"{one.verdict}: {one.claim.id}, {one.words}{_each(one)} ({brief(one)})" for one in found]


def sentence(found: JudgedClaim) -> str:
    """Return what is claimed, in words, with all options."""
    return f"{found.claim}{_each(found)}"


def _each(found: JudgedClaim) -> str:
    axes = found.claim.for_each
    return f", for each {' and '.join(axes)}" if axes else ""


def _counted(found: JudgedClaim) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in found.counts.items() if n)
    return f"{found.verdict}{_about(found)} ({counts or found.unknown or 'nothing here matches it'})"


def _about(found: JudgedClaim) -> str:
    """Say whom a verdict is about, where there is one."""
    return f", {found.about}" if found.verdict != "undecided" else ""


def brief(found: JudgedClaim) -> str:
    """Return the counts of verdicts, or the only number with its interval, p and n; and whom the verdict is about."""
    if found.unknown:
        return found.unknown
    whom = f", {found.about}" if found.about else ""
    if len(found.judged) != 1:
        return ", ".join(f"{found.counts[verdict]} {verdict}" for verdict in VERDICTS) + whom
    (one,) = found.judged
    d = one.difference
    if d is None or (one.why and one.p is None):
        return one.why
    difference = _number(found, d.value, d)
    said = f"{_shown(difference)}, 95% interval {difference.span}"
    why = f": {one.why}" if one.why else ""
    return f"{said}, p {p_value(one.p)}, n {d.n}{whom}{why}" if one.p is not None else f"{said}, n {d.n}{whom}"


def _row(found: JudgedClaim, one: Judged) -> tuple[Entry, ...]:
    d, alone = one.difference, len(found.judged) == 1
    what = found.words if alone else _what(one)
    difference = _number(found, d.value if d is not None else None, d)
    return (
        found.claim.id,
        what,
        str(d.n) if d is not None else "",
        _shown(_number(found, one.found.one)),
        _shown(_number(found, one.found.other)) if one.comparison.other else "",
        _shown(difference),
        difference.span,
        p_value(one.p),
        one.verdict + (_about(found) if alone else "") + (f": {one.why}" if one.why else ""),
    )


def _what(one: Judged) -> str:
    """Say what is compared: the names on the axes of `for_each`, then both sides."""
    where = "/".join(str(name) for _, name in one.comparison.combination)
    sides = " and ".join(side for side in (one.comparison.one, one.comparison.other) if side)
    return f"{where}: {sides}" if where and sides else where or sides


def _number(found: JudgedClaim, value: float | None, d: Difference | None = None) -> Number:
    """Return a number of the claim's metric, formatted as tables do, with the interval of `d`."""
    ends = (d.low, d.high) if d is not None else (None, None)
    return Number(value, found.percent, None, *ends, digits=1 if found.percent else 2)


def _shown(number: Number) -> str:
    return "" if number.value is None else number.shown(number.value)


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
    of = {"claim": found.claim.id, "claim_verdict": found.verdict, "of_metric": found.claim.metric}
    return {**of, "why": found.unknown or None}


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


def summary(results: Results) -> list[str]:
    """Return what a run says of its claims, a line each, and which differences it could have shown."""
    cells, asked = Cells(results), results.plan.suite.claims
    try:
        # What claims may speak of is asked of all measures, so a suite without claims does not ask.
        found = lines(judge_claims(asked, cells.ground, cells)) if asked else []
        could = detectable(cells)
    except RbenchError as error:
        return [f"claims are not judged: {error}"]
    return [*found, *([could] if could is not None else [])]


def detectable(cells: Cells) -> str | None:
    """Say how large a difference in ASR between two encoders must be to show in a cell of this RUN.

    Returns None where no two encoders were attacked in a cell that is done and whose outcomes are kept.
    """
    alike: dict[tuple[str | None, ...], list[CellOf]] = {}
    for cell in cells.attacked:
        alike.setdefault(cell[1:], []).append(cell)
    there = [pair for each in alike.values() for pair in combinations(each, 2) if pair[0].encoder != pair[1].encoder]
    # Pairs grow with the square of the number of encoders, and hardly differ in what they could show, which depends on
    # the number of texts and on how often two encoders disagree.
    drawn = there if len(there) <= PAIRS else random.Random(0).sample(there, PAIRS)
    compared = [_compared(one, other, cells) for one, other in drawn]
    found = [judged for judged in compared if judged is not None and judged.n]
    sizes = sorted(100 * d.smallest for d in found if d.smallest is not None)
    if not found:
        return None
    if not sizes:
        return "What this run could have shown: no difference in ASR between two encoders, for it has too few texts."
    pairs = "1 pair" if len(found) == 1 else f"{len(found)} pairs"
    pairs += f" of cells, drawn of {len(there)}" if len(drawn) < len(there) else " of cells"
    blind = len(found) - len(sizes)
    none = f"; {blind} of these could show none" if blind else ""
    span = f"{sizes[0]:.0f}" if round(sizes[0]) == round(sizes[-1]) else f"{sizes[0]:.0f} to {sizes[-1]:.0f}"
    counts = sorted(d.n for d in found)
    n = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return (
        f"What this run could have shown: in one cell, a difference in ASR between two encoders of {span} points or "
        f"more (power 80% at p < 0.05, before any correction; {pairs}, n {n}{none}). Smaller true "
        "differences mostly go unseen."
    )


def _compared(one: CellOf, other: CellOf, cells: Cells) -> Difference | None:
    comparison = Comparison((), one.encoder, other.encoder, "lower", (Group((one,), (other,)),))
    found = judge(comparison, "asr", Bound(), cells)
    return None if found.unpaired else found.difference


class Bound(NamedTuple):
    """What a comparison is judged against: `one - times * other` and `value`."""

    times: float = 1.0
    value: float = 0.0


class Weighed(NamedTuple):
    """A cell's values and their place in a comparison."""

    part: Part
    side: int
    """0: the first side, 1: the second. Of a difference beyond another, 0 are the cells of the one, 1 of the other."""
    share: float
    """The weight of the cell on its side, where weights add up to 1; of a difference beyond another, to 0."""
    facing: bool
    """Whether its values are of the same examples as those of the one cell on the other side."""


class Found(NamedTuple):
    """What the RUN says of a comparison, in the units of records (shares in 0..1)."""

    difference: Difference | None
    """Of `one - times * other`; None where nothing can be said."""
    one: float | None = None
    other: float | None = None
    why: str = ""
    """Why nothing can be said."""
    unpaired: bool = False


def judge(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Found:
    """Judge one comparison. All of its cells must be done and without a flag.

    A flag of the training of an encoder concerns both sides alike where these have the same encoders, as where two
    attacks on one are compared, and is no obstacle there.
    """
    one, other = ({cell.encoder for group in comparison.groups for cell in group[side]} for side in (0, 1))
    found = (cells.obstacle(cell, metric, trainings=one != other) for cell in comparison.cells)
    if obstacles := [why for why in found if why is not None]:
        more = f"; and {len(obstacles) - 1} more such cells" if len(obstacles) > 1 else ""
        return Found(None, why=f"{obstacles[0]}{more}")
    return estimate(comparison, metric, bound, cells)


def estimate(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Found:
    """Judge one comparison as `judge` does, whatever the health of its cells. All of them must be done."""
    if cells.of(metric) == "victims":
        groups, beyond = (tuple(_before_attacks(some)) for some in (comparison.groups, comparison.beyond))
        comparison = comparison._replace(groups=groups, beyond=beyond)
    observed = {cell: cells.observed(cell, metric) for cell in comparison.cells}
    if any(found is None for found in observed.values()):
        return _by_tables(comparison, metric, bound, cells)
    there = {cell: found for cell, found in observed.items() if found is not None}
    parts = list(_parts(comparison, bound.times, there, lambda cell: cells.units(cell, metric)))
    if empty := next((one.part for one in parts if not one.part.values), None):
        shared = " in common" if any(group.other for group in comparison.groups) else ""
        return Found(None, why=f"{empty.encoder} on {empty.task} has no example{shared} that counts for {metric}")
    counted = all(value in (0.0, 1.0) for one in parts for value in one.part.values)
    return _by_examples(parts, bound, shares=counted and cells.shares(metric))


def _before_attacks(groups: Sequence[Group]) -> Iterator[Group]:
    """Yield the groups with one cell for each victim: each attack on it has its clean accuracy on the same texts.

    The mean of such copies is judged by a normal statistic, where one copy is judged by an exact test.
    """
    seen: set[Group] = set()
    for group in groups:
        # The last entry wins in a dict, so the reversed order keeps the first attack on each victim.
        first, second = (tuple({cell._replace(attack=None): cell for cell in side[::-1]}.values()) for side in group)
        victims = Group(*(tuple(cell._replace(attack=None) for cell in side) for side in (first, second)))
        if victims not in seen:
            seen.add(victims)
            yield Group(first, second)


def _by_examples(weighed: Sequence[Weighed], bound: Bound, *, shares: bool) -> Found:
    sides = [[one for one in weighed if one.side == side] for side in (0, 1)]
    values = [math.fsum(one.share * one.part.mean for one in side) if side else None for side in sides]
    parts = [one.part for one in weighed]
    if len(parts) == 2 and weighed[0].facing and bound.times == 1:
        found = _pair(parts[0], parts[1], shares, bound.value)
    else:
        n = len({(part.task, *unit) for part, *_ in sides[0] for unit in zip(part.examples, part.rounds, strict=True)})
        found = combine(parts, n=n, bound=bound.value, shares=shares)
    return Found(found, values[0], values[1])


def _pair(one: Part, other: Part, shares: bool, bound: float) -> Difference:
    """Compare two cells as `rbench compare` does."""
    columns = (other.values, one.values, one.examples, one.seeds, other.trainings, one.trainings)
    sample = sample_of(list(zip(*columns, strict=True)))
    if one.by_rater is not None or other.by_rater is not None:
        sample = replace(sample, by_rater=(other.by_rater or {}, one.by_rater or {}))
    found = compare(sample, shares=shares, bound=bound)
    return replace(found, trainings=found.trainings[::-1], only_one=found.only_other, only_other=found.only_one)


Known = Mapping[CellOf, Sequence[Observed]]


def _parts(
    comparison: Comparison, times: float, observed: Known, units: Callable[[CellOf], object]
) -> Iterator[Weighed]:
    """Yield the cells with their weights: groups weigh the same, and so do the cells of one side of a group.

    Two cells that face each other alone and are of the same `units` are taken over the examples that count for both. In
    any other cell, a single training is in the round of each training that another cell has, for they all stand against
    it.
    """
    most = max(len({one.training for one in found}) for found in observed.values())
    weighed = partial(_weighed, times=times, beyond=bool(comparison.beyond))
    for group, share in _shares(comparison):
        if len(group.one) == len(group.other) == 1 and units(group.one[0]) == units(group.other[0]):
            pair = (group.one[0], group.other[0])
            for side, rows in enumerate(_facing(*(observed[cell] for cell in pair))):
                yield weighed(pair[side], side, share, rows, facing=True)
            continue
        for side, own in enumerate((group.one, group.other)):
            for cell in own:
                trainings = sorted({one.training for one in observed[cell]})
                of_round = trainings if len(trainings) > 1 else trainings * most
                rows = [
                    (one, rank)
                    for rank, training in enumerate(of_round)
                    for one in observed[cell]
                    if one.training == training
                ]
                yield weighed(cell, side, share / len(own), rows, facing=False)


def _shares(comparison: Comparison) -> Iterator[tuple[Group, float]]:
    """Yield the groups with their weights; those whose difference is taken off have negative ones."""
    for groups, sign in ((comparison.groups, 1), (comparison.beyond, -1)):
        for group in groups:
            yield group, sign / len(groups)


def _facing(mine: Sequence[Observed], theirs: Sequence[Observed]) -> tuple[Rows, Rows]:
    """Return the jobs of both cells over the examples that both have a value for, seed by seed."""
    found: tuple[list[tuple[Observed, int]], list[tuple[Observed, int]]] = ([], [])
    ranks: dict[tuple[int, int], int] = {}
    for pair in matched(mine, theirs):
        rank = ranks.setdefault((pair[0].training, pair[1].training), len(ranks))
        common = sorted(pair[0].values.keys() & pair[1].values.keys())
        for rows, one in zip(found, pair, strict=True):
            rows.append((replace(one, values={example: one.values[example] for example in common}), rank))
    return found


def _weighed(cell: CellOf, side: int, share: float, rows: Rows, *, times: float, facing: bool, beyond: bool) -> Weighed:
    weight = -times * share if side else share
    own = part(rows, weight, cell.task or "", cell.encoder)
    if beyond:
        return Weighed(own, int(share < 0), abs(share) * (-1 if side else 1), facing)
    return Weighed(own, side, share, facing)


def _by_tables(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Found:
    """Judge a comparison by the numbers of tables and their intervals, unpaired."""
    terms, values = [], [0.0, 0.0]
    for group, whole in _shares(comparison):
        for side, own in enumerate(group):
            for cell in own:
                stated = cells.stated(cell, metric)
                if isinstance(stated, str):
                    return Found(None, why=stated, unpaired=True)
                share = whole / len(own)
                weight, of = -bound.times * share if side else share, (side, cell.encoder, cell.task or "")
                if comparison.beyond:
                    values[share < 0] += abs(share) * (-stated.value if side else stated.value)
                else:
                    values[side] += share * stated.value
                terms.append(stated._replace(weight=weight, group=of))
    other = values[1] if comparison.other else None
    counted = _by_counts(comparison, metric, bound, cells)
    found = counted if counted is not None else combine_stated(terms, bound=bound.value)
    return Found(found, values[0], other, unpaired=True)


def _by_counts(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Difference | None:
    """Compare two cells of attacks by their counts; None for any other comparison."""
    one, other = comparison.groups[0]
    single = not comparison.beyond and len(comparison.groups) == len(one) == len(other) == 1
    if cells.of(metric) is None or bound != Bound() or not single:
        return None
    first, second = (cells.cell(cell) for cell in (other[0], one[0]))
    found = by_counts(first, second, metric)
    return replace(found, trainings=found.trainings[::-1]) if found.n else None

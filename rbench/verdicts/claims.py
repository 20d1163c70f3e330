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
from rbench.schema.claims import CellGroup, CellOf, ClaimComparison, ClaimScope, claim_in_words, list_comparisons
from rbench.score.combined import WeightedCell, combine_cells
from rbench.score.paired import DifferenceEstimate, combine_reported, compare, correct_by_holm
from rbench.tables import Results, Table
from rbench.tables.draws import METHODS, WEIGHTS, count_trainings, count_tunings, why_weights_only
from rbench.tables.nested_means import JobsWithRounds, JobValues, build_part
from rbench.tables.table import Meaning, Number, TableEntry, format_p_value, group_starts
from rbench.verdicts.cells import RunCells
from rbench.verdicts.pairing import ALPHA, build_sample, compare_by_counts, match_jobs, side_of_bound

Verdict = Literal["supported", "contradicted", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "undecided")
INCLUDE = "name the folder that holds its file with --include DIR"


@dataclass(frozen=True)
class ComparisonVerdict:
    """One comparison of a claim, and what the RUN says of it. Shares are in 0..1."""

    comparison: ClaimComparison
    bound: ClaimBound
    found: ClaimEstimate
    p: float | None = None
    """Corrected by Holm for all comparisons of the claim."""
    alone: str = ""
    """Why it is about these weights; empty where it is about methods."""
    is_weights_only: bool = False
    """Whether that leaves it undecided, because the claim is about methods."""

    @property
    def difference(self) -> DifferenceEstimate | None:
        return self.found.difference

    @property
    def verdict(self) -> Verdict:
        side = side_of_bound(self.difference, self.p, self.bound.value)
        if self.is_weights_only or side == "undecided":
            return "undecided"
        return "supported" if side == self.comparison.direction else "contradicted"

    @property
    def why(self) -> str:
        """Why it is undecided, where no number says it."""
        if self.found.why or self.difference is None or self.difference.value is None:
            return self.found.why or "no example is common"
        if self.difference.p is None:
            return "the values do not vary, so there is no interval"
        return self.alone if self.is_weights_only else ""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its comparisons."""

    claim: Claim
    judged: tuple[ComparisonVerdict, ...]
    percent: bool
    """Whether the metric is shown multiplied by 100."""
    words: str = ""
    """What is claimed, without options of strategies that are the only ones of their names."""
    unknown: str = ""
    """Why nothing is judged: the metric is not known here."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of comparisons by verdict."""
        counts = Counter(judged.verdict for judged in self.judged)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    @property
    def verdict(self) -> Verdict:
        """What all comparisons say together. With `holds_in` what combinations do, each of which holds if all of its
        comparisons do."""
        by_combination: dict[object, list[Verdict]] = {}
        for judged in self.judged:
            key = judged.comparison.combination if self.claim.holds_in is not None else len(by_combination)
            by_combination.setdefault(key, []).append(judged.verdict)
        needed = min(self.claim.holds_in or len(by_combination), len(by_combination))
        # Even if all other combinations hold, they are fewer than needed.
        if (
            sum("contradicted" in verdicts_there for verdicts_there in by_combination.values())
            > len(by_combination) - needed
        ):
            return "contradicted"
        num_held = sum({*verdicts_there} == {"supported"} for verdicts_there in by_combination.values())
        return "supported" if by_combination and num_held >= needed else "undecided"

    @property
    def about(self) -> str:
        """Whom the verdict is about: these weights, or these methods; empty where nothing was compared."""
        reasons = [judged.alone for judged in self.judged if judged.difference is not None]
        if not reasons:
            return ""
        return WEIGHTS if any(reasons) else METHODS

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the verdict: whom it is about, and what it was computed from."""
        notes = []
        reasons = "; ".join(
            dict.fromkeys(judged.alone for judged in self.judged if judged.alone and judged.difference is not None)
        )
        if reasons and self.claim.about == "method":
            notes.append(
                f"undecided, since it speaks of methods ({reasons}); with `about: weights` it speaks of {WEIGHTS}"
            )
        elif reasons:
            notes.append(f"about {WEIGHTS} and not about a method ({reasons})")
        if any(judged.found.unpaired for judged in self.judged):
            notes.append("judged unpaired, by counts or by the intervals of tables, not example by example")
        num_combinations = len({judged.comparison.combination for judged in self.judged})
        if self.claim.holds_in is not None and 0 < num_combinations < self.claim.holds_in:
            notes.append(
                f"holds_in asks for {self.claim.holds_in} combinations, and there are {num_combinations}: it "
                "is judged in each"
            )
        if left_out := sum(judged.comparison.left_out for judged in self.judged):
            notes.append(f"{left_out} cells without a counterpart are left out of averages")
        return notes


def judge_claims(claims: Sequence[Claim], ground: ClaimScope, cells: RunCells) -> tuple[JudgedClaim, ...]:
    """Judge claims on a RUN. A claim that nothing matches is undecided, without a comparison.

    So is one whose metric is not known: a RUN may be read without the folder in which a user has the metric's file.
    """
    return tuple(_judge_claim(claim, ground, cells) for claim in claims)


def _judge_claim(claim: Claim, ground: ClaimScope, cells: RunCells) -> JudgedClaim:
    if not ground.knows(claim.metric):
        return JudgedClaim(
            claim, (), percent=False, words=str(claim), unknown=f"{claim.metric} is unknown here; {INCLUDE}"
        )
    percent = cells.percent(claim.metric)
    bound = _bound_of(claim, 100.0 if percent else 1.0)
    trained = count_trainings(cells.results.plan)
    verdicts_found = [
        _with_subject(
            ComparisonVerdict(comparison, bound, judge_comparison(comparison, claim.metric, bound, cells)),
            claim,
            trained,
            cells.results.victims,
        )
        for comparison in list_comparisons(claim, ground)
    ]
    # The comparisons of this claim alone are its family; `rbench compare` and tables correct for all that they show.
    corrected = correct_by_holm(
        [comparison.difference.p if comparison.difference is not None else None for comparison in verdicts_found]
    )
    judged = tuple(
        replace(comparison, p=corrected_p) for comparison, corrected_p in zip(verdicts_found, corrected, strict=True)
    )
    return JudgedClaim(claim, judged, percent, claim_in_words(claim, ground))


def _with_subject(
    verdict: ComparisonVerdict, claim: Claim, trained: Mapping[str, int], victims: Mapping[tuple[str, str, str], int]
) -> ComparisonVerdict:
    """Return a comparison with whom it is about. Seeds that attacked the same victim again are no fine-tunings."""
    groups = verdict.comparison.groups
    first, second = ({cell.encoder for group in groups for cell in group[side]} for side in (0, 1))
    seeds = verdict.difference.seeds if verdict.difference is not None else 1
    keys = [(cell.encoder, cell.task or "", cell.finetune or "") for group in groups for side in group for cell in side]
    reason = why_weights_only(
        first, second, trained, min([seeds, *(count_tunings(key, seeds, victims) for key in keys)])
    )
    return replace(verdict, alone=reason, is_weights_only=bool(reason) and claim.about == "method")


def _bound_of(claim: Claim, scale: float) -> ClaimBound:
    """Return what the comparisons of a claim are judged against, in the units of records."""
    if claim.kind == "of":
        limit = claim.at_most if claim.at_most is not None else claim.at_least
        assert limit is not None
        return ClaimBound(1.0, limit / scale)
    by = (claim.by or 0.0) / scale
    times = 1.0 if claim.times is None else claim.times
    # "Lower by 5" holds where one - other < -5, and "higher by 5" where it is above 5.
    return ClaimBound(times, -by if claim.lower is not None else by)


# --------------------------------------------------------------------------------------------------- how they are shown


MAX_PAIRS = 1000
"""Most pairs of cells of which a run says what they could have shown."""
ABOUT = Meaning("Claims", "what the RUN says of each", percent=False)


def build_table(judged_claims: Sequence[JudgedClaim]) -> Table:
    """Lay out claims: a row for each claim with its counts, and below it a row for each of its comparisons."""
    rows: list[tuple[TableEntry, ...]] = []
    cells = []
    for claim in judged_claims:
        if len(claim.judged) != 1:
            rows.append(
                (
                    claim.claim.id,
                    f"{claim.words}{_for_each_text(claim)}",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    _count_verdicts(claim),
                )
            )
        for verdict in claim.judged:
            rows.append(_build_row(claim, verdict))
            cells.append(_cell_fields(claim, verdict))
        if not claim.judged:
            cells.append(_unmatched_fields(claim))
    return Table(
        metric="claims",
        header=("Claim", "What is judged", "n", "One", "Other", "Difference", "95% interval", "p", "Verdict"),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(cells),
        notes=tuple(_build_notes(judged_claims)),
        about=ABOUT,
    )


def claim_lines(judged_claims: Sequence[JudgedClaim]) -> list[str]:
    """Return one line for each claim: its verdict, its id, what it says, and the counts or the only number."""
    return [
        f"{judged_claim.verdict}: {judged_claim.claim.id}, {judged_claim.words}{_for_each_text(judged_claim)} "
        f"({summarise_claim(judged_claim)})"
        for judged_claim in judged_claims
    ]


def claim_sentence(judged_claim: JudgedClaim) -> str:
    """Return what is claimed, in words, with all options."""
    return f"{judged_claim.claim}{_for_each_text(judged_claim)}"


def _for_each_text(judged_claim: JudgedClaim) -> str:
    axes = judged_claim.claim.for_each
    return f", for each {' and '.join(axes)}" if axes else ""


def _count_verdicts(judged_claim: JudgedClaim) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in judged_claim.counts.items() if n)
    return (
        f"{judged_claim.verdict}{_subject_text(judged_claim)} "
        f"({counts or judged_claim.unknown or 'nothing here matches it'})"
    )


def _subject_text(judged_claim: JudgedClaim) -> str:
    """Say whom a verdict is about, where there is one."""
    return f", {judged_claim.about}" if judged_claim.verdict != "undecided" else ""


def summarise_claim(judged_claim: JudgedClaim) -> str:
    """Return the counts of verdicts, or the only number with its interval, p and n; and whom the verdict is about."""
    if judged_claim.unknown:
        return judged_claim.unknown
    subject = f", {judged_claim.about}" if judged_claim.about else ""
    if len(judged_claim.judged) != 1:
        return ", ".join(f"{judged_claim.counts[verdict]} {verdict}" for verdict in VERDICTS) + subject
    (only_verdict,) = judged_claim.judged
    estimated = only_verdict.difference
    if estimated is None or (only_verdict.why and only_verdict.p is None):
        return only_verdict.why
    difference = _as_number(judged_claim, estimated.value, estimated)
    text = f"{_format_number(difference)}, 95% interval {difference.span}"
    reason = f": {only_verdict.why}" if only_verdict.why else ""
    return (
        f"{text}, p {format_p_value(only_verdict.p)}, n {estimated.n}{subject}{reason}"
        if only_verdict.p is not None
        else f"{text}, n {estimated.n}{subject}"
    )


def _build_row(judged_claim: JudgedClaim, verdict: ComparisonVerdict) -> tuple[TableEntry, ...]:
    estimated, is_only = verdict.difference, len(judged_claim.judged) == 1
    what = judged_claim.words if is_only else _describe_comparison(verdict)
    difference = _as_number(judged_claim, estimated.value if estimated is not None else None, estimated)
    return (
        judged_claim.claim.id,
        what,
        str(estimated.n) if estimated is not None else "",
        _format_number(_as_number(judged_claim, verdict.found.one)),
        _format_number(_as_number(judged_claim, verdict.found.other)) if verdict.comparison.other else "",
        _format_number(difference),
        difference.span,
        format_p_value(verdict.p),
        verdict.verdict
        + (_subject_text(judged_claim) if is_only else "")
        + (f": {verdict.why}" if verdict.why else ""),
    )


def _describe_comparison(verdict: ComparisonVerdict) -> str:
    """Say what is compared: the names on the axes of `for_each`, then both sides."""
    where = "/".join(str(name) for _, name in verdict.comparison.combination)
    sides = " and ".join(side for side in (verdict.comparison.one, verdict.comparison.other) if side)
    return f"{where}: {sides}" if where and sides else where or sides


def _as_number(judged_claim: JudgedClaim, value: float | None, estimated: DifferenceEstimate | None = None) -> Number:
    """Return a number of the claim's metric, formatted as tables do, with the interval of `estimated`."""
    ends = (estimated.low, estimated.high) if estimated is not None else (None, None)
    return Number(value, judged_claim.percent, None, *ends, digits=1 if judged_claim.percent else 2)


def _format_number(number: Number) -> str:
    return "" if number.value is None else number.shown(number.value)


def _cell_fields(judged_claim: JudgedClaim, verdict: ComparisonVerdict) -> dict[str, Any]:
    estimated = verdict.difference
    names = dict.fromkeys(("encoder", "task", "attack", "finetune")) | dict(verdict.comparison.combination)
    return {
        "claim": judged_claim.claim.id,
        "claim_verdict": judged_claim.verdict,
        "of_metric": judged_claim.claim.metric,
        **names,
        "one": verdict.comparison.one,
        "other": verdict.comparison.other or None,
        "expected": verdict.comparison.direction,
        "times": verdict.bound.times,
        "bound": verdict.bound.value,
        "verdict": verdict.verdict,
        "why": verdict.why or None,
        "one_value": verdict.found.one,
        "other_value": verdict.found.other,
        **{name: getattr(estimated, name) if estimated is not None else None for name in _FIELDS},
        "p_holm": verdict.p,
        "comparisons": sum(other.p is not None for other in judged_claim.judged),
        "about": None if estimated is None else "weights" if verdict.alone else "method",
        "trainings_one": estimated.trainings[0] if estimated is not None else None,
        "trainings_other": estimated.trainings[1] if estimated is not None else None,
        "paired": None if estimated is None else not verdict.found.unpaired,
        "source": judged_claim.claim.source or None,
    }


_FIELDS = ("n", "value", "low", "high", "p", "smallest", "seeds")


def _unmatched_fields(judged_claim: JudgedClaim) -> dict[str, Any]:
    fields = {
        "claim": judged_claim.claim.id,
        "claim_verdict": judged_claim.verdict,
        "of_metric": judged_claim.claim.metric,
    }
    return {**fields, "why": judged_claim.unknown or None}


def _build_notes(judged_claims: Sequence[JudgedClaim]) -> Iterator[str]:
    total = sum(judged_claim.p is not None for claim in judged_claims for judged_claim in claim.judged)
    claims = f"{len(judged_claims)} claim{'s' * (len(judged_claims) != 1)} with {total} comparison{'s' * (total != 1)}"
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
    for judged_claim in judged_claims:
        for note in judged_claim.notes:
            about.setdefault(note, []).append(judged_claim.claim.id)
    for note, ids in about.items():
        yield f"{', '.join(ids)}: {note}."
    for judged_claim in judged_claims:
        sources = [
            *([f"from {judged_claim.claim.source}"] if judged_claim.claim.source else []),
            judged_claim.claim.note.rstrip("."),
        ]
        if note_text := "; ".join(part for part in sources if part):
            yield f"{judged_claim.claim.id}: {note_text}."


def summarise_claims(results: Results) -> list[str]:
    """Return what a run says of its claims, a line each, and which differences it could have shown."""
    cells, suite_claims = RunCells(results), results.plan.suite.claims
    try:
        # What claims may speak of is asked of all measures, so a suite without claims does not ask.
        claim_texts = claim_lines(judge_claims(suite_claims, cells.claim_scope, cells)) if suite_claims else []
        detectable_text = describe_detectable(cells)
    except RbenchError as error:
        return [f"claims are not judged: {error}"]
    return [*claim_texts, *([detectable_text] if detectable_text is not None else [])]


def describe_detectable(cells: RunCells) -> str | None:
    """Say how large a difference in ASR between two encoders must be to show in a cell of this RUN.

    Returns None where no two encoders were attacked in a cell that is done and whose outcomes are kept.
    """
    by_place: dict[tuple[str | None, ...], list[CellOf]] = {}
    for cell in cells.attacked:
        by_place.setdefault(cell[1:], []).append(cell)
    pairs_of_encoders = [
        pair
        for cells_alike in by_place.values()
        for pair in combinations(cells_alike, 2)
        if pair[0].encoder != pair[1].encoder
    ]
    # Pairs grow with the square of the number of encoders, and hardly differ in what they could show, which depends on
    # the number of texts and on how often two encoders disagree.
    drawn = (
        pairs_of_encoders
        if len(pairs_of_encoders) <= MAX_PAIRS
        else random.Random(0).sample(pairs_of_encoders, MAX_PAIRS)
    )
    compared = [_compare_pair(one, other, cells) for one, other in drawn]
    differences = [judged for judged in compared if judged is not None and judged.n]
    sizes = sorted(100 * difference.smallest for difference in differences if difference.smallest is not None)
    if not differences:
        return None
    if not sizes:
        return "What this run could have shown: no difference in ASR between two encoders, for it has too few texts."
    pairs = "1 pair" if len(differences) == 1 else f"{len(differences)} pairs"
    pairs += f" of cells, drawn of {len(pairs_of_encoders)}" if len(drawn) < len(pairs_of_encoders) else " of cells"
    num_blind = len(differences) - len(sizes)
    blind_text = f"; {num_blind} of these could show none" if num_blind else ""
    span = f"{sizes[0]:.0f}" if round(sizes[0]) == round(sizes[-1]) else f"{sizes[0]:.0f} to {sizes[-1]:.0f}"
    counts = sorted(difference.n for difference in differences)
    n = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return (
        f"What this run could have shown: in one cell, a difference in ASR between two encoders of {span} points or "
        f"more (power 80% at p < 0.05, before any correction; {pairs}, n {n}{blind_text}). Smaller true "
        "differences mostly go unseen."
    )


def _compare_pair(first_cell: CellOf, second_cell: CellOf, cells: RunCells) -> DifferenceEstimate | None:
    comparison = ClaimComparison(
        (), first_cell.encoder, second_cell.encoder, "lower", (CellGroup((first_cell,), (second_cell,)),)
    )
    claim_estimate = judge_comparison(comparison, "asr", ClaimBound(), cells)
    return None if claim_estimate.unpaired else claim_estimate.difference


class ClaimBound(NamedTuple):
    """What a comparison is judged against: `one - times * other` and `value`."""

    times: float = 1.0
    value: float = 0.0


class WeightedValues(NamedTuple):
    """A cell's values and their place in a comparison."""

    part: WeightedCell
    side: int
    """0: the first side, 1: the second. Of a difference beyond another, 0 are the cells of the one, 1 of the other."""
    share: float
    """The weight of the cell on its side, where weights add up to 1; of a difference beyond another, to 0."""
    facing: bool
    """Whether its values are of the same examples as those of the one cell on the other side."""


class ClaimEstimate(NamedTuple):
    """What the RUN says of a comparison, in the units of records (shares in 0..1)."""

    difference: DifferenceEstimate | None
    """Of `one - times * other`; None where nothing can be said."""
    one: float | None = None
    other: float | None = None
    why: str = ""
    """Why nothing can be said."""
    unpaired: bool = False


def judge_comparison(comparison: ClaimComparison, metric: str, bound: ClaimBound, cells: RunCells) -> ClaimEstimate:
    """Judge one comparison. All of its cells must be done and without a flag.

    A flag of the training of an encoder concerns both sides alike where these have the same encoders, as where two
    attacks on one are compared, and is no obstacle there.
    """
    first_encoders, second_encoders = (
        {cell.encoder for group in comparison.groups for cell in group[side]} for side in (0, 1)
    )
    reasons = (cells.obstacle(cell, metric, trainings=first_encoders != second_encoders) for cell in comparison.cells)
    obstacles = [reason for reason in reasons if reason is not None]
    if obstacles:
        more = f"; and {len(obstacles) - 1} more such cells" if len(obstacles) > 1 else ""
        return ClaimEstimate(None, why=f"{obstacles[0]}{more}")
    return estimate_comparison(comparison, metric, bound, cells)


def estimate_comparison(comparison: ClaimComparison, metric: str, bound: ClaimBound, cells: RunCells) -> ClaimEstimate:
    """Judge one comparison as `judge_comparison` does, whatever the health of its cells. All of them must be done."""
    if cells.of(metric) == "victims":
        groups, beyond = (
            tuple(_one_cell_a_victim(some_groups)) for some_groups in (comparison.groups, comparison.beyond)
        )
        comparison = comparison._replace(groups=groups, beyond=beyond)
    observed = {cell: cells.observed(cell, metric) for cell in comparison.cells}
    if any(values is None for values in observed.values()):
        return _estimate_by_tables(comparison, metric, bound, cells)
    known = {cell: values for cell, values in observed.items() if values is not None}
    # Where one cell has no outcomes, all are judged by tables: examples of one side alone cannot be paired.
    parts = list(_weigh_cells(comparison, bound.times, known, lambda cell: cells.units(cell, metric)))
    empty_cell = next((weighted.part for weighted in parts if not weighted.part.values), None)
    if empty_cell is not None:
        shared = " in common" if any(group.other for group in comparison.groups) else ""
        return ClaimEstimate(
            None, why=f"{empty_cell.encoder} on {empty_cell.task} has no example{shared} that counts for {metric}"
        )
    all_binary = all(value in (0.0, 1.0) for weighted in parts for value in weighted.part.values)
    return _estimate_by_examples(parts, bound, shares=all_binary and cells.shares(metric))


def _one_cell_a_victim(groups: Sequence[CellGroup]) -> Iterator[CellGroup]:
    """Yield the groups with one cell for each victim: each attack on it has its clean accuracy on the same texts.

    The mean of such copies is judged by a normal statistic, where one copy is judged by an exact test.
    """
    seen: set[CellGroup] = set()
    for group in groups:
        # The last entry wins in a dict, so the reversed order keeps the first attack on each victim.
        first, second = (tuple({cell._replace(attack=None): cell for cell in side[::-1]}.values()) for side in group)
        victims = CellGroup(*(tuple(cell._replace(attack=None) for cell in side) for side in (first, second)))
        if victims not in seen:
            seen.add(victims)
            yield CellGroup(first, second)


def _estimate_by_examples(weighed: Sequence[WeightedValues], bound: ClaimBound, *, shares: bool) -> ClaimEstimate:
    sides = [[entry for entry in weighed if entry.side == side] for side in (0, 1)]
    values = [math.fsum(entry.share * entry.part.mean for entry in side) if side else None for side in sides]
    parts = [entry.part for entry in weighed]
    if len(parts) == 2 and weighed[0].facing and bound.times == 1:
        # Two cells that face each other: the exact tests of `rbench compare`, so that both commands say the same.
        difference = _compare_facing(parts[0], parts[1], shares, bound.value)
    else:
        n = len({(part.task, *unit) for part, *_ in sides[0] for unit in zip(part.examples, part.rounds, strict=True)})
        difference = combine_cells(parts, n=n, bound=bound.value, shares=shares)
    return ClaimEstimate(difference, values[0], values[1])


def _compare_facing(first: WeightedCell, second: WeightedCell, shares: bool, bound: float) -> DifferenceEstimate:
    """Compare two cells as `rbench compare` does."""
    columns = (second.values, first.values, first.examples, first.seeds, second.trainings, first.trainings)
    sample = build_sample(list(zip(*columns, strict=True)))
    if first.by_rater is not None or second.by_rater is not None:
        sample = replace(sample, by_rater=(second.by_rater or {}, first.by_rater or {}))
    difference = compare(sample, shares=shares, bound=bound)
    return replace(
        difference, trainings=difference.trainings[::-1], only_one=difference.only_other, only_other=difference.only_one
    )


ObservedByCell = Mapping[CellOf, Sequence[JobValues]]


def _weigh_cells(
    comparison: ClaimComparison, times: float, observed: ObservedByCell, units: Callable[[CellOf], object]
) -> Iterator[WeightedValues]:
    """Yield the cells with their weights: groups weigh the same, and so do the cells of one side of a group.

    Two cells that face each other alone and are of the same `units` are taken over the examples that count for both. In
    any other cell, a single training is in the round of each training that another cell has, for they all stand against
    it.
    """
    most = max(len({observation.training for observation in observations}) for observations in observed.values())
    weighed = partial(_weigh_cell, times=times, beyond=bool(comparison.beyond))
    for group, share in _group_weights(comparison):
        if len(group.one) == len(group.other) == 1 and units(group.one[0]) == units(group.other[0]):
            pair = (group.one[0], group.other[0])
            for side, rows in enumerate(_on_common_examples(*(observed[cell] for cell in pair))):
                yield weighed(pair[side], side, share, rows, facing=True)
            continue
        for side, side_cells in enumerate((group.one, group.other)):
            for cell in side_cells:
                trainings = sorted({observation.training for observation in observed[cell]})
                of_round = trainings if len(trainings) > 1 else trainings * most
                rows = [
                    (observation, rank)
                    for rank, training in enumerate(of_round)
                    for observation in observed[cell]
                    if observation.training == training
                ]
                yield weighed(cell, side, share / len(side_cells), rows, facing=False)


def _group_weights(comparison: ClaimComparison) -> Iterator[tuple[CellGroup, float]]:
    """Yield the groups with their weights; those whose difference is taken off have negative ones."""
    for groups, sign in ((comparison.groups, 1), (comparison.beyond, -1)):
        for group in groups:
            yield group, sign / len(groups)


def _on_common_examples(
    first: Sequence[JobValues], second: Sequence[JobValues]
) -> tuple[JobsWithRounds, JobsWithRounds]:
    """Return the jobs of both cells over the examples that both have a value for, seed by seed."""
    both_rows: tuple[list[tuple[JobValues, int]], list[tuple[JobValues, int]]] = ([], [])
    ranks: dict[tuple[int, int], int] = {}
    for pair in match_jobs(first, second):
        rank = ranks.setdefault((pair[0].training, pair[1].training), len(ranks))
        common = sorted(pair[0].values.keys() & pair[1].values.keys())
        for rows, observation in zip(both_rows, pair, strict=True):
            rows.append(
                (replace(observation, values={example: observation.values[example] for example in common}), rank)
            )
    return both_rows


def _weigh_cell(
    cell: CellOf, side: int, share: float, rows: JobsWithRounds, *, times: float, facing: bool, beyond: bool
) -> WeightedValues:
    weight = -times * share if side else share
    weighted_cell = build_part(rows, weight, cell.task or "", cell.encoder)
    if beyond:
        return WeightedValues(weighted_cell, int(share < 0), abs(share) * (-1 if side else 1), facing)
    return WeightedValues(weighted_cell, side, share, facing)


def _estimate_by_tables(comparison: ClaimComparison, metric: str, bound: ClaimBound, cells: RunCells) -> ClaimEstimate:
    """Judge a comparison by the numbers of tables and their intervals, unpaired."""
    terms, values = [], [0.0, 0.0]
    for group, group_share in _group_weights(comparison):
        for side, side_cells in enumerate(group):
            for cell in side_cells:
                reported = cells.stated(cell, metric)
                if isinstance(reported, str):
                    return ClaimEstimate(None, why=reported, unpaired=True)
                share = group_share / len(side_cells)
                weight, group_key = -bound.times * share if side else share, (side, cell.encoder, cell.task or "")
                if comparison.beyond:
                    values[share < 0] += abs(share) * (-reported.value if side else reported.value)
                else:
                    values[side] += share * reported.value
                terms.append(reported._replace(weight=weight, group=group_key))
    other = values[1] if comparison.other else None
    by_counts = _estimate_by_counts(comparison, metric, bound, cells)
    difference = by_counts if by_counts is not None else combine_reported(terms, bound=bound.value)
    return ClaimEstimate(difference, values[0], other, unpaired=True)


def _estimate_by_counts(
    comparison: ClaimComparison, metric: str, bound: ClaimBound, cells: RunCells
) -> DifferenceEstimate | None:
    """Compare two cells of attacks by their counts; None for any other comparison."""
    first_side, second_side = comparison.groups[0]
    single = not comparison.beyond and len(comparison.groups) == len(first_side) == len(second_side) == 1
    if cells.of(metric) is None or bound != ClaimBound() or not single:
        return None
    first, second = (cells.cell(cell) for cell in (second_side[0], first_side[0]))
    difference = compare_by_counts(first, second, metric)
    return replace(difference, trainings=difference.trainings[::-1]) if difference.n else None

"""Rank encoders and classifiers by how hard they are to fool: one number each, and a verdict on every two of them.

The number is the accuracy under attack, the mean over the attacks and tasks of a RUN. Every two are compared in it
text by text, as a claim compares them, and all pairs are one family (`verdicts.pairing`). A place is one more than the
number of those that are significantly harder to fool: whoever shares a place with another is not told from it.
Entries that are not done or carry a flag are compared with nobody and have no place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import NamedTuple

from rbench.errors import StoreError
from rbench.schema.claims import CellGroup, CellOf, ClaimComparison
from rbench.score.paired import DifferenceEstimate, correct_by_holm
from rbench.tables import Results, Table
from rbench.tables.table import Meaning, Number, TableEntry, format_p_value
from rbench.verdicts.cells import RunCells
from rbench.verdicts.claims import ClaimBound, estimate_comparison, judge_comparison
from rbench.verdicts.pairing import SideOfBound, describe_correction, side_of_bound

METRIC = "aua"
"""What is ranked by. The highest is the best."""
CLEAN = "clean"
WORDS = "words_needed"
"""What the first sentence is of."""
MAX_NAMED = 3
"""Most names in an entry of the table."""
ATTACK_NAMES = {"exhaustive[space={max_words:1}]": "any one word"}
"""What attacks are called in a ranking, where their label says it less well."""


class Contestant(NamedTuple):
    """Whose victims are ranked."""

    encoder: str
    finetune: str


class ContestantPair(NamedTuple):
    """Two contestants: the one with the higher number, then the other."""

    one: Contestant
    other: Contestant
    difference: DifferenceEstimate
    """`one` minus `other`, in 0..1."""
    p: float | None
    """Corrected by Holm for all pairs."""

    @property
    def verdict(self) -> SideOfBound:
        """`higher` where `one` is significantly harder to fool."""
        return side_of_bound(self.difference, self.p)


@dataclass(frozen=True)
class RankedContestant:
    """A contestant with its place."""

    who: Contestant
    name: str
    """What it is called: its encoder, and its strategy where a RUN has several."""
    place: int | None
    value: DifferenceEstimate | None
    """The mean accuracy under attack, in 0..1, with its interval; None where it is not known."""
    clean: DifferenceEstimate | None
    """The mean clean accuracy of the same texts, as `value`."""
    by_attack: Mapping[str, float | None]
    """The mean accuracy over the tasks under each attack."""
    above: tuple[str, ...]
    """Those that are significantly easier to fool."""
    why: str = ""
    """Why it has no place."""


@dataclass(frozen=True)
class ModelRanking:
    """Contestants, the hardest to fool first, and all pairs of those that have a place."""

    entries: tuple[RankedContestant, ...]
    pairs: tuple[ContestantPair, ...]
    tasks: tuple[str, ...]
    attacks: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What the first two tell: who is harder to fool, and by how much; or how many texts would decide it."""
        placed = [entry for entry in self.entries if entry.place is not None]
        if len(placed) < 2:
            return "Nothing is ranked: fewer than two models have all numbers and no flag."
        names = {entry.who: entry.name for entry in placed}
        first_two = {placed[0].who, placed[1].who}
        pair = next(entry for entry in self.pairs if {entry.one, entry.other} == first_two)
        difference, first, second = pair.difference, names[pair.one], names[pair.other]
        assert difference.value is not None, "contestants with a place have numbers"
        size, interval = _size_of(difference, ".1f", 100.0)
        p_text = format_p_value(pair.p) or "unknown"
        difference_text = f"{size} points of accuracy under attack{interval}, p {p_text}"
        if pair.verdict == "higher":
            return f"{first} is harder to fool than {second}: {difference_text}."
        if pair.verdict == "lower":  # paired and shown values may point in opposite directions
            return f"{second} is harder to fool than {first}: {difference_text}."
        return (
            f"Nothing tells {first} from {second} yet: {difference_text}.{_texts_needed(difference, len(self.attacks))}"
        )


def _size_of(difference: DifferenceEstimate, decimals: str, scale: float = 1.0) -> tuple[str, str]:
    """Write the size of a difference, and its interval. That of a negative difference changes its sign."""
    value, low, high = difference.value or 0.0, difference.low, difference.high
    if value < 0 and low is not None and high is not None:
        value, low, high = -value, -high, -low
    interval = ""
    if low is not None and high is not None:
        interval = f", 95% interval {scale * low:{decimals}} to {scale * high:{decimals}}"
    return f"{scale * abs(value):{decimals}}", interval


def _texts_needed(difference: DifferenceEstimate, attacks: int) -> str:
    """Say how many texts would decide a difference of this size."""
    if not difference.value or not difference.smallest:
        return ""
    n = difference.n * (difference.smallest / abs(difference.value)) ** 2
    # Rounded up to two digits.
    unit = 10 ** max(0, len(str(ceil(n))) - 2)
    return f" If it is as large as that, about {ceil(n / unit) * unit:,} texts would show it four times in five."


def rank_models(results: Results, *, compared: bool = True) -> ModelRanking:
    """Rank the contestants of a RUN.

    Args:
        compared: whether every two are compared. Otherwise all that have a number share the first place.

    Raises StoreError where no task and attack with an accuracy is common to all.
    """
    cells = RunCells(results)
    all_cells: dict[Contestant, dict[tuple[str, str], CellOf]] = {}
    for cell in cells.claim_scope.cells.get(METRIC, ()):
        if cell.attack is not None and cell.task is not None:
            who = Contestant(cell.encoder, cell.finetune or "")
            all_cells.setdefault(who, {})[cell.task, cell.attack] = cell
    # Means over other tasks or attacks would be compared as if they were of one, so only the common cells count.
    shared = set.intersection(*(set(own_cells) for own_cells in all_cells.values())) if all_cells else set()
    if not shared:
        raise StoreError(f"{results.root} has no attack on a classifier that is common to all that would be ranked")
    common = [key for key in next(iter(all_cells.values())) if key in shared]  # in the order of the suite
    attacks = tuple(dict.fromkeys(attack for _, attack in common))
    has_strategies = len({who.finetune for who in all_cells if who.encoder in results.plan.suite.encoders}) > 1
    names = {who: f"{who.encoder}, {who.finetune}" if has_strategies else who.encoder for who in all_cells}
    common_cells = {who: {key: own_cells[key] for key in common} for who, own_cells in all_cells.items()}
    reasons, values = {}, {}
    for who, own_cells in common_cells.items():
        reasons[who] = _first_obstacle(list(own_cells.values()), cells)
        values[who] = _mean_of_cells(list(own_cells.values()), METRIC, cells)
    placed = [who for who in common_cells if not reasons[who] and _has_value(values[who])]
    placed.sort(key=lambda who: -_value_or_lowest(values[who]))
    pairs = _compare_pairs(placed, common_cells, cells) if compared else []
    easier: dict[Contestant, list[Contestant]] = {who: [] for who in common_cells}
    # First where the verdict is the order of the values, then where the paired difference points the other way.
    for pair in pairs:
        if pair.verdict == "higher":
            easier[pair.one].append(pair.other)
    for pair in pairs:
        if pair.verdict == "lower":
            easier[pair.other].append(pair.one)
    entries = []
    for who in (*placed, *(who for who in common_cells if who not in placed)):
        own_cells = common_cells[who]
        by_attack = {}
        for attack in attacks:
            attack_cells = [cell for (_, own_attack), cell in own_cells.items() if own_attack == attack]
            by_attack[attack] = _mean_value(attack_cells, METRIC, cells)
        num_harder = sum(who in easier[other] for other in placed)
        entry = RankedContestant(
            who,
            names[who],
            1 + num_harder if who in placed else None,
            values[who],
            _mean_of_cells(list(own_cells.values()), CLEAN, cells),
            by_attack,
            tuple(names[other] for other in easier[who]),
            reasons[who],
        )
        entries.append(entry)
    return ModelRanking(tuple(entries), tuple(pairs), tuple(dict.fromkeys(task for task, _ in common)), attacks)


def words_sentence(results: Results, found: ModelRanking) -> str:
    """Say which of the first two is easier to fool by the words that it takes, and by how much; or how many texts would
    decide it. Empty where fewer than two are ranked, or the RUN has no words needed (of a single attack)."""
    placed = [entry for entry in found.entries if entry.place is not None][:2]
    if len(placed) < 2:
        return ""
    cells = RunCells(results)
    cell_of: dict[tuple[Contestant, str | None], CellOf] = {}
    for cell in cells.claim_scope.cells.get(WORDS, ()):
        cell_of[Contestant(cell.encoder, cell.finetune or ""), cell.task] = cell
    groups = []
    for task in found.tasks:
        one, other = (cell_of.get((entry.who, task)) for entry in placed)
        if one is None or other is None:
            return ""
        groups.append(CellGroup((one,), (other,)))
    first, second = (entry.name for entry in placed)
    comparison = ClaimComparison((), first, second, "higher", tuple(groups))
    difference = judge_comparison(comparison, WORDS, ClaimBound(), cells).difference
    if difference is None or difference.value is None:
        return ""
    size, interval = _size_of(difference, ".2f")
    by = f"{size} words a text{interval}, p {format_p_value(difference.p) or 'unknown'}"
    side = side_of_bound(difference, difference.p)
    if side == "undecided":
        needed = _texts_needed(difference, len(found.attacks))
        return f"Words needed do not tell {first} from {second} yet: {by}.{needed}"
    easier, harder = (second, first) if side == "higher" else (first, second)
    return f"{easier} is easier to fool than {harder}: it takes fewer words, by {by}."


def _first_obstacle(own_cells: Sequence[CellOf], cells: RunCells) -> str:
    obstacles = (cells.obstacle(cell, METRIC) for cell in own_cells)
    return next((reason for reason in obstacles if reason is not None), "")


def _compare_pairs(
    placed: Sequence[Contestant],
    cells_by_contestant: Mapping[Contestant, Mapping[tuple[str, str], CellOf]],
    cells: RunCells,
) -> list[ContestantPair]:
    differences = []
    for first, second in combinations(placed, 2):
        second_cells = cells_by_contestant[second]
        groups = [CellGroup((cell,), (second_cells[key],)) for key, cell in cells_by_contestant[first].items()]
        comparison = ClaimComparison((), first.encoder, second.encoder, "higher", tuple(groups))
        estimate = judge_comparison(comparison, METRIC, ClaimBound(), cells)
        differences.append((first, second, estimate.difference or DifferenceEstimate(None, 0)))
    corrected = correct_by_holm([difference.p for *_, difference in differences])
    return [ContestantPair(*pair, p) for pair, p in zip(differences, corrected, strict=True)]


def _mean_of_cells(own_cells: Sequence[CellOf], metric: str, cells: RunCells) -> DifferenceEstimate | None:
    """Return the mean of cells, and its interval; None where one of them is not done."""
    # A flag bars a contestant from a place, but its number is shown; without a record there is none.
    obstacles = (cells.obstacle(cell, metric) for cell in own_cells)
    if any(reason is not None and "is not done" in reason for reason in obstacles):
        return None
    groups = tuple(CellGroup((cell,)) for cell in own_cells)
    return estimate_comparison(ClaimComparison((), "", "", "higher", groups), metric, ClaimBound(), cells).difference


def _mean_value(own_cells: Sequence[CellOf], metric: str, cells: RunCells) -> float | None:
    return _value_of(_mean_of_cells(own_cells, metric, cells))


def _value_of(mean: DifferenceEstimate | None) -> float | None:
    return mean.value if mean is not None else None


def _has_value(difference: DifferenceEstimate | None) -> bool:
    return difference is not None and difference.value is not None


def _value_or_lowest(difference: DifferenceEstimate | None) -> float:
    return difference.value if difference is not None and difference.value is not None else -1.0


def display_attack(attack: str) -> str:
    """Return what an attack is called in a ranking."""
    return ATTACK_NAMES.get(attack, attack)


def build_table(results: Results) -> Table:
    """Lay out a ranking: a row for each contestant, the hardest to fool first."""
    model_ranking = rank_models(results)
    decided = any(contestant.above for contestant in model_ranking.entries)
    rows: list[tuple[TableEntry, ...]] = []
    for contestant in model_ranking.entries:
        value = contestant.value or DifferenceEstimate(None, 0)
        mean = Number(value.value, True, value.n, value.low, value.high, best=decided and contestant.place == 1)
        shares = (_value_of(contestant.clean), *contestant.by_attack.values())
        numbers = [None if share is None else Number(share, True) for share in shares]
        harder_than = _describe_above(contestant, len(model_ranking.entries))
        rows.append((contestant.name, contestant.place, mean, *numbers, harder_than))
    attack_titles = [display_attack(attack) for attack in model_ranking.attacks]
    return Table(
        metric="ranks",
        header=("Model", "Place", "Under attack", "Clean", *attack_titles, "Harder to fool than"),
        rows=tuple(rows),
        cells=tuple(_cell_fields(model_ranking)),
        notes=tuple(_build_notes(model_ranking)),
        interval="95% intervals over texts.",
        flags=results.flags.listed(job for job in results.plan.attacks),
        about=Meaning(
            "Models by how hard they are to fool",
            "the share of texts that are classified right and stay so under attack, the mean over attacks and tasks",
            "highest",
        ),
    )


def _describe_above(contestant: RankedContestant, total: int) -> str:
    if contestant.place is None:
        return f"not ranked: {contestant.why.rpartition(' is ')[2] or 'no value'}"
    if len(contestant.above) > MAX_NAMED:
        return f"{len(contestant.above)} of the other {total - 1}"
    return ", ".join(contestant.above) or "none of them"


def _cell_fields(model_ranking: ModelRanking) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    names = {contestant.who: contestant.name for contestant in model_ranking.entries}
    for contestant in model_ranking.entries:
        value = contestant.value or DifferenceEstimate(None, 0)
        rows.append(
            {
                "encoder": contestant.who.encoder,
                "finetune": contestant.who.finetune or None,
                "place": contestant.place,
                "value": value.value,
                "low": value.low,
                "high": value.high,
                "n": value.n,
                "clean": _value_of(contestant.clean),
                **{f"under {attack}": share for attack, share in contestant.by_attack.items()},
                "above": list(contestant.above),
                "why": contestant.why or None,
                "pairs": [
                    {
                        "other": names[pair.other],
                        "difference": pair.difference.value,
                        "low": pair.difference.low,
                        "high": pair.difference.high,
                        "p": pair.difference.p,
                        "p_holm": pair.p,
                        "verdict": pair.verdict,
                    }
                    for pair in model_ranking.pairs
                    if pair.one == contestant.who
                ],
            }
        )
    return rows


def _build_notes(model_ranking: ModelRanking) -> list[str]:
    notes = []
    if len(model_ranking.pairs):
        notes.append(
            f"{model_ranking.sentence} Places: one more than the number of models that are significantly harder to "
            f"fool (text by text, {describe_correction(len(model_ranking.pairs), 'this ranking')}). It is of these "
            "weights: another training may give others."
        )
    averaged = ["tasks"] if len(model_ranking.tasks) > 1 else []
    averaged += ["attacks"] if len(model_ranking.attacks) > 1 else []
    if averaged:
        notes.append(f"All numbers are means over the {' and '.join(averaged)}, which count alike.")
    unplaced = [contestant.name for contestant in model_ranking.entries if contestant.place is None]
    if unplaced:
        notes.append(f"Not ranked, since their numbers decide nothing: {', '.join(unplaced)}.")
    return notes

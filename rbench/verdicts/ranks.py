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
from rbench.schema.claims import CellOf, Comparison, Group
from rbench.score.paired import Difference, holm
from rbench.tables import Results, Table
from rbench.tables.table import Entry, Meaning, Number, p_value
from rbench.verdicts.cells import Cells
from rbench.verdicts.claims import Bound, estimate, judge
from rbench.verdicts.pairing import Way, correction, way

METRIC = "aua"
"""What is ranked by. The highest is the best."""
CLEAN = "clean"
NAMED = 3
"""Most names in an entry of the table."""
SPOKEN = {"exhaustive[space={max_words:1}]": "any one word"}
"""What attacks are called in a ranking, where their label says it less well."""


class Contestant(NamedTuple):
    """Whose victims are ranked."""

    encoder: str
    finetune: str


class Pair(NamedTuple):
    """Two contestants: the one with the higher number, then the other."""

    one: Contestant
    other: Contestant
    difference: Difference
    """`one` minus `other`, in 0..1."""
    p: float | None
    """Corrected by Holm for all pairs."""

    @property
    def verdict(self) -> Way:
        """`higher` where `one` is significantly harder to fool."""
        return way(self.difference, self.p)


@dataclass(frozen=True)
class Ranked:
    """A contestant with its place."""

    who: Contestant
    name: str
    """What it is called: its encoder, and its strategy where a RUN has several."""
    place: int | None
    value: Difference | None
    """The mean accuracy under attack, in 0..1, with its interval; None where it is not known."""
    clean: float | None
    """The mean clean accuracy of the same texts."""
    by_attack: Mapping[str, float | None]
    """The mean accuracy over the tasks under each attack."""
    above: tuple[str, ...]
    """Those that are significantly easier to fool."""
    why: str = ""
    """Why it has no place."""


@dataclass(frozen=True)
class Ranking:
    """Contestants, the hardest to fool first, and all pairs of those that have a place."""

    entries: tuple[Ranked, ...]
    pairs: tuple[Pair, ...]
    tasks: tuple[str, ...]
    attacks: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What the first two tell: who is harder to fool, and by how much; or how many texts would decide it."""
        placed = [one for one in self.entries if one.place is not None]
        if len(placed) < 2:
            return "Nothing is ranked: fewer than two models have all numbers and no flag."
        names = {one.who: one.name for one in placed}
        two = {placed[0].who, placed[1].who}
        pair = next(one for one in self.pairs if {one.one, one.other} == two)
        d, first, second = pair.difference, names[pair.one], names[pair.other]
        assert d.value is not None, "contestants with a place have numbers"
        span = (
            f", 95% interval {100 * d.low:.1f} to {100 * d.high:.1f}"
            if d.low is not None and d.high is not None
            else ""
        )
        by = f"{100 * abs(d.value):.1f} points of accuracy under attack{span}, p {p_value(pair.p) or 'unknown'}"
        if pair.verdict == "higher":
            return f"{first} is harder to fool than {second}: {by}."
        if pair.verdict == "lower":  # paired and shown values may point in opposite directions
            return f"{second} is harder to fool than {first}: {by}."
        return f"Nothing tells {first} from {second} yet: {by}.{_needed(d, len(self.attacks))}"


def _needed(d: Difference, attacks: int) -> str:
    """Say how many texts would decide a difference of this size."""
    if not d.value or not d.smallest:
        return ""
    n = d.n * (d.smallest / abs(d.value)) ** 2
    digits = max(1, 10 ** max(0, len(str(ceil(n))) - 2))
    return f" If it is as large as that, about {ceil(n / digits) * digits:,} texts would show it four times in five."


def ranking(results: Results, *, compared: bool = True) -> Ranking:
    """Rank the contestants of a RUN.

    Args:
        compared: whether every two are compared. Otherwise all that have a number share the first place.

    Raises StoreError where nothing was attacked that has an accuracy.
    """
    cells = Cells(results)
    of: dict[Contestant, dict[tuple[str, str], CellOf]] = {}
    for cell in cells.ground.cells.get(METRIC, ()):
        if cell.attack is not None and cell.task is not None:
            who = Contestant(cell.encoder, cell.finetune or "")
            of.setdefault(who, {})[cell.task, cell.attack] = cell
    if not of:
        raise StoreError(f"{results.root} has no attack on a classifier, so there is nothing to rank")
    common = [key for key in next(iter(of.values())) if all(key in own for own in of.values())]
    if not common:
        raise StoreError(f"{results.root}: no task and attack is common to all that would be ranked")
    several = len({who.finetune for who in of if who.encoder in results.plan.suite.encoders}) > 1
    names = {who: f"{who.encoder}, {who.finetune}" if several else who.encoder for who in of}
    own = {who: {key: found[key] for key in common} for who, found in of.items()}
    why = {who: _obstacle(list(own[who].values()), cells) for who in own}
    values = {who: _mean(list(own[who].values()), METRIC, cells) for who in own}
    placed = [who for who in own if not why[who] and (one := values[who]) is not None and one.value is not None]
    placed.sort(key=lambda who: -_value(values[who]))
    pairs = _pairs(placed, own, cells) if compared else []
    above = {who: [one.other for one in pairs if one.one == who and one.verdict == "higher"] for who in own}
    for pair in pairs:
        if pair.verdict == "lower":
            above[pair.other].append(pair.one)
    attacks = tuple(dict.fromkeys(attack for _, attack in common))
    entries = [
        Ranked(
            who,
            names[who],
            1 + sum(who in above[other] for other in placed) if who in placed else None,
            values[who],
            _share(list(own[who].values()), CLEAN, cells),
            {
                attack: _share([cell for key, cell in own[who].items() if key[1] == attack], METRIC, cells)
                for attack in attacks
            },
            tuple(names[other] for other in above[who]),
            why[who],
        )
        for who in (*placed, *(who for who in own if who not in placed))
    ]
    return Ranking(tuple(entries), tuple(pairs), tuple(dict.fromkeys(task for task, _ in common)), attacks)


def _obstacle(own: Sequence[CellOf], cells: Cells) -> str:
    return next((why for cell in own if (why := cells.obstacle(cell, METRIC)) is not None), "")


def _pairs(
    placed: Sequence[Contestant], own: Mapping[Contestant, Mapping[tuple[str, str], CellOf]], cells: Cells
) -> list[Pair]:
    found = []
    for one, other in combinations(placed, 2):
        groups = tuple(Group((own[one][key],), (own[other][key],)) for key in own[one])
        judged = judge(Comparison((), one.encoder, other.encoder, "higher", groups), METRIC, Bound(), cells)
        found.append((one, other, judged.difference or Difference(None, 0)))
    corrected = holm([difference.p for *_, difference in found])
    return [Pair(*pair, p) for pair, p in zip(found, corrected, strict=True)]


def _mean(own: Sequence[CellOf], metric: str, cells: Cells) -> Difference | None:
    """Return the mean of cells, and its interval; None where one of them is not done."""
    if any((why := cells.obstacle(cell, metric)) is not None and "is not done" in why for cell in own):
        return None
    groups = tuple(Group((cell,)) for cell in own)
    return estimate(Comparison((), "", "", "higher", groups), metric, Bound(), cells).difference


def _share(own: Sequence[CellOf], metric: str, cells: Cells) -> float | None:
    found = _mean(own, metric, cells)
    return found.value if found is not None else None


def _value(found: Difference | None) -> float:
    return found.value if found is not None and found.value is not None else -1.0


def spoken(attack: str) -> str:
    """Return what an attack is called in a ranking."""
    return SPOKEN.get(attack, attack)


def table(results: Results) -> Table:
    """Lay out a ranking: a row for each contestant, the hardest to fool first."""
    found = ranking(results)
    decided = any(one.above for one in found.entries)
    rows: list[tuple[Entry, ...]] = []
    for one in found.entries:
        value = one.value or Difference(None, 0)
        mean = Number(value.value, True, value.n, value.low, value.high, best=decided and one.place == 1)
        rest = (None if share is None else Number(share, True) for share in (one.clean, *one.by_attack.values()))
        clean, *attacks = rest
        rows.append((one.name, str(one.place or "–"), mean, clean, *attacks, _verdict(one, len(found.entries))))
    return Table(
        metric="ranks",
        header=("Model", "Place", "Under attack", "Clean", *map(spoken, found.attacks), "Harder to fool than"),
        rows=tuple(rows),
        cells=tuple(_cells(found)),
        notes=tuple(_notes(found)),
        interval="95% intervals over texts.",
        flags=results.flags.listed(job for job in results.plan.attacks),
        about=Meaning(
            "Models by how hard they are to fool",
            "the share of texts that are classified right and stay so under attack, the mean over attacks and tasks",
            "highest",
        ),
    )


def _verdict(one: Ranked, total: int) -> str:
    if one.place is None:
        return f"not ranked: {one.why.rpartition(' is ')[2] or 'no value'}"
    if len(one.above) > NAMED:
        return f"{len(one.above)} of the other {total - 1}"
    return ", ".join(one.above) or "none of them"


def _cells(found: Ranking) -> list[dict[str, object]]:
    told: list[dict[str, object]] = []
    names = {one.who: one.name for one in found.entries}
    for one in found.entries:
        value = one.value or Difference(None, 0)
        told.append(
            {
                "encoder": one.who.encoder,
                "finetune": one.who.finetune or None,
                "place": one.place,
                "value": value.value,
                "low": value.low,
                "high": value.high,
                "n": value.n,
                "clean": one.clean,
                **{f"under {attack}": share for attack, share in one.by_attack.items()},
                "above": list(one.above),
                "why": one.why or None,
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
                    for pair in found.pairs
                    if pair.one == one.who
                ],
            }
        )
    return told


def _notes(found: Ranking) -> list[str]:
    said = []
    if len(found.pairs):
        said.append(
            f"{found.sentence} Places: one more than the number of models that are significantly harder to fool "
            f"(text by text, {correction(len(found.pairs), 'this ranking')}). It is of these weights: another training "
            "may give others."
        )
    if several := [name for name, many in (("tasks", found.tasks), ("attacks", found.attacks)) if len(many) > 1]:
        said.append(f"All numbers are means over the {' and '.join(several)}, which count alike.")
    if left := [one.name for one in found.entries if one.place is None]:
        said.append(f"Not ranked, since their numbers decide nothing: {', '.join(left)}.")
    return said

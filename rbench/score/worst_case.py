"""Count over several attacks on the same victim and examples: the worst case, and what one attack alone found.

An example counts once. The victim is the same for all attacks, so all of them skip the same examples, those that it
misclassifies. Attacks differ in what they allow, so the worst case is that of a suite, not of a recipe. Ours: no paper
behind rbench reports it.

An example that errored in one of the attacks is left out and counted as errored, also where another attack succeeded:
to keep it only where it fell would raise the rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rbench.score.attack import Tally
from rbench.spec import AttackMetric, Status

Verdict = Literal["errored", "no words", "unusable", "skipped", "valid", "succeeded", "failed"]
"""What became of an example. `valid` is a success after which the oracle still gives the example's label."""
Verdicts = Mapping[str, Verdict]
"""The verdicts of one attack by example id."""

_FELL = ("valid", "succeeded")
RANK: Mapping[Verdict, int] = {
    "errored": 0,
    "no words": 1,
    "unusable": 2,
    "skipped": 3,
    "valid": 4,
    "succeeded": 5,
    "failed": 6,
}
"""The verdict of all attacks together is the one of the lowest rank that an attack gave."""


def verdict(status: Status, skip_reason: str | None, label: int | None, oracle_label: int | None) -> Verdict:
    """Return the verdict of an outcome with these fields."""
    if status == "skipped" and skip_reason is not None:
        return "no words" if skip_reason == "no words" else "unusable"
    return "valid" if status == "succeeded" and oracle_label is not None and oracle_label == label else status


def worst_case(attacks: Sequence[Verdicts], *, oracle: bool = False, truncated: int = 0) -> Tally:
    """Count the examples on which at least one attack succeeded as succeeded, and the others as failed.

    Args:
        attacks: at least one, each with the same examples.
        oracle: whether the task has an oracle.
        truncated: number of examples that were cut to the victim's maximum length.

    Raises:
        ValueError: the attacks have different examples.
    """
    found = Counter(together(attacks).values())
    return Tally(
        succeeded=found["valid"] + found["succeeded"],
        failed=found["failed"],
        skipped=found["skipped"],
        errored=found["errored"],
        wordless=found["no words"],
        unusable=found["unusable"],
        truncated=truncated,
        oracle_valid=found["valid"] if oracle else None,
    )


@dataclass(frozen=True)
class Fallen:
    """How many texts fell to which attacks, of those that every attack attacked."""

    n: int
    """Texts that the victim classified correctly and that errored in no attack."""
    fell_to: tuple[int, ...]
    """For each attack the texts that fell to it."""
    only: tuple[int, ...]
    """For each attack the texts that fell to it and to no other."""
    any: int
    """Texts that fell to at least one attack."""
    all: int
    """Texts that fell to every attack."""

    @classmethod
    def of(cls, attacks: Sequence[Verdicts]) -> Fallen:
        """Count. Raises ValueError where the attacks have different examples."""
        attacked = [
            ours for ours, one in zip(_rows(attacks), together(attacks).values(), strict=True) if one in _ATTACKED
        ]
        fell = [[verdict in _FELL for verdict in ours] for ours in attacked]
        return cls(
            n=len(fell),
            fell_to=tuple(sum(row[i] for row in fell) for i in range(len(attacks))),
            only=tuple(sum(row[i] and sum(row) == 1 for row in fell) for i in range(len(attacks))),
            any=sum(map(any, fell)),
            all=sum(map(all, fell)),
        )

    @classmethod
    def pooled(cls, parts: Sequence[Fallen]) -> Fallen:
        """Add up the counts of several seeds or victims with the same attacks; at least one."""
        return cls(
            n=sum(part.n for part in parts),
            fell_to=tuple(map(sum, zip(*(part.fell_to for part in parts), strict=True))),
            only=tuple(map(sum, zip(*(part.only for part in parts), strict=True))),
            any=sum(part.any for part in parts),
            all=sum(part.all for part in parts),
        )


_ATTACKED = (*_FELL, "failed")


def _rows(attacks: Sequence[Verdicts]) -> list[list[Verdict]]:
    """Return for each example its verdicts by attack."""
    if any(attack.keys() != attacks[0].keys() for attack in attacks):
        raise ValueError("the attacks have different examples")
    return [[attack[example] for attack in attacks] for example in attacks[0]]


def together(attacks: Sequence[Verdicts]) -> dict[str, Verdict]:
    """Return the verdict of all attacks together on each example.

    Raises ValueError where the attacks have different examples.
    """
    worst = (min(verdicts, key=RANK.__getitem__) for verdicts in _rows(attacks))
    return dict(zip(attacks[0], worst, strict=True))


def counts(verdicts: Verdicts, metric: AttackMetric) -> dict[str, float]:
    """Return for each example whether it counts for a share (1.0 or 0.0), without those in no denominator of it."""
    out = ("errored", "no words", "unusable", *(() if metric in ("aua", "clean") else ("skipped",)))
    counted = {"asr": _FELL, "oracle_asr": ("valid",), "aua": ("failed",)}.get(metric, _ATTACKED)
    return {example: float(verdict in counted) for example, verdict in verdicts.items() if verdict not in out}

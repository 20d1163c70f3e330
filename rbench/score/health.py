"""Compute the health of victims and attacks. docs/health.md derives when a flag is raised.

near chance             a victim's accuracy cannot be told from that of always answering with the most frequent label
starved of candidates   an attack has nothing to put in the place of most words that it wants to replace
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rbench.score.starvation import Starvation
from rbench.score.statistics import wilson
from rbench.spec import Health, Outcome, Raised, Score


def victim_health(accuracy: Score, labels: Iterable[float | None], split: str = "validation") -> Health:
    """Return the health of a victim: the flag `near chance`, or none.

    Args:
        accuracy: on the rows of a split, in 0..1, with their number as `n`.
        labels: of these rows. Rows without a label are left out.
        split: the split's name, for the reader.

    The health's values are `majority share`, the share of the most frequent label among the rows, and `accuracy at
    least`, the lower end of the accuracy's 95% Wilson interval. The flag is raised if the former reaches the latter.
    Without an accuracy or without labels there are no values and no flag.
    """
    count = Counter(label for label in labels if label is not None)
    if not count or not accuracy.n or accuracy.value is None:
        return Health()
    return near_chance(accuracy, max(count.values()) / count.total(), split)


def near_chance(accuracy: Score, share: float, split: str) -> Health:
    """Return the health of a victim of this accuracy on rows of which the most frequent label has this share."""
    assert accuracy.value is not None
    interval = wilson(accuracy.value * accuracy.n, accuracy.n) or (0.0, 1.0)
    least, flags = interval[0], []
    if share >= least:
        because = (
            f"accuracy {accuracy.value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}] on {accuracy.n:,} {split} rows, "
            f"of which the most frequent label has {share:.3f}"
        )
        flags.append(Raised(flag="near chance", because=because))
    return Health(values={"majority share": share, "accuracy at least": least}, flags=tuple(flags))


def attack_health(outcomes: Iterable[Outcome]) -> Health:
    """Return the health of an attack: the flag `starved of candidates`, or none.

    The values are `words asked`, `words without a candidate` and their quotient, `share of words without a candidate`,
    over the examples of which the attack can tell. The flag is raised if the share is above one half, and so is the
    lower end of its 95% Wilson interval with the number of these examples as sample size: words of one text are alike.
    There are no values where no word was asked for, or no outcome has counts.
    """
    return Starvation().more((one.words_asked, one.words_without_candidate) for one in outcomes).health()

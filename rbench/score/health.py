"""Compute the health of victims and attacks. docs/health.md derives when a flag is raised.

near chance             a victim's accuracy cannot be told from that of always answering with the most frequent label
labels exchanged        a victim is right far more often if its labels change places
starved of candidates   an attack, or an adversarial fine-tuning, has nothing to put in the place of most words that it
                        wants to replace
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rbench.schema import Health, Outcome, RaisedFlag, Score
from rbench.score.statistics import wilson


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
    lowest, flags = interval[0], []
    if share >= lowest:
        reason = (
            f"accuracy {accuracy.value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}] on {accuracy.n:,} {split} rows, "
            f"of which the most frequent label has {share:.3f}"
        )
        if share > interval[1]:
            reason += "; that is worse than always giving this label: are the labels in another order?"
        flags.append(RaisedFlag(flag="near chance", because=reason))
    return Health(values={"majority share": share, "accuracy at least": lowest}, flags=tuple(flags))


LEAST_GAIN = 0.1
"""Accuracy that another assignment of labels has to gain, at least, for `labels exchanged`."""
GAIN_ERRORS = 4.0
"""By how many standard errors it has to gain. With chance alone, the best of several assignments gains two or three."""


class LabelExchange(NamedTuple):
    """Another assignment of a victim's labels, by which it is right far more often."""

    meanings: tuple[int, ...]
    """Of each label that it answers, the one that it seems to mean."""
    right: float
    """Its accuracy as its answers stand."""
    right_exchanged: float
    """Its accuracy if they are read by `meanings`."""


def find_label_exchange(predicted: Sequence[int], labels: Sequence[int], count: int) -> LabelExchange | None:
    """Return the assignment of labels by which a victim is right far more often; None where there is none.

    All assignments are compared: the best of them maximises the sum of entries of the confusion matrix, one of each row
    and column.

    Args:
        predicted, labels: ids of rows, from 0.
        count: of labels.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    confusion = np.zeros((count, count), dtype=np.int64)
    np.add.at(confusion, (np.asarray(predicted, dtype=np.int64), np.asarray(labels, dtype=np.int64)), 1)
    answers, meanings = linear_sum_assignment(confusion, maximize=True)
    n, num_right, num_right_exchanged = len(labels), int(confusion.trace()), int(confusion[answers, meanings].sum())
    # Only rows on which the two assignments differ tell them apart.
    differing = sum(int(confusion[i, i] + confusion[i, j]) for i, j in zip(answers, meanings, strict=True) if i != j)
    if not n or num_right_exchanged - num_right < max(LEAST_GAIN * n, GAIN_ERRORS * differing**0.5):
        return None
    return LabelExchange(tuple(map(int, meanings)), num_right / n, num_right_exchanged / n)


def flag_exchanged_labels(predicted: Sequence[int], labels: Sequence[int], names: Sequence[str]) -> RaisedFlag | None:
    """Return the flag `labels exchanged` where another assignment of a victim's labels is right far more often.

    Args:
        predicted, labels: ids of rows, from 0.
        names: of the labels.
    """
    exchange = find_label_exchange(predicted, labels, len(names))
    if exchange is None:
        return None
    moved_labels = [(i, j) for i, j in enumerate(exchange.meanings) if i != j]
    exchanges = ", ".join(f"`{names[i]}` for {names[j]}" for i, j in moved_labels[:6]) + (
        " ..." if len(moved_labels) > 6 else ""
    )
    return RaisedFlag(
        flag="labels exchanged",
        because=f"accuracy {exchange.right:.3f} on {len(labels):,} rows, and {exchange.right_exchanged:.3f} if its "
        f"answers are read so: {exchanges}; look at what `labels` or `id2label` say; of a function, at the order of "
        "its numbers (--labels)",
    )


def attack_health(outcomes: Iterable[Outcome]) -> Health:
    """Return the health of an attack: the flag `starved of candidates`, or none.

    The values are `words asked`, `words without a candidate` and their quotient, `share of words without a candidate`,
    over the examples of which the attack can tell. The flag is raised if the share is above one half, and so is the
    lower end of its 95% Wilson interval with the number of these examples as sample size: words of one text are alike.
    There are no values where no word was asked for, or no outcome has counts.
    """
    return Starvation().more((outcome.words_asked, outcome.words_without_candidate) for outcome in outcomes).health()


STARVED_ABOVE = 0.5
"""A search that has candidates for fewer than half of the words that it picks cannot carry out most of its choices."""


class Starvation(NamedTuple):
    """Counts over texts."""

    texts: int = 0
    """Texts with at least one word that was asked for."""
    asked: int = 0
    """Words that the search asked candidates for."""
    without: int = 0
    """Those of them that had none."""

    def more(self, counts: Iterable[tuple[int | None, int | None]]) -> Starvation:
        """Return the counts with those of further texts: words asked for, and words without a candidate.

        None stands for a count that cannot be told. Such a text is left out, and so is one of which no word was asked.
        """
        known = [(asked, without) for asked, without in counts if asked and without is not None]
        asked, without = sum(asked for asked, _ in known), sum(without for _, without in known)
        return Starvation(self.texts + len(known), self.asked + asked, self.without + without)

    def health(self) -> Health:
        """Return the counts as health (see `attack_health`), empty if no word was asked for."""
        if not self.asked:
            return Health()
        share = self.without / self.asked
        interval = wilson(share * self.texts, self.texts)
        flags = []
        if interval is not None and interval[0] > STARVED_ABOVE:
            reason = (
                f"{100 * share:.0f}% of the {self.asked:,} words to replace in {self.texts:,} texts had no candidate"
            )
            flags.append(RaisedFlag(flag="starved of candidates", because=reason))
        values = {
            "words asked": float(self.asked),
            "words without a candidate": float(self.without),
            "share of words without a candidate": share,
        }
        return Health(values=values, flags=tuple(flags))

"""How many of the words that a search wanted to replace had no candidate: the flag `starved of candidates`.

Attacks and adversarial fine-tunings have it, with the same definition (docs/health.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rbench.score.statistics import wilson
from rbench.spec import Health, Raised

MAJORITY = 0.5
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
        told = [(asked, without) for asked, without in counts if asked and without is not None]
        asked, without = sum(asked for asked, _ in told), sum(without for _, without in told)
        return Starvation(self.texts + len(told), self.asked + asked, self.without + without)

    def health(self) -> Health:
        """Return the counts as health, empty if no word was asked for.

        The flag is raised if the lower end of the share's 95% Wilson interval is above one half. Its sample size is the
        number of texts, because words of one text are alike.
        """
        if not self.asked:
            return Health()
        share = self.without / self.asked
        interval = wilson(share * self.texts, self.texts)
        flags = []
        if interval is not None and interval[0] > MAJORITY:
            because = (
                f"{100 * share:.0f}% of the {self.asked:,} words to replace in {self.texts:,} texts had no candidate"
            )
            flags.append(Raised(flag="starved of candidates", because=because))
        values = {
            "words asked": float(self.asked),
            "words without a candidate": float(self.without),
            "share of words without a candidate": share,
        }
        return Health(values=values, flags=tuple(flags))

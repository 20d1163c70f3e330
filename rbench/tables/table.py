"""A table before it is written down: entries at full precision, notes, and what the metrics are called.

Attack metrics are in `rbench.score.attack`, correlations of evaluations in `rbench.score.sts`, shares of contrast
sets in `rbench.score.contrast`.

Nothing here is rounded or escaped; `formats` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rbench.spec import Metric, Score

Layout = Literal["paper", "by-task", "full"]


@dataclass(frozen=True)
class Meaning:
    """What a metric is called, how it is defined, and which end of it is the good one: a robust victim, for attacks."""

    title: str
    definition: str
    best: Literal["lowest", "highest"]
    percent: bool = True
    """Shown a hundredfold."""
    digits: int = 1
    """After the point."""
    unit: str = "%"
    """What a hundredfold is called."""
    stored: str = "Shares are fractions of 1."
    """What programs are told of values that people see a hundredfold."""
    undefined: str = "no example in the denominator"
    """Why an entry may have no value."""
    good: str = "more robust"
    among: str = "of each attack"
    """The entries of which the best is bold."""

    @property
    def arrow(self) -> str:
        return "↓" if self.best == "lowest" else "↑"


MEANING: dict[Metric, Meaning] = {
    "asr": Meaning("Attack success rate", "succeeded / (succeeded + failed)", "lowest"),
    "oracle_asr": Meaning(
        "Oracle-valid attack success rate",
        "successes after which the true label still holds / (succeeded + failed)",
        "lowest",
    ),
    "aua": Meaning("Accuracy under attack", "failed / all", "highest"),
    "clean": Meaning("Clean accuracy", "(all - skipped) / all", "highest", good="better"),
    "queries": Meaning("Average queries", "mean over the examples that were not skipped", "highest", percent=False),
    "perturbed": Meaning("Words perturbed", "mean share of words changed, over successes with a change", "highest"),
    "seconds": Meaning(
        "Seconds an example",
        "mean seconds of one process over the examples that were not skipped, batches shared out; they depend on the "
        "machine",
        "lowest",
        percent=False,
        digits=2,
        good="faster",
    ),
    "sts": Meaning(
        "Semantic textual similarity",
        "Spearman's rank correlation of the cosines of sentence vectors with gold scores",
        "highest",
        digits=2,
        unit="×100",
        stored="Correlations are in -1..1.",
        undefined="fewer than 4 pairs, or cosines that are all equal",
        good="better",
        among="of each column",
    ),
    "positives": Meaning("Hard positives", "texts with words replaced so that the contrastive loss rises", "highest"),
    "contrast": Meaning(
        "Contrast sets",
        "accuracy of fine-tuned encoders on test examples and on small edits of them that mostly change the label",
        "highest",
        undefined="no such text in the contrast set",
        good="better",
        among="of each column",
    ),
}


@dataclass(frozen=True)
class Number:
    """An entry. `value` None with `n` 0 has nothing to divide by; an entry that is not there at all is None."""

    value: float | None
    percent: bool
    n: int | None = None
    low: float | None = None
    high: float | None = None
    seed_sd: float | None = None
    best: bool = False
    partial: bool = False
    digits: int = 1

    @classmethod
    def of(cls, score: Score, metric: Metric, **more: Any) -> Number:
        meaning = MEANING[metric]
        return cls(score.value, meaning.percent, score.n, score.low, score.high, digits=meaning.digits, **more)

    def shown(self, value: float) -> str:
        """A value on this entry's scale, with its digits."""
        return f"{100 * value if self.percent else value:.{self.digits}f}"


@dataclass(frozen=True)
class Marked:
    """A text of which some pieces are marked, in a colour where there are colours."""

    pieces: tuple[tuple[str, bool], ...]
    colour: Literal["red", "blue"]

    @property
    def text(self) -> str:
        return "".join(piece for piece, _ in self.pieces)


Entry = str | int | Number | Marked | None


@dataclass(frozen=True)
class Table:
    """`rows` are what a person reads, `cells` the same numbers (and more) for a program."""

    metric: Metric
    layout: Layout
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    groups: frozenset[int]
    """Numbers of the rows with which a new group begins (the first row is not among them)."""
    cells: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    interval: str
    """What the intervals are, for where they are shown."""

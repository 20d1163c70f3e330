"""The steps of an attack on one example: what changed, and what the victim answered then."""

from __future__ import annotations

from rbench.spec.common import Count, Strict


class Change(Strict):
    """A stretch of a text that a step replaced. Words and the spaces between them are replaced as a whole."""

    column: Count
    """The text's column, from 0."""
    start: Count
    """Where the stretch starts in the column before the step, in characters (code points)."""
    end: Count
    """Where it ends, exclusive. Where it equals `start`, the step inserted something."""
    new: str | None
    """What stands there after the step. None if the RUN keeps no texts."""


class Step(Strict):
    """A text on the way from the original to the final text, for which the attack asked the victim."""

    score: float
    """The victim's probability of the true label, in 0..1; on STS tasks its score of the pair, on the task's scale.
    Rounded to 4 decimals."""
    prediction: int | None = None
    """The label that the victim predicts; None on STS tasks."""
    changes: tuple[Change, ...] = ()
    """What differs from the step before, in the order of columns and places. None overlaps another. The original has
    none."""

    def without_texts(self) -> Step:
        """Return the step with the places of its changes, without their words."""
        return self.model_copy(update={"changes": tuple(one.model_copy(update={"new": None}) for one in self.changes)})

"""Whether the label of each text is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.measures._answers._shared import Answers
from rbench.measures._context import VictimContext
from rbench.measures._noise import HITS
from rbench.measures._predicted import asked
from rbench.score.packed import packed

if TYPE_CHECKING:
    from rbench.tasks import Example


def answers(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> Answers:
    """Return the answers of a classifier."""
    found = asked(context, texts)
    labels = [example.label for example in examples]

    def stored(at: Sequence[int]) -> dict[str, str]:
        return {HITS: packed([int(found.labels[i]) == label for i, label in zip(at, labels, strict=True)])}

    return Answers(found.read if not hasattr(context.victim, "classified") else (), found.cut, stored, {})

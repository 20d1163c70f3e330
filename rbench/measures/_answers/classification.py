"""Whether the label of each text is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.measures._answers._shared import TextAnswers
from rbench.measures._context import VictimContext
from rbench.measures._noise import HITS
from rbench.measures._predicted import ask_victim
from rbench.score.packed import pack_hits

if TYPE_CHECKING:
    from rbench.tasks import Example


def answers(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> TextAnswers:
    """Return the answers of a classifier."""
    classified = ask_victim(context, texts)
    labels = [example.label for example in examples]

    def stored(places: Sequence[int]) -> dict[str, str]:
        return {HITS: pack_hits([int(classified.labels[i]) == label for i, label in zip(places, labels, strict=True)])}

    return TextAnswers(classified.read if not hasattr(context.victim, "classified") else (), classified.cut, stored, {})

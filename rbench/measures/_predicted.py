"""What measures share whose victims classify a set: asking the victim, and checking the scores of its predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rbench.measures._context import VictimContext
from rbench.schema import Prediction, Record, Score
from rbench.score.contrast import group_into_bundles
from rbench.store.verify import find_unequal
from rbench.system.progress import count_steps

if TYPE_CHECKING:
    from rbench.encoders.classify import ClassifiedRows


def ask_victim(context: VictimContext, texts: Sequence[tuple[str, ...]]) -> ClassifiedRows:
    """Classify texts with the victim, and show the progress."""
    from rbench.encoders.classify import classify

    return classify(context.victim, texts, progress=count_steps(context.progress, len(texts)))


def mismatches_of_predictions(
    record: Record,
    predictions: Sequence[Prediction],
    scored: Callable[[Any], tuple[Score, ...]],
    names: tuple[str, str],
) -> Iterator[str]:
    """Say which numbers of a record are not those of its predictions.

    Args:
        names: the counts of originals and of changed texts.
    """
    num_changed = sum(not prediction.original for prediction in predictions)
    counts = zip(names, (len(predictions) - num_changed, num_changed), strict=True)
    yield from find_unequal(record, scored(group_into_bundles(predictions)) if predictions else (), dict(counts))

"""What measures share whose victims classify a set: asking the victim, and checking the scores of its predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rbench.measures._context import VictimContext
from rbench.schema import Prediction, Record, Score
from rbench.score.contrast import judged
from rbench.store.verify import unequal
from rbench.system.progress import counting

if TYPE_CHECKING:
    from rbench.encoders.classify import Classified


def asked(context: VictimContext, texts: Sequence[tuple[str, ...]]) -> Classified:
    """Classify texts with the victim, and show the progress."""
    from rbench.encoders.classify import classify

    return classify(context.victim, texts, progress=counting(context.progress, len(texts)))


def unlike_predictions(
    record: Record,
    predictions: Sequence[Prediction],
    scored: Callable[[Any], tuple[Score, ...]],
    names: tuple[str, str],
) -> Iterator[str]:
    """Say which numbers of a record are not those of its predictions.

    Args:
        names: the counts of originals and of changed texts.
    """
    edits = sum(not one.original for one in predictions)
    sizes = zip(names, (len(predictions) - edits, edits), strict=True)
    yield from unequal(record, scored(judged(predictions)) if predictions else (), dict(sizes))

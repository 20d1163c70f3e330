"""Lets functions and endpoints take part in evaluations: contrast sets, adversarial sets, measures, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rbench.encoders.classify import Classified
from rbench.errors import JobError
from rbench.victims.answers import Answers
from rbench.victims.scores import AnswerError

ROUND = 256
"""Texts that are asked for together, so that progress is shown while an endpoint answers."""


MOST_ERRORED = 0.1
"""Share of the texts of a round that may have no usable answer, as of the examples of an attack."""


class Asked:
    """A function or an endpoint that classifies texts, each distinct one once.

    Args:
        answers: asks it.
        forgiving: whether a text without a usable answer gets the label -1. Otherwise, and where they are more than
            MOST_ERRORED, JobError is raised.
    """

    def __init__(self, answers: Answers, forgiving: bool = False) -> None:
        self._answers, self._forgiving = answers, forgiving

    def classified(self, rows: Sequence[tuple[str, ...]], progress: Callable[[int], None] | None = None) -> Classified:
        """Return the most probable label of each row.

        What such a classifier reads of a text is not known. So no text counts as cut, and two texts count as read
        alike only if they are the same.
        """
        ids = {texts: i for i, texts in enumerate(dict.fromkeys(rows))}
        distinct, labels = [*ids], np.zeros(len(ids), np.int64)
        for start in range(0, len(distinct), ROUND):
            part = distinct[start : start + ROUND]
            labels[start : start + len(part)] = self._labels(part)
            if progress is not None:
                progress(sum(start <= ids[texts] < start + len(part) for texts in rows))
        places = np.array([ids[texts] for texts in rows], dtype=np.int64)
        return Classified(labels[places], np.zeros(len(rows), dtype=bool), [(ids[texts],) for texts in rows])

    def _labels(self, part: Sequence[tuple[str, ...]]) -> list[int]:
        rows = self._answers.each(part)
        failed = [row for row in rows if isinstance(row, AnswerError)]
        few = len(failed) <= max(1, MOST_ERRORED * len(part)) and len(failed) < len(part)
        if failed and not (self._forgiving and few):
            raise JobError(str(failed[0])) from failed[0].__cause__
        return [-1 if isinstance(row, AnswerError) else int(row.argmax()) for row in rows]

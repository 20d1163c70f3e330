"""Lets functions and endpoints take part in evaluations: contrast sets, adversarial sets, measures, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rbench.encoders.classify import Classified
from rbench.victims.answers import Answers

ROUND = 256
"""Texts that are asked for together, so that progress is shown while an endpoint answers."""


class Asked:
    """A function or an endpoint that classifies texts, each distinct one once."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def classified(self, rows: Sequence[tuple[str, ...]], progress: Callable[[int], None] | None = None) -> Classified:
        """Return the most probable label of each row.

        What such a classifier reads of a text is not known. So no text counts as cut, and two texts count as read
        alike only if they are the same.
        """
        ids = {texts: i for i, texts in enumerate(dict.fromkeys(rows))}
        distinct, labels = [*ids], np.zeros(len(ids), np.int64)
        for start in range(0, len(distinct), ROUND):
            part = distinct[start : start + ROUND]
            labels[start : start + len(part)] = np.asarray(self._answers(part)).argmax(axis=1)
            if progress is not None:
                progress(sum(start <= ids[texts] < start + len(part) for texts in rows))
        places = np.array([ids[texts] for texts in rows], dtype=np.int64)
        return Classified(labels[places], np.zeros(len(rows), dtype=bool), [(ids[texts],) for texts in rows])

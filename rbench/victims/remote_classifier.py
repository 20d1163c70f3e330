"""Opens functions and endpoints, and lets them take part in evaluations: contrast sets, measures, accuracy ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rbench.errors import AnswerError, JobError
from rbench.schema import TaskSpec, VictimSpec
from rbench.victims.answers import AnswerClient

if TYPE_CHECKING:
    from rbench.encoders.classify import ClassifiedRows

TEXTS_A_ROUND = 256
"""Texts that are asked for together, so that progress is shown while an endpoint answers."""
MAX_ERROR_SHARE = 0.1
"""Share of the texts of a round that may have no usable answer, as of the examples of an attack."""


def open_answers(spec: VictimSpec, task: TaskSpec) -> AnswerClient:
    """Return what asks the function or the endpoint of a victim. It is not asked yet.

    Raises:
        SuiteError: the body does not fit the task.
        ResourceError: the function cannot be imported, or an environment variable is not set.
    """
    if spec.origin == "function":
        from rbench.victims.function import open_function

        return open_function(spec, task)
    from rbench.victims.endpoint import open_endpoint

    return open_endpoint(spec, task)


class RemoteClassifier:
    """A function or an endpoint that classifies texts, each distinct one once.

    Args:
        answers: asks it.
        forgiving: whether a text without a usable answer gets the label -1. Otherwise, and where they are more than
            MOST_ERRORED, JobError is raised.
    """

    def __init__(self, answers: AnswerClient, forgiving: bool = False) -> None:
        self._answers, self._forgiving = answers, forgiving

    def classified(
        self, rows: Sequence[tuple[str, ...]], progress: Callable[[int], None] | None = None
    ) -> ClassifiedRows:
        """Return the most probable label of each row.

        What such a classifier reads of a text is not known. So no text counts as cut, and two texts count as read
        alike only if they are the same.
        """
        from rbench.encoders.classify import ClassifiedRows

        # Each distinct text once: answers may cost money, and a text asked twice could have two labels.
        id_of = {texts: i for i, texts in enumerate(dict.fromkeys(rows))}
        distinct, labels = [*id_of], np.zeros(len(id_of), np.int64)
        for start in range(0, len(distinct), TEXTS_A_ROUND):
            part = distinct[start : start + TEXTS_A_ROUND]
            labels[start : start + len(part)] = self._ask_labels(part)
            if progress is not None:
                progress(sum(start <= id_of[texts] < start + len(part) for texts in rows))
        places = np.array([id_of[texts] for texts in rows], dtype=np.int64)
        return ClassifiedRows(labels[places], np.zeros(len(rows), dtype=bool), [(id_of[texts],) for texts in rows])

    def _ask_labels(self, part: Sequence[tuple[str, ...]]) -> list[int]:
        rows = self._answers.each(part)
        failed = [row for row in rows if isinstance(row, AnswerError)]
        tolerable = len(failed) <= max(1, MAX_ERROR_SHARE * len(part)) and len(failed) < len(part)
        if failed and not (self._forgiving and tolerable):
            raise JobError(str(failed[0])) from failed[0].__cause__
        return [-1 if isinstance(row, AnswerError) else int(row.argmax()) for row in rows]

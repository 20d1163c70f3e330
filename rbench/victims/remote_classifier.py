"""Opens functions and endpoints, and lets them take part in evaluations: contrast sets, measures, accuracy ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rbench.errors import AnswerError, JobError, SuiteError
from rbench.schema import TaskSpec, VictimSpec
from rbench.victims.answers import Answers

if TYPE_CHECKING:
    from rbench.encoders.classify import Classified

ROUND = 256
"""Texts that are asked for together, so that progress is shown while an endpoint answers."""
MOST_ERRORED = 0.1
"""Share of the texts of a round that may have no usable answer, as of the examples of an attack."""


def open_answers(spec: VictimSpec, task: TaskSpec) -> Answers:
    """Return what asks the function or the endpoint of a victim. It is not asked yet.

    Raises:
        SuiteError: the body does not fit the task, or the task has no labels.
        ResourceError: the function cannot be imported, or an environment variable is not set.
    """
    if not task.has_classes:
        raise SuiteError(f"victim {spec.name} gives probabilities of labels, and the task {task.name} has none")
    if spec.origin == "function":
        from rbench.victims.function import open_function

        return open_function(spec, task)
    from rbench.victims.endpoint import open_endpoint

    return open_endpoint(spec, task)


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
        from rbench.encoders.classify import Classified

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

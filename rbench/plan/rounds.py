"""Divides the encoders of a suite into rounds, one for each training seed."""

from __future__ import annotations

from collections.abc import Mapping

from rbench.spec import Draw, Suite


def rounds(suite: Suite, draws: Mapping[str, Draw]) -> list[list[str]]:
    """Return the encoders by label, for each training seed of the suite.

    An encoder that is not drawn is in the first round alone. Without `train_seeds` there is one round, of the suite's
    encoders.
    """
    of = labels_of(suite, draws)
    return [[labels[i] for labels in of if i < len(labels)] for i in range(max(1, len(suite.train_seeds)))]


def labels_of(suite: Suite, draws: Mapping[str, Draw]) -> list[list[str]]:
    """Return the labels of each encoder of the suite, one for each training seed where it is drawn."""
    return [
        [label for label, draw in draws.items() if draw.encoder == encoder] or [encoder] for encoder in suite.encoders
    ]

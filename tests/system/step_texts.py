"""Make the texts of an attack's steps again from the changes that an outcome stores."""

from __future__ import annotations

from collections.abc import Sequence

from rbench.schema import Change, Outcome
from rbench.system.changes import Texts


def apply_changes(texts: Texts, changes: Sequence[Change]) -> Texts:
    """Return the texts after the changes of one step.

    Raises:
        ValueError: the words of the changes are not kept.
    """
    changed = list(texts)
    for change in reversed(changes):  # from the end, so that the places of those before stay
        if change.new is None:
            raise ValueError("the RUN keeps no texts, so the words of its steps are not known")
        text = changed[change.column]
        changed[change.column] = text[: change.start] + change.new + text[change.end :]
    return tuple(changed)


def replay_steps(outcome: Outcome) -> list[Texts]:
    """Return the texts of an outcome's steps; the first is the original. Empty if it has no steps or no texts."""
    if outcome.original is None or not outcome.steps:
        return []
    texts = [outcome.original]
    for step in outcome.steps[1:]:
        texts.append(apply_changes(texts[-1], step.changes))
    return texts

"""Asks functions and endpoints again for texts whose outcomes a RUN has, to see whether they still answer alike.

A job's key has what the user says of such a victim and its answers to a probe. A victim that changed on words which the
probe lacks has the same key, so its stored outcomes are used. This says so.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from rbench.errors import RbenchError
from rbench.plan.prepare import Prepared
from rbench.spec import TaskSpec, VictimSpec
from rbench.storage.runs import Store

ASKED = 32
"""Most texts that a victim is asked for again, of each task."""

Text = tuple[str, ...]


def notes(prepared: Prepared, store: Store) -> list[str]:
    """Return a note on each function or endpoint that gives other labels than it gave to texts of stored outcomes."""
    found = []
    for name, spec in prepared.loaded.victims.items():
        for task in prepared.loaded.tasks.values() if spec.origin != "model" else ():
            known = dict(_known(prepared, store, name, task))
            chosen = random.Random(0).sample(sorted(known), min(ASKED, len(known)))
            if chosen and (note := _differing(spec, task, {text: known[text] for text in chosen})):
                found.append(note)
    return found


def _known(prepared: Prepared, store: Store, name: str, task: TaskSpec) -> Iterator[tuple[Text, int]]:
    """Yield texts of stored outcomes, before and after their attacks, with the label ids that the victim gave."""
    for job in prepared.plan.jobs:
        if job.attacking is None or job.parts[0] != name or job.attacking.task.name != task.name:
            continue
        try:
            outcomes = [*store.outcomes(job)]
        except (RbenchError, OSError):
            continue  # the run says what is damaged
        for one in outcomes:
            for text, label in (
                (one.original, one.original_prediction),
                (one.perturbed, one.perturbed_prediction),
            ):
                if text is not None and label is not None:
                    yield text, label


def _differing(spec: VictimSpec, task: TaskSpec, known: dict[Text, int]) -> str | None:
    from rbench.victims.answers import shown
    from rbench.victims.opened import open_answers
    from rbench.victims.scores import AnswerError

    try:
        rows = open_answers(spec, task).each([*known])
    except RbenchError as error:
        return str(error)
    other = [
        (text, label, int(row.argmax()))
        for (text, label), row in zip(known.items(), rows, strict=True)
        if not isinstance(row, AnswerError) and row.max() - row[label] > spec.tolerance
    ]
    if not other:
        return None
    text, before, now = other[0]
    return (
        f"victim {spec.name} gave other labels to {len(other)} of {len(known)} texts of stored outcomes, such as "
        f"{shown(text)}: {task.labels[before]} then, {task.labels[now]} now. So another model stands behind `version: "
        f"{spec.version}`, and stored outcomes are not its own: write another `version`, and run again"
    )

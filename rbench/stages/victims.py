"""Open victims for evaluations: those that jobs fine-tuned, and classifiers that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench.spec import TaskSpec, VictimSpec
from rbench.stages.context import Context
from rbench.stages.inputs import Inputs
from rbench.storage.weights import weights_hash
from rbench.system.located import Located


def victim_of(inputs: Inputs, task: TaskSpec, context: Context, role: str = "victim") -> Any:
    """Return the victim in a role, for `rbench.encoders.classify`: fine-tuned by a job, or a classifier that exists."""
    place, given = inputs.victim(role), inputs.existing(role)
    if given is not None:
        return opened(inputs, place, given, task, context)
    from rbench.encoders.classifier import EncoderClassifier

    return inputs.network(place, "victim", lambda where: EncoderClassifier.load(Path(where), context.device)[0])


def victim_hash(inputs: Inputs, role: str = "victim") -> str:
    """Return the hash of a victim's weights for a record. Of a classifier that exists it is the planned fingerprint."""
    place = inputs.victim(role)
    return place.fingerprint if inputs.existing(role) is not None else weights_hash(Path(place.where))


def opened(
    inputs: Inputs, place: Located, given: VictimSpec, task: TaskSpec, context: Context, *, forgiving: bool = False
) -> Any:
    """Open the classifier that exists at a place. Raises JobError if it is no longer the planned one.

    `forgiving`: as `rbench.victims.asked.Asked` takes it.
    """
    if given.origin == "model":
        from rbench.victims.model import open_model

        return inputs.network(
            place,
            f"{given.model_dump_json()} {task.model_dump_json()}",
            lambda where: open_model(given, where, task, context.device),
        )
    from rbench.victims.asked import Asked
    from rbench.victims.opened import open_answers

    inputs.open(place)
    return Asked(open_answers(given, task), forgiving=forgiving)

"""Opens a function or an endpoint as something that answers texts."""

from __future__ import annotations

from rbench.spec import TaskSpec, VictimSpec
from rbench.victims.answers import Answers


def open_answers(spec: VictimSpec, task: TaskSpec) -> Answers:
    """Open a function or an endpoint. Raises ResourceError or JobError where it cannot be asked."""
    if spec.origin == "function":
        from rbench.victims.function import open_function

        return open_function(spec, task)
    from rbench.victims.endpoint import open_endpoint

    return open_endpoint(spec, task)

"""Opens a function or an endpoint as something that answers texts."""

from __future__ import annotations

from rbench.errors import SuiteError
from rbench.spec import TaskSpec, VictimSpec
from rbench.victims.answers import Answers


def open_answers(spec: VictimSpec, task: TaskSpec) -> Answers:
    """Return what asks the function or the endpoint of a victim. It is not asked yet.

    Raises:
        SuiteError: the body does not fit the task, or the task has no labels.
        ResourceError: the function cannot be imported, or an environment variable is not set.
    """
    if task.kind == "sts" or not task.labels:
        raise SuiteError(f"victim {spec.name} gives probabilities of labels, and the task {task.name} has none")
    if spec.origin == "function":
        from rbench.victims.function import open_function

        return open_function(spec, task)
    from rbench.victims.endpoint import open_endpoint

    return open_endpoint(spec, task)

"""Tasks with classes: of single texts, and of pairs of three kinds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rbench.schema.kinds.base import CLASSES, TaskFields, TaskKind


@dataclass(frozen=True, kw_only=True)
class ClassificationKind(TaskKind):
    """A task in which victims predict one of several classes, and an attack succeeds when the class is wrong."""

    def why_no_victims(self, task: TaskFields) -> str | None:
        if len(task.labels) > 1:
            return None
        which = f"one label, {task.labels[0]}" if task.labels else "no labels"
        return f"task {task.name} has {which} (its kind is {self.name}): there is nothing to classify"


SINGLE = ClassificationKind(
    name="single",
    family=CLASSES,
    tasks="tasks with classes",
    has="classes",
    has_classes=True,
    label_column="label",
    names_columns=("text",),
    own_fields={"parts": "`parts` are the sources of a task with classes"},
    default_strategy="clean",
    victim="classifier",
    quality="validation_accuracy",
    score="accuracy",
    attack_code=("attacked.classification",),
)
PAIR = replace(SINGLE, name="pair", texts=2, names_columns=())
NLI = replace(PAIR, name="nli", names_columns=("premise", "hypothesis"))
PARAPHRASE = replace(PAIR, name="paraphrase", ordered=False)

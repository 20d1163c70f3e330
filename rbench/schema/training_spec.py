"""How rbench trains an encoder: the part `train` of an encoder's file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rbench.schema.common import Count, Positive, Rate, Share, Strict

SelectSplit = Literal["validation", "test"]


class TrainSpec(Strict):
    """How rbench trains an encoder: an objective (a module in rbench/train/objectives) with its options."""

    OPTIONAL = frozenset({"gradient_accumulation", "precision", "select_split", "by_task"})

    objective: str
    options: dict[str, Any] = {}
    by_task: dict[str, dict[str, Any]] = {}
    """Settings for the training on the texts of a task, by the task's name: options of the objective and keys of
    `train`, which replace those above and below. A job holds the resulting settings and no `by_task`
    (`for_corpus`)."""
    data: str
    epochs: Annotated[float, Field(gt=0)] | None = None
    steps: Positive | None = None
    """Optimiser steps."""
    batch_size: Positive = 64
    gradient_accumulation: Positive = 1
    """Batches whose mean gradient makes one optimiser step; the last step of an epoch may have fewer. In-batch
    negatives of a sentence come from its own batch only."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """The network's arithmetic. bf16: mixed precision, with weights in fp32. auto: bf16 on a GPU that supports it, else
    fp32."""
    learning_rate: Rate = 3e-5
    warmup: Share = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_length: Positive = 32
    select_by: str | tuple[str, ...] | None = None
    """An STS task, or several. The step with the highest Spearman correlation (the mean over several tasks) is kept.
    None: the last step is kept."""
    select_split: SelectSplit | dict[str, SelectSplit] = "validation"
    """The split of the `select_by` tasks that is scored: one for all of them, or one for each by its name. The
    RobustSentEmbed paper selects by the average over the test pairs of its seven tasks, as its tables show it. Its
    public code scores test pairs of STS12 to STS16, and development pairs of the two others."""
    select_every: Positive = 125
    """Steps from one evaluation on the `select_by` tasks to the next; the last step is evaluated too. The SimCSE paper
    has 250 (Gao et al. 2021, appendix A), its scripts 125."""
    patience: Positive | None = None
    """Stop after this many evaluations in a row without a better score; None: train to the end."""
    seed: Count = 0

    @property
    def selection_tasks(self) -> tuple[str, ...]:
        """The tasks of `select_by`, as a tuple; empty if it is None."""
        if isinstance(self.select_by, str):
            return (self.select_by,)
        return self.select_by or ()

    def for_corpus(self, data: str) -> TrainSpec:
        """Return the training on the texts of `data`, a task or a corpus, with the settings of `by_task` for it."""
        task_settings = self.by_task.get(data, {})
        new_fields: dict[str, Any] = {}
        new_options: dict[str, Any] = {}
        for name, value in task_settings.items():
            (new_fields if name in TrainSpec.model_fields else new_options)[name] = value
        if "epochs" in new_fields:
            new_fields.setdefault("steps", None)  # `steps` of the file would win over the task's `epochs`
        options = {**self.options, **new_options}
        return TrainSpec.model_validate({**dict(self), **new_fields, "options": options, "data": data, "by_task": {}})

    def scored_split(self, task: str) -> SelectSplit:
        """Return the split of a task of `select_by` that is scored."""
        splits = self.select_split
        return splits.get(task, "validation") if isinstance(splits, dict) else splits

    @property
    def scored_splits(self) -> str:
        """The splits that are scored, in words: `test`, or `test and validation`."""
        return " and ".join(sorted({self.scored_split(task) for task in self.selection_tasks}))

    @model_validator(mode="after")
    def _check_select_split(self) -> TrainSpec:
        if isinstance(self.select_split, dict):
            unselected = sorted({*self.select_split} - {*self.selection_tasks})
            if unselected:
                raise ValueError(f"select_split names {', '.join(unselected)}, which select_by does not")
        return self

    @field_validator("options")
    @classmethod
    def _rename_resource_set(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Store `resources: {set: mini}` as `{profile: mini}`, the name that `set` had in older versions and has in
        keys (`ResourceChoice`)."""
        choice = options.get("resources")
        if not isinstance(choice, dict) or "set" not in choice or "profile" in choice:
            return options
        return {**options, "resources": {"profile" if key == "set" else key: value for key, value in choice.items()}}

    @field_validator("select_by")
    @classmethod
    def _check_select_by(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
            raise ValueError("select_by must be a task, or a list of different tasks")
        return value

    def without_effect(self) -> frozenset[str]:
        """The fields that change nothing beside the others, which keys leave out."""
        unused = () if self.select_by is not None else ("select_every", "patience", "select_split")
        return super().without_effect() | {*unused}

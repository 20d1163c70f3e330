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
    """By the task on whose texts it trains: options of the objective and keys of `train` in place of those here. Jobs
    hold the settings that this gives, not this."""
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
    """The split of the `select_by` tasks that is scored; by task, where they differ. The RobustSentEmbed paper selects
    on `test`, by the average that its tables show; its public code takes test pairs of STS12 to 16, and development
    pairs of the two other sets."""
    select_every: Positive = 125
    """Steps between two scores; the last step is scored too. The SimCSE paper has 250 (Gao et al. 2021, appendix A),
    its scripts 125."""
    patience: Positive | None = None
    """Stop after this many scores in a row without a better one; None: train to the end."""
    seed: Count = 0

    @property
    def selecting(self) -> tuple[str, ...]:
        """The tasks of `select_by`, as a tuple; empty if it is None."""
        return (self.select_by,) if isinstance(self.select_by, str) else self.select_by or ()

    def on(self, data: str) -> TrainSpec:
        """Return the training on the texts of `data`, a task or a corpus, with the settings of `by_task` for it."""
        own = self.by_task.get(data, {})
        fields = {name: value for name, value in own.items() if name in TrainSpec.model_fields}
        if "epochs" in fields:
            fields.setdefault("steps", None)
        options = {**self.options, **{name: value for name, value in own.items() if name not in fields}}
        return TrainSpec.model_validate({**dict(self), **fields, "options": options, "data": data, "by_task": {}})

    def scored_split(self, task: str) -> SelectSplit:
        """Return the split of a task of `select_by` that is scored."""
        splits = self.select_split
        return splits.get(task, "validation") if isinstance(splits, dict) else splits

    @property
    def scored_splits(self) -> str:
        """Name the splits that are scored: `test`, or `test and validation`."""
        return " and ".join(sorted({self.scored_split(task) for task in self.selecting}))

    @model_validator(mode="after")
    def _splits_of_tasks(self) -> TrainSpec:
        if isinstance(self.select_split, dict) and (strange := sorted({*self.select_split} - {*self.selecting})):
            raise ValueError(f"select_split names {', '.join(strange)}, which select_by does not")
        return self

    @field_validator("options")
    @classmethod
    def _stored_form_of_resources(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Name the resource set as keys do: `{profile: mini}` for `{set: mini}` (`ResourceChoice`)."""
        choice = options.get("resources")
        if not isinstance(choice, dict) or "set" not in choice or "profile" in choice:
            return options
        return {**options, "resources": {"profile" if key == "set" else key: value for key, value in choice.items()}}

    @field_validator("select_by")
    @classmethod
    def _names_tasks(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
            raise ValueError("select_by must be a task, or a list of different tasks")
        return value

    def without_effect(self) -> frozenset[str]:
        unused = () if self.select_by is not None else ("select_every", "patience", "select_split")
        return super().without_effect() | {*unused}

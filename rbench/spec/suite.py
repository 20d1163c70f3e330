"""A suite: what to run, as its YAML file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from rbench.spec.words import Count, EvaluationMetric, Metric, NumExamples, Pick, ResourceKind, Split, Strict


class Choice(Strict):
    """A name with options, written in YAML as `name` or as `{name: {option: value}}`."""

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_sugar(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping) and len(value) == 1 and "name" not in value:
            (name, options), *_ = value.items()
            return {"name": name, "options": options or {}}
        return value

    @property
    def label(self) -> str:
        """The name under which this choice stands in tables and folders: `bertattack`, `bertattack[max_words=10]`."""
        if not self.options:
            return self.name
        return self.name + "[" + ",".join(f"{k}={_written(v)}" for k, v in sorted(self.options.items())) + "]"


def _written(value: Any) -> str:
    """An option's value as one writes it in YAML, on one line and without blanks: `true`, `[a,b]`, `{k:v}`."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


class StrategyNeeds(Strict):
    """What a fine-tuning strategy asks for, by what its module and its options say."""

    resources: tuple[ResourceKind, ...] = ()
    attack: str | None = None
    """Label of the attack whose adversarial texts of the training split it trains on."""
    training: dict[str, Any] = {}
    """What its options say of training, over what the task and the suite say."""


def _label(value: Any) -> Any:
    """The label of plain data that is a name with options; anything else as it is, for pydantic to judge."""
    try:
        return Choice.model_validate(value).label if isinstance(value, Mapping) else value
    except ValidationError:
        return value


def _names(entries: Any) -> set[str]:
    """The names in plain data that is a list of names with options; what is neither is for pydantic to judge."""
    labels = (_label(entry) for entry in entries) if isinstance(entries, list | tuple) else ()
    return {label.partition("[")[0] for label in labels if isinstance(label, str)}


CLEAN = "clean"
"""The strategy of a suite that names none, and of the victims whose adversarial texts another trains on."""
CONTRAST: Literal["contrast"] = "contrast"
"""Under `evaluate` not a task, but the contrast sets of the suite's tasks."""


class EvaluationOptions(Strict):
    """What may be said of an entry under `evaluate`."""

    split: Split = "test"
    """The split that is scored."""


class Evaluation(EvaluationOptions):
    """One entry under `evaluate`, read: an STS task and what is scored of it."""

    task: str

    @property
    def label(self) -> str:
        """The name under which it stands in tables and folders: `stsb`, `stsb[split=validation]`."""
        said = self.model_dump(exclude={"task"}, exclude_defaults=True)
        return Choice(name=self.task, options=said).label


class ContrastOptions(Strict):
    """What may be said of `contrast` under `evaluate`."""

    set: str | None = None
    """A contrast set by name, evaluated on its task alone; None: of every task of the suite the set that it names."""


class ResourceChoice(Strict):
    """A resource profile by name, with single resources replaced by a folder on the model search path or a hub id."""

    profile: str
    word_vectors: str | None = None
    synonyms: str | None = None
    masked_lm: str | None = None
    sentence_encoder: str | None = None
    pos_tagger: str | None = None
    stopwords: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_sugar(cls, value: Any) -> Any:
        return {"profile": value} if isinstance(value, str) else value


class TableSpec(Strict):
    """A table that a suite prints when it is done."""

    metric: Metric = "asr"
    layout: Literal["paper", "by-task", "full"] = "paper"
    pick: Pick | None = None
    """Of contrast sets: of strategies that differ in their learning rate alone, show the best, chosen by this."""

    @model_validator(mode="after")
    def _picks_what_can_be_picked(self) -> TableSpec:
        if self.pick is not None and (self.metric != "contrast" or self.layout != "paper"):
            raise ValueError("`pick` is of tables of contrast sets in the layout paper")
        return self


class Suite(Strict):
    """What to run: the cells are encoders x finetune x tasks x attacks x seeds, and encoders x evaluate.

    A suite that only evaluates has no `tasks`.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    notes: tuple[str, ...] = ()
    encoders: Annotated[tuple[str, ...], Field(min_length=1)]
    """Registry names, or labels such as `simcse-mini[temperature=0.1]`, written `{simcse-mini: {temperature: 0.1}}`."""
    tasks: tuple[str, ...] = ()
    attacks: tuple[Choice, ...] = ()
    evaluate: tuple[Choice, ...] = ()
    """STS tasks on which the encoders are scored as they are, each with `EvaluationOptions`; `contrast`, with
    `ContrastOptions`, for contrast sets on which the victims are."""
    build: tuple[Choice, ...] = ()
    """What is made of each encoder on each task, to be looked at: modules of `rbench.build`, with their Options."""
    finetune: Annotated[tuple[Choice, ...], Field(min_length=1)] = (Choice(name=CLEAN),)
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)] = (0,)
    num_examples: NumExamples | dict[str, NumExamples] = 1000
    """How many test examples are attacked: a number, `all`, or a map by task (with `default` for the others)."""
    resources: ResourceChoice = ResourceChoice(profile="standard")
    training: dict[str, Any] = {}
    """Overrides of the tasks' Training, for all tasks or, one level down, by task name."""
    tables: tuple[TableSpec, ...] = ()
    """What is printed at the end; where the file says nothing, ASR of attacks, correlations of evaluations."""
    profiles: dict[str, dict[str, Any]] = {}
    """Named sets of overrides, chosen with --profile."""

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        value = dict(value)
        if value.get("claims") in ([], ()):  # plans that were stored when there was such a field
            del value["claims"]
        for key in ("encoders", "tasks", "attacks", "evaluate", "build", "finetune", "seeds", "tables", "notes"):
            if key in value and isinstance(value[key], str | int) and not isinstance(value[key], bool):
                value[key] = [value[key]]
        if isinstance(encoders := value.get("encoders"), list | tuple):
            value["encoders"] = [_label(encoder) for encoder in encoders]
        if "tables" not in value:
            asked = _names(value.get("evaluate"))
            shown = {"asr": value.get("attacks"), "sts": asked - {CONTRAST}, CONTRAST: asked & {CONTRAST}}
            shown |= {name: [name] for name in sorted(_names(value.get("build")) & {*get_args(EvaluationMetric)})}
            value["tables"] = [{"metric": metric} for metric, there in shown.items() if there]
        return value

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """The STS tasks under `evaluate`. Raises ValueError where options are wrong, which loading has ruled out."""
        scored = (choice for choice in self.evaluate if choice.name != CONTRAST)
        return tuple(Evaluation.model_validate({**choice.options, "task": choice.name}) for choice in scored)

    def examples_for(self, task: str) -> int | Literal["all"]:
        """How many examples of `task` are attacked."""
        if isinstance(self.num_examples, dict):
            return self.num_examples.get(task, self.num_examples.get("default", 1000))
        return self.num_examples

"""A suite, with the keys of its YAML file: what to run; and the sets of texts that its victims classify as they are.

An adversarial set holds test texts that one attack changed against one victim. A set lies in a data folder or in a
folder of its own, or an attack of the same RUN makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from rbench.schema.claims import Claim
from rbench.schema.common import (
    Aggregation,
    Bold,
    Checked,
    Count,
    MeasureOf,
    NumExamples,
    Pick,
    ResourceKind,
    Split,
    Stored,
    Strict,
)
from rbench.schema.entries import ContrastSpec, Training
from rbench.schema.kinds import KindName
from rbench.schema.victims import victim_name

ADVERSARIAL: Literal["adversarial"] = "adversarial"
"""Entry under `evaluate` that means adversarial sets, not an STS task."""
SHORT = {ADVERSARIAL: "set"}
"""The option that a text stands for in place of a choice's options: `{adversarial: DIR}` is `{adversarial: {set: DIR}}`
"""


BY_TASK = "by_task"
"""The option of a strategy that has further options by task."""
ENCODERS = "encoders"
"""What stands among a strategy's options and says which encoders it is for (`Strategy`)."""


class Choice(Strict):
    """A name with options, written in YAML as `name` or as `{name: {option: value}}`."""

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_sugar(cls, value: Any) -> Any:
        return _spell_out(value)

    @property
    def label(self) -> str:
        """The choice's name in tables and folders, for example `bertattack` or `bertattack[max_words=10]`."""
        if not self.options:
            return self.name
        return self.name + "[" + ",".join(f"{k}={_write_value(v)}" for k, v in sorted(self.options.items())) + "]"

    def on(self, task: str) -> Choice:
        """Return the choice with the options that its option `by_task` has for this task in place of the others."""
        if BY_TASK not in self.options:
            return self
        rest = {key: value for key, value in self.options.items() if key != BY_TASK}
        return Choice(name=self.name, options={**rest, **self.options[BY_TASK].get(task, {})})


class Strategy(Choice):
    """A fine-tuning strategy of a suite, for all of its encoders or for some: `{adversarial: {encoders: [minilm]}}`.

    `encoders` stands among the options and is none of them: it changes neither label nor key.
    """

    encoders: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The encoders that are fine-tuned with it, by the names that the suite's `encoders` has; None: all."""

    COSMETIC = frozenset({ENCODERS})
    # It decides which jobs there are, and not what any of them does.

    @model_validator(mode="before")
    @classmethod
    def _of_encoders(cls, value: Any) -> Any:
        value = _spell_out(value)
        options = value.get("options") if isinstance(value, Mapping) else None
        if not isinstance(options, Mapping) or ENCODERS not in options:
            return value
        named = options[ENCODERS]
        named = [cls.named(encoder) for encoder in (named if isinstance(named, list | tuple) else [named])]
        other_options = {key: option for key, option in options.items() if key != ENCODERS}
        return {**value, "options": other_options, ENCODERS: named}

    @property
    def choice(self) -> Choice:
        """The strategy as jobs have it, whomever it is for."""
        return Choice(name=self.name, options=self.options)

    @staticmethod
    def named(encoder: Any) -> Any:
        """Return the label of an encoder as a suite writes it, a name or a name with options."""
        return _label(encoder)

    def serves(self, encoder: str) -> bool:
        """Whether the suite fine-tunes this encoder with it."""
        return self.encoders is None or encoder in self.encoders


def _spell_out(value: Any) -> Any:
    """Return `{name: ..., options: ...}` for the short forms of a choice. Other values are returned as they are."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Choice):
        return dict(value)
    if isinstance(value, Mapping) and len(value) == 1 and "name" not in value:
        (name, options), *_ = value.items()
        if name in SHORT and isinstance(options, str):
            options = {SHORT[name]: options}
        return {"name": name, "options": options or {}}
    return value


def _write_value(value: Any) -> str:
    """Write an option's value as YAML on one line and without spaces: `true`, `[a,b]`, `{k:v}`."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{_write_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write_value, value)) + "]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


class StrategyNeeds(Strict):
    """What a fine-tuning strategy needs, according to its module and its options."""

    resources: tuple[ResourceKind, ...] = ()
    attack: str | None = None
    """Label of the attack whose adversarial texts (of the training split) the strategy trains on; None: no attack."""
    training: dict[str, Any] = {}
    """Values of `Training` set by the strategy's options; they override those of the task and the suite."""


class MeasureNeeds(Strict):
    """A measure under `evaluate` or `build`, and what its jobs read and store."""

    what: Choice
    """The measure, with all options, including the defaults that the suite does not mention."""
    of: MeasureOf = "attacks"
    """What a job of it reads, see `MeasureJob`."""
    stores: Stored = "rows"
    unscaled: bool = False
    """Whether the scale of a task's scores changes nothing, so that keys leave it out."""
    label: str = ""
    """Its name in jobs and tables; of a measure of encoders, without options that each task has of its own."""
    tasks: dict[str, Choice] = {}
    """Of a measure of encoders: the tasks that it reads, each with the measure and its options on this task alone."""
    splits: dict[str, tuple[str, ...]] = {}
    """By task, the splits without which the measure cannot be computed."""
    resources: tuple[ResourceKind, ...] = ()
    """Of a measure of encoders or attacks: the kinds of resources that it needs."""
    contrast: bool = False
    """Of a measure of victims or attacks: whether it reads the contrast set of its task."""
    files: tuple[str, ...] = ()
    """Kind and name of each file that its options name, such as `noise/typos`."""
    classes: bool = False
    """Of a measure of victims: whether it passes over tasks without classes."""
    implied: bool = False
    """Of a measure of victims: whether the suite does not name it, so that no function or endpoint is asked for it."""


def _label(value: Any) -> Any:
    """Return the label of a mapping that is a name with options. Other values are returned as they are, for pydantic
    to validate."""
    try:
        return Choice.model_validate(value).label if isinstance(value, Mapping) else value
    except ValidationError:
        return value


def _names(entries: Any) -> set[str]:
    """Return the names in a list of names with options. Other entries are ignored; pydantic reports them."""
    labels = (_label(entry) for entry in entries) if isinstance(entries, list | tuple) else ()
    return {label.partition("[")[0] for label in labels if isinstance(label, str)}


CLEAN = "clean"
"""The strategy of a suite that names none. It also makes the victims of the attacks whose adversarial texts other
strategies train on."""
COSINE = "cosine"
"""The strategy for STS tasks of a suite that names none. It fits on validation pairs and trains no weights."""
STS: Literal["sts"] = "sts"
"""The measure of an STS task under `evaluate`, and the metric of its table."""
TEST_ACCURACY: Literal["test_accuracy"] = "test_accuracy"
"""The measure of victims that every suite with attacks has, whether it names it under `evaluate` or not."""
CONTRAST: Literal["contrast"] = "contrast"
"""Entry under `evaluate` that means the contrast sets of the suite's tasks, not an STS task."""


class EvaluationOptions(Strict):
    """Options of an STS task under `evaluate`."""

    split: Split = "test"
    """The split that is scored."""


class Evaluation(EvaluationOptions):
    """An STS task under `evaluate`, with its options."""

    task: str

    @property
    def label(self) -> str:
        """The evaluation's name in tables and folders, for example `stsb` or `stsb[split=validation]`."""
        set_options = self.model_dump(exclude={"task"}, exclude_defaults=True)
        return Choice(name=self.task, options=set_options).label


class ContrastOptions(Strict):
    """Options of `contrast` under `evaluate`."""

    set: str | None = None
    """Name of one contrast set, which is evaluated on its task only. None: for each task of the suite, the contrast
    set that the task names."""


class AdversarialOptions(Checked):
    """Options of `adversarial` under `evaluate`: a set that was written before, or one that the same RUN makes."""

    set: str | None = None
    """The folder that `rbench attack --out` wrote, absolute or below the current folder."""
    victim: str | None = None
    """The encoder, by name or label, that is attacked on each task of the suite. It need not be one of the suite's. A
    file may name a folder or a hub id."""
    attack: Choice | None = None
    """The attack, with its options, that is run against the victim."""
    finetune: Choice | None = None
    """How the victim is fine-tuned; None: clean."""
    seed: Count | None = None
    """Seed of the victim, of the sample of test texts and of the attack; None: the first of the suite's seeds."""

    @model_validator(mode="before")
    @classmethod
    def _labelled(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "victim" in value:
            return {**value, "victim": _label(value["victim"])}
        return value

    def wrong(self) -> Iterator[str]:
        made = (self.victim, self.attack, self.finetune, self.seed)
        if self.set is not None and any(making_value is not None for making_value in made):
            yield "`set` names a set that is there; `victim`, `attack`, `finetune` and `seed` make one"
        if self.set is None and (self.victim is None or self.attack is None):
            yield "expected `set`, the folder of a set, or `victim` and `attack`, which make one"


class ResourceChoice(Strict):
    """A resource set, with single resources replaced. A replacement is a folder on the model search path or a hub
    id."""

    # Stored plans, and the keys of trainings, call it `profile`, as suites did before.
    model_config = ConfigDict(serialize_by_alias=True)

    set: Annotated[str, Field(serialization_alias="profile")]
    word_vectors: str | None = None
    synonyms: str | None = None
    masked_lm: str | None = None
    sentence_encoder: str | None = None
    pos_tagger: str | None = None
    stopwords: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_sugar(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"set": value}
        if isinstance(value, Mapping) and "profile" in value and "set" not in value:
            return {"set" if key == "profile" else key: inner for key, inner in value.items()}
        return value


SIDE_BY_SIDE = ("paper", "by-attack", "means")
"""The layouts of tables of attacks that show one metric, or several beside each other."""


class TableSpec(Checked):
    """A table that is printed at the end of a run, written in YAML as `metric` or as `{metric: ..., layout: ...}`.

    Keys of a suite's entry that are not listed here are options of the measure: `{metric: budget, bins: 4}`.
    """

    metric: str = "asr"
    """A metric, or the name of a measure."""
    layout: Literal["paper", "by-task", "by-attack", "means", "full"] = "paper"
    beside: tuple[str, ...] = ()
    """More metrics, whose columns stand beside those of the metric, in the layouts of `SIDE_BY_SIDE`."""
    pick: Pick | None = None
    """For tables of contrast sets: of strategies that differ only in their learning rate, show the best by this score.
    None: show all."""
    aggregation: Aggregation = "all"
    """For tables of STS: how the subsets of a set make one number."""
    bold: Bold | None = None
    """What is bold. None: the best and all that is not significantly worse, where anything is, in a table that has
    examples to test it on; in others the best."""
    options: dict[str, Any] = {}
    """Options of the measure."""

    @model_validator(mode="before")
    @classmethod
    def _options_stand_beside(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"metric": value}
        if not isinstance(value, Mapping) or "options" in value:
            return value
        table_keys = {key: value[key] for key in value if key in cls.model_fields}
        return {**table_keys, "options": {key: value[key] for key in value if key not in table_keys}}

    @property
    def label(self) -> str:
        """A name for the table: `asr`, `aua-full`, `budget[bins=4]`."""
        name = self.metric if self.layout == "paper" else f"{self.metric}-{self.layout}"
        name = "-".join((name, *self.beside))
        name += f"-picked-by-{self.pick}" if self.pick is not None else ""
        name += f"-{self.aggregation}" if self.aggregation != "all" else ""
        name += f"-bold-{self.bold}" if self.bold is not None else ""
        return Choice(name=name, options=self.options).label

    def wrong(self) -> Iterator[str]:
        if self.beside and self.layout not in SIDE_BY_SIDE:
            yield f"`beside` needs one of the layouts {', '.join(SIDE_BY_SIDE)}"
        if self.pick is not None and (self.metric != "contrast" or self.layout != "paper"):
            yield "`pick` needs `metric: contrast` and `layout: paper`"
        if self.aggregation != "all" and (self.metric != "sts" or self.layout != "paper"):
            yield f"`aggregation: {self.aggregation}` needs `metric: sts` and `layout: paper`"


class Suite(Strict):
    """What to run: attacks for encoders x finetune x tasks x attacks x seeds, evaluations for encoders x evaluate.

    A strategy may be for some of the encoders alone (`Strategy.encoders`).

    Classifiers that exist (`victims`) stand beside encoders x finetune.

    With `train_seeds`, an encoder that rbench trains stands here for one encoder a training seed.

    A suite that only evaluates on STS has no `tasks`.
    """

    FOUND: ClassVar[frozenset[str]] = frozenset({"measured"})
    """The fields that loading fills and a file does not set."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    notes: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    """Registry names, or labels such as `simcse-mini[temperature=0.1]`, written `{simcse-mini: {temperature: 0.1}}`. A
    file may have a folder or a hub id there; loading puts the encoder's label in its place. Empty only where there are
    `victims`."""
    victims: tuple[str, ...] = ()
    """Classifiers that exist, by name. A file may describe them in place; loading puts their names here."""
    tasks: tuple[str, ...] = ()
    attacks: tuple[Choice, ...] = ()
    evaluate: tuple[Choice, ...] = ()
    """STS tasks (with `EvaluationOptions`) that score the encoders without fine-tuning; `contrast` (with
    `ContrastOptions`) for contrast sets and `adversarial` (with `AdversarialTuningOptions`) for adversarial sets, which
    score the victims; and measures (with their Options)."""
    measured: tuple[str, ...] = ()
    """The names under `evaluate` that are measures. Loading finds them; a file does not list them (`FOUND`)."""
    build: tuple[Choice, ...] = ()
    """Measures of trainings (with their Options) that make examples for inspection, of each encoder and task."""
    finetune: Annotated[tuple[Strategy, ...], Field(min_length=1)] = (Strategy(name=CLEAN),)
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)] = (0,)
    """Seeds of fine-tuning, of the sample of test examples and of the attacks."""
    train_seeds: tuple[Count, ...] = ()
    """Seeds of training: each encoder that rbench trains is trained once with each of them, in place of its own
    `train.seed`. Every fine-tuning seed is run with every training seed. Empty: each encoder is trained once, with its
    own seed."""
    num_examples: NumExamples | dict[str, NumExamples] = 1000
    """Number of test examples to attack: a number, `all`, or a mapping by task (with `default` for the others)."""
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Of `rbench eval`: the time for which `num_examples` and `attacks` were chosen, so that the same command finds its
    choice again. It changes no key."""
    resources: ResourceChoice = ResourceChoice(set="standard")
    training: dict[str, Any] = {}
    """Overrides of the tasks' `Training`: for all tasks, or by task name one level down, with `default` for the
    tasks that are not named."""
    tables: tuple[TableSpec, ...] = ()
    """The tables printed at the end. The default is one for each measure: ASR of attacks, correlations of STS tasks,
    accuracies and consistency on contrast sets, and what `build` made."""
    figures: tuple[Choice, ...] = ()
    """The figures drawn at the end, beside the tables: modules of `rbench.report.figures`, with their Options. They
    change no key."""
    require: Literal["healthy"] | None = None
    """`healthy`: tables withhold each entry whose encoder, victim or attack has a flag, unless it is a control. None:
    they show it, and its flags in notes. It changes tables only, and no key."""
    claims: tuple[Claim, ...] = ()
    """What the suite expects of its results; `rbench claims` says what of it holds. They change no key."""
    profiles: dict[str, dict[str, Any]] = {}
    """Named sets of overrides; --profile selects one."""

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        value = dict(value)
        lists = "encoders victims tasks attacks evaluate build finetune seeds train_seeds tables figures notes"
        for key in lists.split():
            if key in value and isinstance(value[key], str | int) and not isinstance(value[key], bool):
                value[key] = [value[key]]
        if isinstance(encoders := value.get("encoders"), list | tuple):
            value["encoders"] = [_label(encoder) for encoder in encoders]
        if isinstance(victims := value.get("victims"), Mapping):
            value["victims"] = victims = [victims]
        if isinstance(victims, list | tuple):
            value["victims"] = [victim_name(victim) for victim in victims]
        if "tables" not in value:
            asked = _names(value.get("evaluate"))
            named = value.get("measured")
            named = named if isinstance(named, list | tuple) else ()  # pydantic refuses other values later
            measured = [name for name in named if isinstance(name, str) and name in asked]
            asked -= set(measured)
            shown: dict[str, Any] = {"asr": value.get("attacks"), "sts": asked - {CONTRAST, ADVERSARIAL}}
            shown |= {name: asked & {name} for name in (CONTRAST, ADVERSARIAL)} | {name: [name] for name in measured}
            shown |= {name: [name] for name in sorted(_names(value.get("build")) & {"positives"})}
            value["tables"] = [{"metric": metric} for metric, there in shown.items() if there]
        return value

    @property
    def lineup(self) -> tuple[str, ...]:
        """The encoders, then the classifiers that exist: all that a table of victims has rows of."""
        return (*self.encoders, *self.victims)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """The STS tasks under `evaluate`. Raises ValueError for wrong options, which loading a suite refuses before."""
        others = (CONTRAST, ADVERSARIAL, *self.measured)
        scored = (choice for choice in self.evaluate if choice.name not in others)
        return tuple(Evaluation.model_validate({**choice.options, "task": choice.name}) for choice in scored)

    def training_for(self, task: str) -> dict[str, Any]:
        """Return the overrides of one task's `Training`: those for all tasks, and over them its own."""
        general = {key: value for key, value in self.training.items() if key in Training.model_fields}
        return {**general, **self.training.get(task, self.training.get("default", {}))}

    def examples_for(self, task: str) -> int | Literal["all"]:
        """Return how many examples of `task` are attacked: a number, or `all`."""
        if isinstance(self.num_examples, dict):
            return self.num_examples.get(task, self.num_examples.get("default", 1000))
        return self.num_examples


class AdversarialSet(Strict):
    """Says which adversarial texts a set holds. It never holds the place of the set."""

    OPTIONAL = frozenset({"victim"})
    name: str
    encoder: str
    """Label of the encoder of the victim that was attacked."""
    finetune: str
    """Label of the victim's fine-tuning strategy."""
    attack: str
    """Label of the attack."""
    seed: Count
    """Seed of the victim, of the sample of test texts and of the attack."""
    victim: str | None = None
    """Key of the fine-tuning that made the victim. None: the set is made in the same RUN, and the job needs its attack.
    """


class SetFile(Strict):
    """The file `rbench.json` of a set that `rbench attack --out` wrote. The texts lie beside it, as parquet."""

    format: Literal[1] = 1
    task: str
    kind: KindName
    columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    """Names of the classes; empty for an STS task."""
    encoder: str
    finetune: str
    attack: str
    seed: Count
    victim: str
    """Key of the fine-tuning that made the victim."""
    job: str
    """Key of the attack."""
    only: Literal["all", "attacked", "successes"]
    """Which examples are rows: all, those that were attacked, or those with which the attack succeeded."""
    counts: dict[str, int]
    """How many rows there are (`rows`), and of all attacked examples how many have which status (`succeeded`, `failed`,
    `skipped`, `errored`) and how many there are (`total`)."""
    fingerprint: str
    """Content hash of the rows, 64 hex digits."""

    def named(self, name: str) -> AdversarialSet:
        """Return what a job's specification says of the set."""
        origin = {key: getattr(self, key) for key in ("encoder", "finetune", "attack", "seed", "victim")}
        return AdversarialSet(name=name, **origin)


class AskedSet(Strict):
    """A set that the victims of one task of a suite classify."""

    needs: MeasureNeeds
    """The measure that scores the victims on it."""
    set: ContrastSpec | AdversarialSet
    folder: Path | None = None
    """Where an adversarial set lies; None: an attack of the same RUN makes it."""
    strategy: Choice | None = None
    """How the victim is fine-tuned that the RUN attacks to make the set; None: clean."""
    fingerprint: str | None = None
    """Content hash of its rows; None: they are not read yet, or the RUN makes them."""

    @property
    def made(self) -> bool:
        """Whether an attack of the same RUN makes it."""
        return isinstance(self.set, AdversarialSet) and self.folder is None

    def with_rows(self, fingerprint: str) -> AskedSet:
        """Return the set with the content hash of its rows."""
        return self.model_copy(update={"fingerprint": fingerprint})

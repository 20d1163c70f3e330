"""The types that flow through rbench: suite, plan, jobs, records and outcomes.

All are frozen pydantic models that refuse unknown keys. Nothing here loads data or imports torch, so a suite can be
read, planned and tabulated in a fraction of a second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA_VERSION = 1

Stage = Literal["pretrain", "finetune", "attack", "evaluate", "build"]
TaskKind = Literal["single", "nli", "paraphrase", "sts", "unlabelled"]
Pooling = Literal["cls", "cls+mlp", "mean", "first-last-mean"]
Status = Literal["succeeded", "failed", "skipped", "errored"]
ResourceKind = Literal["word_vectors", "synonyms", "masked_lm", "sentence_encoder", "pos_tagger", "stopwords"]
Metric = Literal["asr", "queries", "aua", "clean", "perturbed", "oracle_asr"]
NumExamples = Annotated[int, Field(ge=1)] | Literal["all"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Strict(BaseModel):
    """A frozen record that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ------------------------------------------------------------------------------------------------ registry entries


class Named(Strict):
    """What every registry file may say about itself. These keys never enter a job's key: rewording is not a new run."""

    COSMETIC: ClassVar[frozenset[str]] = frozenset({"title", "reference", "licence", "notes"})

    name: str
    title: str = ""
    reference: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()


class Training(Strict):
    """How a classifier is fine-tuned. A task gives defaults, a suite overrides single values."""

    epochs: Annotated[int, Field(ge=1, le=1000)] = 3
    batch_size: Positive = 32
    learning_rate: Rate = 2e-5
    warmup: Share = 0.06
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    max_length: Annotated[int, Field(ge=8, le=4096)] = 128
    max_train: Positive | None = None
    """Use at most this many training rows (a seeded sample); None means all."""
    max_validation: Positive | None = 2000
    """Choose the best epoch on at most this many validation rows."""


class HubData(Strict):
    """Where a task lies on the Hugging Face Hub. `columns` maps rbench's column name to the hub's."""

    id: str
    revision: str
    config: str | None = None
    splits: dict[str, str]
    columns: dict[str, str]
    label_map: dict[str, int] | None = None
    """Hub label (as text) to rbench's label id; None where they are equal. Other labels are dropped and counted."""


class Unsplit(Strict):
    """The seeded rule by which a task published without splits is divided.

    Row numbers are permuted by numpy's PCG64 with `seed`. Rows listed in `test_rows` (a JSON list of zero-based row
    numbers beside the task's folder), where that file exists, are the test split and nothing else; otherwise the first
    `test` share of the permutation is. The next `validation` share of what is left is validation, the rest train.
    """

    source: str
    seed: Count = 0
    validation: Share = 0.1
    test: Share = 0.1
    test_rows: str | None = None


class LocalData(Strict):
    """How a local copy is laid out under a data folder: each split is a list of `<folder>/<file stem>` sources."""

    splits: dict[str, tuple[str, ...]] = {}
    unsplit: Unsplit | None = None
    columns: dict[str, str] = {}
    """rbench's column name to the file's, where they differ."""


class TaskSpec(Named):
    """A data set with a prediction target. `columns` are the text columns in the order in which they are encoded."""

    COSMETIC: ClassVar[frozenset[str]] = Named.COSMETIC | {"hub", "local", "training"}
    # Where the rows came from does not matter to a job: their content does, and its hash is part of the job.

    kind: TaskKind
    columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    metric: Literal["accuracy", "f1", "spearman"] = "accuracy"
    hub: HubData | None = None
    local: LocalData | None = None
    generator: str | None = None
    """Name of a generator in rbench.mini; such a task needs neither hub nor folder."""
    training: Training = Training()


class TrainSpec(Strict):
    """How an encoder of our own is trained: an objective (a module in rbench/train/objectives) with its options."""

    objective: str
    options: dict[str, Any] = {}
    data: str
    epochs: Annotated[float, Field(gt=0)] | None = None
    steps: Positive | None = None
    batch_size: Positive = 64
    learning_rate: Rate = 3e-5
    warmup: Share = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_length: Positive = 32
    select_by: str | None = None
    seed: Count = 0


class EncoderSpec(Named):
    """Something that turns text into a vector.

    `base` is the name of another encoder, of a folder on the model search path, or a hub id; an encoder made from
    nothing has an `architecture` (keys of a transformers BertConfig) instead.
    """

    base: str | None = None
    revision: str | None = None
    architecture: dict[str, int | float | str] | None = None
    layers: Positive | None = None
    """Keep only the first so many transformer layers."""
    pooling: Pooling = "cls"
    train: TrainSpec | None = None
    max_length: Positive | None = None
    trust_remote_code: bool = False

    @model_validator(mode="after")
    def _has_an_origin(self) -> EncoderSpec:
        if (self.base is None) == (self.architecture is None):
            raise ValueError("an encoder has either a `base` or an `architecture`")
        if self.architecture is not None and self.train is None:
            raise ValueError("an encoder with an `architecture` of its own needs `train`")
        return self


class AttackSpec(Named):
    """How to perturb: a TextAttack recipe by class name with parameters, or a module of our own with options."""

    COSMETIC: ClassVar[frozenset[str]] = Named.COSMETIC | {"queries_per_word"}

    recipe: str | None = None
    """Class name in textattack.attack_recipes; None for an attack that is a Python file."""
    needs: tuple[ResourceKind, ...] = ()
    protect: dict[TaskKind, tuple[str, ...]] = {"nli": ("premise",)}
    """Columns that the attack must leave alone, by kind of task."""
    max_words: Positive | None = None
    """At most so many words changed in one text; None leaves the recipe as published."""
    query_budget: Positive | None = None
    parameters: dict[str, Any] = {}
    """For a recipe `Component.attribute: value`; for a module the fields of its Options."""
    queries_per_word: Annotated[float, Field(gt=0)] = 5.0
    """Rule of thumb for the cost estimate of `rbench plan`: model queries per word of an attacked text."""
    source: str = ""
    """Content hash of the module, for an attack that is a Python file: editing it makes new jobs."""


class Source(Strict):
    """One resource behind an attack: a loader and what it loads (a folder on the model search path, a hub id)."""

    kind: str
    name: str | None = None
    revision: str | None = None


class ResourceProfile(Named):
    """Which word vectors, synonyms, masked LM, sentence encoder, POS tagger and stop words stand behind attacks."""

    word_vectors: Source | None = None
    synonyms: Source | None = None
    masked_lm: Source | None = None
    sentence_encoder: Source | None = None
    pos_tagger: Source | None = None
    stopwords: Source | None = None


# ---------------------------------------------------------------------------------------------------------- suites


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
        return self.name + "[" + ",".join(f"{k}={v}" for k, v in sorted(self.options.items())) + "]"


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
    layout: Literal["paper", "full"] = "paper"


class Suite(Strict):
    """What to run: the cells are encoders x finetune x tasks x attacks x seeds."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    notes: tuple[str, ...] = ()
    encoders: Annotated[tuple[str, ...], Field(min_length=1)]
    tasks: Annotated[tuple[str, ...], Field(min_length=1)]
    attacks: tuple[Choice, ...] = ()
    evaluate: tuple[Choice, ...] = ()
    finetune: Annotated[tuple[Choice, ...], Field(min_length=1)] = (Choice(name="clean"),)
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)] = (0,)
    num_examples: NumExamples | dict[str, NumExamples] = 1000
    """How many test examples are attacked: a number, `all`, or a map by task (with `default` for the others)."""
    resources: ResourceChoice = ResourceChoice(profile="standard")
    training: dict[str, Any] = {}
    """Overrides of the tasks' Training, for all tasks or, one level down, by task name."""
    tables: tuple[TableSpec, ...] = (TableSpec(),)
    claims: tuple[dict[str, Any], ...] = ()
    profiles: dict[str, dict[str, Any]] = {}
    """Named sets of overrides, chosen with --profile."""

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        value = dict(value)
        for key in ("encoders", "tasks", "attacks", "evaluate", "finetune", "seeds", "tables", "notes"):
            if key in value and isinstance(value[key], str | int) and not isinstance(value[key], bool):
                value[key] = [value[key]]
        return value

    def examples_for(self, task: str) -> int | Literal["all"]:
        """How many examples of `task` are attacked."""
        if isinstance(self.num_examples, dict):
            return self.num_examples.get(task, self.num_examples.get("default", 1000))
        return self.num_examples


# ------------------------------------------------------------------------------------------------------------ jobs


class PretrainJob(Strict):
    """Train an encoder of ours; its weights go to the cache."""

    stage: Literal["pretrain"] = "pretrain"
    encoder: EncoderSpec
    base_fingerprint: str | None = None
    """Content of the base's weights, where the base is not itself trained by a job."""
    data_fingerprint: str


class FinetuneJob(Strict):
    """Fine-tune an encoder with a linear head on a task: the result is a victim."""

    stage: Literal["finetune"] = "finetune"
    encoder: EncoderSpec
    encoder_fingerprint: str | None = None
    strategy: Choice
    task: TaskSpec
    data_fingerprint: str
    training: Training


class AttackJob(Strict):
    """Attack one victim with one attack on a seeded sample of the task's test split."""

    stage: Literal["attack"] = "attack"
    encoder: str
    strategy: Choice
    task: TaskSpec
    data_fingerprint: str
    attack: AttackSpec
    resources: ResourceProfile
    resource_fingerprints: dict[str, str]
    num_examples: Positive


class EvaluateJob(Strict):
    """Score an encoder or a victim without attacking it."""

    stage: Literal["evaluate"] = "evaluate"
    encoder: EncoderSpec
    encoder_fingerprint: str | None = None
    evaluation: Choice
    data_fingerprint: str


JobSpec = Annotated[PretrainJob | FinetuneJob | AttackJob | EvaluateJob, Field(discriminator="stage")]


class Job(Strict):
    """One unit of work. `parts` make it readable, `key` makes it unique: the hash of all that decides its outcome."""

    key: str
    parts: tuple[str, ...]
    spec: JobSpec
    needs: tuple[str, ...] = ()
    seed: Count = 0

    @property
    def stage(self) -> Stage:
        return self.spec.stage

    @property
    def name(self) -> str:
        """For people: `attack/minilm/mr/clean/pwws/seed0`."""
        return "/".join((self.stage, *self.parts, f"seed{self.seed}"))

    @property
    def folder(self) -> str:
        """Relative path of its record in the RUN: `attack/minilm/mr/clean/pwws/seed0-1f3a9c20`."""
        return f"{self.name}-{self.key[:8]}"

    @classmethod
    def make(
        cls,
        spec: PretrainJob | FinetuneJob | AttackJob | EvaluateJob,
        parts: tuple[str, ...],
        needs: tuple[str, ...],
        seed: int,
    ) -> Job:
        """Build a job with the key that its content gives it."""
        key = content_key({"schema": SCHEMA_VERSION, "spec": spec, "seed": seed, "needs": sorted(needs)})
        return cls(key=key, parts=parts, spec=spec, needs=needs, seed=seed)


class Plan(Strict):
    """All jobs of a suite in an order in which each comes after those that it needs."""

    suite: Suite
    jobs: tuple[Job, ...]

    def job(self, key: str) -> Job:
        """The job with this key; KeyError where there is none."""
        for job in self.jobs:
            if job.key == key:
                return job
        raise KeyError(key)


# --------------------------------------------------------------------------------------------------------- results


class Outcome(Strict):
    """What happened to one example under one attack. Texts are column values in the task's column order."""

    example_id: str
    status: Status
    original: tuple[str, ...]
    perturbed: tuple[str, ...] | None = None
    label: int
    original_prediction: int | None = None
    perturbed_prediction: int | None = None
    num_queries: Count = 0
    """Counted as TextAttack counts: before any cache, the first look included."""
    num_words: Count = 0
    num_words_changed: Count = 0
    perturbed_share: Share | None = None
    """TextAttack's perturbed-word share of this example in 0..1 (successes only)."""
    similarity: float | None = None
    """The semantic constraint's score of the final text, where the recipe has one."""
    oracle_label: int | None = None
    """True label of the perturbed text, where the task has an oracle (the embedded world)."""
    truncated: bool = False
    seconds: float = 0.0
    error: str | None = None


class Score(Strict):
    """A number with its n and its 95% interval."""

    name: str
    value: float | None
    n: Count
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    """Sample standard deviation of the values behind a mean, so that means can be pooled; None for a share."""


class Provenance(Strict):
    """Where a record comes from: enough to repeat it and to doubt it."""

    rbench: str
    commit: str | None = None
    dirty: bool | None = None
    packages: dict[str, str] = {}
    python: str = ""
    platform: str = ""
    device: str = ""
    precision: str = "fp32"
    dataset_fingerprint: str | None = None
    weights_hash: str | None = None
    resources: dict[str, str] = {}
    started: str = ""
    seconds: float = 0.0


class Record(Strict):
    """What a job left behind. `status` is complete or failed; a job under way has outcomes but no record."""

    schema_version: int = SCHEMA_VERSION
    job: Job
    status: Literal["complete", "failed"]
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = {}
    provenance: Provenance
    error: str | None = None


# -------------------------------------------------------------------------------------------------------- identity


def _plain(value: Any) -> Any:
    if isinstance(value, Named):
        return {k: _plain(v) for k, v in value if k not in value.COSMETIC}
    if isinstance(value, BaseModel):
        return {k: _plain(v) for k, v in value}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def content_key(value: Any) -> str:
    """Hash of a value's content: 64 hex digits, the same on every machine, blind to titles and key order."""
    text = json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()

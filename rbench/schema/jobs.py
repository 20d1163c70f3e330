"""Defines jobs, the content hash that is a job's key, and plans: all jobs of a suite, and which are its attacks."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from rbench.errors import SuiteError
from rbench.schema.common import SCHEMA_VERSION, Count, MeasureOf, Positive, Split, Stage, Stored, Strict
from rbench.schema.entries import (
    AttackSpec,
    ContrastSpec,
    EncoderSpec,
    ResourceSet,
    TaskSpec,
    Training,
)
from rbench.schema.kinds import KINDS
from rbench.schema.suite import AdversarialSet, AskedSet, Choice, MeasureNeeds, Strategy, StrategyNeeds, Suite
from rbench.schema.victims import VictimSpec

_OPTIONAL = frozenset({"resources", "resource_fingerprints", "source", "versions"})


class PretrainJob(Strict):
    """Train an encoder that has `train`. Its weights go to the cache."""

    OPTIONAL = frozenset({"selection_fingerprint", "model_fingerprints"}) | _OPTIONAL
    name_parts: ClassVar[Collection[int]] = (1, 2)
    """How many parts the names of such jobs have (`Job.parts`)."""
    stage: Literal["pretrain"] = "pretrain"
    encoder: EncoderSpec
    base_fingerprint: str | None = None
    """Content hash of the base's weights, where no job trains the base."""
    data_fingerprint: str
    selection_fingerprint: str | None = None
    """Content hash of the data that `encoder.train.select_by` names."""
    model_fingerprints: dict[str, str] = {}
    """Content hashes of the further models that the objective's options name, by option, where no job trains them."""
    resources: ResourceSet | None = None
    """For an objective that edits words: the resources of the resource set that it needs."""
    resource_fingerprints: dict[str, str] = {}
    source: str = ""
    """The sha256 of the objective's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""


class FinetuneJob(Strict):
    """Fine-tune an encoder with a linear head on a task. The result is a victim."""

    OPTIONAL = _OPTIONAL
    name_parts: ClassVar[Collection[int]] = (3,)
    stage: Literal["finetune"] = "finetune"
    encoder: EncoderSpec
    encoder_fingerprint: str | None = None
    strategy: Choice
    task: TaskSpec
    data_fingerprint: str
    training: Training
    resources: ResourceSet | None = None
    """For a strategy that edits words: the resources of the suite's resource set that it needs."""
    resource_fingerprints: dict[str, str] = {}
    source: str = ""
    """The sha256 of the strategy's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""


class VictimJob(Strict):
    """Open a classifier that exists, check it against a task and score it. It takes the place of a `FinetuneJob`."""

    OPTIONAL = frozenset({"versions"})
    name_parts: ClassVar[Collection[int]] = (3,)
    stage: Literal["open"] = "open"
    victim: VictimSpec
    victim_fingerprint: str
    """Content hash of the model's files; of a function or an endpoint, of its answers to a fixed probe."""
    task: TaskSpec
    data_fingerprint: str
    max_validation: Count | None = None
    """Maximum number of validation rows that are scored; None: all; 0: it is opened and not scored."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""


class AttackJob(Strict):
    """Attack one victim with one attack on a seeded sample of a split of the task."""

    OPTIONAL = frozenset({"versions", "split"})
    stage: Literal["attack"] = "attack"
    encoder: str
    strategy: Choice
    task: TaskSpec
    data_fingerprint: str
    attack: AttackSpec
    resources: ResourceSet
    resource_fingerprints: dict[str, str]
    num_examples: Positive
    split: Split = "test"
    """`train` where a strategy trains on the adversarial texts. The sample is then the one that it trains on."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    @field_validator("attack")
    @classmethod
    def _drop_goal(cls, attack: AttackSpec, others: ValidationInfo) -> AttackSpec:
        """Drop the goals on tasks of other kinds, on which the attack does not depend."""
        task = others.data.get("task")
        if task is None:
            return attack
        goals = {kind.goal for kind in KINDS.values() if kind.goal is not None} - {task.of_kind.goal}
        return attack.model_copy(update={goal: AttackSpec.model_fields[goal].get_default() for goal in goals})

    @property
    def name_parts(self) -> Collection[int]:
        """How many parts the names of such jobs have; a split that is not `test` stands at the end."""
        return (4,) if self.split == "test" else (5,)


def split_of(what: Choice) -> Split | None:
    """Return the split that a measure's option `split` names, which is then the only one that it reads; else None."""
    return next((split for split in get_args(Split) if split == what.options.get("split")), None)


class MeasureJob(Strict):
    """Compute what a measure's file says: scores, rows, predictions, or something to look at.

    `of` says what a job of it reads, so how many jobs there are:

    | of        | one job for each                          | it reads                                               |
    |-----------|-------------------------------------------|--------------------------------------------------------|
    | encoders  | encoder and task                          | the encoder as it is, without fine-tuning, and rows    |
    | victims   | victim, or victim and set of its task     | the victim, and the set or rows of the task            |
    | trainings | encoder that a job trains, task and seed  | the encoder, what its training needed, and rows        |
    | attacks   | task, attack and seed                     | all victims, and what the attack made of their texts   |
    | tasks     | task                                      | rows                                                   |
    """

    OPTIONAL = _OPTIONAL | {*("set", "attack", "encoders", "strategies", "existing", "encoder", "encoder_fingerprint")}
    stage: Literal["measure"] = "measure"
    what: Choice
    """The measure, with all of its options. One with the option `split` reads that split alone."""
    of: MeasureOf = "attacks"
    stores: Stored = "rows"
    """What lies beside the record."""
    task: TaskSpec
    data_fingerprint: str
    """Content hash of what is read: of the task's rows or of that split, or of the set. For a set that is made in the
    same RUN: that of the task's rows."""
    set: ContrastSpec | AdversarialSet | None = None
    """Of a measure of victims: the set that they classify; None for rows of the task. Of a measure of attacks: the
    contrast set that it reads beside the attacked texts."""
    attack: str | None = None
    """Of a measure of attacks: the attack's label; None for others."""
    encoders: tuple[str, ...] = ()
    """The encoders of the victims, in the suite's order; with `train_seeds`, those of one training seed. Of a measure
    of victims or trainings: the one of the job."""
    strategies: tuple[Choice, ...] = ()
    existing: tuple[str, ...] = ()
    """Classifiers that exist, whose victims come after those of the encoders."""
    encoder: EncoderSpec | None = None
    """Of a measure of encoders: the encoder; None for others."""
    encoder_fingerprint: str | None = None
    """Content hash of the encoder's weights, where no job makes them."""
    resources: ResourceSet | None = None
    """Of a measure of encoders or attacks: the resources of the suite's resource set that it needs; None for none."""
    resource_fingerprints: dict[str, str] = {}
    source: str = ""
    """The sha256 of the module's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    @property
    def name_parts(self) -> Collection[int]:
        """How many parts the names of such jobs have."""
        return {"encoders": (2, 3), "victims": (4,), "trainings": (3,), "attacks": (3, 4), "tasks": (2,)}[self.of]

    @property
    def split(self) -> Split | None:
        """The only split that is read; None for a set, or for all splits."""
        return split_of(self.what)

    @staticmethod
    def role(kind: Literal["victim", "attack"], encoder: str, strategy: str) -> str:
        """Return the role in `Job.needs` of a victim, or of the attack on it: `victim:minilm/clean`."""
        return f"{kind}:{encoder}/{strategy}"


AnyJob = PretrainJob | FinetuneJob | VictimJob | AttackJob | MeasureJob
JobSpec = Annotated[AnyJob, Field(discriminator="stage")]


class Job(Strict):
    """One unit of work. `parts` make a readable name. `key` is the hash of everything that decides the outcome."""

    key: str
    parts: tuple[str, ...]
    spec: JobSpec
    needs: dict[str, str] = {}
    """Keys of the jobs whose output this one reads, by role. One job may have several roles.

    | role             | what that job made                                  | which stages read it                |
    |------------------|-----------------------------------------------------|-------------------------------------|
    | `base`           | the encoder that training starts from               | pretrain, measure                   |
    | `options.OPTION` | a further model that this option of training names  | pretrain, measure                   |
    | `masked_lm`      | the masked LM of the resource set                   | pretrain, finetune, attack, measure |
    | `encoder`        | the encoder to fine-tune or to measure              | finetune, measure                   |
    | `attack`         | adversarial texts to train on or to classify        | finetune, measure                   |
    | `victim`         | the victim to attack or to measure                  | attack, measure                     |
    | `victim:E/S`     | the victim of encoder E and strategy S              | measure, of attacks                 |
    | `attack:E/S`     | what the attack made of that victim's texts         | measure, of attacks                 |

    A role is left out where no job makes it, because the weights lie in a folder or on the hub.
    """
    seed: Count = 0

    @property
    def stage(self) -> Stage:
        return self.spec.stage

    @property
    def entry(self) -> EncoderSpec | VictimSpec | None:
        """The encoder that the job trains, fine-tunes or measures as it is, or the classifier that it opens; None for
        others."""
        spec = self.spec
        if self.opening is not None:
            return self.opening.victim
        return None if isinstance(spec, VictimJob | AttackJob) else spec.encoder

    @property
    def name_parts(self) -> Collection[int]:
        """How many parts the names of jobs of this kind have."""
        return self.spec.name_parts

    @property
    def pretraining(self) -> PretrainJob | None:
        """The spec of a job that trains an encoder; None for others."""
        return self.spec if isinstance(self.spec, PretrainJob) else None

    @property
    def tuning(self) -> FinetuneJob | None:
        """The spec of a job that fine-tunes a victim; None for others."""
        return self.spec if isinstance(self.spec, FinetuneJob) else None

    @property
    def opening(self) -> VictimJob | None:
        """The spec of a job that opens a classifier that exists; None for others."""
        return self.spec if isinstance(self.spec, VictimJob) else None

    @property
    def attacking(self) -> AttackJob | None:
        """The spec of an attack; None for others."""
        return self.spec if isinstance(self.spec, AttackJob) else None

    @property
    def measuring(self) -> MeasureJob | None:
        """The spec of a job of a measure; None for others."""
        return self.spec if isinstance(self.spec, MeasureJob) else None

    @property
    def what(self) -> str | None:
        """The name of the measure; None for jobs of other kinds."""
        return self.measuring.what.name if self.measuring is not None else None

    @property
    def stores(self) -> Stored | None:
        """What lies beside the record; None for a training, or a classifier that was opened."""
        return "outcomes" if self.attacking is not None else self.measuring.stores if self.measuring else None

    @property
    def trains(self) -> bool:
        """Whether the job trains a network, whose weights go to the cache."""
        return isinstance(self.spec, PretrainJob | FinetuneJob)

    @property
    def has_health(self) -> bool:
        """Whether the job measures its own health: trainings, victims and attacks do."""
        return self.measuring is None

    @property
    def victim(self) -> FinetuneJob | VictimJob | None:
        """The spec of a job that makes or opens a victim; None for others."""
        return self.tuning or self.opening

    @property
    def untuned(self) -> bool:
        """Whether the job measures an encoder as it is, without fine-tuning."""
        return self.measuring is not None and self.measuring.of == "encoders"

    @property
    def name(self) -> str:
        """A readable name: `attack/minilm/mr/clean/pwws/seed0`."""
        return "/".join((self.stage, *self.parts, f"seed{self.seed}"))

    @property
    def folder(self) -> str:
        """The relative path of its record in the RUN: `attack/1f3a9c20d4b6e871`."""
        return f"{self.stage}/{self.key[:16]}"

    @classmethod
    def make(
        cls,
        spec: AnyJob,
        parts: tuple[str, ...],
        needs: Mapping[str, str],
        seed: int,
    ) -> Job:
        """Make a job, whose key is the hash of its content. The keys in `needs` enter it, each once. Roles do not."""
        needed = sorted(set(needs.values()))
        key = content_key({"schema": SCHEMA_VERSION, "spec": spec, "seed": seed, "needs": needed})
        return cls(key=key, parts=parts, spec=spec, needs=dict(needs), seed=seed)


class Draw(Strict):
    """One of the trainings of an encoder that a suite with `train_seeds` compares."""

    encoder: str
    """The suite's encoder, by name or label."""
    train_seed: Count | None = None
    """The seed of the training; None where the suite has no `train_seeds`, or rbench does not train the encoder."""


class Plan(Strict):
    """All jobs of a suite, in an order in which each job comes after those that it needs."""

    suite: Suite
    jobs: tuple[Job, ...]
    draws: dict[str, Draw] = {}
    """In a suite with `train_seeds`: which encoder and training seed each label in the jobs' names stands for. The
    label is `simcse-mini[seed=1]`, or `simcse-mini` where 1 is the encoder's own seed. Encoders that rbench does not
    train are not in it."""
    texts: bool = True
    """Whether the RUN keeps texts. In a RUN that was begun without texts, or stripped of them, no job writes any."""

    def draw(self, label: str) -> Draw:
        """Return the encoder and training seed that a label stands for."""
        return self.draws.get(label, Draw(encoder=label))

    @property
    def attacks(self) -> list[Job]:
        """The attacks on test texts that tables, claims and conditions are about.

        Where a suite asks for attacks, one that only makes an adversarial set of another victim, attack or seed is none
        of them.
        """
        every = [job for job in self.jobs if job.attacking is not None and job.attacking.split == "test"]
        if not self.suite.attacks:
            return every
        of_sets = {key for job in self.jobs if job.measuring and job.measuring.set for key in job.needs.values()}
        return [job for job in every if job.key not in of_sets or self._asks_for(job)]

    def _asks_for(self, attack: Job) -> bool:
        """Whether the suite's own lists name the encoder, task, strategy, attack and seed of an attack."""
        assert attack.attacking is not None
        (label, task, strategy, name), suite = attack.parts, self.suite
        draw = self.draw(label)
        tuned = {one.label for one in suite.finetune if one.serves(draw.encoder)}
        return (
            draw.encoder in suite.lineup
            and draw.train_seed in (None, *suite.train_seeds)
            and task in suite.tasks
            and (strategy in tuned or not attack.attacking.task.of_kind.has_classes)
            and name in {one.label for one in suite.attacks}
            and attack.seed in suite.seeds
        )

    def job(self, key: str) -> Job:
        """Return the job with this key. Raises KeyError where there is none."""
        for job in self.jobs:
            if job.key == key:
                return job
        raise KeyError(key)


@dataclass(frozen=True, kw_only=True)
class Specs:
    """The specs of all that a suite names. Loading finds them, and a plan is made of them."""

    encoders: Mapping[str, EncoderSpec]
    """The suite's encoders with their draws, their bases, and those that serve as a resource or in training."""
    tasks: Mapping[str, TaskSpec]
    """The suite's tasks, those of `evaluate`, training corpora, and the tasks to select training steps by."""
    attacks: Mapping[str, AttackSpec]
    """By label, `bertattack[max_words=10]`."""
    resources: ResourceSet
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names of the further models that an encoder's training needs (a generator), by encoder and option."""
    strategies: Mapping[str, StrategyNeeds] = field(default_factory=dict)
    """What fine-tuning strategies need, by label."""
    tuning: Mapping[str, tuple[Strategy, ...]] = field(default_factory=dict)
    """The strategies that make victims, by task. A task that is not in it has all strategies of the suite."""
    building: Mapping[str, MeasureNeeds] = field(default_factory=dict)
    """The measures under `build`, by label."""
    measures: Mapping[str, MeasureNeeds] = field(default_factory=dict)
    """The measures under `evaluate`, by label."""
    sets: Mapping[str, tuple[AskedSet, ...]] = field(default_factory=dict)
    """The sets that victims classify, by task: contrast sets, then adversarial sets."""
    victims: Mapping[str, VictimSpec] = field(default_factory=dict)
    """The classifiers that exist, by name, in the suite's order."""
    draws: Mapping[str, Draw] = field(default_factory=dict)
    """The encoder and training seed of each label, in a suite with `train_seeds`; see `Plan.draws`."""

    @property
    def named(self) -> dict[str, Any]:
        """These specs, by the names of the fields."""
        return {one.name: getattr(self, one.name) for one in fields(Specs)}


def keyed(value: Any) -> Any:
    """Return what of a value enters a key, as JSON: without titles, notes, and fields that have no effect."""
    if isinstance(value, Strict):
        left_out = value.COSMETIC | value.without_effect()
        return {k: keyed(v) for k, v in value if k not in left_out}
    if isinstance(value, BaseModel):
        return {k: keyed(v) for k, v in value}
    if isinstance(value, Mapping):
        return {str(k): keyed(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [keyed(v) for v in value]
    return value


def content_key(value: Any) -> str:
    """Hash a value's content into 64 hex digits. They are the same on every machine and ignore titles and key order.

    Raises SuiteError for a number that is infinite or NaN, which JSON does not have, and says where it is.
    """
    content = keyed(value)
    try:
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        wrong = [(place, number) for place, number in _numbers(content, ()) if not math.isfinite(number)]
        place, number = wrong[0]
        raise SuiteError(f"`{'.'.join(place)}` is {number}, which is no number that can be set") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(item, (*place, str(key)))

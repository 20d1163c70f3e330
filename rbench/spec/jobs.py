"""Defines jobs, and the content hash that is a job's key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from rbench.spec.adversarial import AdversarialSet
from rbench.spec.common import SCHEMA_VERSION, Count, MeasureOf, Positive, Split, Stage, Stored, Strict
from rbench.spec.entries import (
    AttackSpec,
    ContrastSpec,
    EncoderSpec,
    ResourceProfile,
    SimilarityGoalSpec,
    TaskSpec,
    Training,
)
from rbench.spec.keys import content_key
from rbench.spec.suite import Choice
from rbench.spec.victims import VictimSpec


class PretrainJob(Strict):
    """Train an encoder that has `train`. Its weights go to the cache."""

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
    resources: ResourceProfile | None = None
    """For an objective that edits words: the resources of the profile that it needs."""
    resource_fingerprints: dict[str, str] = {}
    source: str = ""
    """The sha256 of the objective's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    def without_effect(self) -> frozenset[str]:
        return _empty(
            self,
            "selection_fingerprint",
            "model_fingerprints",
            "resources",
            "resource_fingerprints",
            "source",
            "versions",
        )


class FinetuneJob(Strict):
    """Fine-tune an encoder with a linear head on a task. The result is a victim."""

    name_parts: ClassVar[Collection[int]] = (3,)
    stage: Literal["finetune"] = "finetune"
    encoder: EncoderSpec
    encoder_fingerprint: str | None = None
    strategy: Choice
    task: TaskSpec
    data_fingerprint: str
    training: Training
    resources: ResourceProfile | None = None
    """For a strategy that edits words: the resources of the suite's profile that it needs."""
    resource_fingerprints: dict[str, str] = {}
    source: str = ""
    """The sha256 of the strategy's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "resources", "resource_fingerprints", "source", "versions")


class VictimJob(Strict):
    """Open a classifier that exists, check it against a task and score it. It takes the place of a `FinetuneJob`."""

    name_parts: ClassVar[Collection[int]] = (3,)
    stage: Literal["open"] = "open"
    victim: VictimSpec
    victim_fingerprint: str
    """Content hash of the model's files; of a function or an endpoint, of its answers to a fixed probe."""
    task: TaskSpec
    data_fingerprint: str
    max_validation: Positive | None = None
    """Maximum number of validation rows that are scored; None: all."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "versions")


class AttackJob(Strict):
    """Attack one victim with one attack on a seeded sample of a split of the task."""

    stage: Literal["attack"] = "attack"
    encoder: str
    strategy: Choice
    task: TaskSpec
    data_fingerprint: str
    attack: AttackSpec
    resources: ResourceProfile
    resource_fingerprints: dict[str, str]
    num_examples: Positive
    split: Split = "test"
    """`train` where a strategy trains on the adversarial texts. The sample is then the one that it trains on."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    @field_validator("attack")
    @classmethod
    def _drop_goal(cls, attack: AttackSpec, others: ValidationInfo) -> AttackSpec:
        """Drop the goal on STS tasks from attacks on other tasks, which do not depend on it."""
        task = others.data.get("task")
        if task is None or task.kind == "sts":
            return attack
        return attack.model_copy(update={"similarity": SimilarityGoalSpec()})

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "versions") | (frozenset({"split"}) if self.split == "test" else frozenset())

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
    """Of a measure of victims: the set that they classify; None for rows of the task."""
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
    resources: ResourceProfile | None = None
    """Of a measure of encoders: the resources of the suite's profile that it needs; None for none."""
    resource_fingerprints: dict[str, str] = {}
    source: str = ""
    """The sha256 of the module's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    def without_effect(self) -> frozenset[str]:
        return _empty(self, *type(self).model_fields)

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
    | `masked_lm`      | the masked LM of the resource profile               | pretrain, finetune, attack, measure |
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
        """The relative path of its record in the RUN: `attack/minilm/mr/clean/pwws/seed0-1f3a9c20`."""
        return f"{self.name}-{self.key[:8]}"

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


def _empty(spec: Strict, *names: str) -> frozenset[str]:
    """Return the fields among `names` that are empty."""
    return frozenset(name for name in names if not getattr(spec, name))

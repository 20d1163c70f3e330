"""Defines jobs, and the content hash that is a job's key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Tag, ValidationInfo, field_validator

from rbench.spec.adversarial import AdversarialSet
from rbench.spec.common import SCHEMA_VERSION, Count, Positive, Split, Stage, Strict
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


def _without_scale(task: TaskSpec) -> TaskSpec:
    """Return the task without its scale, which neither a correlation nor a build depends on. So their keys stay the
    same whether the scale is known or not."""
    return task if task.scale is None else task.model_copy(update={"scale": None})


class PretrainJob(Strict):
    """Train an encoder that has `train`. Its weights go to the cache."""

    NAME_PARTS: ClassVar[Collection[int]] = (1, 2)
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

    NAME_PARTS: ClassVar[Collection[int]] = (3,)
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

    NAME_PARTS: ClassVar[Collection[int]] = (3,)
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

    NAME_PARTS: ClassVar[Collection[int]] = (4, 5)
    """Five on texts of another split than `test`, which the name then ends with."""
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


class EvaluateJob(Strict):
    """Score an encoder as it is on one split of an STS task. Nothing is trained or attacked."""

    NAME_PARTS: ClassVar[Collection[int]] = (2,)
    stage: Literal["evaluate"] = "evaluate"
    encoder: EncoderSpec
    encoder_fingerprint: str | None = None
    task: TaskSpec
    split: Split
    data_fingerprint: str
    """Content hash of that split only."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    _drop_scale = field_validator("task")(_without_scale)

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "versions")


class ContrastJob(Strict):
    """Classify a contrast set with one victim. Its stage is `evaluate` too."""

    NAME_PARTS: ClassVar[Collection[int]] = (4,)
    stage: Literal["evaluate"] = "evaluate"
    measure: Literal["contrast"] = "contrast"
    encoder: str
    strategy: Choice
    task: TaskSpec
    contrast: ContrastSpec
    data_fingerprint: str
    """Content hash of the contrast set."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "versions")


class AdversarialJob(Strict):
    """Classify the texts of an adversarial set, and their originals, with one victim. Its stage is `evaluate` too."""

    NAME_PARTS: ClassVar[Collection[int]] = (4,)
    stage: Literal["evaluate"] = "evaluate"
    measure: Literal["adversarial"] = "adversarial"
    encoder: str
    strategy: Choice
    task: TaskSpec
    set: AdversarialSet
    data_fingerprint: str
    """Content hash of the set's rows. Where the set is made in the same RUN: that of the task's rows."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "versions")


class MeasureJob(Strict):
    """Compute what a measure needs victims or rows for. Its stage is `evaluate` too.

    A measure of attacks has one job for each task, attack and seed, which reads all victims of the suite and what the
    attack made of each. A measure of tasks has one job for each task. A measure of encoders has one job for each
    encoder and task, which reads the encoder as it is, without fine-tuning.
    """

    NAME_PARTS: ClassVar[Collection[int]] = range(2, 100)
    stage: Literal["evaluate"] = "evaluate"
    measure: Literal["measured"] = "measured"
    what: Choice
    """The measure, with all of its options."""
    task: TaskSpec
    data_fingerprint: str
    """Content hash of the task's rows."""
    attack: str | None = None
    """The attack's label; None for a measure of tasks."""
    encoders: tuple[str, ...] = ()
    """The encoders of the victims, in the suite's order; with `train_seeds`, those of one training seed."""
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
        of_encoders = ("encoder", "encoder_fingerprint", "resources", "resource_fingerprints")
        return _empty(self, "existing", "source", "versions", *of_encoders)

    @staticmethod
    def role(kind: Literal["victim", "attack"], encoder: str, strategy: str) -> str:
        """Return the role in `Job.needs` of a victim, or of the attack on it: `victim:minilm/clean`."""
        return f"{kind}:{encoder}/{strategy}"


class BuildJob(Strict):
    """Build something from an encoder that a job trains, on texts of a task."""

    NAME_PARTS: ClassVar[Collection[int]] = (3,)
    stage: Literal["build"] = "build"
    encoder: str
    what: Choice
    """A module of `rbench.build`, with all of its options."""
    task: TaskSpec
    data_fingerprint: str
    """Content hash of the split that the options name."""
    source: str = ""
    """The sha256 of the module's source, where a user added it."""
    versions: dict[str, int] = {}
    """VERSIONs above 1 of the code of rbench behind it, by name."""

    _drop_scale = field_validator("task")(_without_scale)

    def without_effect(self) -> frozenset[str]:
        return _empty(self, "source", "versions")


def _kind(spec: Any) -> str:
    """Return the tag of a job's spec in `JobSpec`: its stage, followed by `measure` where it has one."""
    stage, measure = (
        (spec.get(k) if isinstance(spec, Mapping) else getattr(spec, k, None)) for k in ("stage", "measure")
    )
    return f"{stage} {measure}" if measure is not None else str(stage)


AnyJob = (
    PretrainJob
    | FinetuneJob
    | VictimJob
    | AttackJob
    | EvaluateJob
    | ContrastJob
    | AdversarialJob
    | MeasureJob
    | BuildJob
)
JobSpec = Annotated[
    Annotated[PretrainJob, Tag("pretrain")]
    | Annotated[FinetuneJob, Tag("finetune")]
    | Annotated[VictimJob, Tag("open")]
    | Annotated[AttackJob, Tag("attack")]
    | Annotated[EvaluateJob, Tag("evaluate")]
    | Annotated[ContrastJob, Tag("evaluate contrast")]
    | Annotated[AdversarialJob, Tag("evaluate adversarial")]
    | Annotated[MeasureJob, Tag("evaluate measured")]
    | Annotated[BuildJob, Tag("build")],
    Discriminator(_kind),
]


class Job(Strict):
    """One unit of work. `parts` make a readable name. `key` is the hash of everything that decides the outcome."""

    key: str
    parts: tuple[str, ...]
    spec: JobSpec
    needs: dict[str, str] = {}
    """Keys of the jobs whose output this one reads, by role. One job may have several roles.

    | role             | what that job made                                  | which stages read it                |
    |------------------|-----------------------------------------------------|-------------------------------------|
    | `base`           | the encoder that training starts from               | pretrain, build                     |
    | `options.OPTION` | a further model that this option of training names  | pretrain, build                     |
    | `masked_lm`      | the masked LM of the resource profile               | pretrain, finetune, attack, build   |
    | `encoder`        | the encoder to fine-tune, score or build from       | finetune, evaluate, build           |
    | `attack`         | adversarial texts to train on or to classify        | finetune, evaluate                  |
    | `victim`         | the victim to attack or to classify with            | attack, evaluate                    |
    | `victim:E/S`     | the victim of encoder E and strategy S              | evaluate with a measure             |
    | `attack:E/S`     | what the attack made of that victim's texts         | evaluate with a measure             |

    A role is left out where no job makes it, because the weights lie in a folder or on the hub.
    """
    seed: Count = 0

    @property
    def stage(self) -> Stage:
        return self.spec.stage

    @property
    def entry(self) -> EncoderSpec | VictimSpec | None:
        """The encoder that the job trains, fine-tunes, scores or measures, or the classifier that it opens; None for
        others."""
        spec = self.spec
        if isinstance(spec, VictimJob):
            return spec.victim
        return spec.encoder if isinstance(spec, PretrainJob | FinetuneJob | EvaluateJob | MeasureJob) else None

    @property
    def untuned(self) -> bool:
        """Whether the job scores or measures an encoder as it is, without fine-tuning."""
        return isinstance(self.spec, EvaluateJob | MeasureJob) and self.spec.encoder is not None

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

"""The types that flow through rbench: suite, plan, jobs, records and outcomes.

All are frozen pydantic models that refuse unknown keys. Nothing here loads data or imports torch, so a suite can be
read, planned and tabulated in a fraction of a second.
"""

from __future__ import annotations

from rbench.spec.adversarial import AdversarialSet, SetFile
from rbench.spec.bases import base_of, bases
from rbench.spec.claims import Axis, Claim, Subject
from rbench.spec.common import (
    IN_DOMAIN,
    RESOURCE_KINDS,
    SCHEMA_VERSION,
    TABLES,
    TEXT_FILES,
    Aggregation,
    Attention,
    Bold,
    Count,
    Dtype,
    EvaluationMetric,
    FontSize,
    MeasureOf,
    Notes,
    NumExamples,
    Pick,
    Pooling,
    Positive,
    Rate,
    ResourceKind,
    Serves,
    Share,
    SimilarityMetric,
    Split,
    Stage,
    Status,
    Stored,
    Strict,
    TaskKind,
    is_text_file,
)
from rbench.spec.entries import (
    AttackSpec,
    ContrastSpec,
    EncoderSpec,
    Named,
    ResourceProfile,
    SimilarityGoalSpec,
    Source,
    TaskSpec,
    Training,
    TrainSpec,
)
from rbench.spec.health import FLAGS, Flag, Health, Measured, Raised
from rbench.spec.jobs import (
    AttackJob,
    FinetuneJob,
    Job,
    JobSpec,
    MeasureJob,
    PretrainJob,
    VictimJob,
)
from rbench.spec.keys import content_key
from rbench.spec.meaning import Meaning
from rbench.spec.plans import Draw, Plan
from rbench.spec.results import (
    TIMED_OUT,
    Digest,
    MeasuredRow,
    Outcome,
    Prediction,
    Provenance,
    Record,
    Score,
    SkipReason,
    error_kind,
)
from rbench.spec.sources import PART_ACCURACY, PART_ROWS, HubData, HubSplit, LocalData, Part, Unsplit
from rbench.spec.steps import Change, Step
from rbench.spec.suite import (
    ADVERSARIAL,
    CLEAN,
    CONTRAST,
    COSINE,
    SHORT,
    STS,
    AdversarialOptions,
    Choice,
    ContrastOptions,
    Evaluation,
    EvaluationOptions,
    MeasureNeeds,
    ResourceChoice,
    StrategyNeeds,
    Suite,
    TableSpec,
)
from rbench.spec.variants import Variant, VariantName, Variants
from rbench.spec.victims import AS_IS, Endpoint, VictimSpec, victim_name

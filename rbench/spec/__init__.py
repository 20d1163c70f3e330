"""The types that flow through rbench: suite, plan, jobs, records and outcomes.

All are frozen pydantic models that refuse unknown keys. Nothing here loads data or imports torch, so a suite can be
read, planned and tabulated in a fraction of a second.
"""

from __future__ import annotations

from rbench.spec.entries import (
    AttackSpec,
    EncoderSpec,
    HubData,
    LocalData,
    Named,
    ResourceProfile,
    Source,
    TaskSpec,
    Training,
    TrainSpec,
    Unsplit,
)
from rbench.spec.jobs import AttackJob, EvaluateJob, FinetuneJob, Job, JobSpec, Plan, PretrainJob, content_key
from rbench.spec.results import Outcome, Provenance, Record, Score
from rbench.spec.suite import Choice, Evaluation, EvaluationOptions, ResourceChoice, Suite, TableSpec
from rbench.spec.words import (
    SCHEMA_VERSION,
    TEXT_FILES,
    AttackMetric,
    Count,
    EvaluationMetric,
    Metric,
    NumExamples,
    Pooling,
    Positive,
    Rate,
    ResourceKind,
    Share,
    Split,
    Stage,
    Status,
    Strict,
    TaskKind,
    is_text_file,
)

__all__ = [
    "SCHEMA_VERSION",
    "TEXT_FILES",
    "AttackJob",
    "AttackMetric",
    "AttackSpec",
    "Choice",
    "Count",
    "EncoderSpec",
    "EvaluateJob",
    "Evaluation",
    "EvaluationMetric",
    "EvaluationOptions",
    "FinetuneJob",
    "HubData",
    "Job",
    "JobSpec",
    "LocalData",
    "Metric",
    "Named",
    "NumExamples",
    "Outcome",
    "Plan",
    "Pooling",
    "Positive",
    "PretrainJob",
    "Provenance",
    "Rate",
    "Record",
    "ResourceChoice",
    "ResourceKind",
    "ResourceProfile",
    "Score",
    "Share",
    "Source",
    "Split",
    "Stage",
    "Status",
    "Strict",
    "Suite",
    "TableSpec",
    "TaskKind",
    "TaskSpec",
    "TrainSpec",
    "Training",
    "Unsplit",
    "content_key",
    "is_text_file",
]

"""The words that several types share: stages, kinds, metrics, numbers with their ranges, and the strict base model."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Stage = Literal["pretrain", "finetune", "attack", "evaluate", "build"]
TaskKind = Literal["single", "nli", "pair", "paraphrase", "sts", "unlabelled"]
Pooling = Literal["cls", "cls+mlp", "mean", "first-last-mean"]
Status = Literal["succeeded", "failed", "skipped", "errored"]
ResourceKind = Literal["word_vectors", "synonyms", "masked_lm", "sentence_encoder", "pos_tagger", "stopwords"]
RESOURCE_KINDS: tuple[ResourceKind, ...] = get_args(ResourceKind)
Split = Literal["train", "validation", "test"]
AttackMetric = Literal["asr", "queries", "aua", "clean", "perturbed", "oracle_asr", "seconds"]
EvaluationMetric = Literal["sts", "contrast", "positives"]
Metric = Literal[AttackMetric, EvaluationMetric]
Pick = Literal["validation", "contrast"]
NumExamples = Annotated[int, Field(ge=1)] | Literal["all"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


IN_DOMAIN = "in-domain"
"""In the place of a corpus: the training texts of the task that the encoder is going to be fine-tuned on."""
TEXT_FILES = (".txt", ".jsonl")


def is_text_file(name: str) -> bool:
    """Whether the name of a corpus is that of a file: `.txt`, one text a line, or `.jsonl`, with a column `text`."""
    return name.endswith(TEXT_FILES)


class Strict(BaseModel):
    """A frozen record that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def idle(self) -> frozenset[str]:
        """Fields that decide nothing as the others stand. They never enter a job's key, so a field that is added later
        leaves the jobs alone that make no use of it."""
        return frozenset()

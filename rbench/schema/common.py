"""Types that several modules share: names of stages, kinds and metrics, numbers with ranges, and the base model.

`Health` is what a training, a fine-tuning or an attack says about itself: whether it could teach or show anything.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Stage = Literal["pretrain", "finetune", "open", "attack", "measure"]
MeasureOf = Literal["encoders", "victims", "trainings", "attacks", "tasks"]
"""What a job of a measure reads (`rbench.schema.MeasureJob`)."""
Stored = Literal["outcomes", "predictions", "rows"]
"""The files that may lie beside a record."""
TaskKind = Literal["single", "nli", "pair", "paraphrase", "sts", "unlabelled"]
Pooling = Literal["cls", "cls+mlp", "mean", "first-last-mean", "last", "weighted-mean", "max", "sqrt-mean"]
"""How a text's vector is made of its tokens' (`rbench.encoders.sentence.pool`)."""
Dtype = Literal["float32", "bfloat16", "float16", "auto"]
"""The type of a network's weights; auto: as its folder has them."""
Attention = Literal["sdpa", "eager", "flash_attention_2"]
"""Transformers' implementations of attention."""
Status = Literal["succeeded", "failed", "skipped", "errored"]
ResourceKind = Literal["word_vectors", "synonyms", "masked_lm", "sentence_encoder", "pos_tagger", "stopwords"]
RESOURCE_KINDS: tuple[ResourceKind, ...] = get_args(ResourceKind)
Split = Literal["train", "validation", "test"]
"""Tables of rbench that are neither of a metric (`rbench.metrics`) nor of a measure (`rbench.measures`)."""
Serves = Literal["classification", "similarity"]
"""What a strategy or an attack is for: tasks with classes, or tasks with similarity scores (kind `sts`)."""
Pick = Literal["validation", "contrast"]
Aggregation = Literal["all", "mean", "wmean"]
"""How the subsets of an STS set make one number: all pairs correlated together, or the mean of the subsets'
correlations, plain or weighted by their pairs. The names are SentEval's."""
Bold = Literal["significant", "best", "none"]
"""What is bold: the best entries and all that are not significantly worse, where any is; the best alone; or nothing."""
Notes = Literal["none", "short", "full"]
"""How much stands below a table."""
FontSize = Literal["normalsize", "small", "footnotesize", "scriptsize", "tiny"]
"""Sizes of letters in LaTeX."""
NumExamples = Annotated[int, Field(ge=1)] | Literal["all"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


IN_DOMAIN = "in-domain"
"""Stands in place of a corpus and means the training texts of the task that the encoder will be fine-tuned on."""
TEXT_FILES = (".txt", ".jsonl")


def is_text_file(name: str) -> bool:
    """Return whether the name of a corpus is a file name: `.txt` (one text a line) or `.jsonl` (column `text`)."""
    return name.endswith(TEXT_FILES)


def is_number(text: str) -> bool:
    """Return whether a text can be read as a number: `2`, `-1`, `4.5`, also `nan`."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class Strict(BaseModel):
    """Base class of all models: frozen, and refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def without_effect(self) -> frozenset[str]:
        """Return the fields without effect, given the values of the others. They do not enter a job's key, so a new
        field does not change the keys of jobs that do not use it."""
        return frozenset()


Flag = Literal[
    "saturated",
    "no adversary",
    "head did not learn",
    "perturbation dead",
    "starved of candidates",
    "near chance",
    "labels exchanged",
]
FLAGS: tuple[Flag, ...] = get_args(Flag)


class Measured(Strict):
    """Values that were measured at one step of a training, by name."""

    step: Count
    values: dict[str, float]


class Raised(Strict):
    """A flag, and the numbers that raised it, in words."""

    flag: Flag
    because: str
    """One sentence part without a full stop: `loss 0.00001 at step 31 of 156, where chance is 4.16`."""


class Health(Strict):
    """The health of what a job made. docs/health.md derives the thresholds of the flags."""

    series: tuple[Measured, ...] = ()
    """A short series of measurements in the order of steps; empty for what takes no steps."""
    values: dict[str, float] = {}
    """What was measured once, at the end, by name."""
    flags: tuple[Raised, ...] = ()

"""Types that several modules share: names of stages, kinds and metrics, numbers with ranges, and the base model.

`ServerSettings` and `EmbeddingsEndpoint` say what is behind HTTP. `Health` is what a training, a fine-tuning or an
attack says about
itself: whether it could teach or show anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SCHEMA_VERSION = 1

Stage = Literal["pretrain", "finetune", "open", "attack", "measure"]
MeasureOf = Literal["encoders", "victims", "trainings", "attacks", "tasks"]
"""What a job of a measure reads (`rbench.schema.MeasureJob`)."""
Stored = Literal["outcomes", "predictions", "rows"]
"""The files that may lie beside a record."""
Pooling = Literal["cls", "cls+mlp", "mean", "first-last-mean", "last", "weighted-mean", "max", "sqrt-mean"]
"""How a text's vector is made of its tokens' (`rbench.encoders.sentence.pool_states`)."""
Dtype = Literal["float32", "bfloat16", "float16", "auto"]
"""The type of a network's weights; auto: as its folder has them."""
Attention = Literal["sdpa", "eager", "flash_attention_2"]
"""Transformers' implementations of attention."""
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]
"""How two vectors are compared, by the names of sentence-transformers. Distances are taken with a minus, so that more
is always more alike."""
Status = Literal["succeeded", "failed", "skipped", "errored"]
ResourceKind = Literal["word_vectors", "synonyms", "masked_lm", "sentence_encoder", "pos_tagger", "stopwords"]
RESOURCE_KINDS: tuple[ResourceKind, ...] = get_args(ResourceKind)
RESOURCE_NAMES: dict[ResourceKind, str] = {
    "word_vectors": "word vectors",
    "synonyms": "synonyms",
    "masked_lm": "masked LM",
    "sentence_encoder": "sentence encoder",
    "pos_tagger": "POS tagger",
    "stopwords": "stop words",
}
"""What tables and lists call them."""
Split = Literal["train", "validation", "test"]
"""Tables of rbench that are neither of a metric (`rbench.metrics`) nor of a measure (`rbench.measures`)."""
Pick = Literal["validation", "contrast"]
Aggregation = Literal["all", "mean", "wmean"]
"""How the subsets of an STS set make one number: all pairs correlated together, or the mean of the subsets'
correlations, plain or weighted by their pairs. The names are SentEval's."""
Bold = Literal["significant", "best", "none"]
"""What is bold: the best entries and all that are not significantly worse, where any is; the best alone; or nothing."""
Notes = Literal["none", "short", "full"]
"""How much stands below a table."""
IntervalStyle = Literal["brackets", "subscript", "pm", "spread"]
"""How a table shows how sure a number is: limits in brackets, or in small letters (LaTeX), ± the larger distance to a
limit, or in place of the interval ± the standard deviation between seeds."""
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

    COSMETIC: ClassVar[frozenset[str]] = frozenset()
    """The fields that never enter a job's key."""
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    """The fields that do not enter a job's key while they have their defaults."""

    def without_effect(self) -> frozenset[str]:
        """Return the fields without effect, given the values of the others. They do not enter a job's key, so a new
        field does not change the keys of jobs that do not use it."""
        fields = type(self).model_fields
        return frozenset(name for name in self.OPTIONAL if getattr(self, name) == fields[name].get_default())


class Checked(Strict):
    """Base class of models whose fields must fit together."""

    def wrong(self) -> Iterator[str]:
        """Yield what does not fit together, if anything. The first is the error."""
        yield from ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for message in self.wrong():
            raise ValueError(message)
        return self


OfSearches = Literal[
    "weak search",
    "budget hit",
    "few candidates",
    "no better than random",
    "gradient masking",
    "transfer beats direct",
    "not deterministic",
]
"""What a RUN shows of its attacks' searches (`tables.weak`)."""
Flag = Literal[
    "saturated",
    "no adversary",
    "head did not learn",
    "perturbation dead",
    "starved of candidates",
    OfSearches,
    "near chance",
    "labels exchanged",
]
FLAGS: tuple[Flag, ...] = get_args(Flag)


class MeasuredStep(Strict):
    """Values that were measured at one step of a training, by name."""

    step: Count
    values: dict[str, float]


class RaisedFlag(Strict):
    """A flag, and the numbers that raised it, in words."""

    flag: Flag
    because: str
    """One sentence part without a full stop: `loss 0.00001 at step 31 of 156, where chance is 4.16`."""


class Health(Strict):
    """The health of what a job made. docs/health.md derives the thresholds of the flags."""

    series: tuple[MeasuredStep, ...] = ()
    """A short series of measurements in the order of steps; empty for what takes no steps."""
    values: dict[str, float] = {}
    """What was measured once, at the end, by name."""
    flags: tuple[RaisedFlag, ...] = ()


@dataclass(frozen=True)
class Meaning:
    """Name and definition of a metric, and whether low or high values are good. For attacks, good means robust."""

    title: str
    definition: str
    best: Literal["lowest", "highest"] | None = None
    """None: a measure of which neither end is good."""
    percent: bool = True
    """Whether values are shown multiplied by 100."""
    digits: int = 1
    """Number of digits after the decimal point."""
    unit: str = "%"
    """Unit of values multiplied by 100."""
    stored: str = "Shares are fractions of 1."
    """Note for programs, which get values that are not multiplied by 100."""
    undefined: str = "no example in the denominator"
    """Reason why an entry may have no value."""
    good: str = "more robust"
    among: str = "of each attack and column"
    """Entries among which the best is bold."""
    short: str = ""
    """The title where there is little room, as in the header of a column. Empty: the title."""
    said: str = ""
    """What it is called within a sentence. Empty: the title, with a small first letter."""
    repeatable: bool = True
    """Whether the same run gives the same values again. Values that depend on the machine are left out of tables of all
    metrics and of reports, and are not tested for bold."""

    def __post_init__(self) -> None:
        if self.best not in ("lowest", "highest", None):
            raise ValueError(f"the best end of a number is lowest, highest or None, and not {self.best!r}")

    @property
    def arrow(self) -> str:
        return "↓" if self.best == "lowest" else "↑"

    @property
    def column(self) -> str:
        """The header of a column."""
        return self.short or self.title

    @property
    def words(self) -> str:
        """What it is called within a sentence."""
        return self.said or self.title[:1].lower() + self.title[1:]


VariantName = Literal["printed", "released"]


class Variant(Strict):
    """A named set of options. A suite or an encoder file may still set each of these options by itself."""

    source: str
    """Where the values come from: sections and equations of the paper, or the authors' public code."""
    options: dict[str, Any] = {}
    """Values that replace the defaults of the method's Options."""


class Variants(Strict):
    """Base class of the Options of a method that has variants.

    The defaults of the fields are those of the variant `printed`. `VARIANTS` has an entry for each name; options that
    are set beside `variant` replace the variant's own.
    """

    VARIANTS: ClassVar[Mapping[str, Variant]] = {}

    variant: VariantName = "printed"
    """`printed`: as the paper's text has it. `released`: as its authors' public code has it."""

    @property
    def variant_source(self) -> str | None:
        """Where the values of the variant come from; None where `VARIANTS` does not have it."""
        return self.VARIANTS[self.variant].source if self.variant in self.VARIANTS else None

    @model_validator(mode="before")
    @classmethod
    def _of_variant(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        name = value.get("variant", cls.model_fields["variant"].default)
        chosen = cls.VARIANTS.get(name) if isinstance(name, str) else None  # pydantic reports a name that is unknown
        return {**(chosen.options if chosen is not None else {}), **value}


class ServerSettings(Checked):
    """A server, and how it may be asked."""

    url: str
    """Where requests are posted. `${NAME}` stands for an environment variable."""
    headers: dict[str, str] = {}
    """Sent with each request. `${NAME}` stands for an environment variable, so that no secret is in a file."""
    concurrency: Positive = 1
    """Most requests under way at once."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that a request may take."""
    retries: Annotated[int, Field(ge=0)] = 3
    """How often a request is sent again that failed by the connection, by time, or with status 408, 425, 429 or 5xx."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Most requests a second; None: no limit."""

    COSMETIC = frozenset({"url", "headers", "concurrency", "timeout", "retries", "rate"})
    # Where something runs and how fast it may be asked does not decide what it answers.
    CREDENTIALS: ClassVar[str] = "`headers`"
    """Where a file says who asks, for messages."""

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://", "${")):
            raise ValueError("a URL starts with http:// or https://, or is that of an environment variable, ${NAME}")
        return url


class EmbeddingsEndpoint(ServerSettings):
    """An encoder behind an endpoint that answers as OpenAI's `/v1/embeddings` does: texts in, a vector for each out."""

    model: str
    """The name of the model, as it is sent."""
    dimensions: Positive | None = None
    """How many numbers a vector has, for models that can give fewer than all; None: nothing is said of it."""
    key: str | None = None
    """The name of the environment variable with the key, which is sent as `Authorization: Bearer`. None: no key."""
    batch_size: Positive = 64
    """Most texts of one request."""
    encoding: Literal["float", "base64"] = "float"
    """How vectors come: as numbers, or as the bytes of float32, which are a quarter as long."""
    version: str = ""
    """Any text. Another one has other keys: write one whenever the provider has put other weights behind the name."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.001
    """How far from 1 the cosine of two vectors of the same text may be, and the ratio of their lengths."""

    COSMETIC = frozenset({"headers", "key", "batch_size", "encoding", "tolerance"} | ServerSettings.COSMETIC - {"url"})
    # Of the same model another server may have other weights, so the URL stays in keys.
    OPTIONAL = frozenset({"dimensions", "version"})
    CREDENTIALS = "`key` and `headers`"

    def wrong(self) -> Iterator[str]:
        if self.key is not None and not re.fullmatch(r"[A-Za-z_]\w*", self.key, re.ASCII):
            yield "`key` is the name of an environment variable, such as OPENAI_API_KEY, and never the key itself"
        if any(name.lower() == "authorization" for name in self.headers) and self.key is not None:
            yield "`key` and the header Authorization say the same; leave one of them out"

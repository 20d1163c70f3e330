"""Registry entries: tasks, encoders, attacks and resource profiles, as their YAML files say them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from rbench.spec.words import Count, Pooling, Positive, Rate, ResourceKind, Share, Strict, TaskKind


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
    train_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Use this share of the training rows (a seeded sample, at least one row), and at most `max_train` of them."""
    max_validation: Positive | None = 2000
    """Choose the best epoch on at most this many validation rows."""
    group_by_length: bool = False
    """Batches of texts of like length, shuffled: on a CPU, padding is what short texts spend their time on."""

    def idle(self) -> frozenset[str]:
        unused = {"group_by_length": self.group_by_length, "train_share": self.train_share}
        return frozenset(name for name, value in unused.items() if not value)

    def train_rows(self, rows: int) -> int:
        """How many of a task's training rows are used."""
        wanted = rows if self.train_share is None else max(1, round(self.train_share * rows))
        return min(wanted, self.max_train or wanted)


class HubData(Strict):
    """Where a task lies on the Hugging Face Hub. `columns` maps rbench's column name to the hub's.

    A split is one of the data set's, or a file of the repository that ends in `.txt` (one text a line) or `.jsonl`.
    """

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
    file: str | None = None
    """The one file that is all of a corpus: a `.txt` (one text a line) or `.jsonl`, a path or below a data folder."""
    columns: dict[str, str] = {}
    """rbench's column name to the file's, where they differ."""


class TaskSpec(Named):
    """A data set with a prediction target. `columns` are the text columns in the order in which they are encoded."""

    COSMETIC: ClassVar[frozenset[str]] = Named.COSMETIC | {"hub", "local", "training", "contrast"}
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
    contrast: str | None = None
    """The contrast set of this task that `evaluate: [contrast]` means."""


class ContrastSpec(Named):
    """A contrast set (Gardner et al. 2020): test examples of a task, with small edits that mostly change the label.

    Its file has a row for each pair of an original and an edit. `original` and `perturbed` say, for each column of
    the task and for `label`, which of the file's columns that is, or a text with columns in braces
    (`{title} -- {passage}`). Rows of one original are one bundle.
    """

    COSMETIC: ClassVar[frozenset[str]] = Named.COSMETIC | {
        *("local", "source", "original", "perturbed", "id", "shares", "cluster")
    }
    # As of a task: what the columns hold is in the fingerprint of the data, wherever it came from.

    task: str
    source: str = ""
    """Where the rows were published, for those who have to get them."""
    local: str | None = None
    """`<folder>/<file stem>` below a data folder."""
    generator: str | None = None
    """Name of a generator in rbench.mini whose test rows are edited; such a set needs no file."""
    original: dict[str, str]
    perturbed: dict[str, str]
    id: str = "pair_id"
    """The file's column with a pair's name, no two alike; a row without one has its number for it."""
    cluster: str | None = None
    """The file's column whose value rows share that are not independent, such as the source of several originals."""
    shares: dict[str, tuple[str, ...]] = {}
    """Rows are not trained on whose column has one of these texts of the set; without it, rows that are in the set."""

    @model_validator(mode="after")
    def _has_an_origin(self) -> ContrastSpec:
        if (self.local is None) == (self.generator is None):
            raise ValueError("a contrast set has either a `local` file or a `generator`")
        return self


class TrainSpec(Strict):
    """How an encoder of our own is trained: an objective (a module in rbench/train/objectives) with its options."""

    objective: str
    options: dict[str, Any] = {}
    data: str
    epochs: Annotated[float, Field(gt=0)] | None = None
    steps: Positive | None = None
    """Optimiser steps."""
    batch_size: Positive = 64
    gradient_accumulation: Positive = 1
    """Batches whose mean gradient makes one step, fewer in the last step of an epoch. The negatives of a sentence are
    those of its own batch."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """What the network computes in. bf16 is mixed precision, with weights in fp32; auto is bf16 on a GPU that can."""
    learning_rate: Rate = 3e-5
    warmup: Share = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_length: Positive = 32
    select_by: str | tuple[str, ...] | None = None
    """An STS task, or several: the step is kept whose encoder has the best Spearman correlation, or mean of them. None
    keeps the last."""
    select_split: Literal["validation", "test"] = "validation"
    """Of each of these tasks. `test` is how the RobustSentEmbed paper selects: by the average that its tables show."""
    select_every: Positive = 125
    """Steps between two such scores; the last step is scored too. SimCSE has 250 (Gao et al. 2021, appendix A), its
    scripts 125."""
    patience: Positive | None = None
    """Stop after so many scores without a better one; None goes on to the end."""
    seed: Count = 0

    @property
    def selecting(self) -> tuple[str, ...]:
        """The tasks of `select_by`."""
        return (self.select_by,) if isinstance(self.select_by, str) else self.select_by or ()

    @field_validator("select_by")
    @classmethod
    def _names_tasks(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
            raise ValueError("select_by names a task, or a list of different ones")
        return value

    def idle(self) -> frozenset[str]:
        unused = set() if self.select_by is not None else {"select_every", "patience", "select_split"}
        defaults = {"gradient_accumulation": 1, "precision": "auto", "select_split": "validation"}
        return frozenset(unused | {name for name, value in defaults.items() if getattr(self, name) == value})


class EncoderSpec(Named):
    """Something that turns text into a vector.

    `base` is the name of another encoder, of a folder on the model search path, or a hub id; an encoder made from
    nothing has an `architecture` (keys of a transformers BertConfig) instead, one that averages static word vectors
    has `word_vectors`.
    """

    base: str | None = None
    revision: str | None = None
    architecture: dict[str, int | float | str] | None = None
    word_vectors: str | None = None
    """A file or folder on the model search path (GloVe or word2vec format, vectors.npy with words.txt), or `mini`."""
    layers: Positive | None = None
    """Keep only the first so many transformer layers."""
    pooling: Pooling = "cls"
    train: TrainSpec | None = None
    max_length: Positive | None = None
    trust_remote_code: bool = False

    @model_validator(mode="after")
    def _has_an_origin(self) -> EncoderSpec:
        if sum(origin is not None for origin in (self.base, self.architecture, self.word_vectors)) != 1:
            raise ValueError("an encoder has either a `base` or an `architecture` or `word_vectors`")
        if self.architecture is not None and self.train is None:
            raise ValueError("an encoder with an `architecture` of its own needs `train`")
        if self.word_vectors is not None and (self.pooling != "mean" or self.layers is not None):
            raise ValueError("an encoder of `word_vectors` is their mean: write `pooling: mean`, and no `layers`")
        if self.word_vectors is not None and self.train is not None:
            raise ValueError(
                "`word_vectors` are there already: to fit something on them, train an encoder whose `base` is this one"
            )
        return self

    def idle(self) -> frozenset[str]:
        return frozenset({"word_vectors"}) if self.word_vectors is None else frozenset()


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
    """Content hash of the module, for an attack that is a Python file of a user's: editing it makes new jobs."""


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

    def only(self, kinds: Collection[ResourceKind]) -> ResourceProfile:
        """The profile with these kinds alone: what the others are makes no difference to who does not ask for them."""
        return ResourceProfile(name=self.name, **{kind: getattr(self, kind) for kind in kinds})

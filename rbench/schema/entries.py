"""Registry entries, with the keys of their YAML files: tasks, contrast sets, encoders, attacks, resource sets.

It says too where a task's rows come from, and which encoder is the base of which.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from rbench.schema.common import (
    RESOURCE_KINDS,
    Attention,
    Checked,
    Count,
    Dtype,
    EmbeddingsEndpoint,
    Flag,
    Pooling,
    Positive,
    Rate,
    ResourceKind,
    Share,
    Similarity,
    Split,
    Strict,
    is_number,
)
from rbench.schema.kinds import KINDS, KindName, RankingData, RankingGoalSpec, SimilarityGoalSpec, TaskKind
from rbench.schema.space import Space
from rbench.schema.training_spec import TrainSpec

PART_ACCURACY, PART_ROWS = "accuracy of ", "rows of "
"""What the names of scores and counts of a task's parts begin with; the part's name follows."""
_TABLES = (".csv", ".tsv", ".json", ".parquet")


class HubSource(Strict):
    """A data set on the Hugging Face Hub.

    `columns` maps a column of rbench to a column of the data set. `title + content` are two, with a space between them.
    """

    id: str
    revision: str
    config: str | None = None
    columns: dict[str, str]
    label_map: dict[str, int] | None = None
    """Maps a hub label (as text) to rbench's label id; None: they are equal. Rows with other labels are dropped and
    counted."""


class HubSplit(HubSource):
    """One split of a task, from a data set of its own."""

    split: str
    """The split of that data set, or a file of its repository."""


class HubData(HubSource, Checked):
    """A task's data on the Hugging Face Hub.

    `splits` maps a split of rbench to a split of the data set, or to a file of the repository: `.txt` (one text a
    line) or `.jsonl`. `ARCHIVE.tar/PATH.txt` is a table in an archive: its values between tabs, its first line names.
    """

    splits: dict[str, str]
    elsewhere: dict[Split, HubSplit] = {}
    """The splits of rbench that another data set has, for example because this one hides the labels of its test
    split."""

    def wrong(self) -> Iterator[str]:
        if twice := [part for part in self.elsewhere if part in self.splits]:
            yield f"{', '.join(twice)} is under `splits` and under `elsewhere`; name it once"

    @property
    def sources(self) -> tuple[HubData, ...]:
        """The data sets that hold the splits, this one first. None of them names an `elsewhere`."""
        others = [
            HubData(splits={part: source.split}, **source.model_dump(exclude={"split"}))
            for part, source in self.elsewhere.items()
        ]
        return (self.model_copy(update={"elsewhere": {}}), *others)


class Origin(Strict):
    """The data set of the hub that rbench, or mteb, copied into the cache."""

    id: str
    revision: str
    config: str | None = None


class TaskPart(Checked):
    """One source of a task that is made of several, such as a round of ANLI. It may be absent."""

    name: str
    """What tables call it. Each of its examples has it in its id: `dev R1:17`."""
    split: Split
    """The split of the task that its rows belong to."""
    local: tuple[str, ...] = ()
    """Sources below a data folder, `<folder>/<file stem>`. All must be there."""
    hub: HubSplit | None = None
    generator: str | None = None
    """Name of a generator in rbench.mini, whose rows of `split` are the part's."""
    rows: tuple[Count, Positive] | None = None
    """The rows of the source that are the part's, from the first, counted from 0, up to the second; None: all."""

    def wrong(self) -> Iterator[str]:
        if (self.generator is None) == (not self.local and self.hub is None):
            yield "a part has either `local` and `hub`, or one of the two, or a `generator`"
        if ":" in self.name or not self.name.strip():
            yield f"a part's name is not empty and has no colon, unlike {self.name!r}"
        if self.rows is not None and self.rows[0] >= self.rows[1]:
            yield f"`rows` is [first, up to], not {list(self.rows)}"


class Unsplit(Strict):
    """The seeded rule that divides a task published without splits.

    Row numbers are permuted by numpy's PCG64 with `seed`. If the file `test_rows` exists (a JSON list of zero-based
    row numbers, beside the task's folder), the test split is the rows that it lists; otherwise it is the first `test`
    share of the permutation. Of the remaining rows, the first `validation` share is validation and the rest is train.
    `without_test` leaves the test rows out, for choices that must not see them: the validation rows are attacked in
    their place, and held-out rows of train (`train[holdout]` of other tasks) are validation.
    """

    source: str
    seed: Count = 0
    validation: Share = 0.1
    test: Share = 0.1
    test_rows: str | None = None
    without_test: bool = False


class LocalData(Checked):
    """The layout of a local copy under a data folder. Each split is a list of sources, `<folder>/<file stem>`."""

    splits: dict[str, tuple[str, ...]] = {}
    unsplit: Unsplit | None = None
    file: str | None = None
    """The single file of a corpus, `.txt` (one text a line) or `.jsonl`. For tasks of other kinds a table (`.csv`,
    `.tsv`, `.json`, `.jsonl`, `.parquet`), a folder with one for each split, or a folder of `datasets.save_to_disk`. A
    path, or a name below a data folder."""
    split: Literal["test", "quarters"] | None = None
    """`test`: all rows of the `file` are test rows. `quarters`: of a small file a quarter are test rows, a quarter of
    the others validation, since a tenth of few rows tells nothing. None: it is divided by the rule of `Unsplit`."""
    columns: dict[str, str] = {}
    """Maps a column of rbench to a column of the file, where the names differ."""

    def wrong(self) -> Iterator[str]:
        named = [name for names in self.splits.values() for name in names]
        named += [self.unsplit.source] if self.unsplit is not None else []
        for table in (name for name in named if name.lower().removesuffix(".gz").endswith(_TABLES)):
            yield (
                f"{table}: `splits` and `unsplit` name JSON Lines. Write `file: {table.rpartition('/')[0] or table}`, "
                "a folder with one table for each split, or `file` with a single table"
            )
        if self.file is not None and (self.splits or self.unsplit is not None):
            yield "`file` stands alone; leave `splits` and `unsplit` out"
        if self.split is not None and self.file is None:
            yield "`split` goes with `file`"


def _several(value: Any) -> Any:
    """Return a text as a list of one, and an empty text as none."""
    return [value] * bool(value) if isinstance(value, str) else value


class Named(Strict):
    """Keys that every registry file has. Those in COSMETIC do not enter a job's key: a new title makes no new job."""

    COSMETIC = frozenset({"title", "short", "reference", "licence", "notes", "control", "variant_source"})

    name: str
    title: str = ""
    short: str = ""
    """What stands for the entry in tables, where the title is longer than there is room for. Empty: the title."""
    reference: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    """Keys of rbench/references.bib, and free texts for works that it does not have. A single one needs no list."""
    licence: str = ""
    notes: tuple[str, ...] = ()
    control: bool = False
    """Whether this is a control, made to be compared with. Flags of its health are shown and never hide its cells."""


class Training(Strict):
    """How a classifier is fine-tuned. A task gives defaults; a suite overrides single values."""

    OPTIONAL = frozenset({"group_by_length", "train_share", "precision"})

    epochs: Annotated[int, Field(ge=1, le=1000)] = 3
    batch_size: Positive = 32
    learning_rate: Rate = 2e-5
    warmup: Share = 0.06
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    max_length: Annotated[int, Field(ge=8, le=4096)] = 128
    max_train: Positive | None = None
    """Maximum number of training rows (a seeded sample); None: all."""
    train_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the training rows to use, in 0..1 (a seeded sample of at least one row); `max_train` limits it too."""
    max_validation: Positive | None = 2000
    """Maximum number of validation rows that select the best epoch; None: all."""
    group_by_length: bool = False
    """Whether a batch holds texts of similar length. Batches are shuffled. On a CPU this saves the time of padding."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """The network's arithmetic in training. bf16: mixed precision, with weights in fp32. Victims answer in fp32."""

    def train_rows(self, rows: int) -> int:
        """Return how many of a task's `rows` training rows are used."""
        wanted = rows if self.train_share is None else max(1, round(self.train_share * rows))
        return min(wanted, self.max_train or wanted)


class TaskSpec(Named, Checked):
    """A data set with a prediction target. `columns` names the text columns, in the order in which they are encoded."""

    COSMETIC = Named.COSMETIC | {
        *("hub", "local", "origin", "sizes", "subsets", "training", "contrast", "parts", "ranking")
    }
    # A job's key holds the hash of the rows, so it does not need to hold where they came from or how many there are.
    # The ids of rows name the part that they came from.
    OPTIONAL = frozenset({"scale"})

    kind: KindName
    columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    metric: Literal["accuracy", "f1", "spearman"] = "accuracy"
    scale: tuple[float, float] | None = None
    """The lowest and the highest gold score of an STS task. Attacks need it. None: the task has no scores, or its scale
    is not known."""
    hub: HubData | None = None
    local: LocalData | None = None
    origin: Origin | None = None
    """What a suite named by `hf:` or `mteb:`, whose copy is `local` or `ranking`. Loading sets it."""
    generator: str | None = None
    """Name of a generator in rbench.mini. Such a task needs neither the hub nor a folder."""
    sizes: dict[Split, Positive] = {}
    """Published number of rows of each split as the hub's copy is divided here, before any row is left out. A split
    whose number is not known is left out. rbench says where rows that it reads are more or fewer."""
    subsets: dict[Split, dict[str, Positive]] = {}
    """The parts of which a split of an STS task was published, and the number of pairs of each. Rows name theirs in the
    column `subset`. A part that is missing is named under tables."""
    training: Training = Training()
    contrast: str | None = None
    """The contrast set of this task that `evaluate: [contrast]` means."""
    ranking: RankingData | None = None
    """Where the queries and documents of a task of the kind `ranking` are, if they are not generated."""
    parts: tuple[TaskPart, ...] = ()
    """The sources of a task that is made of several, in place of `hub`, `local` and `generator`. Victims are scored on
    each part of the test split by itself."""

    @property
    def of_kind(self) -> TaskKind:
        """The kind of the task, which knows what is particular to such tasks."""
        return KINDS[self.kind]

    @property
    def has_classes(self) -> bool:
        """Whether victims predict the classes that the task lists."""
        return self.of_kind.has_classes and bool(self.labels)

    @property
    def has_oracle(self) -> bool:
        """Whether an oracle tells the true class of any text of the task (only tasks of the embedded world)."""
        return self.generator is not None and self.of_kind.oracle

    @property
    def has_numbers_as_labels(self) -> bool:
        """Whether the name of a label is a number, so that a number in a row is a name and no id."""
        return any(map(is_number, self.labels))

    def wrong(self) -> Iterator[str]:
        if twice := sorted({label for label in self.labels if self.labels.count(label) > 1}):
            yield f"labels that stand more than once: {', '.join(twice)}"
        for name, meaning in _fields_of_others(self.of_kind).items():
            if getattr(self, name) != type(self).model_fields[name].get_default():
                yield f"{meaning}, and a task of the kind {self.kind} has none"
        if self.scale is not None and not (all(map(math.isfinite, self.scale)) and self.scale[0] < self.scale[1]):
            low, high = self.scale
            yield f"`scale` is [lowest, highest], two different numbers, not [{low:g}, {high:g}]"
        names = [part.name for part in self.parts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            yield f"parts that stand more than once: {', '.join(twice)}"
        if self.parts and (self.hub is not None or self.local is not None or self.generator is not None):
            yield "`parts` say where the rows are; leave `hub`, `local` and `generator` out"
        yield from self.of_kind.misfits(self)


def _fields_of_others(kind: TaskKind) -> dict[str, str]:
    """Return the fields of a task's file that kinds of other families have alone, and what they are."""
    fields = {name: meaning for one in KINDS.values() for name, meaning in one.own_fields.items()}
    return {name: meaning for name, meaning in fields.items() if name not in kind.own_fields}


class ContrastSpec(Named, Checked):
    """A contrast set (Gardner et al. 2020): test examples of a task, with small edits that mostly change the label.

    Its file has one row for each pair of an original and an edit. `original` and `perturbed` map each column of the
    task, and `label`, to a column of the file or to a text with columns in braces (`{title} -- {passage}`). Rows with
    the same original form one bundle.
    """

    COSMETIC = Named.COSMETIC | {*("local", "source", "original", "perturbed", "id", "shares", "cluster")}
    # A job's key holds the fingerprint of the rows, so it does not need to hold where they came from.

    task: str
    source: str = ""
    """Where the rows were published, for users who have to download them."""
    local: str | None = None
    """`<folder>/<file stem>` below a data folder."""
    generator: str | None = None
    """Name of a generator in rbench.mini whose test rows are edited. Such a set needs no file."""
    original: dict[str, str]
    perturbed: dict[str, str]
    id: str = "pair_id"
    """The file's column with the unique name of each pair. A row without a name is named by its number."""
    cluster: str | None = None
    """The file's column that names clusters: rows with the same value are not independent, for example because their
    originals have the same source."""
    shares: dict[str, tuple[str, ...]] = {}
    """Which training and validation rows to leave out because they overlap with the set. Maps a column of the task to
    columns (or texts with columns in braces) of the file: a row is left out if its text in the former is one of the
    latter. If empty, a row is left out if all its texts match a text of the set."""

    def wrong(self) -> Iterator[str]:
        if (self.local is None) == (self.generator is None):
            yield "a contrast set has either a `local` file or a `generator`"


class EncoderSpec(Named, Checked):
    """An encoder, which turns a text into a vector. It has exactly one of four origins.

    What the file of an encoder with a `base` does not set is taken, when a run is planned, from the own files of the
    model at the end of its bases (`rbench.plan.model_metadata`), unless a job trains it.

    `base` is the name of another encoder, the name of a folder on the model search path, or a hub id. `architecture`
    (keys of a transformers BertConfig) describes an encoder with random weights. With `train` it is trained from them.
    Without `train` it keeps them: a control, whose weights are drawn anew for each seed of a suite. `word_vectors`
    makes an encoder that averages static word vectors. `endpoint` is a server that gives vectors.
    """

    COSMETIC = Named.COSMETIC | {"unlisted", "flags", "parameters"}
    OPTIONAL = frozenset(
        {
            *("word_vectors", "endpoint", "tokenizer", "normalize", "truncate_dim"),
            *("prompt", "include_prompt", "lowercase", "similarity", "dtype", "attention"),
        }
    )

    base: str | None = None
    revision: str | None = None
    architecture: dict[str, int | float | str] | None = None
    tokenizer: str | None = None
    """Whose tokenizer an encoder reads with that keeps the random weights of its `architecture`: an encoder of the
    registry, a folder on the model search path, or a hub id (at `revision`). None: the embedded world's."""
    word_vectors: str | None = None
    """A file or folder on the model search path (GloVe, word2vec, vectors.npy with words.txt), or `mini`: our own."""
    endpoint: EmbeddingsEndpoint | None = None
    """Where vectors are asked for, as of OpenAI's `/v1/embeddings`. Such an encoder stays as it is: no training, no
    gradients, no layers."""
    layers: Positive | None = None
    """Number of transformer layers to keep, counted from the first; None: all."""
    pooling: Pooling = "cls"
    normalize: bool = False
    """Whether vectors have unit length, after pooling and all that follows it."""
    truncate_dim: Positive | None = None
    """Keep only the first numbers of a vector, after normalisation, as sentence-transformers does; None: all."""
    prompt: str | dict[KindName | Literal["document"], str] = ""
    """What the encoder reads before every text, such as "query: ". A mapping has a prompt for each kind of task, and
    none for the kinds that it leaves out. Attacks do not see it, so they never change it."""
    include_prompt: bool = True
    """Whether the tokens of the prompt are pooled."""
    lowercase: bool = False
    """Whether texts are lowercased before they are tokenised, though the tokenizer itself does not."""
    similarity: Similarity = "cosine"
    """How vectors are compared where texts are ranked or scored by their similarity."""
    dtype: Dtype = "float32"
    """The type of the weights; vectors are float32. Half precision is for evaluations, and probes on frozen vectors."""
    attention: Attention | None = None
    """The implementation of attention; None: the one that transformers takes."""
    train: TrainSpec | None = None
    max_length: Positive | None = None
    parameters: Positive | None = None
    """How many weights it has, as those who made it say; for lists and leaderboards."""
    trust_remote_code: bool = False
    head: Literal["drop"] | None = None
    """`drop`: the base is a fine-tuned classifier whose head is meant to be left out. None: such a base is refused."""
    variant_source: str | None = None
    """Where the values of its `variant` come from, for notes of tables. Loading sets it; None: it has no variant."""
    flags: dict[Flag, str] = {}
    """The flags of the training that made weights that are given, each with its reason; no record here has them."""
    unlisted: bool = False
    """Whether the encoder has no file: `base` stood in place of its name. Loading sets it. Then the name is a label
    made of `base`, the model lies at `base` alone, and planning takes what is not set from the model's own files."""

    def wrong(self) -> Iterator[str]:
        origins = (self.base, self.architecture, self.word_vectors, self.endpoint)
        if sum(origin is not None for origin in origins) != 1:
            yield "an encoder must have exactly one of `base`, `architecture`, `word_vectors` and `endpoint`"
        if self.endpoint is not None:
            fields = type(self).model_fields
            of_weights = ("pooling", "layers", "max_length", "train", "head", "revision", "include_prompt")
            if misplaced := [name for name in of_weights if getattr(self, name) != fields[name].default]:
                yield f"an encoder behind an `endpoint` has no weights here; leave out `{misplaced[0]}`"
        if self.tokenizer is not None and not self.random_weights:
            yield (
                "`tokenizer` goes with an `architecture` without `train`. Any other encoder reads with its base's "
                "tokenizer, or with the embedded world's"
            )
        if self.word_vectors is not None and (self.pooling != "mean" or self.layers is not None):
            yield "an encoder of `word_vectors` averages them: write `pooling: mean` and leave out `layers`"
        if self.word_vectors is not None and self.train is not None:
            fit = "to fit a transform on them, train an encoder whose `base` is this one"
            yield f"`word_vectors` are not trained; {fit}"
        if self.base is None and (self.dtype != "float32" or self.attention is not None):
            yield "`dtype` and `attention` say how a `base` is loaded; this encoder has none"
        if self.train is not None and self.dtype != "float32":
            yield f"an encoder is trained in float32: leave out `dtype: {self.dtype}`"

    def prompt_for(self, kind: KindName | Literal["document"] | None) -> str:
        """Return the prompt before texts of a kind of task; None: of no task. Empty: there is none.

        That of the kind `ranking` is the queries'; `document` gives that of the documents which are ranked.
        """
        if isinstance(self.prompt, str):
            return self.prompt
        return "" if kind is None else self.prompt.get(kind, "")

    @property
    def random_weights(self) -> bool:
        """Whether the encoder keeps the random weights of an `architecture`: no job trains it, and no folder has it."""
        return self.architecture is not None and self.train is None

    def without_effect(self) -> frozenset[str]:
        return super().without_effect() | ({"head"} if self.prompt else {"head", "include_prompt"})


class AttackSpec(Named):
    """An attack: a TextAttack recipe (a class name with parameters) or a Python file with options."""

    COSMETIC = Named.COSMETIC | {"queries_per_word"}
    OPTIONAL = frozenset({"similarity", "ranking", "limits", "put_back"})

    recipe: str | None = None
    """Class name in textattack.attack_recipes; None: the attack is a Python file."""
    limits: str | None = None
    """Class name of another recipe, whose constraints on changed texts are added where this one has none of that class.
    `parameters` set their values, too."""
    needs: tuple[ResourceKind, ...] = ()
    protect: dict[KindName, tuple[str, ...]] = {"nli": ("premise",)}
    """Columns that the attack must not change, by kind of task."""
    max_words: Positive | None = None
    """Maximum number of words changed in one text; None: the recipe as published."""
    query_budget: Positive | None = None
    put_back: bool = False
    """Whether changed words are put back after a success while it still succeeds (`rbench.recipes.putting_back`); these
    queries count. False: outcomes are TextAttack's."""
    parameters: dict[str, Any] = {}
    """For a recipe, `Component.parameter: value`; for a Python file, the fields of its Options."""
    queries_per_word: Annotated[float, Field(gt=0)] = 5.0
    """Rough number of model queries per word of an attacked text, for the cost estimate of `rbench plan`."""
    similarity: SimilarityGoalSpec = SimilarityGoalSpec()
    """The goal on STS tasks. It has no effect on other tasks."""
    ranking: RankingGoalSpec = RankingGoalSpec()
    """The goal on tasks of the kind ranking. It has no effect on other tasks."""
    source: str = ""
    """Content hash of the Python file, for a user's own attack. Editing the file makes new jobs."""
    variant_source: str | None = None
    """Where the values of its `variant` come from, for notes of tables. Loading sets it; None: it has no variant."""

    @property
    def space(self) -> Space | None:
        """The space that the attack is declared in; None: it is in none."""
        given = self.parameters.get("space")
        try:
            return None if given is None else Space.model_validate(given)
        except ValueError:  # a user's attack has another option of this name
            return None


class ResourceSource(Strict):
    """The source of one resource: `kind` names a loader, `name` what it loads (for example a folder or a hub id)."""

    kind: str
    name: str | None = None
    revision: str | None = None


class ResourceSet(Named):
    """The word vectors, synonyms, masked LM, sentence encoder, POS tagger and stop words that attacks use."""

    word_vectors: ResourceSource | None = None
    synonyms: ResourceSource | None = None
    masked_lm: ResourceSource | None = None
    sentence_encoder: ResourceSource | None = None
    pos_tagger: ResourceSource | None = None
    stopwords: ResourceSource | None = None

    @property
    def sources(self) -> dict[ResourceKind, ResourceSource]:
        """The source of each kind of resource that the set has."""
        by_kind = {kind: getattr(self, kind) for kind in RESOURCE_KINDS}
        return {kind: source for kind, source in by_kind.items() if source is not None}

    def only(self, kinds: Collection[ResourceKind]) -> ResourceSet:
        """Return the set with these kinds of resources only, so that a job's key holds nothing that it does not
        use."""
        return ResourceSet(name=self.name, **{kind: getattr(self, kind) for kind in kinds})


def base_encoder(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec | None:
    """Return the encoder that is the base of `spec`; None if the base is a folder or hub id, or if there is none.

    An encoder may have the name of the folder or hub id that it loads. Then its base is the folder or hub id.
    """
    return encoders.get(spec.base) if spec.base is not None and spec.base != spec.name else None


def iter_bases(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> Iterator[EncoderSpec]:
    """Yield the encoder itself, then its base, then the base of that, as long as they are in `encoders`; each once.

    If bases form a circle, the walk ends with the last encoder before the circle closes.
    """
    visited: set[str] = set()
    current: EncoderSpec | None = spec
    while current is not None and current.name not in visited:
        visited.add(current.name)
        yield current
        current = base_encoder(current, encoders)

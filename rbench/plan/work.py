"""What jobs cost, before anything runs: examples, model queries, and about how many seconds on this machine.

Seconds are the operations of the networks over what this machine does in a second, and a constant for each query and
each job that no network takes. The constants are rounded medians of the records in `results/reference`, with which
`benchmarks/cost_model.py` compares the estimates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.errors import RbenchError
from rbench.schema import (
    AttackJob,
    AttackSpec,
    FinetuneJob,
    Job,
    PretrainJob,
    ResourceKind,
    TaskSpec,
    VictimJob,
    iter_bases,
)

if TYPE_CHECKING:
    from rbench.plan.prepare import PreparedSuite
    from rbench.schema.training_spec import TrainSpec
    from rbench.tasks import TaskData

SAMPLE = 200
"""Examples of a task whose words are counted."""
TOKENS_PER_WORD = 1.35
"""Word pieces of an English word, about. Two more are the special tokens of a text."""
USUAL_WORDS, QUERY_GROWTH = 20, 0.8
"""An attack asks `queries_per_word` for each word of a text of 20. Queries grow with the words to the power 0.8."""
ATTACKED_SHARE = 0.8
"""Share of examples that victims classify correctly. The others cost one query."""
NETWORK_RESOURCES: tuple[ResourceKind, ...] = ("masked_lm", "sentence_encoder")
"""Resources of attacks that are networks."""
TEXTS_A_QUERY = 0.3
"""Texts that each of these reads for a query, whose other words are remembered or were not offered."""
SPEED_SHARE = 0.65
"""Share of the speed in products of matrices that networks reach."""
FILTERED_QUERY_SECONDS, PLAIN_QUERY_SECONDS, JOB_SECONDS = 1e-3, 1e-4, 5.0
"""Seconds outside of networks: of a query if a tagger or a sentence encoder filters words, of another, and of a job."""
MEASURE_SECONDS = 30.0
"""Seconds of a measure whose file does not say how many examples it reads."""
MOST_CORES = 8
"""Cores that a training makes use of, and the worker processes that share an attack by default, at most."""
STRATEGY_FACTORS = {"cosine": 0.06, "probe": 0.3, "clean": 2, "freelb": 4, "pregenerated": 4, "random_substitutions": 9}
STRATEGY_FACTORS |= {"adversarial": 20}
OTHER_STRATEGY_FACTOR = 4
"""How much longer a fine-tuning takes than reading its texts forwards and backwards at the speed of evaluations: it
holds the optimizer, and whatever else a strategy does in its steps, such as attacks."""
OBJECTIVE_FACTORS = {"simcse": 3, "cline": 6, "uscal": 6, "distillation": 7, "vadvcse": 7, "robustembed": 10}
OBJECTIVE_FACTORS |= {"robustsentembed": 12, "adcl": 14}
OTHER_OBJECTIVE_FACTOR = 7
"""The same for the objectives of encoders."""
STEPLESS_SECONDS = {"forget": 10.0, "retrofit": 80.0, "whitening": 10.0}
"""Seconds of objectives that take no steps."""
_SIZE_KEYS = {
    "layers": ("num_hidden_layers", "n_layers", "num_layers", "n_layer"),
    "hidden": ("hidden_size", "dim", "d_model", "n_embd"),
    "inner": ("intermediate_size", "hidden_dim", "d_ff", "n_inner"),
}
"""Keys of config.json, by the field of `NetworkSize`. The names differ between kinds of networks."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a job: examples to attack and, roughly, model queries. Evaluations count texts as examples."""

    examples: int
    queries: int = 0
    told: str = ""
    """Of a measure whose file says it: a sentence with a place for the number of examples."""


def estimate_cost(job: Job, prepared: PreparedSuite) -> Estimate | None:
    """Estimate a job's cost; None for jobs that are neither attacks nor evaluations."""
    if (examples := measured_examples(job, prepared)) is not None:
        return Estimate(examples, told=_measure_module(job, prepared).workload)
    if job.measuring is not None and job.untuned:
        return Estimate(sum(prepared.data[job.measuring.task.name].sizes.values()))
    if (spec := job.attacking) is None:
        return None
    words = mean_words(prepared.data[spec.task.name], "test", spec.attack.protect.get(spec.task.kind, ()))[0]
    return Estimate(spec.num_examples, round(spec.num_examples * expected_queries(spec.attack, words)))


def measured_examples(job: Job, prepared: PreparedSuite) -> int | None:
    """Return how many texts, pairs or rows the job of a measure reads; None where the measure's file does not say."""
    if job.what is None:
        return None
    examples: int | None = _measure_module(job, prepared).examples(prepared, job)
    return examples


def _measure_module(job: Job, prepared: PreparedSuite) -> Any:
    return prepared.loaded.modules["measures", job.what or ""].open()


def expected_queries(attack: AttackSpec, words: float) -> float:
    """Return about how often an attack asks the victim for a text in which so many words may change."""
    return float(attack.queries_per_word * USUAL_WORDS * (max(words, 1.0) / USUAL_WORDS) ** QUERY_GROWTH)


@dataclass(frozen=True)
class NetworkSize:
    """The size of a transformer."""

    layers: int
    hidden: int
    inner: int
    """Width of the feed-forward layers."""

    def reading(self, texts: float, words: float, longest: int = 512) -> float:
        """Return the billions of operations of reading so many texts of so many words, cut to `longest` tokens."""
        # A multiplication with an addition counts as two operations; the scores of attention, and the weighted sums of
        # n tokens, are two products of n x n x hidden.
        tokens, weights = min(words * TOKENS_PER_WORD + 2, longest), 4 * self.hidden**2 + 2 * self.hidden * self.inner
        return texts * self.layers * (2 * tokens * weights + 4 * tokens**2 * self.hidden) / 1e9


MINILM = NetworkSize(6, 384, 1536)
"""Stands for a network of unknown size."""


@dataclass(frozen=True)
class MachineSpeed:
    """The machine that works: billions of operations a second of one core in products of matrices, and its cores."""

    gflops: float
    cores: int
    workers: int
    """Processes that share the examples of an attack, a core each."""

    def reads(self, gflop: float) -> float:
        """Return the seconds of reading on all cores, from billions of operations."""
        return gflop / (SPEED_SHARE * self.gflops * min(self.cores, MOST_CORES))

    def attacks(self, spec: AttackJob, words: tuple[float, float], gflop: float) -> float:
        """Return the seconds of an attack.

        Args:
            words: those of an example that may change, and all.
            gflop: of a query, in billions of operations of the victim and of the networks that choose words.
        """
        filtered = {"pos_tagger", "sentence_encoder"}.intersection(spec.attack.needs)
        query = gflop / (SPEED_SHARE * self.gflops) + (FILTERED_QUERY_SECONDS if filtered else PLAIN_QUERY_SECONDS)
        queries_per_example = ATTACKED_SHARE * expected_queries(spec.attack, words[0]) + 1 - ATTACKED_SHARE
        return spec.num_examples * queries_per_example * query / min(self.workers, spec.num_examples)

    def finetuning_seconds(
        self, spec: FinetuneJob, rows: float, scored: float, words: float, network: NetworkSize
    ) -> float:
        """Return the seconds of a fine-tuning on so many rows, which scores so many others after each epoch."""
        texts = spec.training.epochs * (3 * rows + scored)  # a step backwards takes twice as long as one forwards
        clean, factor = STRATEGY_FACTORS["clean"], STRATEGY_FACTORS.get(spec.strategy.name, OTHER_STRATEGY_FACTOR)
        num_texts = spec.strategy.options.get("num_texts")  # a user's strategy may give this name to anything
        if isinstance(num_texts, int) and 0 < num_texts < rows:
            factor = clean + (factor - clean) * num_texts / rows
        return factor * self.reads(network.reading(texts, words, spec.training.max_length))

    def trains(self, training: TrainSpec, texts: float, words: float, network: NetworkSize) -> float:
        """Return the seconds of a training on so many texts, those of all steps together."""
        if training.objective in STEPLESS_SECONDS:
            return STEPLESS_SECONDS[training.objective]
        factor = OBJECTIVE_FACTORS.get(training.objective, OTHER_OBJECTIVE_FACTOR)
        return factor * self.reads(network.reading(3 * texts, words, training.max_length))


class DurationEstimator:
    """Estimates how long the jobs of a prepared suite take on a machine."""

    def __init__(self, prepared: PreparedSuite, machine: MachineSpeed) -> None:
        self._prepared, self._machine = prepared, machine
        self._words: dict[tuple[str, str], tuple[float, float]] = {}
        self._networks: dict[str, NetworkSize] = {}

    def seconds(self, job: Job) -> float:
        """Return about how many seconds a job takes where nothing else runs."""
        return JOB_SECONDS + self._work_seconds(job)

    def _work_seconds(self, job: Job) -> float:
        spec, machine = job.spec, self._machine
        if isinstance(spec, AttackJob):
            network, longest = self._victim(job)
            words = self._mean_words(spec.task, "test", spec.attack.protect.get(spec.task.kind, ()))
            return machine.attacks(
                spec, words, network.reading(1, words[1], longest) + self._own_networks_gflop(spec, words[1])
            )
        if isinstance(spec, FinetuneJob):
            sizes, training = self._prepared.data[spec.task.name].sizes, spec.training
            scored = min(training.max_validation or sizes.get("validation", 0), sizes.get("validation", 0))
            words = self._mean_words(spec.task, "train")
            return machine.finetuning_seconds(
                spec, training.train_rows(sizes.get("train", 0)), scored, words[1], self.network(job)
            )
        if isinstance(spec, PretrainJob):
            if (train := spec.encoder.train) is None:  # a plan has no such job
                return 0.0
            texts = (train.steps or 0) * train.batch_size * train.gradient_accumulation
            if not texts and (corpus := self._prepared.data.get(train.data)) is not None:
                texts = round((train.epochs or 1) * corpus.sizes.get("train", 0))
            return machine.trains(train, texts, train.max_length / 2, self.network(job))
        if isinstance(spec, VictimJob):
            texts = sum(self._prepared.data[spec.task.name].sizes.get(split, 0) for split in ("validation", "test"))
            return machine.reads(self.network(job).reading(texts, self._mean_words(spec.task, "test")[1]))
        if (examples := measured_examples(job, self._prepared)) is None:
            return MEASURE_SECONDS
        num_columns = len(spec.task.columns) if job.untuned else 1  # an encoder reads each column as a text
        network = self.network(job) if job.untuned else self._victim(job)[0]
        return machine.reads(
            network.reading(num_columns * examples, self._mean_words(spec.task, spec.split or "test")[1] / num_columns)
        )

    def network(self, job: Job) -> NetworkSize:
        """Return the size of the network that a job makes, opens or evaluates; MiniLM's where nothing says it."""
        places = self._prepared.places
        if (opened := job.opening) is not None:
            return self._size_at(places.victims.get((opened.victim.name, opened.task.name))) or MINILM
        label = job.parts[0]
        if label not in self._networks:
            self._networks[label] = self._encoder_size(label) or MINILM
        return self._networks[label]

    def _victim(self, job: Job) -> tuple[NetworkSize, int]:
        """Return the network of a job's victim, and the tokens that it reads."""
        victim_job = self._prepared.plan.job(job.needs["victim"])
        return self.network(victim_job), victim_job.tuning.training.max_length if victim_job.tuning is not None else 512

    def _own_networks_gflop(self, spec: AttackJob, words: float) -> float:
        """Return the billions of operations of an attack's own networks for a query; the embedded world's are none."""
        places = self._prepared.places.resources
        own_places = [places[kind] for kind in NETWORK_RESOURCES if kind in spec.attack.needs and kind in places]
        sizes = [self._size_at(place) or MINILM for place in own_places if _is_model(place.where)]
        return TEXTS_A_QUERY * sum(network.reading(1, words) for network in sizes)

    def _encoder_size(self, label: str) -> NetworkSize | None:
        encoders = self._prepared.loaded.encoders
        specs = list(iter_bases(encoders[label], encoders)) if label in encoders else []
        layers = min((spec.layers for spec in specs if spec.layers is not None), default=None)
        for spec in specs:
            if spec.architecture is not None:
                return _read_size(dict(spec.architecture), layers)
        located = (self._size_at(self._prepared.places.weights.get(spec.name), layers) for spec in specs)
        return next((network for network in located if network is not None), None)

    def _size_at(self, place: Any, layers: int | None = None) -> NetworkSize | None:
        from rbench.encoders.locate import find_transformer_folder
        from rbench.victims.config import read_config

        if place is None or not _is_model(place.where):
            return None
        with suppress(RbenchError, OSError):
            folder = Path(place.where)
            where = str(find_transformer_folder(folder)) if folder.is_dir() else place.where
            return _read_size(read_config(where), layers)
        return None

    def _mean_words(self, task: TaskSpec, split: str, protected: Collection[str] = ()) -> tuple[float, float]:
        key = task.name, ",".join((split, *sorted(protected)))
        if key not in self._words:
            self._words[key] = mean_words(self._prepared.data[task.name], split, protected)
        return self._words[key]


def mean_words(data: TaskData, split: str, protected: Collection[str] = ()) -> tuple[float, float]:
    """Return the mean words of an example of a split, or of another where it is empty: those in columns that are not
    protected, and all."""
    present_split = next((name for name in (split, "test", "train", "validation") if data.sizes.get(name)), None)
    examples = data.split(present_split)[:SAMPLE] if present_split else []
    counts = [sum(len(example.texts[i].split()) for example in examples) for i in range(len(data.spec.columns))]
    changeable = sum(n for column, n in zip(data.spec.columns, counts, strict=True) if column not in protected)
    return changeable / max(1, len(examples)), sum(counts) / max(1, len(examples))


def _read_size(config: Mapping[str, Any], layers: int | None = None) -> NetworkSize | None:
    """Read the size of a network off its configuration; None if it does not state one."""
    sizes = {
        field: next((config[key] for key in keys if isinstance(config.get(key), int)), None)
        for field, keys in _SIZE_KEYS.items()
    }
    hidden, count = sizes["hidden"], sizes["layers"]
    if hidden is None or count is None:
        return None
    count = count if layers is None else min(count, layers)
    return NetworkSize(count, hidden, sizes["inner"] or 4 * hidden)


def _is_model(where: str) -> bool:
    """Whether a place is a folder or a snapshot on the hub, and not a description in words."""
    return Path(where).exists() or ("@" in where and " " not in where)

"""What each job of a plan costs, before anything runs.

`estimate` counts examples and queries. `Estimator` has the time on the reference machine and the disk space, by the
model (`cost_model`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.errors import RbenchError
from rbench.plan.cost_model import MINILM, REFERENCE, Costs, Network, Seconds, attack_seconds, reading, training_seconds
from rbench.schema import CLEAN, AttackJob, FinetuneJob, Job, PretrainJob, ResourceKind, TaskSpec, VictimJob, bases

if TYPE_CHECKING:
    from rbench.plan.prepare import Prepared
    from rbench.tasks import TaskData

SAMPLE = 200
"""Examples of a task whose words are counted."""
NETWORKS: tuple[ResourceKind, ...] = ("masked_lm", "sentence_encoder")
"""Resources that are networks."""
_SIZES = {
    "layers": ("num_hidden_layers", "n_layers", "num_layers", "n_layer"),
    "hidden": ("hidden_size", "dim", "d_model", "n_embd"),
    "inner": ("intermediate_size", "hidden_dim", "d_ff", "n_inner"),
    "vocabulary": ("vocab_size",),
}
"""Keys of config.json, by the field of `Network`. The names differ between kinds of networks."""


@dataclass(frozen=True)
class Work:
    """What a job costs."""

    job: Job
    seconds: Seconds
    """On the reference machine; of an attack, in one process for all examples."""
    run_bytes: float = 0.0
    cache_bytes: float = 0.0
    unknown: str | None = None
    """What of it was not measured, so that the estimate says little; None: nothing."""


class Estimator:
    """Estimates the jobs of a prepared suite."""

    def __init__(self, prepared: Prepared, model: Costs) -> None:
        self._prepared, self._model = prepared, model
        self._words: dict[tuple[str, str], tuple[float, float]] = {}
        self._networks: dict[str, Network | None] = {}

    def of(self, job: Job) -> Work:
        """Return what a job costs."""
        ways: dict[type, Callable[[Job, Any], Work]] = {
            PretrainJob: self._pretraining,
            FinetuneJob: self._tuning,
            AttackJob: self._attack,
            VictimJob: self._opening,
        }
        return ways.get(type(job.spec), self._measuring)(job, job.spec)

    def _attack(self, job: Job, spec: AttackJob) -> Work:
        network, longest, why = self._victim(job)
        words = self._lengths(spec.task, "test", spec.attack.protect.get(spec.task.kind, ()))
        each = attack_seconds(self._model, spec.attack.name, network, words, longest, self._beside(spec))
        if spec.attack.name not in self._model.attacks:
            why = f"attack {spec.attack.name}"
        size = self._model.bytes_of_outcome + 12 * words[1]  # both texts, six letters a word
        return Work(job, each * spec.num_examples, run_bytes=spec.num_examples * size, unknown=why)

    def _beside(self, spec: AttackJob) -> float:
        """Return how much larger the networks of an attack's resources are than MiniLM; 1.0 where nothing says it."""
        places = self._prepared.places.resources
        kinds = [kind for kind in NETWORKS if kind in spec.attack.needs and kind in places]
        if kinds and not any(_is_model(places[kind].where) for kind in kinds):
            return 0.0  # the embedded world's, which ask no network
        sizes = [size.gflop(30) / REFERENCE for kind in kinds if (size := self._config(places[kind])) is not None]
        return sum(sizes) / len(sizes) if sizes else 1.0

    def _tuning(self, job: Job, spec: FinetuneJob) -> Work:
        network, how = self._network(spec.encoder.name, job), spec.training
        sizes = self._prepared.data[spec.task.name].sizes
        rows = how.train_rows(sizes.get("train", 0))
        scored = min(how.max_validation or sizes.get("validation", 0), sizes.get("validation", 0))
        words = self._lengths(spec.task, "train")[1]
        gflop = reading(network or MINILM, how.epochs * (3 * rows + scored), words, how.max_length)
        strategy, rates = spec.strategy.name, self._model.tuning
        why = None if strategy in rates else f"strategy {strategy}"
        rate = rates.get(strategy, self._model.other_tuning)
        texts = spec.strategy.options.get("num_texts")  # in a strategy of a user's it may be anything
        if isinstance(texts, int) and 0 < texts < rows:
            # What a strategy costs beyond clean fine-tuning is its search, here in some of the texts.
            rate = rates[CLEAN] + (rate - rates[CLEAN]) * texts / rows
        steps = how.epochs * (rows + scored / 4) / how.batch_size
        return self._made(job, network, training_seconds(rate, gflop, steps), why)

    def _pretraining(self, job: Job, spec: PretrainJob) -> Work:
        network, how = self._network(spec.encoder.name, job), spec.encoder.train
        if how is None:  # a plan has no such job
            return Work(job, Seconds())
        corpus = self._prepared.data.get(how.data)
        if how.objective in self._model.fitted:
            return self._made(job, network, Seconds(python=self._model.fitted[how.objective]), None)
        texts = (how.steps or 0) * how.batch_size * how.gradient_accumulation
        if not texts and corpus is not None:
            texts = round((how.epochs or 1) * corpus.sizes.get("train", 0))
        rate = self._model.training.get(how.objective, self._model.other_training)
        gflop = reading(network or MINILM, 3 * texts, how.max_length / 2, how.max_length)
        why = None if how.objective in self._model.training else f"objective {how.objective}"
        why = why if texts else f"the number of texts that train {spec.encoder.name}"
        return self._made(job, network, training_seconds(rate, gflop, texts / how.batch_size), why)

    def _opening(self, job: Job, spec: VictimJob) -> Work:
        network = self._config(self._prepared.places.victims.get((spec.victim.name, spec.task.name)))
        texts = sum(self._prepared.data[spec.task.name].sizes.get(split, 0) for split in ("validation", "test"))
        gflop = reading(network or MINILM, texts, self._lengths(spec.task, "test")[1], 512)
        return Work(job, Seconds(gflop * self._model.evaluation), unknown=None if network else _unsized(job))

    def _measuring(self, job: Job, spec: Any) -> Work:
        examples = measured_examples(job, self._prepared)
        if examples is None:
            return Work(job, Seconds(), unknown=f"{job.stage} {'/'.join(job.parts[1:2])}")
        alone = len(spec.task.columns) if job.untuned else 1  # an encoder reads each column as a text
        network = (self._network(spec.encoder.name, job) or MINILM) if job.untuned else self._victim(job)[0]
        texts, words = alone * examples, self._lengths(spec.task, spec.split or "test")[1] / alone
        gflop = reading(network, texts, words, 512)
        return Work(job, Seconds(gflop * self._model.evaluation))

    def _made(self, job: Job, network: Network | None, seconds: Seconds, why: str | None) -> Work:
        weights = 4.0 * (network or MINILM).weights
        return Work(job, seconds, cache_bytes=weights, unknown=why or (None if network else _unsized(job)))

    def _victim(self, job: Job) -> tuple[Network, int, str | None]:
        """Return the network of a job's victim, the tokens that it reads, and why they are not known."""
        made = self._prepared.plan.job(job.needs["victim"])
        if made.opening is not None:
            place = self._prepared.places.victims.get((made.opening.victim.name, made.opening.task.name))
            network, longest = self._config(place), 512
        else:
            network, longest = self._network(made.parts[0], made), 512
            if made.tuning is not None:
                longest = made.tuning.training.max_length
        return network or MINILM, longest, None if network else _unsized(made)

    def _network(self, name: str, job: Job) -> Network | None:
        """Return the size of an encoder's network; None if nothing says it. Names of trained draws are labels."""
        label = job.parts[0] if job.parts[0] in self._prepared.loaded.encoders else name
        if label not in self._networks:
            self._networks[label] = self._sized(label)
        return self._networks[label]

    def _sized(self, label: str) -> Network | None:
        encoders = self._prepared.loaded.encoders
        if label not in encoders:
            return None
        specs = list(bases(encoders[label], encoders))
        layers = min((spec.layers for spec in specs if spec.layers is not None), default=None)
        for spec in specs:
            if spec.architecture is not None:
                return _network(dict(spec.architecture), layers)
        for spec in specs:
            if (found := self._config(self._prepared.places.weights.get(spec.name), layers)) is not None:
                return found
        return None

    def _config(self, place: Any, layers: int | None = None) -> Network | None:
        from rbench.encoders.locate import transformer_folder
        from rbench.victims.config import read_config

        if place is None or not _is_model(place.where):
            return None
        with suppress(RbenchError, OSError):
            folder = Path(place.where)
            where = str(transformer_folder(folder)) if folder.is_dir() else place.where
            return _network(read_config(where), layers)
        return None

    def _lengths(self, task: TaskSpec, split: str, protected: Collection[str] = ()) -> tuple[float, float]:
        """Return `_words` of a task, which it remembers."""
        left = ",".join(sorted(protected))
        if (task.name, split + left) not in self._words:
            self._words[task.name, split + left] = _words(self._prepared.data[task.name], split, protected)
        return self._words[task.name, split + left]


def _words(data: TaskData, split: str, protected: Collection[str] = ()) -> tuple[float, float]:
    """Return the mean words of an example of a split, or of another where it is empty: those in columns that are not
    protected, and all."""
    there = next((one for one in (split, "test", "train", "validation") if data.sizes.get(one)), None)
    examples = data.split(there)[:SAMPLE] if there else []
    counts = [sum(len(one.texts[i].split()) for one in examples) for i in range(len(data.spec.columns))]
    free = sum(n for column, n in zip(data.spec.columns, counts, strict=True) if column not in protected)
    return free / max(1, len(examples)), sum(counts) / max(1, len(examples))


def _network(config: Mapping[str, Any], layers: int | None = None) -> Network | None:
    """Read the size of a network off its configuration; None if it does not state one."""
    said = {
        field: next((config[key] for key in keys if isinstance(config.get(key), int)), None)
        for field, keys in _SIZES.items()
    }
    hidden, count = said["hidden"], said["layers"]
    if hidden is None or count is None:
        return None
    count = count if layers is None else min(count, layers)
    return Network(count, hidden, said["inner"] or 4 * hidden, said["vocabulary"] or MINILM.vocabulary)


def _is_model(where: str) -> bool:
    """Whether a place is a folder or a snapshot on the hub, and not a description in words."""
    return Path(where).exists() or ("@" in where and " " not in where)


def _unsized(job: Job) -> str:
    return f"the size of {job.parts[0]}"


@dataclass(frozen=True)
class Estimate:
    """The cost of a job: examples to attack and, roughly, model queries. Evaluations count texts as examples."""

    examples: int
    queries: int = 0
    told: str = ""
    """Of a measure whose file says it: a sentence with a place for the number of examples."""


def estimate(job: Job, prepared: Prepared) -> Estimate | None:
    """Estimate a job's cost; None for jobs that are neither attacks nor evaluations.

    Queries are examples times mean words times the attack's `queries_per_word`, a rule of thumb in the attack's file.
    """
    if (examples := measured_examples(job, prepared)) is not None:
        return Estimate(examples, told=_measure(job, prepared).workload)
    if job.measuring is not None and job.untuned:
        return Estimate(sum(prepared.data[job.measuring.task.name].sizes.values()))
    if job.attacking is None:
        return None
    spec = job.attacking
    words = _words(prepared.data[spec.task.name], "test", spec.attack.protect.get(spec.task.kind, ()))[0]
    # The estimate assumes that training texts are as long as test texts.
    return Estimate(spec.num_examples, round(spec.num_examples * words * spec.attack.queries_per_word))


def measured_examples(job: Job, prepared: Prepared) -> int | None:
    """Return how many texts, pairs or rows the job of a measure reads; None where the measure's file does not say."""
    if job.what is None:
        return None
    examples: int | None = _measure(job, prepared).examples(prepared, job)
    return examples


def _measure(job: Job, prepared: Prepared) -> Any:
    return prepared.loaded.modules["measures", job.what or ""].open()


@dataclass(frozen=True)
class Part:
    """Something that one process does at a time: a job, or all chunks of an attack."""

    name: str
    needs: tuple[str, ...]
    """Names of the parts that must have ended before. Those that are not in the schedule have ended."""
    seconds: float
    """Of each chunk."""
    chunks: int = 1


@dataclass(frozen=True)
class Schedule:
    """How long a plan takes."""

    seconds: float
    work: float
    """The sum of all parts, in seconds of one process."""
    chain: tuple[str, ...]
    """The parts of the longest chain in which each needs the one before: no number of processes is faster."""
    chain_seconds: float


def play(parts: Sequence[Part], processes: int) -> Schedule:
    """Return how long so many equal processes take.

    Args:
        parts: in the order in which processes take them; each comes after all that it needs.
    """
    index = {part.name: i for i, part in enumerate(parts)}
    needs = [[index[name] for name in part.needs if name in index] for part in parts]
    ends = _run(parts, needs, processes)
    chains: list[tuple[float, int | None]] = []  # of each part the longest chain that ends with it, and the part before
    for part, before in zip(parts, needs, strict=True):
        longest = max(before, key=lambda i: chains[i][0], default=None)
        chains.append((part.seconds + (0.0 if longest is None else chains[longest][0]), longest))
    last = max(range(len(parts)), key=lambda i: chains[i][0], default=None)
    chain: deque[str] = deque()
    at = last
    while at is not None:
        chain.appendleft(parts[at].name)
        at = chains[at][1]
    return Schedule(
        seconds=ends,
        work=sum(part.seconds * part.chunks for part in parts),
        chain=tuple(chain),
        chain_seconds=0.0 if last is None else chains[last][0],
    )


def _run(parts: Sequence[Part], needs: Sequence[Sequence[int]], processes: int) -> float:
    """Return when the last process ends."""
    waiting = [len(before) for before in needs]
    after: list[list[int]] = [[] for _ in parts]
    for i, before in enumerate(needs):
        for j in before:
            after[j].append(i)
    ready = [i for i, n in enumerate(waiting) if n == 0]  # a heap: the first in the plan's order comes first
    to_take, to_end = [part.chunks for part in parts], [part.chunks for part in parts]
    free, now = processes, 0.0
    busy: list[tuple[float, int]] = []
    while ready or busy:
        while free and ready:
            i = ready[0]
            heapq.heappush(busy, (now + parts[i].seconds, i))
            free, to_take[i] = free - 1, to_take[i] - 1
            if not to_take[i]:
                heapq.heappop(ready)
        now, i = heapq.heappop(busy)
        free, to_end[i] = free + 1, to_end[i] - 1
        if not to_end[i]:
            for j in after[i]:
                waiting[j] -= 1
                if not waiting[j]:
                    heapq.heappush(ready, j)
    return now

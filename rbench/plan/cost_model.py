"""A model of what jobs cost, with constants that were measured (`costs.json`, made by `benchmarks/cost_model.py`).

Times are seconds of the reference machine: of one core for attacks, of both cores for trainings and evaluations. A time
has two parts, because machines differ in them: networks (`network`), and the Python code around them (`python`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rbench.errors import PlanError
from rbench.schema import Strict

FILE = Path(__file__).with_name("costs.json")
TOKENS_PER_WORD = 1.35
"""Word pieces of an English word, about. Two more are the special tokens of a text."""


@dataclass(frozen=True)
class Network:
    """The size of a transformer."""

    layers: int
    hidden: int
    inner: int
    """Width of the feed-forward layers."""
    vocabulary: int = 30_522

    def gflop(self, tokens: float) -> float:
        """Return the billions of operations of reading one text of so many tokens."""
        # A multiplication with an addition counts as two operations. Attention has 4 h^2 weights, the rest 2 h i; the
        # scores of attention and their weighted sums are two products of n x n x h.
        linear = 2 * tokens * (4 * self.hidden**2 + 2 * self.hidden * self.inner)
        return self.layers * (linear + 4 * tokens**2 * self.hidden) / 1e9

    @property
    def weights(self) -> int:
        """Number of parameters, about."""
        return self.vocabulary * self.hidden + self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.inner)


MINILM = Network(6, 384, 1536)
"""The network of the measurements."""
STEP, OPEN = 0.02, 2.0
"""Seconds of Python for a step of training, and for opening what a job needs. Both are assumed; on a GPU they show."""
REFERENCE = MINILM.gflop(30)
"""GFLOP of a question in the measurements on short texts: what `AttackCost.seconds` is for."""


@dataclass(frozen=True)
class Seconds:
    """A time on the reference machine, in its two parts."""

    network: float = 0.0
    python: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.network + other.network, self.python + other.python)

    def __mul__(self, factor: float) -> Seconds:
        return Seconds(self.network * factor, self.python * factor)


class AttackCost(Strict):
    """What an attack costs for an example that the victim classifies correctly."""

    queries: float
    """Queries for a text of one word; of n words: queries x n ** growth."""
    growth: float
    seconds: float
    """For one query about a text of 30 tokens, in one process on one core."""
    fixed: float
    """The share of `seconds` that does not grow with the victim's work: other networks, and Python."""
    python: float
    """The share of `seconds` that is Python. It is part of `fixed`."""
    cells: int = 0
    """Number of measured cells behind it; 0: none."""

    def queries_of(self, words: float) -> float:
        """Return the queries for a text with so many words that may change."""
        return self.queries * float(max(words, 1.0) ** self.growth)

    def per_query(self, gflop: float, beside: float = 1.0) -> Seconds:
        """Return the time of one query to a victim that needs so many GFLOP for it.

        Args:
            beside: how much larger the other networks are (masked LM, sentence encoder) than those of the measurements.
        """
        growing = (1 - self.fixed) * gflop / REFERENCE
        return Seconds(self.seconds * (growing + beside * (self.fixed - self.python)), self.seconds * self.python)


class Costs(Strict):
    """The measured constants."""

    what: str
    machine: str
    gflops: float
    """The reference machine: billions of operations a second in products of matrices, one thread."""
    attacks: dict[str, AttackCost]
    other: AttackCost
    """For attacks that were not measured: the medians."""
    attacked: float
    """Share of examples that victims classify correctly, and that are attacked."""
    tuning: dict[str, float]
    """Seconds of fine-tuning for a GFLOP of `epochs` readings of the texts, forwards and backwards, by strategy. It
    holds all that a strategy does beside: its evaluations, its attacks, epochs of its own."""
    other_tuning: float
    """For strategies that were not measured: the median."""
    training: dict[str, float]
    """Seconds of pre-training for a GFLOP of one reading of the texts, forwards and backwards, by objective."""
    other_training: float
    fitted: dict[str, float]
    """Seconds of making an encoder with an objective that takes no steps, by objective."""
    evaluation: float
    """Seconds of evaluating encoders for a GFLOP."""
    start: float
    """Seconds for a process to import what it needs."""
    bytes_of_outcome: float
    """Bytes of an outcome without its texts."""
    errors: dict[str, dict[str, float]]
    """By reference run: its measured `hours`; and of its `attacks`, its `trainings` and `all`, the predicted time over
    the measured one, where the model was fitted without the run."""
    spread: float
    """Factor within which the estimates of four of five runs were that the model had not seen."""

    def attack(self, name: str) -> AttackCost:
        """Return the cost of an attack by name, or the medians of those that were measured."""
        return self.attacks.get(name, self.other)


@cache
def costs() -> Costs:
    """Return the constants that rbench comes with."""
    return Costs.model_validate_json(FILE.read_bytes())


def tokens_of(words: float, longest: int) -> float:
    """Return the tokens of a text with so many words, cut to `longest`."""
    return min(words * TOKENS_PER_WORD + 2, float(longest))


def attack_seconds(
    model: Costs, attack: str, network: Network, words: tuple[float, float], longest: int, beside: float = 1.0
) -> Seconds:
    """Return the time of one process for one example.

    Args:
        words: those that may change, and all words of an example.
        longest: tokens that the victim reads.
        beside: as for `AttackCost.per_query`.
    """
    cost = model.attack(attack)
    per_query = cost.per_query(network.gflop(tokens_of(words[1], longest)), beside)
    return per_query * (model.attacked * cost.queries_of(words[0]) + (1 - model.attacked))


def training_seconds(rate: float, gflop: float, steps: float) -> Seconds:
    """Return the time of a training of so many steps. `rate` is in seconds for a GFLOP, with all that is not FLOPs."""
    python = min(rate * gflop, steps * STEP)
    return Seconds(rate * gflop - python, python)


def reading(network: Network, texts: float, words: float, longest: int) -> float:
    """Return the GFLOP of reading so many texts once."""
    return texts * network.gflop(tokens_of(words, longest))


PEAK = {
    "T4": 8.1,
    "V100": 15.7,
    "A10": 31.2,
    "A100": 19.5,
    "L4": 30.3,
    "L40S": 91.6,
    "RTX3090": 35.6,
    "RTX4090": 82.6,
    "H100": 66.9,
    "H200": 66.9,
}
"""TFLOPS of GPUs in single precision without tensor cores, as their makers state them."""
SHARES = (0.4, 0.2, 0.05)
"""Shares of that peak that networks are assumed to reach: at best, in the middle, and at worst."""
CORE = 0.65
"""Share of the speed in products of matrices that the networks of the measurements reached on a CPU."""
COUNTS = (1, 8, 64)
MOST = 10_000
USUAL = "A100"


@dataclass(frozen=True)
class Machines:
    """So many processes of `rbench run`, each with a GPU, or one on a CPU."""

    name: str
    processes: int
    networks: tuple[float, float, float]
    """How much faster networks are than on a core of the reference machine: at best, in the middle, at worst."""
    workers: int = 1
    """Worker processes that share the attacks of each process."""
    cores: float = 1.0
    """How much faster trainings are because they use several cores, where the reference machine has 1."""
    assumed: bool = False

    def seconds(self, time: Seconds, case: int, *, attack: bool) -> float:
        """Return the time of a job on one of the processes.

        Args:
            case: 0: at best, 1: in the middle, 2: at worst.
            attack: whether the worker processes share it. If not, it uses all cores.
        """
        alone = time.network / self.networks[case] + time.python
        return alone / (self.workers if attack else self.cores)


def here(costs: Costs, gflops: float, cores: int, workers: int) -> Machines:
    """Return this machine, whose cores multiply matrices at `gflops` billion operations a second."""
    faster = gflops / costs.gflops
    return Machines("this machine", 1, (faster, faster, faster), workers, max(1.0, min(cores, 8) / 2))


def gpus(costs: Costs, count: int, name: str) -> Machines:
    """Return so many GPUs of a kind, each with a process of its own."""
    core = costs.gflops * CORE / 1000
    best, middle, worst = (PEAK[name] * share / core for share in SHARES)
    return Machines(f"{count} x {name}", count, (best, middle, worst), assumed=True)


def parse(text: str) -> tuple[int, str]:
    """Read `8xH100` as (8, "H100"). Raises PlanError for anything else, and for a GPU that is not in `PEAK`."""
    found = re.fullmatch(r"(?:(\d{1,6})\s*[x*]\s*)?([A-Za-z][A-Za-z0-9 -]*)", text.strip())
    if found is None:
        raise PlanError(f"--machines {text!r}: write a number and a GPU, such as 8xH100")
    count, name = int(found[1] or 1), re.sub(r"[ -]", "", found[2]).upper()
    if name not in PEAK:
        raise PlanError(f"--machines {text!r}: there is no estimate for {found[2]}; known GPUs: {', '.join(PEAK)}")
    if not 1 <= count <= MOST:
        raise PlanError(f"--machines {text!r}: the number of GPUs must be from 1 to {MOST}")
    return count, name

"""Run cells of an attack table (encoder, task, attack, seed) in this process, with several examples at once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.encoders import load_victim
from rbench.encoders.inference import backends
from rbench.errors import ModelChangedError
from rbench.recipes.attacked import attacked_kind
from rbench.recipes.build import build
from rbench.recipes.run import Oracle, run
from rbench.recipes.victim import NetworkVictim, Victim
from rbench.schema import AttackSpec, Outcome, ResourceKind, ResourceSet, TaskSpec, VictimSpec
from rbench.system.digests import FingerprintedPlace, PlaceWatch
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tasks import Example
from rbench.words.resources import Resources

if TYPE_CHECKING:
    from rbench.recipes.answering import AnsweringVictim

    AnyVictim = NetworkVictim | AnsweringVictim

EXAMPLES_AT_ONCE = {"cpu": 4, "cuda": 64}
"""Examples that a process attacks at once, by device: enough to fill batches."""
SHORT_CHARACTERS = 600
"""Characters of the texts that a process on a CPU attacks at once, where more than POOLED are so short: phrases."""
MAX_SHORT_EXAMPLES = 16
"""Largest number of short texts that it attacks at once."""


@dataclass(frozen=True)
class EngineConfig:
    """How attacks are computed. These settings do not change outcomes, except that `max_seconds` ends some."""

    device: str = "cpu"
    backend: str = "auto"
    """One of `rbench.encoders.inference.BACKENDS`, or "auto"."""
    pooled: int | None = None
    """Examples that a process attacks at once; None: the number in POOLED for the device."""
    backends_file: Path | None = None
    """File that stores which back-end "auto" found to be the fastest on this machine."""
    max_seconds: float | None = None
    """An example that takes longer is errored by time-out; None: no limit."""


@dataclass(frozen=True)
class AttackTask:
    """Everything that a process needs to run one attack on one victim."""

    spec: AttackSpec
    path: Path | None
    """The attack's Python file; None for a recipe."""
    task: TaskSpec
    seed: int
    victim: FingerprintedPlace
    """The victim's folder, written by `EncoderClassifier.save` or `EncoderScorer.save`."""
    name: str
    """The victim's name, for messages."""
    resources: ResourceSet
    places: tuple[tuple[ResourceKind, FingerprintedPlace], ...] = ()
    """Where planning found the resources. The attack can use no others."""
    digest: str | None = None
    """sha256 of the Python file's source at planning time; None for a recipe."""
    foreign: bool = False
    """Whether the Python file belongs to the user, not to rbench."""
    given: VictimSpec | None = None
    """The classifier that exists at `victim`; None: a job fine-tuned the victim."""
    remote: bool = False
    """Whether the encoder of a victim that a job made is behind an endpoint."""

    @property
    def asked(self) -> bool:
        """Whether the victim, or its encoder, is a function or an endpoint, which only the main process asks."""
        return self.remote or (self.given is not None and self.given.origin != "model")


class AttackEngine:
    """Runs cells, and keeps the last victim and resources for the next cell.

    What networks answered is forgotten before another attack, so that its seconds are its own, and attacks can be
    compared by them. The answers of functions and endpoints are kept, because they may cost money.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._opened: OneSlotCache[tuple[AnyVictim, PlaceWatch]] = OneSlotCache()
        self._loaded: OneSlotCache[Resources] = OneSlotCache()
        self._last: AttackTask | None = None
        backends.remember_in(config.backends_file)

    def run(self, attack_task: AttackTask, examples: Iterable[Example], pooled: int | None = None) -> Iterator[Outcome]:
        """Yield one outcome for each example, in the order in which they end.

        Args:
            examples: the next is taken when an attack on another has ended.
            pooled: number of examples attacked at once; None: as `EngineConfig` says.

        Raises:
            JobError: the victim or a resource changed after planning. The outcomes yielded before are of the planned
                ones.
            ModelChangedError: a function or an endpoint answers fixed texts otherwise than before. Any outcome that was
                yielded may be of the other model.
        """
        (victim, watch), resources = self._victim(attack_task), self._load_resources(attack_task)
        if attack_task != self._last:
            self._last = attack_task
            resources.forget()
            victim.forget()
        # As many examples as keep the victim busy: an endpoint's requests, or a network's batches.
        examples, num_at_once = choose_at_once(examples, self.config)
        num_at_once = victim.pooled or num_at_once
        outcomes = run(
            lambda: build(
                attack_task.spec, victim, resources, attack_task.task, path=attack_task.path, digest=attack_task.digest
            ),
            examples,
            spec=attack_task.spec,
            task=attack_task.task,
            seed=attack_task.seed,
            oracle=make_oracle(attack_task.task),
            pooled=pooled or self.config.pooled or num_at_once,
            max_seconds=self.config.max_seconds,
        )
        # Inputs are checked before an outcome leaves, so that none was computed with weights that changed meanwhile.
        try:
            for outcome in outcomes:
                watch.check()
                resources.check()
                yield outcome
            victim.check()
        except ModelChangedError:
            self._opened.clear()  # it remembers answers of both
            raise

    def backend(self, attack_task: AttackTask) -> str:
        """Return the name of the back-end that computes the victim of a cell."""
        return str(self._victim(attack_task)[0].network.backend)

    def _victim(self, attack_task: AttackTask) -> tuple[AnyVictim, PlaceWatch]:
        def open_it() -> tuple[AnyVictim, PlaceWatch]:
            watch = PlaceWatch()
            with watch.reading(attack_task.victim) as where:
                victim = open_victim(attack_task.given, where, attack_task.task, attack_task.name, self.config)
            return victim, watch

        victim_and_watch = self._opened.get((attack_task.victim, attack_task.name), open_it)
        victim_and_watch[1].check()
        return victim_and_watch

    def _load_resources(self, attack_task: AttackTask) -> Resources:
        resources = self._loaded.get(
            (attack_task.resources.model_dump_json(), attack_task.places),
            lambda: Resources(
                attack_task.resources,
                places=dict(attack_task.places),
                device=self.config.device,
                backend=self.config.backend,
            ),
        )
        resources.check()
        return resources


def choose_at_once(examples: Iterable[Example], config: EngineConfig) -> tuple[Iterator[Example], int]:
    """Return the examples, and how many of them a process attacks at once by default.

    The first one is looked at: others are taken to be no longer than it is, as where the longest come first.
    """
    device = config.device.split(":")[0]
    remaining = iter(examples)
    first = next(remaining, None)
    if first is None:
        return remaining, EXAMPLES_AT_ONCE[device]
    num_short = SHORT_CHARACTERS // max(1, first.length) if device == "cpu" else 0
    return itertools.chain([first], remaining), max(EXAMPLES_AT_ONCE[device], min(MAX_SHORT_EXAMPLES, num_short))


def open_victim(given: VictimSpec | None, where: str, task: TaskSpec, name: str, config: EngineConfig) -> AnyVictim:
    """Open the victim at a place: a classifier that exists (`given`), or one that a job fine-tuned (None)."""
    if given is None:
        network, meta = load_victim(Path(where), config.device)
        wrapper, longest = attacked_kind(task).wrapper, meta["max_length"]
        return wrapper(network, name, max_length=longest, device=config.device, backend=config.backend)
    if given.origin != "model":
        from rbench.recipes.answering import open_answering  # asks functions and endpoints

        return open_answering(given, task)
    from rbench.victims.model import open_model

    classifier = open_model(given, where, task, config.device)
    return Victim(classifier, name, device=config.device, backend=config.backend)


def make_oracle(task: TaskSpec) -> Oracle | None:
    """Return the function that gives the true label of texts of the embedded world; None for tasks without an oracle.

    What it reads of an example is said by the truth about the example (`rbench.recipes.attacked`).
    """
    generator = task.generator
    if generator is None or not task.has_oracle:
        return None
    return functools.partial(attacked_kind(task).oracle_label, generator)

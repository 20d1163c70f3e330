"""Run one cell of an attack table (encoder, task, attack, seed) in this process, with several examples at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rbench.attack.answering import AnsweringVictim, open_answering
from rbench.attack.build import build
from rbench.attack.run import Oracle, run
from rbench.attack.victim import ScorerVictim, Victim
from rbench.encoders.scorer import EncoderScorer, load_victim
from rbench.inference import backends
from rbench.resources import Resources
from rbench.spec import AttackSpec, Outcome, ResourceKind, ResourceProfile, TaskSpec, VictimSpec
from rbench.system.located import Located, Watch
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tasks import Example
from rbench.victims.model import open_model

AnyVictim = Victim | ScorerVictim | AnsweringVictim

POOLED = {"cpu": 4, "cuda": 64}
"""Examples that a process attacks at once, by device: enough to fill batches."""


@dataclass(frozen=True)
class EngineConfig:
    """How attacks are computed. These settings do not change outcomes, except that `max_seconds` ends some."""

    device: str = "cpu"
    backend: str = "auto"
    """One of `rbench.inference.BACKENDS`, or "auto"."""
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
    victim: Located
    """The victim's folder, written by `EncoderClassifier.save` or `EncoderScorer.save`."""
    name: str
    """The victim's name, for messages."""
    resources: ResourceProfile
    places: tuple[tuple[ResourceKind, Located], ...] = ()
    """Where planning found the resources. The attack can use no others."""
    digest: str | None = None
    """sha256 of the Python file's source at planning time; None for a recipe."""
    foreign: bool = False
    """Whether the Python file belongs to the user, not to rbench."""
    given: VictimSpec | None = None
    """The classifier that exists at `victim`; None: a job fine-tuned the victim."""

    @property
    def asked(self) -> bool:
        """Whether the victim is a function or an endpoint, which only the main process asks."""
        return self.given is not None and self.given.origin != "model"


class Engine:
    """Runs cells, and keeps the last victim and resources with their caches for the next cell."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._opened: OneSlotCache[tuple[AnyVictim, Watch]] = OneSlotCache()
        self._loaded: OneSlotCache[Resources] = OneSlotCache()
        backends.remember_in(config.backends_file)

    def run(self, attack_task: AttackTask, examples: Iterable[Example], pooled: int | None = None) -> Iterator[Outcome]:
        """Yield one outcome for each example, in the order in which they end.

        Args:
            examples: the next is taken when an attack on another has ended.
            pooled: number of examples attacked at once; None: as `EngineConfig` says.

        Raises:
            JobError: the victim or a resource changed after planning. The outcomes yielded before are of the planned
                ones.
            ResourceError: a function or an endpoint answers fixed texts otherwise at the end than when it was opened.
        """
        (victim, watch), resources = self._victim(attack_task), self._resources(attack_task)
        pooled = pooled or self.config.pooled or self._pooled(victim)
        outcomes = run(
            lambda: build(
                attack_task.spec, victim, resources, attack_task.task, path=attack_task.path, digest=attack_task.digest
            ),
            examples,
            spec=attack_task.spec,
            task=attack_task.task,
            seed=attack_task.seed,
            oracle=oracle(attack_task.task),
            pooled=pooled,
            max_seconds=self.config.max_seconds,
        )
        for outcome in outcomes:
            watch.check()
            resources.check()
            yield outcome
        if isinstance(victim, AnsweringVictim):
            victim.check()

    def _pooled(self, victim: AnyVictim) -> int:
        """Return how many examples keep a victim busy: an endpoint's requests, or a network's batches."""
        return victim.pooled if isinstance(victim, AnsweringVictim) else POOLED[self.config.device.split(":")[0]]

    def backend(self, attack_task: AttackTask) -> str:
        """Return the name of the back-end that computes the victim of a cell."""
        name: str = self._victim(attack_task)[0].network.backend
        return name

    def _victim(self, attack_task: AttackTask) -> tuple[AnyVictim, Watch]:
        def open_it() -> tuple[AnyVictim, Watch]:
            watch = Watch()
            with watch.reading(attack_task.victim) as where:
                victim = open_victim(attack_task.given, where, attack_task.task, attack_task.name, self.config)
            return victim, watch

        opened = self._opened.get((attack_task.victim, attack_task.name), open_it)
        opened[1].check()
        return opened

    def _resources(self, attack_task: AttackTask) -> Resources:
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


def open_victim(given: VictimSpec | None, where: str, task: TaskSpec, name: str, config: EngineConfig) -> AnyVictim:
    """Open the victim at a place: a classifier that exists (`given`), or one that a job fine-tuned (None)."""
    if given is None:
        network, meta = load_victim(Path(where), config.device)
        wrapper = ScorerVictim if isinstance(network, EncoderScorer) else Victim
        longest = meta["max_length"]
        return wrapper(network, name, max_length=longest, device=config.device, backend=config.backend)
    if given.origin != "model":
        return open_answering(given, task)
    classifier = open_model(given, where, task, config.device)
    return Victim(classifier, name, device=config.device, backend=config.backend)


def oracle(task: TaskSpec) -> Oracle | None:
    """Return the function that gives the true label of a text of the embedded world; None for other tasks.

    None for STS tasks too: the embedded world's score of a perturbed pair is no label.
    """
    if task.generator is None or task.kind == "sts":
        return None
    from rbench import mini

    generator = task.generator

    def read(texts: tuple[str, ...]) -> int | None:
        label = mini.oracle(generator, texts)
        return None if label is None else int(label)

    return read

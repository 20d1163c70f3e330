"""Run one cell of an attack table (encoder, task, attack, seed) in this process, with several examples at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rbench.attack.build import build
from rbench.attack.run import Oracle, run
from rbench.attack.victim import Victim
from rbench.encoders.classifier import EncoderClassifier
from rbench.inference import backends
from rbench.resources import Resources
from rbench.spec import AttackSpec, Outcome, ResourceKind, ResourceProfile, TaskSpec
from rbench.system.located import Located, Watch
from rbench.system.slot import Slot
from rbench.tasks import Example

POOLED = {"cpu": 4, "cuda": 64}
"""Examples that a process attacks at once, by device: enough to fill batches."""


@dataclass(frozen=True)
class How:
    """How attacks are computed. These settings do not change outcomes."""

    device: str = "cpu"
    backend: str = "auto"
    """One of `rbench.inference.BACKENDS`, or "auto"."""
    pooled: int | None = None
    """Examples that a process attacks at once; None: the number in POOLED for the device."""
    backends_file: Path | None = None
    """File that stores which back-end "auto" found to be the fastest on this machine."""


@dataclass(frozen=True)
class Cell:
    """Everything that a process needs to run one attack on one victim."""

    spec: AttackSpec
    path: Path | None
    """The attack's Python file; None for a recipe."""
    task: TaskSpec
    seed: int
    victim: Located
    """The victim's folder, written by `EncoderClassifier.save`."""
    name: str
    """The victim's name, for messages."""
    resources: ResourceProfile
    places: tuple[tuple[ResourceKind, Located], ...] = ()
    """Where planning found the resources. The attack can use no others."""
    digest: str | None = None
    """sha256 of the Python file's source at planning time; None for a recipe."""
    foreign: bool = False
    """Whether the Python file belongs to the user, not to rbench."""


class Engine:
    """Runs cells, and keeps the last victim and resources with their caches for the next cell."""

    def __init__(self, how: How) -> None:
        self.how = how
        self._opened: Slot[tuple[Victim, Watch]] = Slot()
        self._loaded: Slot[Resources] = Slot()
        backends.remember_in(how.backends_file)

    def run(self, cell: Cell, examples: Iterable[Example], pooled: int | None = None) -> Iterator[Outcome]:
        """Yield one outcome for each example, in the order in which they end.

        Args:
            examples: the next is taken when an attack on another has ended.
            pooled: number of examples attacked at once; None: as `How` says.

        Raises:
            JobError: the victim or a resource changed after planning. The outcomes yielded before are of the planned
                ones.
        """
        (victim, watch), resources = self._victim(cell), self._resources(cell)
        pooled = pooled or self.how.pooled or POOLED[self.how.device.split(":")[0]]
        outcomes = run(
            lambda: build(cell.spec, victim, resources, cell.task, path=cell.path, digest=cell.digest),
            examples,
            spec=cell.spec,
            task=cell.task,
            seed=cell.seed,
            oracle=oracle(cell.task),
            pooled=pooled,
        )
        for outcome in outcomes:
            watch.check()
            resources.check()
            yield outcome

    def backend(self, cell: Cell) -> str:
        """Return the name of the back-end that computes the victim of a cell."""
        name: str = self._victim(cell)[0].network.backend
        return name

    def _victim(self, cell: Cell) -> tuple[Victim, Watch]:
        def open_it() -> tuple[Victim, Watch]:
            watch = Watch()
            with watch.reading(cell.victim) as where:
                classifier, meta = EncoderClassifier.load(Path(where), self.how.device)
            victim = Victim(
                classifier,
                cell.name,
                max_length=meta["max_length"],
                device=self.how.device,
                backend=self.how.backend,
            )
            return victim, watch

        victim, watch = self._opened.get((cell.victim, cell.name), open_it)
        watch.check()
        return victim, watch

    def _resources(self, cell: Cell) -> Resources:
        resources = self._loaded.get(
            (cell.resources.model_dump_json(), cell.places),
            lambda: Resources(
                cell.resources, places=dict(cell.places), device=self.how.device, backend=self.how.backend
            ),
        )
        resources.check()
        return resources


def oracle(task: TaskSpec) -> Oracle | None:
    """Return the function that gives the true label of a text of the embedded world; None for other tasks."""
    if task.generator is None:
        return None
    from rbench import mini

    generator = task.generator

    def read(texts: tuple[str, ...]) -> int | None:
        label = mini.oracle(generator, texts)
        return None if label is None else int(label)

    return read

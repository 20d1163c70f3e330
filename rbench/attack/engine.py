"""One cell of an attack table (encoder, task, attack, seed), run in this process: many examples at once."""

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
"""Examples under way at once in a process: enough to fill batches."""


@dataclass(frozen=True)
class How:
    """How attacks are computed. None of it changes an outcome."""

    device: str = "cpu"
    backend: str = "auto"
    """One of `rbench.inference.BACKENDS`, or "auto"."""
    pooled: int | None = None
    """Examples under way at once in a process; None: what fits the device."""
    backends_file: Path | None = None
    """Remembers which back-end "auto" found fastest on this machine."""


@dataclass(frozen=True)
class Cell:
    """All that one attack on one victim takes, so that any process can run it."""

    spec: AttackSpec
    path: Path | None
    """The Python file behind an attack that is no recipe."""
    task: TaskSpec
    seed: int
    victim: Located
    """A folder that `EncoderClassifier.save` wrote."""
    name: str
    """The victim's name, for messages."""
    resources: ResourceProfile
    places: tuple[tuple[ResourceKind, Located], ...] = ()
    """Where they lie; the attack is refused others."""
    digest: str | None = None
    """sha256 of the Python file's source as it was when the run was planned."""
    foreign: bool = False
    """Whether the file is a user's, and not one of rbench's own."""


class Engine:
    """Runs cells, keeping the last victim and resources, with all that they remember, for the next cell."""

    def __init__(self, how: How) -> None:
        self.how = how
        self._opened: Slot[tuple[Victim, Watch]] = Slot()
        self._loaded: Slot[Resources] = Slot()
        backends.remember_in(how.backends_file)

    def run(self, cell: Cell, examples: Iterable[Example], pooled: int | None = None) -> Iterator[Outcome]:
        """One outcome an example, in the order in which they end; each example is taken when there is room for it.

        `pooled` examples are under way at once; None: as many as `How` says.

        Raises:
            JobError: the victim or a resource is no longer what was planned. All outcomes so far were made of that.
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
        """What computes the victim of a cell."""
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

        held = self._opened.get((cell.victim, cell.name), open_it)
        held[1].check()
        return held

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
    """Reads the true label of a text of the embedded world; None for tasks of the real one."""
    if task.generator is None:
        return None
    from rbench import mini

    generator = task.generator

    def read(texts: tuple[str, ...]) -> int | None:
        label = mini.oracle(generator, texts)
        return None if label is None else int(label)

    return read

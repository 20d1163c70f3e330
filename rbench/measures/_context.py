"""What a measure with a `run` is given, by its OF, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.schema import EncoderSpec, MeasuredRow, Outcome, Prediction, Score, TaskSpec
from rbench.system.progress import count_steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.sentence import RememberedVectors, SentenceEncoder
    from rbench.tasks import Example, SetData, TaskData
    from rbench.words.resources import Resources


class VictimRef(NamedTuple):
    """A victim of the suite: an encoder and the strategy that fine-tuned it."""

    label: str
    """The encoder in the names of jobs. With `train_seeds` it says which training: `simcse-mini[seed=1]`."""
    encoder: str
    """The encoder as the suite names it."""
    finetune: str
    """The strategy's label."""

    @property
    def names(self) -> dict[str, str]:
        """The victim in a row: `encoder` and `finetune`."""
        return {"encoder": self.encoder, "finetune": self.finetune}


@dataclass(frozen=True)
class _JobContext:
    """What the job of any measure is given."""

    task: TaskSpec
    rows: Callable[[str], list[Example]]
    """Returns the rows of a split of the task."""
    splits: tuple[str, ...]
    progress: Callable[[int, int, str], None]
    """Called with what is done, what there is to do, and a message."""


@dataclass(frozen=True)
class EncoderContext(_JobContext):
    """The inputs of one job of a measure of encoders: one encoder as it is, and one task."""

    name: str
    """The encoder in the names of jobs."""
    encoder: SentenceEncoder
    """In eval mode, opened for the kind of the task."""
    resources: Resources | None
    """The resources that the measure NEEDS, of the suite's profile."""
    data: TaskData | None = None
    """All that is known of the task's rows."""
    remembered: RememberedVectors | None = None
    """The encoder with the vectors that earlier jobs on it computed."""
    file: Callable[[str, str], Any] | None = None
    """Returns the module of a kind and name, of those that the measure's FILES say."""

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the vectors of texts (len(texts), dim), in their order. Each distinct text is encoded once.

        Raises JobError where a vector has a number that is not finite.
        """
        import numpy as np

        from rbench.score.finite import check_finite

        distinct = list(dict.fromkeys(texts))
        progress = count_steps(self.progress, len(distinct), f"{self.task.name}, texts encoded")
        all_vectors = self.encoder.encode(distinct, "fastest", progress).astype(np.float64)
        check_finite(all_vectors, f"{self.name} on {self.task.name}")
        place = {text: i for i, text in enumerate(distinct)}
        return all_vectors[[place[text] for text in texts]]


@dataclass(frozen=True)
class VictimContext(_JobContext):
    """The inputs of one job of a measure of victims."""

    seed: int
    """The seed of fine-tuning. A measure draws its random numbers from it."""
    victim: EncoderClassifier
    """In eval mode; or a classifier that exists. `rbench.encoders.classify` serves both."""
    set: SetData | None
    """The set that the job is about; None for the rows of the task."""
    file: Callable[[str, str], Any]
    """Returns the module of a kind and name, of those that the measure's FILES say."""


@dataclass(frozen=True)
class TrainedContext(_JobContext):
    """The inputs of one job of a measure of trainings: an encoder that a job trained, and texts."""

    seed: int
    """Draws the sample of texts, and whatever else is drawn."""
    spec: EncoderSpec
    """The encoder as it was trained."""
    weights: Path
    """The folder that its training wrote."""
    data: TaskData
    device: str
    resources: Resources | None
    """What the objective needs of a resource set."""
    objective: Any
    """The module by which it was trained."""


@dataclass(frozen=True)
class Measured:
    """What a measure's `run` returns that has more than rows."""

    lines: Sequence[MeasuredRow | Prediction | Outcome]
    """What is stored beside the record. The measure's STORES says which of them: `rows`, `predictions`, `outcomes`."""
    scores: tuple[Score, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasureContext(_JobContext):
    """The inputs of one job of a measure. A measure of tasks has no victims and no attack."""

    attack: str
    """The attack's label."""
    seed: int
    """The seed of fine-tuning, of the sample and of the attack. A measure draws its random numbers from it."""
    victims: tuple[VictimRef, ...]
    """All victims, encoder by encoder in the suite's order."""
    outcomes: Mapping[VictimRef, tuple[Outcome, ...]]
    """By victim, the outcome of each attacked example, with texts, sorted by id."""
    victim: Callable[[VictimRef], EncoderClassifier]
    """Opens a victim, in eval mode. Only the last one stays in memory, so ask one all questions before the next."""
    set: SetData | None = None
    """The contrast set of the task, of a measure that says `contrast` in a suite that says `evaluate: [contrast]`."""
    file: Callable[[str, str], Any] | None = None
    """Returns the module of a kind and name, of those that the measure's FILES say."""
    resources: Resources | None = None
    """The resources that the measure NEEDS, of the suite's resource set."""

"""What a measure with a `run` is given: victims and what an attack made of their texts, or an encoder as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rbench.errors import JobError
from rbench.spec import Outcome, TaskSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.resources import Resources
    from rbench.tasks import Example


class Asked(NamedTuple):
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
class EncoderContext:
    """The inputs of one job of a measure of encoders: one encoder as it is, and one task."""

    task: TaskSpec
    name: str
    """The encoder in the names of jobs."""
    encoder: SentenceEncoder
    """In eval mode, opened for the kind of the task."""
    rows: Callable[[str], list[Example]]
    """Returns the rows of a split of the task."""
    splits: tuple[str, ...]
    resources: Resources | None
    """The resources that the measure NEEDS, of the suite's profile."""
    progress: Callable[[int, int, str], None]
    """Called with what is done, what there is to do, and a message."""

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the vectors of texts (len(texts), dim), in their order. Each distinct text is encoded once.

        Raises JobError where a vector has a number that is not finite.
        """
        import numpy as np

        distinct = list(dict.fromkeys(texts))
        done = 0

        def encoded(count: int) -> None:
            nonlocal done
            done += count
            self.progress(done, len(distinct), f"{self.task.name}, texts encoded")

        found = self.encoder.encode(distinct, "fastest", encoded).astype(np.float64)
        broken = int((~np.isfinite(found).all(1)).sum())
        if broken:
            raise JobError(
                f"{broken} of {len(distinct)} vectors of {self.name} on {self.task.name} have numbers that are not "
                "finite (NaN or infinity), so nothing can be computed of them; its weights are damaged, or its "
                "training diverged"
            )
        row = {text: i for i, text in enumerate(distinct)}
        return found[[row[text] for text in texts]]


@dataclass(frozen=True)
class MeasureContext:
    """The inputs of one job of a measure. A measure of tasks has no victims and no attack."""

    task: TaskSpec
    attack: str
    """The attack's label."""
    seed: int
    """The seed of fine-tuning, of the sample and of the attack. A measure draws its random numbers from it."""
    victims: tuple[Asked, ...]
    """All victims, encoder by encoder in the suite's order."""
    outcomes: Mapping[Asked, tuple[Outcome, ...]]
    """By victim, the outcome of each attacked example, with texts, sorted by id."""
    victim: Callable[[Asked], EncoderClassifier]
    """Opens a victim, in eval mode. Only the last one stays in memory, so ask one all questions before the next."""
    rows: Callable[[str], list[Example]]
    """Returns the rows of a split of the task."""
    splits: tuple[str, ...]
    progress: Callable[[int, int, str], None]
    """Called with what is done, what there is to do, and a message."""

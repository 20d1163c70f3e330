"""What a measure with a `run` is given: victims, what an attack made of their texts, and the rows of the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rbench.spec import Outcome, TaskSpec

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
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

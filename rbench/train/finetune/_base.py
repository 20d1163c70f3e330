"""The base of fine-tuning strategies: what the class of one may state, what it is given and what it returns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel

from rbench.schema import CLASSES, Family, Health, Outcome, ResourceKind, Training
from rbench.schema.extension import Extension
from rbench.train.finetune._data import sample_split
from rbench.train.options import Progress

if TYPE_CHECKING:
    from rbench.encoders import AnyVictim
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.tasks import Example, TaskData
    from rbench.words.resources import Resources

O = TypeVar("O", bound=BaseModel)  # noqa: E741


@dataclass(frozen=True)
class FinetuneContext:
    """All that a strategy works with, beside its own options."""

    encoder: SentenceEncoder
    """The encoder, loaded on `device`. A strategy may train its weights in place."""
    data: TaskData
    """The task's rows, split into train, validation and test."""
    training: Training
    """The suite's settings for fine-tuning: epochs, batch size, learning rate, lengths and limits."""
    seed: int
    """The only source of randomness. Two calls with the same seed give the same victim on a CPU."""
    device: str
    """A torch device ("cpu", "cuda"). The victim is returned on it."""
    progress: Progress
    """Told how far the fine-tuning has come."""
    resources: Resources | None = None
    """The resources that the strategy needs, from the suite's resource set; None where it needs none."""
    generated: Sequence[Outcome] | None = None
    """For a strategy whose options have an `attack`: the outcomes of that attack on a cleanly fine-tuned victim, one
    for each training example. None for other strategies."""
    checkpoints: Path | None = None
    """A folder for this fine-tuning's checkpoints. After an interruption the same fine-tuning goes on from the last.
    Whoever gives the folder removes it. None: a fine-tuning that is interrupted begins again."""
    unchanged: Callable[[], object] = lambda: None
    """Called before each checkpoint; raises where what the fine-tuning read has changed since."""
    weights: Path | None = None
    """The folder from which the encoder was loaded; None for one from the hub, and for one without weights."""

    def sample(self, split: Literal["train", "validation"]) -> list[Example]:
        """Return the examples to fine-tune or to validate on: all, or a seeded sample of the size in `training`."""
        training = self.training
        limit = training.train_rows(len(self.data.split(split))) if split == "train" else training.max_validation
        return sample_split(self.data, split, limit, self.seed)


@dataclass(frozen=True)
class Finetuned:
    """The result of a strategy. It unpacks into victim and scores, and a strategy may return these two as a tuple."""

    victim: AnyVictim
    """Encoder and head, in eval mode: a classifier, for similarity a scorer of pairs, for rankings a retriever."""
    scores: dict[str, float]
    """Numbers for the record, by name. Among them must be `validation_accuracy` (0..1), for similarity
    `validation_spearman` (-1..1), for rankings `ndcg@10` (0..1)."""
    health: Health | None = None
    """What the strategy says of itself beside its scores, such as that its search found nothing to replace words by."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.victim, self.scores))


class FinetuneStrategy(Extension[O]):
    """A way to make a victim of an encoder and a task.

    The file is imported whenever a suite that names it is loaded, so import torch inside of `run`.
    """

    guide: ClassVar[str] = "docs/guide-add-a-strategy.md"

    short: str = ""
    """What tables call one of rbench's own. Those of users keep the names of their files."""
    serves: tuple[Family, ...] = (CLASSES,)
    """The kinds of tasks that it makes victims for."""
    resources: tuple[ResourceKind, ...] = ()
    """The kinds of resources of the suite's resource set that it may need. `needs` may narrow them."""
    frozen: bool = False
    """Whether it leaves the encoder as it is, and so serves encoders behind endpoints too, which have no weights."""
    vector_lengths: str = ""
    """How results depend on the lengths of vectors, in which encoders with and without `normalize` differ; empty: they
    do not."""
    counted: Mapping[str, str] = {}
    """For each score that is not of the validation split, the score that gives its sample size."""

    @abstractmethod
    def run(self, options: Any, context: FinetuneContext) -> Finetuned:
        """Make a victim. `options` is an instance of `Options`.

        Raises JobError where the fine-tuning fails, ResourceError where a resource cannot be loaded.
        """

    def needs(self, options: Any) -> tuple[ResourceKind, ...]:
        """Return those of `resources` that are needed with these options."""
        return self.resources

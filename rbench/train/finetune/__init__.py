"""Fine-tuning strategies: each makes a victim of an encoder and a task.

A strategy is a module that is found by its name and exports what `Strategy` says: `Options` and `run`. Modules whose
names begin with an underscore are shared by several strategies, or are parts of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel

from rbench.config import code
from rbench.schema import Health, Outcome, Training
from rbench.train.finetune._data import sample_split
from rbench.train.options import Progress

if TYPE_CHECKING:
    from rbench.encoders import AnyVictim
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.tasks import Example, TaskData
    from rbench.words.resources import Resources

__all__ = ["FinetuneContext", "Finetuned", "Progress", "Strategy", "sample_split", "strategy"]


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
    """The resources that the module `NEEDS`, from the suite's resource set; None where it needs none."""
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

    def __getitem__(self, index: int) -> Any:
        return (self.victim, self.scores)[index]


class Strategy(Protocol):
    """What a strategy's module exports.

    Six more exports are optional. `LENGTHS` says in words how results depend on the lengths of vectors, which encoders
    with and without `normalize` differ in. `FROZEN` says that the strategy leaves the encoder as it is, so that it
    serves encoders behind endpoints too, which have no weights. `SERVES` says which tasks it makes victims for:
    `classification`, as if it were left out, `similarity` or `ranking`. `NEEDS` lists the kinds of resources that the
    strategy works with. `COUNTED` maps the name of a score to the name of the score that holds its sample size; a
    score that is not listed
    is taken to be of the validation split. `VERSION` is raised when results change.
    """

    Options: type[BaseModel]
    """What a suite may set. A suite is checked against it while it loads, so importing the module must be quick."""

    def run(self, options: Any, context: FinetuneContext) -> Finetuned:
        """Make a victim. `options` is an instance of `Options`.

        Raises JobError where the fine-tuning fails, ResourceError where a resource cannot be loaded.
        """
        ...


def strategy(name: str) -> Strategy:
    """The module of an installed strategy; raises SuiteError where there is none of this name."""
    module: Any = code.find("finetune", name).open()
    return module  # type: ignore[no-any-return]

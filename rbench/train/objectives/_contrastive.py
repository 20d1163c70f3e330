"""The base of contrastive objectives, which state a loss over the views of a batch. Importing it loads no torch."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from rbench.train.objectives._base import TrainingObjective

if TYPE_CHECKING:
    from rbench.schema import EncoderSpec
    from rbench.train.contrastive import Batch, ContrastiveObjective, Losses, SentenceModel
    from rbench.words.resources import Resources

O = TypeVar("O", bound=BaseModel)  # noqa: E741


class ContrastiveTraining(TrainingObjective[O]):
    """A loss over the views of a batch. Its options are a `rbench.train.options.Contrastive`.

    An option `head` names the head that stands on the encoder while it is trained; without it, it is an MLP.
    """

    full_batches = True

    @abstractmethod
    def losses(self, options: Any, model: SentenceModel, batch: Batch) -> Losses:
        """Return `loss`, which training lowers, and its terms by name, each a tensor of one number.

        `model.twice`, `model.pair` and `model.attacked` make views; `model.embed` and `model.perturbed` their
        embeddings.
        """

    def build(
        self, options: Any, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ContrastiveObjective:
        """Build the objective on `base`, or on `spec.architecture` if `base` is None."""
        from rbench.train.contrastive import ContrastiveObjective

        head: Any = getattr(options, "head", "mlp")
        return ContrastiveObjective(spec, base, options, partial(self.losses, options), head=head)

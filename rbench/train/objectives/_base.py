"""The base of training objectives: what the class in the file of one may state. Importing it loads no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel

from rbench.schema import ResourceKind
from rbench.schema.extension import Extension

if TYPE_CHECKING:
    from rbench.schema import EncoderSpec
    from rbench.train.objectives._trained import Fitted, Objective
    from rbench.words.resources import Resources

O = TypeVar("O", bound=BaseModel)  # noqa: E741


class TrainingObjective(Extension[O]):
    """A way to train an encoder. Its `build` makes what the training loop trains, for one encoder.

    A loss over the views of a batch is a `ContrastiveTraining`. The file is imported whenever a suite is loaded, so
    import torch inside of functions.
    """

    guide: ClassVar[str] = "docs/guide-add-an-objective.md"

    resources: tuple[ResourceKind, ...] = ()
    """The kinds of resources that `build` may need. The options then have a field `resources: ResourceChoice`, which
    names the resource set. `needs` may narrow them."""
    model_options: tuple[str, ...] = ()
    """The options that name further models: folders, hub ids or encoders. Keys hold the content of their weights."""
    draws: bool = True
    """Whether the result depends on the seed. Otherwise a suite's `train_seeds` reach the base instead."""
    takes_steps: bool = True
    """Whether `build` returns an `Objective`, which is trained in steps, and not a `Fitted`."""
    full_batches: bool = False
    """Whether all batches must be full, as for negatives of the same batch."""
    counted: Mapping[str, str] = {}
    """For each score that is not of held-out texts, the score that gives its sample size."""

    @abstractmethod
    def build(
        self, options: Any, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> Objective | Fitted:
        """Make what is trained.

        Args:
            options: an instance of `Options`. Those of `model_options` are folders or hub ids.
            spec: the encoder that is trained.
            base: the folder or hub id of its starting weights; None: they are drawn, by `spec.architecture`.
            resources: those of `needs`, from the resource set; None where nothing is needed.

        Raises JobError where the encoder or the options cannot be trained, ResourceError where a resource cannot be
        loaded.
        """

    def needs(self, options: Any) -> tuple[ResourceKind, ...]:
        """Return those of `resources` that are needed with these options."""
        return self.resources

    def missing(self) -> str:
        """Say which package is not installed, and how to install it; an empty text where none lacks."""
        return ""

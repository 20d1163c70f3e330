"""The base of attacks that are Python files: what the class in one may state. Importing it loads no textattack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel

from rbench.schema import CLASSES, Family, ResourceKind, TaskSpec
from rbench.schema.extension import Extension

O = TypeVar("O", bound=BaseModel)  # noqa: E741


class AttackMethod(Extension[O]):
    """An attack with code of its own. Its `build` makes a `textattack.Attack`, which rbench runs on each example.

    The file is read whenever attacks are listed, so import torch and textattack inside of `build`.
    """

    guide: ClassVar[str] = "docs/guide-add-an-attack.md"

    serves: tuple[Family, ...] = (CLASSES,)
    """The kinds of tasks that it can attack."""
    resources: tuple[ResourceKind, ...] = ()
    """The kinds of resources of the suite's resource set that it may need. `needs` may narrow them."""
    gradients: bool = False
    """Whether it asks the victim for gradients, which functions and endpoints do not have."""
    control: bool = False
    """Whether it is made to be compared with, such as one that changes words at random."""
    queries_per_word: float | None = None
    """About how often it asks the victim for each word, from which plans estimate; None: that is not known."""
    protect: Mapping[str, tuple[str, ...]] | None = None
    """The columns that it leaves alone, by kind of task; None: the premise of NLI."""

    @abstractmethod
    def build(self, victim: Any, resources: Any, options: Any, task: TaskSpec) -> Any:
        """Return a `textattack.Attack` on one victim.

        Args:
            victim: a TextAttack model wrapper (texts in, logits out). Its `classifier` has encoder and head.
            resources: those of `needs` (`rbench.words.resources.Resources`).
            options: an instance of `Options`.
            task: the task whose examples are attacked.

        Random numbers come from the global generators of Python, numpy and torch, which are seeded for each example.
        """

    def needs(self, options: Any) -> tuple[ResourceKind, ...]:
        """Return those of `resources` that are needed with these options."""
        return self.resources

    def uses_gradients(self, options: Any) -> bool:
        """Return whether it asks for gradients with these options."""
        return self.gradients

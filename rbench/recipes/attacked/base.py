"""What a family of kinds of tasks says of attacks: the victim, the truth about an example, the goal and the oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from textattack import Attack

from rbench.recipes.victim import NetworkVictim
from rbench.schema import AttackSpec, SkipReason, TaskSpec
from rbench.tasks import Example


@dataclass(frozen=True)
class Truth(ABC):
    """What is true of an example, and what its outcome says of it."""

    value: int | float | None
    """The label, as an outcome has it; None for a gold score that is missing or no number."""
    skip: SkipReason | None = None
    """Why the example cannot be attacked; None if it can be."""

    @property
    @abstractmethod
    def for_textattack(self) -> int | str:
        """The truth in the form that `Attack.attack` accepts and passes to the goal function. It refuses floats."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an outcome that hold the truth."""
        return {"label": self.value}

    @abstractmethod
    def answer(self, when: str, output: Any) -> dict[str, Any]:
        """Return the fields of an outcome for a victim's answer.

        Args:
            when: `original` or `perturbed`.
            output: that of the goal function's result.
        """

    @abstractmethod
    def step(self, raw: Any, output: Any) -> tuple[float, int | None]:
        """Return the score and the prediction (None: there is none) of a step of an attack.

        Args:
            raw, output: those of the goal function's result.
        """

    def for_oracle(self, changed: tuple[str, ...], original: tuple[str, ...]) -> tuple[str, ...]:
        """Return the texts that the oracle reads, given the columns of the changed text and of the original one."""
        return changed


class AttackedKind(ABC):
    """What attacks on tasks of one family of kinds need. Subclasses complete it; the defaults change nothing."""

    wrapper: type[NetworkVictim]
    """What TextAttack gets: it wraps a victim that a job made, which is the `victim` of the kind of task."""

    @abstractmethod
    def truth(self, example: Example, task: TaskSpec) -> Truth:
        """Return the truth about an example. Raises JobError where its label is none that the task can have."""

    def aim_attack(self, attack: Attack, victim: Any, task: TaskSpec, spec: AttackSpec) -> Attack:
        """Return the attack with the goal of the kind in place of its own. Search, transformation and constraints stay.

        Raises SuiteError or JobError where the task or the victim does not fit the goal.
        """
        return attack

    def finish_attack(self, attack: Attack, spec: AttackSpec) -> Attack:
        """Return the attack that is run, given the one to which all else was added."""
        return attack

    def protected_columns(self, task: TaskSpec, spec: AttackSpec) -> tuple[str, ...]:
        """Return the columns that the goal's options keep as they are, beside those that the attack protects."""
        return ()

    def oracle_label(self, generator: str, texts: tuple[str, ...]) -> int | None:
        """Return the true label of texts of a generated task (`Truth.for_oracle`); None where they cannot be read. It
        is called for kinds with an oracle alone."""
        raise NotImplementedError

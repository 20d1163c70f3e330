"""What every kind of task has: the facts and rules by which the rest of rbench tells kinds of tasks apart."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, Protocol

from rbench.schema.common import Split

Family = Literal["classification", "similarity", "ranking"]
"""Kinds of one family have the same sort of victim: a classifier, a scorer of pairs, or a retriever. Strategies, Python
attacks and measures state as `serves` the families that they are for."""
CLASSES: Family = "classification"
"""The family of those that state no `serves`."""
ACCURACIES = ("aua", "clean")
"""The metrics of a leaderboard for kinds that name no others: accuracy under attack, and clean accuracy."""


class TaskFields(Protocol):
    """The fields of a task that kinds read; a `rbench.schema.TaskSpec` has them."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def scale(self) -> tuple[float, float] | None: ...
    @property
    def generator(self) -> str | None: ...
    @property
    def hub(self) -> object | None: ...
    @property
    def local(self) -> object | None: ...
    @property
    def ranking(self) -> object | None: ...


class AttackFields(Protocol):
    """The fields of an attack job that kinds read; a `rbench.schema.AttackJob` has them."""

    @property
    def task(self) -> TaskFields: ...
    @property
    def attack(self) -> Any: ...
    @property
    def strategy(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class TaskKind:
    """A kind of task. The fields without a default are those in which kinds differ most.

    A kind is a constant of a module of this package, and stands in `KINDS`. `TaskSpec.of_kind` returns it, so whoever
    meets a task asks this object, and compares no names. What a kind does with torch or TextAttack is in modules of
    other packages that have the name of its family, and `module_in` finds them.
    """

    name: str
    """What stands after `kind:` in the files of tasks, and in keys."""
    family: Family
    tasks: str
    """What tasks of the family are called, in the plural: `tasks with classes`."""
    has: str
    """What such a task has in place of other kinds' labels: `similarity scores`."""
    has_classes: bool = False
    """Whether the label of an example is a class, so that victims predict classes."""
    has_scores: bool = False
    """Whether the label of an example is a gold score, so that victims give scores and outcomes have errors."""
    has_documents: bool = False
    """Whether the examples are queries, for which documents are ranked that read a prompt of their own."""
    label_column: Literal["label", "score"] | None = None
    """The column of rows with the label; None: rows have none."""
    ordered: bool = True
    """Whether the order of the two texts of a pair has a meaning."""
    texts: int = 1
    """How many text columns the rows of a user's table have."""
    names_columns: tuple[str, ...] = ()
    """What a user's table calls its text columns, whatever their names; empty: they keep their names."""
    own_fields: Mapping[str, str] = field(default_factory=dict)
    """The fields of a task's file that no other family has, each with what it is, as the start of an error."""

    default_strategy: str
    """The strategy of a suite that names none."""
    victim: str
    """The module of `rbench.encoders` with the victims, which is also the kind that a saved victim states."""
    quality: str
    """The score of a victim on data that is not attacked, as strategies report it."""
    quality_split: Split = "validation"
    """The split on which `quality` is computed."""
    score: str
    """The score of victims that tables of other texts show, in words: `accuracy`."""
    lowest_score: float = 0.0
    """The lowest value of `quality` and `score`; the highest is 1."""

    goal: str | None = None
    """The field of `AttackSpec` with the goal of attacks on such tasks. None: the goal of the attack itself."""
    gradients: bool = True
    """Whether attacks can use gradients of victims."""
    oracle: bool = True
    """Whether the generator of a task tells the true label of changed texts."""
    attack_code: tuple[str, ...] = ()
    """The modules with a VERSION (`rbench.config.versions`) that such attacks use beside those of all attacks."""
    board_metrics: tuple[str, str] = ACCURACIES
    """The metrics by which a leaderboard compares victims: under attack, and on the same texts without changes."""
    board_score: str = "Accuracy"
    """What headers of a leaderboard call the two."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    """The names of prompts in a model's own files that are for such texts, the better ones last, and their keys in
    `EncoderSpec.prompt`."""
    hub_category: str = "text-classification"
    """The task category of data sets on the Hugging Face Hub."""
    answer: str = "class"
    """What a victim's answer is, in descriptions of columns."""

    def module_in(self, package: str) -> ModuleType | None:
        """Import the module of a package that has the name of this kind's family, and holds what the package does for
        such tasks. Return None where the package has no such module, and treats these tasks as it does most."""
        name = f"{package}.{self.family}"
        return importlib.import_module(name) if find_spec(name) is not None else None

    def misfits(self, task: TaskFields) -> Iterator[str]:
        """Yield what does not fit in the file of a task of this kind, beside fields of other families."""
        yield from ()

    def why_no_victims(self, task: TaskFields) -> str | None:
        """Return why there can be no victims on a task of this kind, and the remedy; None where there can be."""
        return None

    def beyond_data(self, task: str, options: Mapping[str, Any], held: Any) -> Iterator[str]:
        """Yield what is wrong with options on the data of a task of this kind.

        Args:
            task: its name, for messages.
            options: those of an attack's goal, or of a measure.
            held: what the task has beside its examples (`rbench.tasks.TaskData.collection`).
        """
        yield from ()

    def goal_notes(self, attacks: Sequence[AttackFields]) -> list[str]:
        """Return the notes below tables on when attacks on tasks of this kind succeed. `attacks` are not empty."""
        return []

    def success_rule(self, attack: AttackFields) -> str:
        """Return when an attack has succeeded, as part of a sentence."""
        return "the victim's prediction for the changed text is not the label"

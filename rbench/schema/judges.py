"""Judges: classifiers that say of every success what people are asked of some (`rbench judge proxy`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from rbench.schema.common import Checked
from rbench.schema.entries import Named
from rbench.schema.victims import VictimSpec


class Question(VictimSpec):
    """What a judge is asked, and by what: a model, a function or an endpoint, as a victim is.

    In the body of an endpoint `{labels}` stands for what may be answered.
    """

    JUDGES: ClassVar[bool] = True

    tolerance: Annotated[float, Field(ge=0, le=1)] = 1.0
    """As that of a victim. 1: nothing is asked twice. A judge may be unsteady: its error on judged texts has that."""
    joined: bool = False
    """Whether a text of several columns is one, with a line `column: text` for each; of the meaning it always is."""
    classes: tuple[str, ...] = ()
    """Of the meaning: the classifier's labels, such as those of an NLI model, in its order."""
    kept: tuple[str, ...] = ()
    """Those of `classes` that say that both texts mean the same."""

    def wrong(self) -> Iterator[str]:
        yield from super().wrong()
        if unknown := [name for name in self.kept if name not in self.classes]:
            yield f"`kept` names {', '.join(unknown)}, which is none of `classes`"


class JudgeSpec(Named, Checked):
    """A judge. It is asked one of two questions, or both."""

    label: Question | None = None
    """Which label of the task has this text?"""
    meaning: Question | None = None
    """Do the original (column `first`) and the changed text (`second`) mean the same?"""

    def wrong(self) -> Iterator[str]:
        if self.label is None and self.meaning is None:
            yield "a judge answers `label`, `meaning`, or both; say under each how it is asked"
        if self.label is not None and self.label.classes:
            yield "`classes` is for `meaning`: the labels of texts are those of the task"
        if self.meaning is not None and not (self.meaning.kept and len(self.meaning.classes) > 1):
            yield "`meaning` needs `classes`, what may be answered, and `kept`, which of them mean that both say it"

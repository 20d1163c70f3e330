"""The result of `rbench.attack`: an outcome for each text, as frames, a table, and texts with their changes marked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rbench.score import Tally
from rbench.spec import Outcome, TaskSpec
from rbench.system.changes import marked

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20
"""Examples that a notebook or a terminal shows; `frame` has all."""


@dataclass(frozen=True, repr=False)
class AttackResult:
    """What an attack made of some texts. A notebook and a terminal show the rates, and the words that changed."""

    victim: str
    attack: str
    task: TaskSpec
    """The columns of the texts, and the names of the labels in the order of the victim's outputs."""
    seed: int
    resources: str
    outcomes: tuple[Outcome, ...]
    """One for each text, in the order of the texts; the ids are their positions."""
    seconds: float
    notes: tuple[str, ...] = ()
    """What a reader must know, such as that the labels seem to be exchanged."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each text: victim, attack, seed, and its outcome in the columns of `rbench.load_results`.

        `label_name`, `original_name` and `perturbed_name` are the names of the true label and of the predictions.
        """
        from rbench.tables.frame import outcomes_frame

        names = {"victim": self.victim, "attack": self.attack, "seed": self.seed}
        found = outcomes_frame(self.outcomes, self.task.columns, names)
        named = {
            "label": "label_name",
            "original_prediction": "original_name",
            "perturbed_prediction": "perturbed_name",
        }
        labels = dict(enumerate(self.task.labels))
        return found.assign(**{new: found[old].map(labels).astype("string") for old, new in named.items()})

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row: victim, attack, seed, n, the ASR with its 95% interval, clean accuracy, queries, counts.

        Shares are in 0..1. `n` is the number of texts that the victim classified correctly, so that they were attacked.
        """
        from rbench.tables.summary import frame_of, measures

        row = {"victim": self.victim, "attack": self.attack, "seed": self.seed, **measures(Tally.of(self.outcomes))}
        return frame_of([row], ("victim", "attack", "seed"))

    def table(self) -> str:
        """Return the summary as a markdown table, with shares in percent."""
        from rbench.tables.summary import for_people, markdown

        return markdown(for_people(self.summary.drop(columns="seed")))

    def _changed(self) -> list[Outcome]:
        """Return the examples to show: the successes, or if there are none the first."""
        hit = [outcome for outcome in self.outcomes if outcome.status == "succeeded"]
        return (hit or [*self.outcomes])[:SHOWN]

    def _more(self) -> str:
        there = sum(outcome.status == "succeeded" for outcome in self.outcomes) or len(self.outcomes)
        return f"{SHOWN} of {there} are shown; .frame has all" if there > SHOWN else ""

    def _lines(self) -> list[str]:
        lines = []
        for outcome in self._changed():
            after = outcome.perturbed or outcome.original or ()
            texts = (marked(old, new) for old, new in zip(outcome.original or (), after, strict=True))
            lines.append(f"{outcome.example_id} {self._headline(outcome)}: {' | '.join(texts)}")
        return [*lines, self._more()] if self._more() else lines

    def _headline(self, outcome: Outcome) -> str:
        def name(label: int | None) -> str:
            return "nothing" if label is None else self.task.labels[label]

        if outcome.status == "succeeded":
            return f"{name(outcome.original_prediction)} -> {name(outcome.perturbed_prediction)}"
        return outcome.status

    def __repr__(self) -> str:
        from rbench.system.console import harmless

        return harmless("\n".join([self.table(), *self.notes, "", *self._lines()]))

    def _repr_markdown_(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from rbench.api.html import examples, frame, paragraphs
        from rbench.tables.summary import for_people

        shown = {outcome.example_id for outcome in self._changed()}
        rows = self.frame[self.frame["example_id"].isin(shown)]
        summary = frame(for_people(self.summary.drop(columns="seed")))
        return summary + examples(rows, self.task.labels) + paragraphs([*self.notes, self._more()])

"""What `rbench.run` and `rbench.attack` return: tables and frames, and HTML for notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape as escape_html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.errors import JobError
from rbench.score import Tally
from rbench.spec import Job, Outcome, Record, TaskSpec
from rbench.storage.runs import Store
from rbench.system.changes import changes, marked
from rbench.system.escaping import harmless
from rbench.tables import Results, results_frame
from rbench.tables.frame import outcomes_frame
from rbench.tables.summary import for_people, frame_of, markdown, measures, summary_frame

if TYPE_CHECKING:
    import pandas as pd


EXAMPLES = 5
"""Changed texts that a notebook shows below a run's tables."""


@dataclass(frozen=True, repr=False)
class RunResult:
    """The result of a run. `failed` are the records of failed jobs, `skipped` the jobs that needed one of them.

    A notebook shows the summary and some changed texts, a terminal the tables.
    """

    run: Path
    complete: int
    failed: list[Record] = field(default_factory=list)
    skipped: list[Job] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    errored: Mapping[str, int] = field(default_factory=dict)
    """Number of examples of complete jobs on which the attack raised an exception, by its type."""
    figures: list[Path] = field(default_factory=list)
    """The files of the suite's figures."""
    flags: list[str] = field(default_factory=list)
    """The flags of the jobs, one sentence for each flag."""
    claims: list[str] = field(default_factory=list)
    """What the run says of each claim of the suite, and which differences it could have shown."""
    elsewhere: list[Job] = field(default_factory=list)
    """The jobs that other processes were still running in the same folder."""
    report: Path | None = None
    """The run as one HTML file; None where it could not be written."""
    submitted: list[str] = field(default_factory=list)
    """The ids of the SLURM jobs that run the rest."""
    left: list[Job] = field(default_factory=list)
    """The jobs that nobody runs, because the processes that an executor started ended too early."""
    others: str = ""
    """What is left of the jobs of `elsewhere`, and which processes have them, in words."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each attacked example, as `rbench.load_results` gives it. Raises JobError if every job failed."""
        self._check_any()
        return results_frame(self._results().store)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row for each complete attack; see `rbench.tables.summary.summary_frame`.

        Raises JobError if every job failed.
        """
        self._check_any()
        return summary_frame(self._results())

    def _check_any(self) -> None:
        """Raise JobError if every job failed, or needs one that did: an empty frame would look like a result."""
        if self.failed and not self.complete:
            first, more = self.failed[0], len(self.failed) - 1
            others = f", and {more} more" if more else ""
            raise JobError(f"no job of {self.run} is complete: {first.job.name} failed ({first.reason}){others}")

    def table(self, metric: str = "asr", **how: Any) -> str:
        """Return a table as text; `how` are the other arguments of `rbench.table`, such as fmt="latex"."""
        from rbench.api.runs import table

        return table(self.run, metric=metric, **how)

    def _results(self) -> Any:
        return Results.of(Store(self.run))

    def said_of_skipped(self) -> list[str]:
        """Say which jobs were not run, and which failed job each of them needs."""
        failed = {record.job.key: record.job.name for record in self.failed}
        said = []
        for job in self.skipped:  # each comes after the jobs that it needs
            failed[job.key] = next((failed[key] for key in job.needs.values() if key in failed), "")
            what = f" ({failed[job.key]})" if failed[job.key] else ""
            said.append(f"not run, because it needs a job that failed{what}: {job.name}")
        return said

    def said_of_others(self) -> list[str]:
        """Say what is not done, and who does it; nothing if all has ended."""
        if self.submitted:
            return [
                f"submitted: {_shortened(self.submitted)}. The last of them writes the tables. Who does what: "
                f"rbench status {self.run} --watch. If they end before all is done, the same command submits the rest."
            ]
        if self.left:
            jobs = "1 job is" if len(self.left) == 1 else f"{len(self.left)} jobs are"
            return [f"{jobs} left, because the processes ended before. The same command goes on."]
        if not self.elsewhere:
            return []
        jobs = "1 job is" if len(self.elsewhere) == 1 else f"{len(self.elsewhere)} jobs are"
        return [
            f"{jobs} not complete{self.others}. Nothing is left for this process. The last one writes the tables: "
            f"rbench status {self.run} shows how far it is. If it hangs or is stopped, end it and run the same command."
        ]

    def _said(self) -> list[str]:
        """Return the lines below the tables: what failed, and where the results are."""
        lines = [*self.claims, *self.flags]
        lines += [f"failed: {record.job.name}: {record.reason}" for record in self.failed]
        lines += self.said_of_skipped()
        lines += self.said_of_others()
        return [*lines, f"{self.complete} jobs complete; results are in {self.run}"]

    def __repr__(self) -> str:
        return "\n".join([*(table.rstrip("\n") + "\n" for table in self.tables), *self._said()])

    def _repr_markdown_(self) -> str:
        return "\n\n".join([*(table.rstrip("\n") for table in self.tables), *self._said()])

    def _repr_html_(self) -> str:
        if (self.failed and not self.complete) or not len(
            self.summary
        ):  # a suite without attacks has tables of another kind
            return html_paragraphs(["\n\n".join(self.tables), *self._said()])
        changed = self.frame[self.frame["status"] == "succeeded"].head(EXAMPLES)
        return html_frame(for_people(self.summary)) + html_examples(changed) + html_paragraphs(self._said())


def _shortened(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]} ({len(names)} tasks)"


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
        row = {"victim": self.victim, "attack": self.attack, "seed": self.seed, **measures(Tally.of(self.outcomes))}
        return frame_of([row], ("victim", "attack", "seed"))

    def table(self) -> str:
        """Return the summary as a markdown table, with shares in percent."""
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
        shown = {outcome.example_id for outcome in self._changed()}
        rows = self.frame[self.frame["example_id"].isin(shown)]
        summary = html_frame(for_people(self.summary.drop(columns="seed")))
        return summary + html_examples(rows, self.task.labels) + html_paragraphs([*self.notes, self._more()])


_OLD = "background: #ffd7d5; color: #82071e"
_NEW = "background: #ccffd8; color: #116329; text-decoration: none; font-weight: bold"
_PRE = "white-space: pre-wrap; text-align: left"


def html_escape(text: str) -> str:
    """Escape a text for HTML, and what would show its letters in another order."""
    return escape_html(harmless(text))


def html_frame(shown: pd.DataFrame) -> str:
    """Return a frame of texts as a table."""
    return html_table(
        list(shown.columns), ([html_escape(str(value)) for value in row] for row in shown.itertuples(index=False))
    )


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. The entries of `rows` are HTML."""
    head = "".join(f"<th>{html_escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f'<td style="{_PRE}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_paragraphs(texts: Iterable[str]) -> str:
    """Return each text as a paragraph that keeps its line breaks."""
    return "".join(f'<p style="{_PRE}">{html_escape(text)}</p>' for text in texts if text)


def html_marked(original: str, perturbed: str) -> str:
    """Return a changed text: old words struck through on red, new ones bold on green."""
    parts = []
    for old, new in changes(original, perturbed):
        if old == new:
            parts.append(html_escape(old))
            continue
        parts.append(f'<del style="{_OLD}">{html_escape(old)}</del>' if old else "")
        parts.append(" " if old and new else "")
        parts.append(f'<ins style="{_NEW}">{html_escape(new)}</ins>' if new else "")
    return "".join(parts)


def html_examples(rows: pd.DataFrame, labels: Sequence[str] = ()) -> str:
    """Return attacked examples as a table: id, status, labels, queries, and the texts with their changes marked.

    Args:
        rows: rows of `rbench.load_results`. Of examples without texts, the text is left out.
        labels: the names of labels; without them their numbers are shown.
    """
    names = [name for name in ("encoder", "task", "attack") if name in rows and rows[name].nunique() > 1]
    header = [*names, "example", "status", "label", "predicted", "queries", "text"]
    return html_table(header, (_cells(row, names, labels) for row in rows.to_dict("records"))) if len(rows) else ""


def _cells(row: Mapping[Any, Any], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    before, after = (_label_name(row[key], labels) for key in ("original_prediction", "perturbed_prediction"))
    said = [str(row[name]) for name in (*names, "example_id", "status")]
    said += [_label_name(row["label"], labels), f"{before} → {after}" if after else before, str(row["num_queries"])]
    return [*map(html_escape, said), _example_text(row)]


def _label_name(label: Any, labels: Sequence[str]) -> str:
    import pandas as pd

    if pd.isna(label):
        return ""
    return labels[label] if 0 <= label < len(labels) else str(label)


def _example_text(row: Mapping[Any, Any]) -> str:
    """Return the text of an example, column by column where it has several."""
    import pandas as pd

    if pd.isna(row["original_columns"]):
        return ""
    old = json.loads(row["original_columns"])
    new = old if pd.isna(row["perturbed_columns"]) else json.loads(row["perturbed_columns"])
    named = len(old) > 1
    return "<br>".join(
        (f"<b>{html_escape(name)}:</b> " if named else "") + html_marked(old[name], new[name]) for name in old
    )

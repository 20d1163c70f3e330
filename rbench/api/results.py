"""What `rbench.run` and `rbench.attack` return: tables, frames, HTML for notebooks, and TextAttack's log."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape as escape_html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api.call_options import expand_path
from rbench.api.reporting import write_figures, write_into_run
from rbench.api.runs import Runs, TableLook, build_table, render_built_table, results_of
from rbench.api.runs import prepare_for_people as for_readers
from rbench.config.metrics import MetricCatalogue
from rbench.config.registry import Registry
from rbench.errors import JobError, StoreError
from rbench.execution.run import RunOutcome, ran
from rbench.plan.prepare import Options, PreparedSuite
from rbench.schema import CONTRAST, Job, Outcome, Record, TaskSpec
from rbench.score import Tally
from rbench.store import texts as kept_texts
from rbench.store.job_status import JobStatuses, count_errored, load_statuses
from rbench.store.runs import RunStore, folder_name
from rbench.system.changes import differing_blocks, iter_changes, mark_changes
from rbench.system.console import csv_cell as escaped
from rbench.system.console import harmless
from rbench.system.progress import Progress
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from rbench.tables.flags import Flags
from rbench.verdicts.bold import MAX_ROWS, read_table

if TYPE_CHECKING:
    import pandas as pd


CHANGED_SHOWN = 5
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
        from rbench.tables.frame import results_frame

        return results_frame(self._read_results().store)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row for each complete attack; see `rbench.tables.frame.summary_frame`.

        Raises JobError if every job failed.
        """
        from rbench.tables.frame import summary_frame

        return summary_frame(self._read_results())

    def _read_results(self) -> Results:
        """Read the RUN. Raises JobError if every job failed, or needs one that did: an empty frame would look like a
        result."""
        if self.failed and not self.complete:
            first, more = self.failed[0], len(self.failed) - 1
            others = f", and {more} more" if more else ""
            raise JobError(f"no job of {self.run} is complete: {first.job.name} failed ({first.reason}){others}")
        return Results.of(RunStore(self.run))

    def table(self, metric: str = "asr", **how: Any) -> str:
        """Return a table as text; `how` are the other arguments of `rbench.table`, such as fmt="latex"."""
        from rbench.api.runs import table

        return table(self.run, metric=metric, **how)

    def describe_skipped(self) -> list[str]:
        """Say which jobs were not run, and which failed job each of them needs."""
        failed = {record.job.key: record.job.name for record in self.failed}
        sentences = []
        for job in self.skipped:  # each comes after the jobs that it needs
            failed[job.key] = next((failed[key] for key in job.needs.values() if key in failed), "")
            failed_job = f" ({failed[job.key]})" if failed[job.key] else ""
            sentences.append(f"not run, because it needs a job that failed{failed_job}: {job.name}")
        return sentences

    def describe_unfinished(self) -> list[str]:
        """Say what is not done, and who does it; nothing if all has ended."""
        if self.submitted:
            first, last, n = self.submitted[0], self.submitted[-1], len(self.submitted)
            named = ", ".join(self.submitted) if n < 4 else f"{first} ... {last} ({n} tasks)"
            return [
                f"submitted: {named}. The last of them writes the tables. Who does what: "
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
        lines += self.describe_skipped()
        lines += self.describe_unfinished()
        return [*lines, f"{self.complete} jobs complete; results are in {self.run}"]

    def __repr__(self) -> str:
        return "\n".join([*(table.rstrip("\n") + "\n" for table in self.tables), *self._said()])

    def _repr_markdown_(self) -> str:
        return "\n\n".join([*(table.rstrip("\n") for table in self.tables), *self._said()])

    def _repr_html_(self) -> str:
        from rbench.tables.frame import format_summary

        if (self.failed and not self.complete) or not len(
            self.summary
        ):  # a suite without attacks has tables of another kind
            return html_paragraphs(["\n\n".join(self.tables), *self._said()])
        changed = self.frame[self.frame["status"] == "succeeded"].head(CHANGED_SHOWN)
        return html_frame(format_summary(self.summary)) + html_examples(changed) + html_paragraphs(self._said())


def run_prepared(prepared: PreparedSuite, options: Options, progress: Progress, *, report: bool = False) -> RunResult:
    """Run a prepared suite, beside other processes that run it in the same folder; see `rbench.api.run`.

    With `report`, the RUN's report is written at the end.
    """
    with ran(prepared, options, progress) as run_outcome:
        return build_result(run_outcome, options, progress, report=report)


def build_result(run_outcome: RunOutcome, options: Options, progress: Progress, *, report: bool) -> RunResult:
    """Return the result of what ran. If no other process works on the rest, its tables and figures are written."""
    run, statuses = run_outcome.run, load_statuses(run_outcome.run.store, run_outcome.run.prepared.plan)
    unfinished = run_outcome.elsewhere or run_outcome.submitted
    return RunResult(
        run.prepared.run,
        sum(job.key in statuses.done for job in run.jobs),
        run_outcome.failed,
        run_outcome.skipped,
        errored=count_errored(run.store, statuses, run.jobs),
        flags=Flags(run.prepared.plan, statuses.records, run_outcome.run.store).raised_notes(run.jobs),
        elsewhere=run_outcome.elsewhere,
        others=run_outcome.others,
        left=run_outcome.left,
        submitted=run_outcome.submitted,
        **({} if unfinished else _write_results(run.prepared, options, run.store, statuses, progress, report=report)),
    )


def _write_results(
    prepared: PreparedSuite,
    options: Options,
    store: RunStore,
    statuses: JobStatuses,
    progress: Progress,
    *,
    report: bool,
) -> dict[str, Any]:
    """Write the suite's tables and figures, judge its claims, and write the report if wanted; for `RunResult`."""
    results = Results(store, prepared.plan, statuses, MetricCatalogue(Registry(options.include)))
    tables = _write_tables(prepared, store, results, progress)
    figures = write_figures(results, prepared.loaded.modules, progress.note)
    claims = _summarize_claims(results)
    report_file, why = write_into_run(results, Registry(options.include), texts=store.texts) if report else (None, "")
    if why:
        progress.note(why)
    return {"tables": tables, "figures": figures, "claims": claims, "report": report_file}


def _summarize_claims(results: Results) -> list[str]:
    """Return what a run says of its claims, and of differences between its encoders where it has several."""
    if not results.plan.suite.claims and len(results.plan.suite.lineup) < 2:
        return []
    from rbench.verdicts.claims import summarise_claims

    return summarise_claims(results)


def _write_tables(prepared: PreparedSuite, store: RunStore, results: Results, progress: Progress) -> list[str]:
    """Write the suite's tables in every format under RUN/tables; return them as markdown.

    A measure that has nothing to show yet is named in a note.
    """
    suite = prepared.plan.suite
    makers = {"sts": suite.evaluations, CONTRAST: prepared.loaded.sets_of(CONTRAST), "positives": suite.build}
    scored = (prepared.loaded.tasks[name].of_kind.has_scores for name in suite.tasks)
    makers["advsts"] = suite.attacks if any(scored) else ()
    measures = {wanted.metric for wanted in suite.tables if wanted.metric not in results.metrics} - makers.keys()
    wanted_tables = [spec for spec in suite.tables if spec.metric in measures or makers.get(spec.metric, suite.attacks)]
    if not prepared.plan.texts:
        wanted_tables = [wanted for wanted in wanted_tables if not kept_texts.shows_texts(wanted)]
    if not wanted_tables:
        return []
    shown: list[str] = []
    for wanted in wanted_tables:
        try:
            table = build_table(results, wanted)
        except StoreError as error:
            if wanted.metric not in measures:
                raise
            progress.note(f"the table {wanted.label} is left out: {error}")
            continue
        name = folder_name(wanted.label)
        for fmt, ending in (("markdown", "md"), ("latex", "tex"), ("csv", "csv"), ("json", "json")):
            format_spec = wanted if fmt in ("markdown", "latex") else wanted.model_copy(update={"bold": None})
            text = render_built_table(table, results, format_spec, fmt, TableLook())
            store.write_table(f"{name}.{ending}", text)
            if fmt == "markdown":
                shown.append(text)
        attacked = wanted.metric in results.metrics and results.metrics[wanted.metric].of != "victims"
        if attacked and wanted.bold in (None, "significant") and len(table.rows) <= MAX_ROWS:
            sentence = read_table(for_readers(table, results))
            shown[-1] += f"\nIn short: {sentence}\n" if sentence is not None else ""
    return shown


EXAMPLES_SHOWN = 20
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
        outcomes = outcomes_frame(self.outcomes, self.task.columns, names)
        named = {
            "label": "label_name",
            "original_prediction": "original_name",
            "perturbed_prediction": "perturbed_name",
        }
        labels = dict(enumerate(self.task.labels))
        return outcomes.assign(**{new: outcomes[old].map(labels).astype("string") for old, new in named.items()})

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row: victim, attack, seed, n, the ASR with its 95% interval, clean accuracy, queries, counts.

        Shares are in 0..1. `n` is the number of texts that the victim classified correctly, so that they were attacked.
        """
        from rbench.tables.frame import summarise, summary_rows_frame

        row = {"victim": self.victim, "attack": self.attack, "seed": self.seed, **summarise(Tally.of(self.outcomes))}
        return summary_rows_frame([row], ("victim", "attack", "seed"))

    def table(self) -> str:
        """Return the summary as a markdown table, with shares in percent."""
        from rbench.tables.frame import format_summary, render_markdown

        return render_markdown(format_summary(self.summary.drop(columns="seed")))

    def _examples_to_show(self) -> list[Outcome]:
        """Return the examples to show: the successes, or if there are none the first."""
        hit = [outcome for outcome in self.outcomes if outcome.status == "succeeded"]
        return (hit or [*self.outcomes])[:EXAMPLES_SHOWN]

    def _note_of_rest(self) -> str:
        total = sum(outcome.status == "succeeded" for outcome in self.outcomes) or len(self.outcomes)
        return f"{EXAMPLES_SHOWN} of {total} are shown; .frame has all" if total > EXAMPLES_SHOWN else ""

    def _lines(self) -> list[str]:
        lines = []
        for outcome in self._examples_to_show():
            after = outcome.perturbed or outcome.original or ()
            texts = (mark_changes(old, new) for old, new in zip(outcome.original or (), after, strict=True))
            lines.append(f"{outcome.example_id} {self._headline(outcome)}: {' | '.join(texts)}")
        return [*lines, self._note_of_rest()] if self._note_of_rest() else lines

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
        from rbench.tables.frame import format_summary

        shown = {outcome.example_id for outcome in self._examples_to_show()}
        rows = self.frame[self.frame["example_id"].isin(shown)]
        summary = html_frame(format_summary(self.summary.drop(columns="seed")))
        return summary + html_examples(rows, self.task.labels) + html_paragraphs([*self.notes, self._note_of_rest()])


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
    for old, new in iter_changes(original, perturbed):
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
    return (
        html_table(header, (_example_cells(row, names, labels) for row in rows.to_dict("records"))) if len(rows) else ""
    )


def _example_cells(row: Mapping[Any, Any], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    before, after = (_label_name(row[key], labels) for key in ("original_prediction", "perturbed_prediction"))
    cells = [str(row[name]) for name in (*names, "example_id", "status")]
    cells += [_label_name(row["label"], labels), f"{before} → {after}" if after else before, str(row["num_queries"])]
    return [*map(html_escape, cells), _example_text(row)]


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


LOG_COLUMNS = (
    "original_text",
    "perturbed_text",
    "original_score",
    "perturbed_score",
    "original_output",
    "perturbed_output",
    "ground_truth_output",
    "num_queries",
    "result_type",
)
"""The columns of TextAttack's CSVLogger, in its order."""
RUN_COLUMNS = ("encoder", "finetune", "task", "attack", "train_seed", "seed")
_TYPES = {"succeeded": "Successful", "failed": "Failed", "skipped": "Skipped", "errored": "Errored"}
_SPLIT = "<SPLIT>"
"""What stands between the columns of a text, as in TextAttack's log."""


def write_textattack_csv(results: Runs | RunResult | AttackResult, path: str | os.PathLike[str]) -> Path:
    """Write attacked examples as TextAttack's CSV log, and return its path.

    The columns are those of `textattack.loggers.CSVLogger`, and changed words stand in `[[...]]`. Marked are the words
    that `rbench.system.changes` counts, where TextAttack marks by position all words behind one that was split or
    deleted. Before them come `id`, the example's id, and for a RUN also encoder, finetune, task, attack, train_seed and
    seed. Scores are empty, because RUNs hold predictions and no probabilities. Text that a spreadsheet would take for a
    formula (`=1+1`) has an apostrophe before it. Examples on which the attack raised an exception have the result type
    Errored, which TextAttack does not log.

    Args:
        results: the folder of a RUN, or several, what `rbench.run` returned, or what `rbench.attack` returned.
        path: the file to write. Its folder must be there.

    Raises:
        StoreError: the folder is not a RUN, has no attacks, or holds no texts.
        PlanError: the file cannot be written.
    """
    names: tuple[str, ...] = ()
    rows: Iterator[dict[str, Any]]
    if isinstance(results, AttackResult):
        columns = results.task.columns
        rows = (_log_row(outcome, columns) for outcome in results.outcomes)
    else:
        names, rows = RUN_COLUMNS, _run_rows(results.run if isinstance(results, RunResult) else results)
    target, all_rows = expand_path(path), list(rows)
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("id", *names, *LOG_COLUMNS), quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows({name: escaped(value) for name, value in row.items()} for row in all_rows)
    return target


def _run_rows(runs: Runs) -> Iterator[dict[str, Any]]:
    results = results_of(runs)
    for cell in attack_grid(results).cells.values():
        for run in cell.runs:
            assert run.job.attacking is not None
            named = (cell.encoder, cell.finetune, cell.task, cell.attack, run.train_seed, run.job.seed)
            outcomes = results.store.outcomes(run.job)
            if not outcomes and run.tally is not None and run.tally.total:
                raise StoreError(
                    f"{results.root} keeps no outcomes of {run.job.name}, and TextAttack's log is made of them"
                )
            for outcome in outcomes:
                if outcome.original is None:
                    raise StoreError(f"{results.root} holds no texts, and TextAttack's log consists of them")
                yield dict(zip(RUN_COLUMNS, named, strict=True)) | _log_row(outcome, run.spec.task.columns)


def _log_row(outcome: Outcome, columns: Sequence[str]) -> dict[str, Any]:
    before = outcome.original or ()
    after = before if outcome.perturbed is None else outcome.perturbed
    old, new = _marked_words(before, after)
    final = outcome.perturbed_prediction
    return {
        "id": outcome.example_id,
        "original_text": _join_columns(old, columns),
        "perturbed_text": "" if outcome.status == "errored" else _join_columns(new, columns),
        "original_score": None,
        "perturbed_score": None,
        "original_output": outcome.original_prediction,
        "perturbed_output": outcome.original_prediction if final is None else final,
        "ground_truth_output": outcome.label,
        "num_queries": outcome.num_queries,
        "result_type": _TYPES[outcome.status],
    }


def _join_columns(texts: Sequence[str], columns: Sequence[str]) -> str:
    """Return the columns of a text in one, with their names where there are several, as TextAttack's log has them."""
    if len(texts) > 1:
        texts = [f"[[[[{name.capitalize()}]]]]: {text}" for name, text in zip(columns, texts, strict=True)]
    return "\n".join(texts).replace("\n", _SPLIT)


def _marked_words(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns of both texts, with `[[...]]` around the words that changed."""
    from rbench.words.substitution.segmentation import find_words

    marked: tuple[list[str], list[str]] = ([], [])
    for texts in zip(before, after, strict=True):
        spans = [[(start, end) for _, start, end in find_words([text])] for text in texts]
        old, new = (
            [text[start:end] for start, end in word_spans] for text, word_spans in zip(texts, spans, strict=True)
        )
        blocks = differing_blocks(old, new)
        places = [i for i, j, _, _ in blocks for i in range(i, j)], [k for _, _, k, m in blocks for k in range(k, m)]
        for text, word_spans, changed, marked_texts in zip(texts, spans, places, marked, strict=True):
            marked_texts.append(_mark_spans(text, [word_spans[i] for i in changed]))
    return marked


def _mark_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Put marks around spans, the last one first."""
    # The last word first: a mark shifts all that stands behind it, and the other spans stay valid.
    for start, end in reversed(spans):
        text = f"{text[:start]}[[{text[start:end]}]]{text[end:]}"
    return text

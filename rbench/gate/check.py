"""Check a RUN against a baseline, row by row: `rbench check`.

`gate.score` judges rows by their numbers. Here a row that would pass becomes undecided where its numbers say nothing:
its victim is near chance, its attack had no candidates, or texts errored that could hide what would fail.

`gate.rows` says which rows there are and what is compared in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rbench.config.registry import unknown_message
from rbench.errors import StoreError
from rbench.gate import baseline as files
from rbench.gate.baseline import Baseline, BaselineCell, BaselinePlace
from rbench.gate.rows import ComparedRow, CurrentRun, MetricRow, compare_row, format_seeds, list_rows
from rbench.gate.score import GRAVE_SHARE, GateRow, GateVerdict, judge, texts_needed
from rbench.metrics import AnyMetric, Metric, MetricCatalogue
from rbench.schema import Flag
from rbench.tables import Results
from rbench.tables.any_attack import ANY
from rbench.tables.cells import Cell
from rbench.tables.flags import ATTACK_FLAGS, Flags
from rbench.verdicts.cells import CellNumber
from rbench.verdicts.compare import CellName, note_combined_attacks

TOLERANCE = 2.0
"""In points."""
VERDICT_WORDS: Mapping[GateVerdict, str] = {
    "passed": "passed",
    "failed": "failed",
    "unexplained": "worse, cause unknown",
    "undecided": "undecided",
}
"""What a reader is told of a row."""


@dataclass(frozen=True)
class CheckRules:
    """When a check fails."""

    metrics: tuple[AnyMetric, ...] = field(default_factory=lambda: default_metrics(MetricCatalogue()))
    any_attack: bool = False
    """Whether all attacks on a victim count together."""
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """In points, by the metric's name: what gets worse by so much passes. TOLERANCE where a metric has none."""
    alpha: float = 0.05
    about_these_weights: bool = False
    """Whether a training that turned out worse is a failure, and not only a change that makes trainings worse."""
    allow_undecided: bool = False
    """Whether a check passes whose rows cannot all be judged."""
    allow_unexplained: bool = False
    """Whether a check passes with rows that are worse than one or two baseline runs with other weights."""

    def tolerance(self, metric: AnyMetric) -> float:
        return self.tolerances.get(metric.name, TOLERANCE)


@dataclass(frozen=True)
class CheckedRow:
    """One row of a check."""

    metric: AnyMetric
    key: CellName
    """Of a metric of victims without an attack."""
    verdict: GateVerdict
    because: str
    judged: GateRow | None = None
    """None where the RUN does not have the cell."""
    before: float | None = None
    after: float | None = None
    runs: int = 0
    """Number of baseline runs with different victims."""
    beside: tuple[str, ...] = ()
    """What a reader should know of the cell: that it is a control, and its health flags."""

    @property
    def name(self) -> str:
        return f"{self.metric.about.words}, {self.key}"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    run: str
    rules: CheckRules
    rows: tuple[CheckedRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[CheckedRow, ...]:
        return self.rows_with("failed")

    @property
    def unexplained(self) -> tuple[CheckedRow, ...]:
        return self.rows_with("unexplained")

    @property
    def undecided(self) -> tuple[CheckedRow, ...]:
        return self.rows_with("undecided")

    @property
    def verdict(self) -> GateVerdict:
        """The verdict on the whole check: `failed`, `undecided` or `passed`.

        A row that fails counts before one that cannot be judged. One that is worse with unknown cause fails the check,
        too, unless that is allowed.
        """
        if self.failed or (self.unexplained and not self.rules.allow_unexplained):
            return "failed"
        return "undecided" if self.undecided and not self.rules.allow_undecided else "passed"

    @property
    def said(self) -> str:
        """The last line: whether the check passed, and why."""
        if self.verdict != "passed":
            unexplained = self.unexplained if self.verdict == "failed" and not self.rules.allow_unexplained else ()
            rows = (*self.rows_with(self.verdict), *unexplained)
            more = f"; and {len(rows) - 1} more" if len(rows) > 1 else ""
            rows_words = "rows cannot be judged" if self.verdict == "undecided" else "rows"
            rows_words += f", {len(unexplained)} of them {VERDICT_WORDS['unexplained']}" if unexplained else ""
            return (
                f"{self.verdict}: {len(rows)} of {len(self.rows)} {rows_words} ({rows[0].name}: "
                f"{rows[0].because}{more})"
            )
        counts = {VERDICT_WORDS[kind]: len(self.rows_with(kind)) for kind in ("unexplained", "undecided")}
        allowed = "".join(f", {n} {words}, which is allowed" for words, n in counts.items() if n)
        return f"passed: {len(self.rows_with('passed'))} of {len(self.rows)} rows passed{allowed}{self._headline()}"

    def rows_with(self, verdict: GateVerdict) -> tuple[CheckedRow, ...]:
        return tuple(row for row in self.rows if row.verdict == verdict)

    def _headline(self) -> str:
        """Say what became of the first metric where it got worse most."""
        first = self.rules.metrics[0]
        headline = [row for row in self.rows if row.metric == first and first.gate == 1]
        judged_rows = [(row.judged.rise, row) for row in headline if row.judged is not None]
        rises = [(rise, row) for rise, row in judged_rows if rise is not None and None not in (row.before, row.after)]
        if not rises:
            return ""
        _, row = max(rises, key=lambda rise_and_row: rise_and_row[0])
        assert row.before is not None and row.after is not None
        where_most = f" where it {'rose' if first.about.best == 'lowest' else 'fell'} most" if len(rises) > 1 else ""
        smallest_shown = row.judged.smallest if row.judged is not None else None
        direction = "rise" if first.about.best == "lowest" else "fall"
        unseen_note = (
            f"; a {direction} of less than {100 * smallest_shown:.0f} points would mostly go unseen"
            if smallest_shown is not None
            else ""
        )
        return (
            f"; {first.about.words}{where_most}: {100 * row.before:.1f}% became {100 * row.after:.1f}% "
            f"({row.key}){unseen_note}"
        )


def check(results: Results, baseline: Baseline, rules: CheckRules, encoders: Sequence[str] = ()) -> CheckResult:
    """Check a RUN against a baseline.

    Args:
        encoders: the encoders whose cells are checked; empty: all of the baseline.

    Raises:
        StoreError: the baseline has no such encoder; or a cell of the RUN has other data, attack options, resources,
            versions or fine-tuning seeds than the baseline's; or the RUN keeps no outcomes.
    """
    baseline_cells = _select_cells(baseline, encoders, rules)
    run_cells = files.collect_cells(results, rules.metrics)
    _check_alike(results, baseline_cells, run_cells)
    wider_cells = _on_more_texts(baseline, run_cells)
    rows = [
        _with_usable_cells(row, run_cells)
        for row in list_rows(baseline_cells, rules.metrics, rules.any_attack, wider_cells)
    ]
    current_run = CurrentRun(results, run_cells, [metric for metric in rules.metrics if not metric.gate])
    compared_rows = [
        None if why_lost else compare_row(row, baseline, current_run, rules.tolerance(row.metric) / 100)
        for row, why_lost in rows
    ]
    judgements = _judge_rows(compared_rows, rules)
    checked = tuple(
        _check_row(
            row, why_lost, compared_row, next(judgements) if compared_row is not None else None, current_run, baseline
        )
        for (row, why_lost), compared_row in zip(rows, compared_rows, strict=True)
    )
    notes = _check_notes([row for row, _ in rows], baseline_cells, run_cells, encoders, rules, checked, results.metrics)
    return CheckResult(str(results.root), rules, checked, notes)


def _judge_rows(rows: Sequence[ComparedRow | None], rules: CheckRules) -> Iterator[tuple[GateRow, GateRow]]:
    """Yield for each row that is compared its verdict, and the one if all texts that errored had got worse."""
    compared_rows = [compared_row for compared_row in rows if compared_row is not None]
    judging_options = {"alpha": rules.alpha, "about_these_weights": rules.about_these_weights}
    judged_rows = judge([compared_row.sample for compared_row in compared_rows], **judging_options)  # type: ignore[arg-type]
    worst = judged_rows
    if any(compared_row.errored for compared_row in compared_rows):
        worst = judge([compared_row.worst for compared_row in compared_rows], **judging_options)  # type: ignore[arg-type]
    return zip(judged_rows, worst, strict=True)


def _check_row(
    row: MetricRow,
    why_lost: str,
    compared_row: ComparedRow | None,
    both_judgements: tuple[GateRow, GateRow] | None,
    current_run: CurrentRun,
    baseline: Baseline,
) -> CheckedRow:
    cells = [current_run.there[cell.place].cell for cell in row.cells if cell.place in current_run.there]
    remarks = _list_remarks(current_run.results.flags, cells)
    if compared_row is None or both_judgements is None:
        return CheckedRow(row.metric, row.key, "failed", why_lost, runs=baseline.runs, beside=remarks)
    judged_row, worst = both_judgements
    # In this order: a row that fails is never excused, one whose numbers say nothing cannot pass, and errors come last.
    verdict, because = judged_row.verdict, judged_row.because
    # Errors that a slow or broken victim caused hide texts that it may answer worse, so they decide like a failure.
    if verdict != "failed" and 2 * compared_row.errored > compared_row.known:  # say because a victim became slow
        verdict, because = "failed", f"more than half of the baseline's texts errored ({compared_row.lost})"
    elif verdict not in ("failed", "unexplained") and (
        why_void := _why_void(row, cells, current_run.results.flags, baseline.runs)
    ):
        verdict, because = "undecided", f"{because}{'; and' if verdict == 'undecided' else ', but'} {why_void}"
        remarks = tuple(remark for remark in remarks if f"it is flagged {remark}" not in why_void)
    elif verdict == "passed" and worst.verdict != "passed":
        verdict, because = "undecided", f"{because}, but {compared_row.lost}: had they got worse, it would not pass"
    remarks = (*remarks, *([compared_row.lost] if compared_row.errored else []))
    return CheckedRow(
        row.metric,
        row.key,
        verdict,
        because,
        judged_row,
        compared_row.before,
        compared_row.after,
        compared_row.runs,
        remarks,
    )


def _select_cells(baseline: Baseline, encoders: Sequence[str], rules: CheckRules) -> list[BaselineCell]:
    encoder_names = list(dict.fromkeys(cell.encoder for cell in baseline.cells))
    for name in encoders:
        if name not in encoder_names:
            raise StoreError(f"--encoder: {unknown_message('encoder of the baseline', name, encoder_names)}")
    metric_names = {"", *(metric.name for metric in rules.metrics)}
    return [
        cell for cell in baseline.cells if cell.metric in metric_names and (not encoders or cell.encoder in encoders)
    ]


def _on_more_texts(
    baseline: Baseline, run_cells: Mapping[BaselinePlace, CellNumber]
) -> dict[BaselinePlace, BaselineCell]:
    """Return the cells of measures of a baseline of which the RUN has the same rows, by their places."""
    cells = (cell for cell in baseline.cells if cell.metric and cell.place in run_cells)
    return {cell.place: cell for cell in cells if not _mismatches(cell, run_cells[cell.place])}


def _mismatches(cell: BaselineCell, run_cell: CellNumber) -> list[str]:
    """Return in what a cell of the RUN differs from that of the baseline so that they cannot be compared."""
    run_hashes = [files.hash_decisive(run.job) for run in run_cell.cell.runs]
    return [what for what in cell.decisive if any(of_run.get(what) != cell.decisive[what] for of_run in run_hashes)]


def _check_alike(
    results: Results, baseline_cells: Sequence[BaselineCell], run_cells: Mapping[BaselinePlace, CellNumber]
) -> None:
    problems = []
    for cell in baseline_cells:
        if cell.place not in run_cells:
            continue
        runs, differences = run_cells[cell.place].cell.runs, _mismatches(cell, run_cells[cell.place])
        seeds, baseline_seeds = ({run.job.seed for run in runs}, {job.seed for job in cell.jobs})
        if seeds - baseline_seeds:
            differences.append(
                f"the fine-tuning seeds, which choose the examples ({format_seeds(seeds)} and not "
                f"{format_seeds(baseline_seeds)})"
            )
        if differences:
            problems.append(f"{cell.key}: {', '.join(differences)}")
    if problems:
        raise StoreError(
            f"{results.root} cannot be checked against this baseline: cells differ in more than the victim. Run "
            "the suite as the baseline was run, or make the baseline again:\n" + "\n".join(problems)
        )


def _with_usable_cells(row: MetricRow, run_cells: Mapping[BaselinePlace, CellNumber]) -> tuple[MetricRow, str]:
    """Return a row with the cells that the RUN has, and why it cannot be judged; an empty text where it can.

    A metric of victims needs one of its attacks, other rows need all of theirs.
    """
    why_by_attack = {
        cell.attack: because for cell in row.cells if (because := _why_lost(cell, run_cells.get(cell.place)))
    }
    why_lost = "; ".join(f"{attack}: {why}" if len(row.cells) > 1 else why for attack, why in why_by_attack.items())
    if row.metric.of == "victims" and len(why_by_attack) < len(row.cells):
        return row._replace(cells=tuple(cell for cell in row.cells if cell.attack not in why_by_attack)), ""
    return row, why_lost


def _why_lost(cell: BaselineCell, run_cell: CellNumber | None) -> str:
    """Say why a cell of the baseline cannot be judged; an empty text where it can."""
    if run_cell is None:
        return "the RUN does not have this cell"
    for run in run_cell.cell.runs:
        if run.failed:
            assert run.record is not None
            return f"{run.job.name} failed: {run.record.reason}"
        if not run.done:
            return f"{run.job.name} is not done"
    absent = {job.seed for job in cell.jobs} - {run.job.seed for run in run_cell.cell.runs}
    return f"the RUN does not have the fine-tuning seeds {format_seeds(absent)}" if absent else ""


def _list_remarks(flags: Flags, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say of a cell what a reader should know: that it is a control, and its flags."""
    jobs = [job for cell in cells for job in cell.jobs]
    victims = {job.needs.get("victim") for job in jobs}
    victim_entries = [job.entry for job in flags.jobs_behind(jobs) if job.key in victims]
    control_encoder = any(entry is not None and entry.control for entry in victim_entries)
    control_attack = any(job.attacking is not None and job.attacking.attack.control for job in jobs)
    control_remarks = [
        *(["the encoder is a control"] * control_encoder),
        *(["the attack is a control"] * control_attack),
    ]
    return (*control_remarks, *map(str, flags.of(jobs)))


def _why_void(row: MetricRow, cells: Sequence[Cell], flags: Flags, runs: int) -> str:
    """Say why the numbers of a row say nothing; an empty text where they do not. `runs` is that of the baseline."""
    jobs = [job for cell in cells for job in cell.jobs]
    attacks = row.metric.of != "victims"
    runs_by_flag: dict[Flag, set[int]] = {}
    for job in (job for cell in row.cells for job in cell.jobs):
        counted_flags = job.flags if attacks else [flag for flag in job.flags if flag not in ATTACK_FLAGS]
        for flag in row.metric.hindered(counted_flags):
            runs_by_flag.setdefault(flag, set()).add(job.run + 1)
    reasons = [f"it is flagged {flag}" for flag in row.metric.hindered(flags.voiding_flags(jobs, attacks))]
    for flag, flagged in runs_by_flag.items():
        of_which_runs = f" run {format_seeds(flagged)} of {runs}" if runs > 1 else ""
        reasons.append(f"the baseline{of_which_runs} is flagged {flag}")
    if flags.unrecorded(jobs):
        reasons.append("the record of its victim is missing or damaged, so that its health is not known")
    return "; ".join(reasons)


def undecidable_rows(baseline: Baseline, metrics: MetricCatalogue, alpha: float = 0.05) -> list[str]:
    """Say of which rows of a baseline no check will decide, as a note each: too few texts, or flags."""
    # All rows of a check without --metric, since Holm's correction depends on how many there are.
    rows = list_rows(
        baseline.cells, default_metrics(metrics), False, {cell.place: cell for cell in baseline.cells if cell.metric}
    )
    fewest_texts = texts_needed(max(1, len(rows)), alpha)
    messages = []
    for row in rows:
        metric = row.metric
        assert isinstance(metric, Metric), "those of measures are judged only where they are asked for"
        row_flags = {flag for cell in row.cells for job in cell.jobs for flag in job.flags}
        if flags := metric.hindered(row_flags - {*ATTACK_FLAGS} if metric.of == "victims" else row_flags):
            messages.append(f"{row}: flagged {', '.join(sorted(flags))}, so that no check can judge it")
        if (texts := len(row.texts(baseline))) < fewest_texts:
            messages.append(
                f"{row}: {texts} texts count, and a check of all {len(rows)} rows needs {fewest_texts} to see "
                f"{100 * GRAVE_SHARE:g}% of them get worse: attack more (num_examples)"
            )
    return messages


def _check_notes(
    rows: Sequence[MetricRow],
    baseline_cells: Sequence[BaselineCell],
    run_cells: Mapping[BaselinePlace, CellNumber],
    encoders: Sequence[str],
    rules: CheckRules,
    checked: Sequence[CheckedRow],
    metrics: MetricCatalogue,
) -> tuple[str, ...]:
    notes = []
    if rules.any_attack:
        notes.append(
            note_combined_attacks([cell.attack for cell in row.cells] for row in rows if row.key.attack == ANY)
        )
        victims = {row.key._replace(attack="") for row in rows}
        if with_one_attack := [cell.key for cell in baseline_cells if cell.key._replace(attack="") not in victims]:
            notes.append(f"Not checked, because it has one attack: {', '.join(map(str, with_one_attack))}.")
    if unchecked := [metric.about.words for metric in default_metrics(metrics) if metric not in rules.metrics]:
        notes.append(f"Not checked, because of --metric: {', '.join(unchecked)}. A worse model may show there alone.")
    if any(row.on_more_texts for row in rows):
        notes.append(
            "Clean accuracy is judged on the rows of the test split that were scored, not on the attacked texts alone."
        )
    baseline_places = {cell.place for cell in baseline_cells}
    new_cells = []
    for metric_name, key in run_cells:
        of_attacks = not metric_name
        if of_attacks and ("", key) not in baseline_places and (not encoders or key.encoder in encoders):
            new_cells.append(key)
    if new_cells:
        notes.append(
            f"The baseline does not have {len(new_cells)} cells of the RUN, such as {new_cells[0]}: not checked."
        )
    if any(row.verdict == "unexplained" for row in checked):
        notes.append(
            "These weights are worse than the baseline's. Whether the change made them so, and not the training, one "
            "or two baseline runs cannot show. Three or more can: train the baseline with several seeds, and give all "
            "RUNs to rbench baseline. With --about-these-weights the question is of the weights alone, and the row "
            "fails; --allow-unexplained lets it pass."
        )
    return tuple(notes)


def default_metrics(metrics: MetricCatalogue) -> tuple[Metric, ...]:
    """Return the metrics that a check judges if it is not told which, in the order in which they are shown.

    The first is the headline.
    """
    return tuple(
        sorted(
            (gate_metric for gate_metric in metrics.all() if gate_metric.gate), key=lambda gate_metric: gate_metric.gate
        )
    )

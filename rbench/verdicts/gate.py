"""Check a RUN against a baseline, row by row: `rbench check`.

`score.gate` judges rows by their numbers. Here a row that would pass becomes undecided where its numbers say nothing:
its victim is near chance, its attack had no candidates, or texts errored that could hide what would fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rbench.errors import StoreError
from rbench.load.registry import unknown
from rbench.metrics import Metric, Metrics
from rbench.score.gate import GRAVE, GateRow, GateVerdict, judge, needed
from rbench.spec import Flag
from rbench.tables import Results
from rbench.tables.aggregate import Cell, grid
from rbench.tables.any_attack import ANY
from rbench.tables.flags import OF_ATTACKS, Flags
from rbench.verdicts import all_attacks
from rbench.verdicts import baseline as files
from rbench.verdicts.baseline import Baseline, BaselineCell, CellKey
from rbench.verdicts.gate_rows import Asked, Compared, Comparing, asked, judged, listed, of_letters

TOLERANCE = 2.0
"""In points."""


@dataclass(frozen=True)
class Rules:
    """When a check fails."""

    metrics: tuple[Metric, ...] = field(default_factory=lambda: judged(Metrics()))
    any_attack: bool = False
    """Whether all attacks on a victim count together."""
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """In points, by the metric's name: what gets worse by so much passes. TOLERANCE where a metric has none."""
    alpha: float = 0.05
    about_these_weights: bool = False
    """Whether a training that turned out worse is a failure, and not only a change that makes trainings worse."""
    allow_undecided: bool = False
    """Whether a check passes whose rows cannot all be judged."""

    def tolerance(self, metric: Metric) -> float:
        return self.tolerances.get(metric.name, TOLERANCE)


@dataclass(frozen=True)
class CheckedRow:
    """One row of a check."""

    metric: Metric
    key: CellKey
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
class Checked:
    """The result of a check."""

    run: str
    rules: Rules
    rows: tuple[CheckedRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[CheckedRow, ...]:
        return self.having("failed")

    @property
    def undecided(self) -> tuple[CheckedRow, ...]:
        return self.having("undecided")

    @property
    def verdict(self) -> GateVerdict:
        """The verdict on the whole check. A row that fails counts before one that cannot be judged."""
        if self.failed:
            return "failed"
        return "undecided" if self.undecided and not self.rules.allow_undecided else "passed"

    @property
    def said(self) -> str:
        """The last line: whether the check passed, and why."""
        if self.verdict != "passed":
            rows = self.having(self.verdict)
            more = f"; and {len(rows) - 1} more" if len(rows) > 1 else ""
            what = "rows" if self.verdict == "failed" else "rows cannot be judged"
            return f"{self.verdict}: {len(rows)} of {len(self.rows)} {what} ({rows[0].name}: {rows[0].because}{more})"
        rest = f", {len(self.undecided)} undecided, which is allowed" if self.undecided else ""
        return f"passed: {len(self.having('passed'))} of {len(self.rows)} rows passed{rest}{self._headline()}"

    def having(self, verdict: GateVerdict) -> tuple[CheckedRow, ...]:
        return tuple(row for row in self.rows if row.verdict == verdict)

    def _headline(self) -> str:
        """Say what became of the first metric where it got worse most."""
        first = self.rules.metrics[0]
        headline = [row for row in self.rows if row.metric == first and first.gate == 1]
        known = [(row.judged.rise, row) for row in headline if row.judged is not None]
        rises = [(rise, row) for rise, row in known if rise is not None and None not in (row.before, row.after)]
        if not rises:
            return ""
        _, row = max(rises, key=lambda one: one[0])
        assert row.before is not None and row.after is not None
        most = f" where it {'rose' if first.about.best == 'lowest' else 'fell'} most" if len(rises) > 1 else ""
        return f"; {first.about.words}{most}: {100 * row.before:.1f}% became {100 * row.after:.1f}% ({row.key})"


def check(results: Results, baseline: Baseline, rules: Rules, encoders: Sequence[str] = ()) -> Checked:
    """Check a RUN against a baseline.

    Args:
        encoders: the encoders whose cells are checked; empty: all of the baseline.

    Raises:
        StoreError: the baseline has no such encoder; or a cell of the RUN has other data, attack options, resources,
            versions or fine-tuning seeds than the baseline's; or the RUN keeps no outcomes.
    """
    wanted = _wanted(baseline, encoders)
    there = {
        CellKey(cell.encoder, cell.task, cell.finetune, cell.attack): cell for cell in grid(results).cells.values()
    }
    _check_alike(results, wanted, there)
    rows, lost = [], []
    for row in asked(wanted, rules.metrics, rules.any_attack):
        kept, because = _kept(row, there)
        rows.append(kept)
        lost.append(because)
    reading = Comparing(results, baseline, there)
    compared = [
        None if because else reading.of(row, rules.tolerance(row.metric) / 100)
        for row, because in zip(rows, lost, strict=True)
    ]
    found = _judged(compared, rules)
    health = _Health(results, baseline)
    checked = tuple(
        _checked(row, because, one, next(found) if one is not None else None, health, there, baseline)
        for row, because, one in zip(rows, lost, compared, strict=True)
    )
    return Checked(
        str(results.root), rules, checked, _notes(rows, wanted, there, encoders, rules, checked, results.metrics)
    )


def _judged(compared: Sequence[Compared | None], rules: Rules) -> Iterator[tuple[GateRow, GateRow]]:
    """Yield for each row that is compared its verdict, and the one if all texts that errored had got worse."""
    there = [one for one in compared if one is not None]
    how = {"alpha": rules.alpha, "about_these_weights": rules.about_these_weights}
    found = judge([one.sample for one in there], **how)  # type: ignore[arg-type]
    worst = judge([one.worst for one in there], **how) if any(one.errored for one in there) else found  # type: ignore[arg-type]
    return zip(found, worst, strict=True)


def _checked(
    row: Asked,
    lost: str,
    one: Compared | None,
    judged: tuple[GateRow, GateRow] | None,
    health: _Health,
    there: Mapping[CellKey, Cell],
    baseline: Baseline,
) -> CheckedRow:
    cells = [there[cell.key] for cell in row.cells if cell.key in there]
    beside = health.beside(cells)
    if one is None or judged is None:
        return CheckedRow(row.metric, row.key, "failed", lost, runs=baseline.runs, beside=beside)
    found, worst = judged
    verdict, because = found.verdict, found.because
    if verdict != "failed" and 2 * one.errored > one.known:  # say because a victim became slow
        verdict, because = "failed", f"more than half of the baseline's texts errored ({one.lost})"
    elif verdict != "failed" and (void := health.void(row, cells)):
        verdict, because = "undecided", f"{because}, but {void}"
    elif verdict == "passed" and worst.verdict != "passed":
        verdict, because = "undecided", f"{because}, but {one.lost}: had they got worse, it would not pass"
    beside = (*beside, *([one.lost] if one.errored else []))
    return CheckedRow(row.metric, row.key, verdict, because, found, one.before, one.after, one.runs, beside)


def _wanted(baseline: Baseline, encoders: Sequence[str]) -> list[BaselineCell]:
    known = list(dict.fromkeys(cell.encoder for cell in baseline.cells))
    for name in encoders:
        if name not in known:
            raise StoreError(f"--encoder: {unknown('encoder of the baseline', name, known)}")
    return [cell for cell in baseline.cells if not encoders or cell.encoder in encoders]


def _check_alike(results: Results, wanted: Sequence[BaselineCell], there: Mapping[CellKey, Cell]) -> None:
    wrong = []
    for cell in wanted:
        if cell.key not in there:
            continue
        runs = there[cell.key].runs
        unlike = [
            what
            for what in cell.decisive
            if any(files.hashes(run.job).get(what) != cell.decisive[what] for run in runs)
        ]
        seeds, known = ({run.job.seed for run in runs}, {job.seed for job in cell.jobs})
        if seeds - known:
            unlike.append(f"the fine-tuning seeds, which choose the examples ({listed(seeds)} and not {listed(known)})")
        if unlike:
            wrong.append(f"{cell.key}: {', '.join(unlike)}")
    if wrong:
        raise StoreError(
            f"{results.root} cannot be checked against this baseline: cells differ in more than the victim. Run "
            "the suite as the baseline was run, or make the baseline again:\n" + "\n".join(wrong)
        )


def _kept(row: Asked, there: Mapping[CellKey, Cell]) -> tuple[Asked, str]:
    """Return a row with the cells that the RUN has, and why it cannot be judged; an empty text where it can.

    A metric of victims needs one of its attacks, other rows need all of theirs.
    """
    lost = {cell.attack: because for cell in row.cells if (because := _lost(cell, there.get(cell.key)))}
    said = "; ".join(f"{attack}: {why}" if len(row.cells) > 1 else why for attack, why in lost.items())
    if row.metric.of == "victims" and len(lost) < len(row.cells):
        return row._replace(cells=tuple(cell for cell in row.cells if cell.attack not in lost)), ""
    return row, said


def _lost(cell: BaselineCell, found: Cell | None) -> str:
    """Say why a cell of the baseline cannot be judged; an empty text where it can."""
    if found is None:
        return "the RUN does not have this cell"
    for run in found.runs:
        if run.failed:
            assert run.record is not None
            return f"{run.job.name} failed: {run.record.reason}"
        if run.tally is None:
            return f"{run.job.name} is not done"
    absent = {job.seed for job in cell.jobs} - {run.job.seed for run in found.runs}
    return f"the RUN does not have the fine-tuning seeds {listed(absent)}" if absent else ""


class _Health:
    """Says of a cell what a reader should know, and why its numbers say nothing."""

    def __init__(self, results: Results, baseline: Baseline) -> None:
        self._baseline = baseline
        self._flags = Flags(results.plan, results.standing.records)
        self._jobs = {job.key: job for job in results.plan.jobs}

    def beside(self, cells: Sequence[Cell]) -> tuple[str, ...]:
        jobs = [job for cell in cells for job in cell.jobs]
        flags = [str(flag) for flag in self._flags.of(jobs)]
        victims = [self._jobs.get(job.needs.get("victim", "")) for job in jobs]
        control = any(victim.entry is not None and victim.entry.control for victim in victims if victim)
        attack = any(run.spec.attack.control for cell in cells for run in cell.runs)
        return (*(["the encoder is a control"] * control), *(["the attack is a control"] * attack), *flags)

    def void(self, row: Asked, cells: Sequence[Cell]) -> str:
        """Say why the numbers of a row say nothing; an empty text where they do not."""
        jobs = [job for cell in cells for job in cell.jobs]
        attacks = row.metric.of != "victims"
        now = self._flags.voiding(jobs, attacks)
        before: dict[Flag, set[int]] = {}
        for job in (job for cell in row.cells for job in cell.jobs):
            for flag in job.flags if attacks else (flag for flag in job.flags if flag not in OF_ATTACKS):
                before.setdefault(flag, set()).add(job.run + 1)
        said = [f"it is flagged {flag}" for flag in now]
        for flag, runs in before.items():
            which = f" run {listed(runs)} of {self._baseline.runs}" if self._baseline.runs > 1 else ""
            said.append(f"the baseline{which} is flagged {flag}")
        if self._flags.unrecorded(jobs):
            said.append("the record of its victim is missing or damaged, so that its health is not known")
        return "; ".join(said)


def thin(baseline: Baseline, metrics: Metrics, alpha: float = 0.05) -> list[str]:
    """Say of which rows of a baseline no check will decide, as a note each: too few texts, or flags."""
    rows = asked(baseline.cells, judged(metrics), any_attack=False)
    least = needed(len(rows), alpha)
    found = []
    for row in rows:
        if flags := {flag for cell in row.cells for job in cell.jobs for flag in job.flags}:
            found.append(f"{row}: flagged {', '.join(sorted(flags))}, so that no check can judge it")
        texts = {
            name
            for cell in row.cells
            for job in cell.jobs
            for name in of_letters(row.metric, dict(zip(baseline.examples[job.examples], job.bits, strict=True)))
        }
        if len(texts) < least:
            found.append(
                f"{row}: {len(texts)} texts count, and a check of all {len(rows)} rows needs {least} to see "
                f"{100 * GRAVE:g}% of them get worse: attack more (num_examples)"
            )
    return found


def _notes(
    rows: Sequence[Asked],
    wanted: Sequence[BaselineCell],
    there: Mapping[CellKey, Cell],
    encoders: Sequence[str],
    rules: Rules,
    checked: Sequence[CheckedRow],
    metrics: Metrics,
) -> tuple[str, ...]:
    notes = []
    if rules.any_attack:
        notes.append(all_attacks.said([cell.attack for cell in row.cells] for row in rows if row.key.attack == ANY))
        victims = {row.key._replace(attack="") for row in rows}
        if alone := [cell.key for cell in wanted if cell.key._replace(attack="") not in victims]:
            notes.append(f"Not checked, because it has one attack: {', '.join(map(str, alone))}.")
    if absent := [metric.about.words for metric in judged(metrics) if metric not in rules.metrics]:
        notes.append(f"Not checked, because of --metric: {', '.join(absent)}. A worse model may show there alone.")
    further = [
        key for key in there if key not in {cell.key for cell in wanted} and (not encoders or key.encoder in encoders)
    ]
    if further:
        notes.append(f"The baseline does not have {len(further)} cells of the RUN, such as {further[0]}: not checked.")
    if any("cannot tell whether the change made them so" in row.because for row in checked):
        notes.append(
            "These weights are worse than the baseline's. Whether the change made them so, and not the training, one "
            "or two baseline runs cannot show. Three or more can: train the baseline with several seeds, and give all "
            "RUNs to rbench baseline. With --about-these-weights the check fails instead."
        )
    return tuple(notes)

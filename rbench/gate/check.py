"""Check a RUN against a baseline, row by row: `rbench check`.

`gate.score` judges rows by their numbers. Here a row that would pass becomes undecided where its numbers say nothing:
its victim is near chance, its attack had no candidates, or texts errored that could hide what would fail.

`gate.rows` says which rows there are and what is compared in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rbench.config.registry import unknown
from rbench.errors import StoreError
from rbench.gate import baseline as files
from rbench.gate.baseline import Baseline, BaselineCell, Place
from rbench.gate.rows import Asked, Compared, Now, asked, compared, listed
from rbench.gate.score import GRAVE, GateRow, GateVerdict, judge, needed
from rbench.metrics import AnyMetric, Metric, Metrics
from rbench.schema import Flag
from rbench.tables import Results
from rbench.tables.any_attack import ANY
from rbench.tables.cells import Cell
from rbench.tables.flags import OF_ATTACKS, Flags
from rbench.verdicts.cells import OfCell
from rbench.verdicts.compare import CellKey, note_on_all

TOLERANCE = 2.0
"""In points."""
WORDS: Mapping[GateVerdict, str] = {
    "passed": "passed",
    "failed": "failed",
    "unexplained": "worse, cause unknown",
    "undecided": "undecided",
}
"""What a reader is told of a row."""


@dataclass(frozen=True)
class Rules:
    """When a check fails."""

    metrics: tuple[AnyMetric, ...] = field(default_factory=lambda: judged(Metrics()))
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
    def unexplained(self) -> tuple[CheckedRow, ...]:
        return self.having("unexplained")

    @property
    def undecided(self) -> tuple[CheckedRow, ...]:
        return self.having("undecided")

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
            against = self.unexplained if self.verdict == "failed" and not self.rules.allow_unexplained else ()
            rows = (*self.having(self.verdict), *against)
            more = f"; and {len(rows) - 1} more" if len(rows) > 1 else ""
            what = "rows cannot be judged" if self.verdict == "undecided" else "rows"
            what += f", {len(against)} of them {WORDS['unexplained']}" if against else ""
            return f"{self.verdict}: {len(rows)} of {len(self.rows)} {what} ({rows[0].name}: {rows[0].because}{more})"
        counts = {WORDS[kind]: len(self.having(kind)) for kind in ("unexplained", "undecided")}
        rest = "".join(f", {n} {words}, which is allowed" for words, n in counts.items() if n)
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
        seen = row.judged.smallest if row.judged is not None else None
        worse = "rise" if first.about.best == "lowest" else "fall"
        blind = f"; a {worse} of less than {100 * seen:.0f} points would mostly go unseen" if seen is not None else ""
        return f"; {first.about.words}{most}: {100 * row.before:.1f}% became {100 * row.after:.1f}% ({row.key}){blind}"


def check(results: Results, baseline: Baseline, rules: Rules, encoders: Sequence[str] = ()) -> Checked:
    """Check a RUN against a baseline.

    Args:
        encoders: the encoders whose cells are checked; empty: all of the baseline.

    Raises:
        StoreError: the baseline has no such encoder; or a cell of the RUN has other data, attack options, resources,
            versions or fine-tuning seeds than the baseline's; or the RUN keeps no outcomes.
    """
    wanted = _wanted(baseline, encoders, rules)
    there = files.places(results, rules.metrics)
    _check_alike(results, wanted, there)
    more = _on_more_texts(baseline, there)
    rows = [_kept(row, there) for row in asked(wanted, rules.metrics, rules.any_attack, more)]
    now = Now(results, there, [metric for metric in rules.metrics if not metric.gate])
    beside = [None if lost else compared(row, baseline, now, rules.tolerance(row.metric) / 100) for row, lost in rows]
    judged = _judged(beside, rules)
    checked = tuple(
        _checked(row, lost, one, next(judged) if one is not None else None, now, baseline)
        for (row, lost), one in zip(rows, beside, strict=True)
    )
    notes = _notes([row for row, _ in rows], wanted, there, encoders, rules, checked, results.metrics)
    return Checked(str(results.root), rules, checked, notes)


def _judged(rows: Sequence[Compared | None], rules: Rules) -> Iterator[tuple[GateRow, GateRow]]:
    """Yield for each row that is compared its verdict, and the one if all texts that errored had got worse."""
    there = [one for one in rows if one is not None]
    how = {"alpha": rules.alpha, "about_these_weights": rules.about_these_weights}
    found = judge([one.sample for one in there], **how)  # type: ignore[arg-type]
    worst = judge([one.worst for one in there], **how) if any(one.errored for one in there) else found  # type: ignore[arg-type]
    return zip(found, worst, strict=True)


def _checked(
    row: Asked,
    lost: str,
    one: Compared | None,
    judged: tuple[GateRow, GateRow] | None,
    now: Now,
    baseline: Baseline,
) -> CheckedRow:
    cells = [now.there[cell.place].cell for cell in row.cells if cell.place in now.there]
    beside = _beside(now.results.flags, cells)
    if one is None or judged is None:
        return CheckedRow(row.metric, row.key, "failed", lost, runs=baseline.runs, beside=beside)
    found, worst = judged
    verdict, because = found.verdict, found.because
    if verdict != "failed" and 2 * one.errored > one.known:  # say because a victim became slow
        verdict, because = "failed", f"more than half of the baseline's texts errored ({one.lost})"
    elif verdict not in ("failed", "unexplained") and (void := _void(row, cells, now.results.flags, baseline.runs)):
        verdict, because = "undecided", f"{because}{'; and' if verdict == 'undecided' else ', but'} {void}"
        beside = tuple(said for said in beside if f"it is flagged {said}" not in void)
    elif verdict == "passed" and worst.verdict != "passed":
        verdict, because = "undecided", f"{because}, but {one.lost}: had they got worse, it would not pass"
    beside = (*beside, *([one.lost] if one.errored else []))
    return CheckedRow(row.metric, row.key, verdict, because, found, one.before, one.after, one.runs, beside)


def _wanted(baseline: Baseline, encoders: Sequence[str], rules: Rules) -> list[BaselineCell]:
    known = list(dict.fromkeys(cell.encoder for cell in baseline.cells))
    for name in encoders:
        if name not in known:
            raise StoreError(f"--encoder: {unknown('encoder of the baseline', name, known)}")
    of = {"", *(metric.name for metric in rules.metrics)}
    return [cell for cell in baseline.cells if cell.metric in of and (not encoders or cell.encoder in encoders)]


def _on_more_texts(baseline: Baseline, there: Mapping[Place, OfCell]) -> dict[Place, BaselineCell]:
    """Return the cells of measures of a baseline of which the RUN has the same rows, by their places."""
    cells = (cell for cell in baseline.cells if cell.metric and cell.place in there)
    return {cell.place: cell for cell in cells if not _unlike(cell, there[cell.place])}


def _unlike(cell: BaselineCell, of: OfCell) -> list[str]:
    """Return in what a cell of the RUN differs from that of the baseline so that they cannot be compared."""
    found = [files.hashes(run.job) for run in of.cell.runs]
    return [what for what in cell.decisive if any(one.get(what) != cell.decisive[what] for one in found)]


def _check_alike(results: Results, wanted: Sequence[BaselineCell], there: Mapping[Place, OfCell]) -> None:
    wrong = []
    for cell in wanted:
        if cell.place not in there:
            continue
        runs, unlike = there[cell.place].cell.runs, _unlike(cell, there[cell.place])
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


def _kept(row: Asked, there: Mapping[Place, OfCell]) -> tuple[Asked, str]:
    """Return a row with the cells that the RUN has, and why it cannot be judged; an empty text where it can.

    A metric of victims needs one of its attacks, other rows need all of theirs.
    """
    lost = {cell.attack: because for cell in row.cells if (because := _lost(cell, there.get(cell.place)))}
    said = "; ".join(f"{attack}: {why}" if len(row.cells) > 1 else why for attack, why in lost.items())
    if row.metric.of == "victims" and len(lost) < len(row.cells):
        return row._replace(cells=tuple(cell for cell in row.cells if cell.attack not in lost)), ""
    return row, said


def _lost(cell: BaselineCell, found: OfCell | None) -> str:
    """Say why a cell of the baseline cannot be judged; an empty text where it can."""
    if found is None:
        return "the RUN does not have this cell"
    for run in found.cell.runs:
        if run.failed:
            assert run.record is not None
            return f"{run.job.name} failed: {run.record.reason}"
        if not run.done:
            return f"{run.job.name} is not done"
    absent = {job.seed for job in cell.jobs} - {run.job.seed for run in found.cell.runs}
    return f"the RUN does not have the fine-tuning seeds {listed(absent)}" if absent else ""


def _beside(flags: Flags, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say of a cell what a reader should know: that it is a control, and its flags."""
    jobs = [job for cell in cells for job in cell.jobs]
    victims = {job.needs.get("victim") for job in jobs}
    behind = [job.entry for job in flags.behind(jobs) if job.key in victims]
    control = any(entry is not None and entry.control for entry in behind)
    attack = any(job.attacking is not None and job.attacking.attack.control for job in jobs)
    said = [*(["the encoder is a control"] * control), *(["the attack is a control"] * attack)]
    return (*said, *map(str, flags.of(jobs)))


def _void(row: Asked, cells: Sequence[Cell], flags: Flags, runs: int) -> str:
    """Say why the numbers of a row say nothing; an empty text where they do not. `runs` is that of the baseline."""
    jobs = [job for cell in cells for job in cell.jobs]
    attacks = row.metric.of != "victims"
    before: dict[Flag, set[int]] = {}
    for job in (job for cell in row.cells for job in cell.jobs):
        own = job.flags if attacks else [flag for flag in job.flags if flag not in OF_ATTACKS]
        for flag in row.metric.hindered(own):
            before.setdefault(flag, set()).add(job.run + 1)
    said = [f"it is flagged {flag}" for flag in row.metric.hindered(flags.voiding(jobs, attacks))]
    for flag, flagged in before.items():
        which = f" run {listed(flagged)} of {runs}" if runs > 1 else ""
        said.append(f"the baseline{which} is flagged {flag}")
    if flags.unrecorded(jobs):
        said.append("the record of its victim is missing or damaged, so that its health is not known")
    return "; ".join(said)


def thin(baseline: Baseline, metrics: Metrics, alpha: float = 0.05) -> list[str]:
    """Say of which rows of a baseline no check will decide, as a note each: too few texts, or flags."""
    rows = asked(baseline.cells, judged(metrics), False, {cell.place: cell for cell in baseline.cells if cell.metric})
    least = needed(max(1, len(rows)), alpha)
    found = []
    for row in rows:
        metric = row.metric
        assert isinstance(metric, Metric), "those of measures are judged only where they are asked for"
        raised = {flag for cell in row.cells for job in cell.jobs for flag in job.flags}
        if flags := metric.hindered(raised - {*OF_ATTACKS} if metric.of == "victims" else raised):
            found.append(f"{row}: flagged {', '.join(sorted(flags))}, so that no check can judge it")
        if (texts := len(row.texts(baseline))) < least:
            found.append(
                f"{row}: {texts} texts count, and a check of all {len(rows)} rows needs {least} to see "
                f"{100 * GRAVE:g}% of them get worse: attack more (num_examples)"
            )
    return found


def _notes(
    rows: Sequence[Asked],
    wanted: Sequence[BaselineCell],
    there: Mapping[Place, OfCell],
    encoders: Sequence[str],
    rules: Rules,
    checked: Sequence[CheckedRow],
    metrics: Metrics,
) -> tuple[str, ...]:
    notes = []
    if rules.any_attack:
        notes.append(note_on_all([cell.attack for cell in row.cells] for row in rows if row.key.attack == ANY))
        victims = {row.key._replace(attack="") for row in rows}
        if alone := [cell.key for cell in wanted if cell.key._replace(attack="") not in victims]:
            notes.append(f"Not checked, because it has one attack: {', '.join(map(str, alone))}.")
    if absent := [metric.about.words for metric in judged(metrics) if metric not in rules.metrics]:
        notes.append(f"Not checked, because of --metric: {', '.join(absent)}. A worse model may show there alone.")
    if any(row.on_more_texts for row in rows):
        notes.append(
            "Clean accuracy is judged on the rows of the test split that were scored, not on the attacked texts alone."
        )
    known = {cell.place for cell in wanted}
    further = [
        place[1]
        for place in there
        if not place[0] and place not in known and (not encoders or place[1].encoder in encoders)
    ]
    if further:
        notes.append(f"The baseline does not have {len(further)} cells of the RUN, such as {further[0]}: not checked.")
    if any(row.verdict == "unexplained" for row in checked):
        notes.append(
            "These weights are worse than the baseline's. Whether the change made them so, and not the training, one "
            "or two baseline runs cannot show. Three or more can: train the baseline with several seeds, and give all "
            "RUNs to rbench baseline. With --about-these-weights the question is of the weights alone, and the row "
            "fails; --allow-unexplained lets it pass."
        )
    return tuple(notes)


def judged(metrics: Metrics) -> tuple[Metric, ...]:
    """Return the metrics that a check judges if it is not told which, in the order in which they are shown.

    The first is the headline.
    """
    return tuple(sorted((one for one in metrics.all() if one.gate), key=lambda one: one.gate))

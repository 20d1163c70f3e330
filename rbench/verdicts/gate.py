"""Check a RUN against a baseline, cell by cell: `rbench check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.load.registry import unknown
from rbench.score.gate import GateCell, GateSample, GateVerdict, judge
from rbench.spec import Plan
from rbench.spec.claimed import ANY_ATTACK
from rbench.tables import Results
from rbench.tables.aggregate import Cell, Run, grid
from rbench.tables.any_attack import ANY
from rbench.tables.flags import Flags
from rbench.verdicts import all_attacks
from rbench.verdicts import baseline as files
from rbench.verdicts.baseline import Baseline, BaselineCell, BaselineJob, CellKey

Gated = Literal["asr", "aua", "any_attack"]
"""The metrics that can be checked; `any_attack` over all attacks on a victim together."""
Bits = NDArray[np.float64]
"""Examples x seeds: 1, 0, or nan where an example is not in the denominator."""
_FELL = {files.SUCCEEDED: 1.0, files.FAILED: 0.0}
VALUES: dict[Gated, dict[str, float]] = {
    "asr": _FELL,
    "any_attack": _FELL,
    "aua": {files.SUCCEEDED: 0.0, files.FAILED: 1.0, files.SKIPPED: 0.0},
}
"""The value of an outcome's letter, by metric. Letters without a value are in no denominator of it."""


@dataclass(frozen=True)
class Rules:
    """When a check fails."""

    metric: Gated = "asr"
    tolerance: float = 2.0
    """In points: a rise (of AUA: a fall) up to this passes."""
    alpha: float = 0.05
    about_these_weights: bool = False
    """Whether a training that turned out worse is a failure, and not only a change that makes trainings worse."""


@dataclass(frozen=True)
class CheckedCell:
    """One cell of the baseline."""

    key: CellKey
    verdict: GateVerdict
    because: str
    judged: GateCell | None = None
    """None where the RUN does not have the cell."""
    before: float | None = None
    """The baseline's value, the mean over its runs, each over its own examples as in tables."""
    after: float | None = None
    runs: int = 0
    """Number of baseline runs with different victims."""
    beside: tuple[str, ...] = ()
    """What a reader should know of the cell: that it is a control, and its health flags."""


@dataclass(frozen=True)
class Checked:
    """The result of a check."""

    run: str
    rules: Rules
    cells: tuple[CheckedCell, ...]
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[CheckedCell, ...]:
        return self.having("failed")

    @property
    def said(self) -> str:
        """The last line: whether the check passed, and why."""
        counts = {verdict: len(self.having(verdict)) for verdict in get_args(GateVerdict)}
        if self.failed:
            first = self.failed[0]
            more = f"; and {len(self.failed) - 1} more" if len(self.failed) > 1 else ""
            return f"failed: {len(self.failed)} of {len(self.cells)} cells ({first.key}: {first.because}{more})"
        rest = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n and verdict != "passed")
        why = f"{counts['passed']} of {len(self.cells)} cells passed" + (f", {rest}" if rest else "")
        return f"passed: {why}"

    def having(self, verdict: GateVerdict) -> tuple[CheckedCell, ...]:
        return tuple(cell for cell in self.cells if cell.verdict == verdict)


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
    asked = _asked(wanted, rules.metric)
    lost = {key: because for key, cells in asked.items() if (because := _lost_among(cells, there))}
    judgeable = [key for key in asked if key not in lost]
    compared = [_Compared.of(results, baseline, key, asked[key], there, rules.metric) for key in judgeable]
    judged = judge(
        [one.sample for one in compared],
        tolerance=rules.tolerance / 100,
        alpha=rules.alpha,
        about_these_weights=rules.about_these_weights,
        higher_is_worse=rules.metric != "aua",
    )
    found = {key: (one, verdict) for key, one, verdict in zip(judgeable, compared, judged, strict=True)}
    beside = _Beside(results)
    cells = []
    for key, among in asked.items():
        said = beside.of([there[cell.key] for cell in among if cell.key in there])
        if key in lost:
            cells.append(CheckedCell(key, "failed", lost[key], runs=baseline.runs, beside=said))
        else:
            one, verdict = found[key]
            decided, because = verdict.verdict, verdict.because
            if not verdict.n:  # a check that compares nothing must not pass
                decided = "failed"
            elif 2 * one.errored > one.known:  # nor one that compares hardly anything, say because a victim became slow
                decided, because = "failed", f"more than half of the baseline's texts errored ({one.lost})"
            said = (*said, *([one.lost] if one.errored else []))
            cells.append(CheckedCell(key, decided, because, verdict, one.before, one.after, one.runs, beside=said))
    return Checked(str(results.root), rules, tuple(cells), _notes(cells, asked, wanted, there, encoders))


def _wanted(baseline: Baseline, encoders: Sequence[str]) -> list[BaselineCell]:
    known = list(dict.fromkeys(cell.encoder for cell in baseline.cells))
    for name in encoders:
        if name not in known:
            raise StoreError(f"--encoder: {unknown('encoder of the baseline', name, known)}")
    return [cell for cell in baseline.cells if not encoders or cell.encoder in encoders]


def _asked(wanted: Sequence[BaselineCell], metric: Gated) -> dict[CellKey, tuple[BaselineCell, ...]]:
    """Return what is judged, each with the cells of the baseline behind it: one cell, or all attacks on a victim."""
    if metric != ANY_ATTACK:
        return {cell.key: (cell,) for cell in wanted}
    victims: dict[CellKey, tuple[BaselineCell, ...]] = {}
    for cell in wanted:
        key = cell.key._replace(attack=ANY)
        victims[key] = (*victims.get(key, ()), cell)
    if not (several := {key: cells for key, cells in victims.items() if len(cells) > 1}):
        raise StoreError(f"{ANY_ATTACK} needs two or more attacks, and no victim of the baseline has them")
    return several


def _check_alike(results: Results, wanted: Sequence[BaselineCell], there: dict[CellKey, Cell]) -> None:
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
            unlike.append(
                f"the fine-tuning seeds, which choose the examples ({_listed(seeds)} and not {_listed(known)})"
            )
        if unlike:
            wrong.append(f"{cell.key}: {', '.join(unlike)}")
    if wrong:
        raise StoreError(
            f"{results.root} cannot be checked against this baseline: cells differ in more than the victim. Run "
            "the suite as the baseline was run, or make the baseline again:\n" + "\n".join(wrong)
        )


def _lost_among(cells: Sequence[BaselineCell], there: dict[CellKey, Cell]) -> str:
    """Say why some cells cannot be judged together; an empty text where they can."""
    lost = {cell.attack: because for cell in cells if (because := _lost(cell, there.get(cell.key)))}
    return "; ".join(f"{attack}: {because}" if len(cells) > 1 else because for attack, because in lost.items())


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
    return f"the RUN does not have the fine-tuning seeds {_listed(absent)}" if absent else ""


@dataclass(frozen=True)
class _Compared:
    """A cell of the RUN beside the baseline's."""

    sample: GateSample
    before: float | None
    after: float | None
    runs: int
    known: int
    """Texts that a run of the baseline has a value for, once for each seed."""
    errored: int
    """Those of them that errored in the RUN. They are compared with nothing."""

    @property
    def lost(self) -> str:
        return f"{self.errored:,} of {self.known:,} texts errored"

    @classmethod
    def of(
        cls,
        results: Results,
        baseline: Baseline,
        key: CellKey,
        cells: Sequence[BaselineCell],
        there: dict[CellKey, Cell],
        metric: Gated,
    ) -> _Compared:
        new = [
            (runs[0], all_attacks.together(key, [files.bits_of(results, run) for run in runs]))
            for runs in _by_seed(key, [there[cell.key] for cell in cells])
        ]
        cell = all_attacks.of_baseline(cells, baseline)
        attacked = {job.seed: set(baseline.examples[job.examples]) for job in cell.jobs}
        if others := {run.job.seed for run, bits in new if set(bits) != attacked[run.job.seed]}:
            raise StoreError(
                f"{results.root}: {cell.key} attacked other examples than the baseline at seed {_listed(others)}"
            )
        trainings = _trainings(cell)
        own = _own(cell, [run for run, _ in new])
        columns = [[_bits(baseline, job) for job in own]] if own is not None else []
        if not columns:
            columns = [[_bits(baseline, jobs[run.job.seed]) for run, _ in new] for jobs in trainings]
        names = sorted({name for _, bits in new for name in bits} | {n for one in columns for b in one for n in b})
        sample = GateSample(
            baseline=tuple(_array(names, one, metric) for one in columns),
            new=_array(names, [bits for _, bits in new], metric),
            same_weights=own is not None,
        )
        values = [value for one in sample.baseline if (value := _mean(one)) is not None]
        known = np.logical_or.reduce([np.isfinite(one) for one in sample.baseline])
        errored = np.array([[bits.get(name) == files.ERRORED for _, bits in new] for name in names], dtype=bool)
        return cls(
            sample,
            sum(values) / len(values) if values else None,
            _mean(sample.new),
            len(trainings),
            int(known.sum()),
            int((known & errored).sum()),
        )


def _by_seed(key: CellKey, cells: Sequence[Cell]) -> list[tuple[Run, ...]]:
    """Return the jobs of all attacks on each victim. Raises StoreError where an attack lacks one."""
    by_seed = [{(run.train_seed, run.job.seed): run for run in cell.runs} for cell in cells]
    if any(runs.keys() != by_seed[0].keys() for runs in by_seed):
        raise StoreError(f"{key}: the RUN's attacks have different seeds")
    return [tuple(runs[seed] for runs in by_seed) for seed in by_seed[0]]


def _trainings(cell: BaselineCell) -> list[dict[int, BaselineJob]]:
    """Return the baseline runs of a cell, each with a job for each fine-tuning seed.

    A run is a training of a RUN. One with the same victims as an earlier run is not a further draw, and is left out.
    """
    runs: dict[tuple[int, int | None], dict[int, BaselineJob]] = {}
    for job in cell.jobs:
        runs.setdefault((job.run, job.train_seed), {})[job.seed] = job
    different: dict[tuple[tuple[int, str], ...], dict[int, BaselineJob]] = {}
    for run in runs.values():
        different.setdefault(tuple(sorted((seed, _victim(job)) for seed, job in run.items())), run)
    return list(different.values())


def _own(cell: BaselineCell, runs: Sequence[Run]) -> list[BaselineJob] | None:
    """Return the jobs of the baseline on the very victims of the RUN, in its order; None unless it has all of them."""
    known = {(job.seed, _victim(job)): job for job in reversed(cell.jobs)}
    keys = []
    for run in runs:
        assert run.record is not None
        keys.append((run.job.seed, run.record.provenance.weights_hash or run.job.needs.get("victim", "")))
    return [known[key] for key in keys] if all(key in known for key in keys) else None


def _victim(job: BaselineJob) -> str:
    return job.weights or job.victim


def _bits(baseline: Baseline, job: BaselineJob) -> dict[str, str]:
    return dict(zip(baseline.examples[job.examples], job.bits, strict=True))


def _array(names: Sequence[str], columns: Sequence[dict[str, str]], metric: Gated) -> Bits:
    """Return the values of examples (rows) under seeds (columns); nan where a letter has no value or there is none."""
    values = VALUES[metric]
    return np.array([[values.get(bits.get(name, ""), np.nan) for bits in columns] for name in names], dtype=np.float64)


def _mean(values: Bits) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


class _Beside:
    """Says of a cell what a reader should know."""

    def __init__(self, results: Results) -> None:
        self._plan: Plan = results.plan
        self._flags = Flags(results.plan, results.standing.records)
        self._jobs = {job.key: job for job in results.plan.jobs}

    def of(self, cells: Sequence[Cell]) -> tuple[str, ...]:
        jobs = [job for cell in cells for job in cell.jobs]
        flags = [str(flag) for flag in self._flags.of(jobs)]
        victims = [self._jobs.get(job.needs.get("victim", "")) for job in jobs]
        control = any(victim.entry is not None and victim.entry.control for victim in victims if victim)
        attack = any(run.spec.attack.control for cell in cells for run in cell.runs)
        return (*(["the encoder is a control"] * control), *(["the attack is a control"] * attack), *flags)


def _notes(
    cells: Sequence[CheckedCell],
    asked: dict[CellKey, tuple[BaselineCell, ...]],
    wanted: Sequence[BaselineCell],
    there: dict[CellKey, Cell],
    encoders: Sequence[str],
) -> tuple[str, ...]:
    notes = []
    if any(len(among) > 1 for among in asked.values()):
        notes.append(all_attacks.said([cell.attack for cell in among] for among in asked.values()))
        if alone := [cell.key for cell in wanted if cell.key._replace(attack=ANY) not in asked]:
            notes.append(f"Not checked, because it has one attack: {', '.join(map(str, alone))}.")
    further = [
        key for key in there if key not in {cell.key for cell in wanted} and (not encoders or key.encoder in encoders)
    ]
    if further:
        notes.append(f"The baseline does not have {len(further)} cells of the RUN, such as {further[0]}: not checked.")
    if any(cell.verdict == "warned" for cell in cells):
        notes.append(
            "Warned: these weights are worse than the baseline's. Whether the change made them so, and not the "
            "training, one or two baseline runs cannot show. Three or more can: train the baseline with several seeds, "
            "and give all RUNs to rbench baseline. With --about-these-weights the check fails instead."
        )
    return tuple(notes)


def _listed(seeds: set[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))

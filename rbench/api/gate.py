"""Check a RUN against a baseline, or against limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rbench.errors import StoreError, SuiteError
from rbench.plan.prepare import Options
from rbench.spec import Suite
from rbench.storage.runs import Store
from rbench.system.folders import make_folder_of

if TYPE_CHECKING:
    from rbench.verdicts.baseline import Baseline
    from rbench.verdicts.fail_if import Condition, Conditions
    from rbench.verdicts.gate import Checked
    from rbench.verdicts.gate_rows import RowMetric


def write_baseline(runs: Sequence[Path | str], out: Path) -> Baseline:
    """Write what later RUNs are checked against into one file; see `rbench.verdicts.baseline`.

    Args:
        runs: one RUN, or several of the same suite whose encoders were trained with other seeds.
        out: the file; its name ends in `.json` or `.json.gz`.

    Raises StoreError where a RUN cannot serve; the message names it and says why.
    """
    from rbench.tables import Results
    from rbench.verdicts import baseline

    if not out.name.endswith((".json", ".json.gz")):
        raise StoreError(f"{out}: a baseline is a .json or .json.gz file")
    made = baseline.baseline_of([Results.of(Store(Path(run))) for run in runs])
    baseline.write(made, out)
    return made


def baseline_notes(made: Baseline) -> list[str]:
    """Say of which cells of a baseline no check will decide: too few texts, or flags."""
    from rbench.verdicts.gate import thin

    return thin(made)


def check(
    run: Path | str,
    baseline: Path | str,
    *,
    metric: str | Sequence[str] = (),
    tolerance: float | str | Mapping[str, float] = 2.0,
    alpha: float = 0.05,
    about_these_weights: bool = False,
    allow_undecided: bool = False,
    encoders: Sequence[str] = (),
) -> Checked:
    """Check a RUN against a baseline file.

    Args:
        metric: which rows are judged: `aua`, `clean` and `asr`; empty: all three. With `any_attack` among them all
            attacks on a victim count together, in place of each.
        tolerance: in points (0..100): what gets worse by so much passes. One number for all metrics, or by metric, as a
            mapping or as `clean=2,aua=2,asr=5`; a metric without one has 2.
        alpha: how often a check without any true change may fail, above 0 and below 0.5.
        about_these_weights: whether weights that are worse fail, even if another training might not be.
        allow_undecided: whether the check passes although a row cannot be judged.
        encoders: the encoders whose cells are checked; empty: all.

    Raises StoreError where a value is out of range, the file or the RUN cannot be read, or they differ in more than the
    victims.
    """
    from rbench.tables import Results
    from rbench.verdicts import gate
    from rbench.verdicts.baseline import read

    if not 0 < alpha < 0.5:
        raise StoreError(f"alpha {alpha}: a significance level of a check lies between 0 and 0.5")
    metrics, together = _metrics([metric] if isinstance(metric, str) else metric)
    rules = gate.Rules(metrics, together, _tolerances(tolerance), alpha, about_these_weights, allow_undecided)
    found = read(Path(baseline))
    return gate.check(Results.of(Store(Path(run))), found, rules, encoders)


def _metrics(names: Sequence[str]) -> tuple[tuple[RowMetric, ...], bool]:
    """Return the metrics that are asked for, in their order, and whether all attacks count together."""
    from rbench.spec.claimed import ANY_ATTACK
    from rbench.verdicts.gate_rows import METRICS

    for name in names:
        if name not in (*METRICS, ANY_ATTACK):
            raise StoreError(f"unknown metric {name!r}; a check is of {', '.join((*METRICS, ANY_ATTACK))}")
    chosen = tuple(metric for metric in METRICS if metric in names)
    return chosen or METRICS, ANY_ATTACK in names


def _tolerances(given: float | str | Mapping[str, float]) -> dict[RowMetric, float]:
    """Read what `check` takes as `tolerance`. Raises StoreError for anything else."""
    from rbench.verdicts.gate_rows import METRICS

    form = "write one number of points, or one for each metric such as clean=2,aua=2,asr=5"
    parts: Mapping[str, object]
    if isinstance(given, Mapping):
        parts = given
    elif isinstance(given, str) and "=" in given:
        pairs = [part.partition("=") for part in given.split(",")]
        parts = {name.strip(): value for name, _, value in pairs}
        if len(parts) < len(pairs):
            raise StoreError(f"tolerance {given!r} names a metric twice; {form}")
    else:
        parts = dict.fromkeys(METRICS, given)
    read: dict[RowMetric, float] = {}
    for name, value in parts.items():
        if name not in METRICS:
            raise StoreError(f"tolerance {given!r}: {name!r} is not one of {', '.join(METRICS)}; {form}")
        try:
            points = float(cast(Any, value))
        except (TypeError, ValueError):
            raise StoreError(f"tolerance {given!r}: {value!r} is not a number; {form}") from None
        if not 0 <= points <= 100:
            raise StoreError(f"tolerance {given!r}: points lie between 0 and 100")
        read[name] = points
    return read


def check_table(found: Checked) -> str:
    """Render a check as markdown. Its last line says whether it passed, and why."""
    from rbench.verdicts import check_reports

    return check_reports.as_text(found)


def check_annotations(found: Checked | str) -> list[str]:
    """Return GitHub's workflow commands for the rows of a check that did not pass; or for why it could not be made."""
    from rbench.verdicts import check_reports

    return [check_reports.refused_github(found)] if isinstance(found, str) else list(check_reports.github(found))


def write_reports(found: Checked | str, *, junit: Path | None = None, summary: Path | None = None) -> None:
    """Write a check as JUnit XML, and as markdown.

    `found` is the check, or why it could not be made. `summary` is replaced. Without it, the summary is appended to the
    file that the environment names in GITHUB_STEP_SUMMARY, where it names one.
    """
    from rbench.verdicts import check_reports as reports

    if junit is not None:
        _write(junit, reports.refused_junit(found) if isinstance(found, str) else reports.junit(found))
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    text = reports.refused_summary(found) if isinstance(found, str) else reports.summary(found)
    if summary is not None:
        _write(summary, text)
    elif page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text)


def conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Parse conditions such as `asr > 60`. Raises SuiteError for a wrong one."""
    from rbench.verdicts.fail_if import parse

    return tuple(parse(text) for text in texts)


def check_conditions(
    wanted: Sequence[Condition], suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None
) -> None:
    """Raise SuiteError where a suite has no cells that conditions are about, before it runs."""
    from rbench.api.suites import plan
    from rbench.load.claims import missing
    from rbench.load.ground import of_plan
    from rbench.load.registry import Registry

    if not wanted:
        return
    options = options or Options()
    ground = of_plan(plan(suite, options).plan, Registry(options.include))
    for one in wanted:
        if (why := missing(one.metric, ground)) is not None:
            raise SuiteError(f"--fail-if {str(one)!r}: {why}")


def met(run: Path | str, wanted: Sequence[Condition]) -> Conditions:
    """Return the cells of a RUN that meet one of some conditions with their whole interval, and those that cannot be
    judged."""
    from rbench.tables import Results
    from rbench.verdicts.fail_if import judge

    return judge(Results.of(Store(Path(run))), wanted)


def _write(path: Path, text: str) -> None:
    make_folder_of(path)
    path.write_text(text, encoding="utf-8")

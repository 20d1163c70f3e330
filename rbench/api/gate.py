"""Check a RUN against a baseline, or against limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from rbench.errors import StoreError, SuiteError
from rbench.plan.prepare import Options
from rbench.spec import Suite
from rbench.storage.runs import Store
from rbench.system.folders import make_folder_of

if TYPE_CHECKING:
    from rbench.verdicts.baseline import Baseline
    from rbench.verdicts.fail_if import Condition, Met
    from rbench.verdicts.gate import Checked


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


def check(
    run: Path | str,
    baseline: Path | str,
    *,
    metric: str = "asr",
    tolerance: float = 2.0,
    alpha: float = 0.05,
    about_these_weights: bool = False,
    encoders: Sequence[str] = (),
) -> Checked:
    """Check a RUN against a baseline file.

    Args:
        metric: `asr`, `aua`, or `any_attack` (at least one of all attacks on a victim).
        tolerance: in points (0..100); a rise (of AUA: a fall) up to this passes.
        alpha: how often a check without any true change may fail, above 0 and below 1.
        about_these_weights: whether weights that are worse fail, even if another training might not be.
        encoders: the encoders whose cells are checked; empty: all.

    Raises StoreError where a value is out of range, the file or the RUN cannot be read, or they differ in more than the
    victims.
    """
    from rbench.tables import Results
    from rbench.verdicts import gate
    from rbench.verdicts.baseline import read

    if metric not in get_args(gate.Gated):
        raise StoreError(f"unknown metric {metric!r}; a check is of {', '.join(get_args(gate.Gated))}")
    if not 0 <= tolerance <= 100:
        raise StoreError(f"tolerance {tolerance}: points lie between 0 and 100")
    if not 0 < alpha < 1:
        raise StoreError(f"alpha {alpha}: a significance level lies between 0 and 1")
    rules = gate.Rules(cast("gate.Gated", metric), tolerance, alpha, about_these_weights)
    found = read(Path(baseline))
    return gate.check(Results.of(Store(Path(run))), found, rules, encoders)


def check_table(found: Checked) -> str:
    """Render a check as markdown. Its last line says whether it passed, and why."""
    from rbench.verdicts import check_reports

    return check_reports.as_text(found)


def check_annotations(found: Checked) -> list[str]:
    """Return GitHub's workflow commands for the cells of a check that did not pass."""
    from rbench.verdicts import check_reports

    return list(check_reports.github(found))


def write_reports(found: Checked, *, junit: Path | None = None, summary: Path | None = None) -> None:
    """Write a check as JUnit XML, and as markdown.

    `summary` is replaced. Without it, the summary is appended to the file that the environment names in
    GITHUB_STEP_SUMMARY, where it names one.
    """
    from rbench.verdicts import check_reports

    if junit is not None:
        _write(junit, check_reports.junit(found))
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary is not None:
        _write(summary, check_reports.summary(found))
    elif page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(check_reports.summary(found))


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


def met(run: Path | str, wanted: Sequence[Condition]) -> list[Met]:
    """Return the cells of a RUN that meet one of some conditions with their whole interval."""
    from rbench.tables import Results
    from rbench.verdicts.fail_if import judge

    return judge(Results.of(Store(Path(run))), wanted)


def _write(path: Path, text: str) -> None:
    make_folder_of(path)
    path.write_text(text, encoding="utf-8")

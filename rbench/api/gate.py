"""Check a RUN against a baseline, or against limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rbench.errors import StoreError, SuiteError
from rbench.load.metrics import Metric, Metrics
from rbench.load.registry import Registry
from rbench.plan.prepare import Options
from rbench.spec import Suite
from rbench.storage.runs import Store
from rbench.system.folders import make_folder_of

if TYPE_CHECKING:
    from rbench.verdicts.baseline import Baseline
    from rbench.verdicts.fail_if import Condition, Conditions
    from rbench.verdicts.gate import Checked


def write_baseline(
    runs: Sequence[Path | str], out: Path, *, metric: Sequence[str] = (), include: Sequence[Path] = ()
) -> Baseline:
    """Write what later RUNs are checked against into one file; see `rbench.verdicts.baseline`.

    Args:
        runs: one RUN, or several of the same suite whose encoders were trained with other seeds.
        out: the file; its name ends in `.json` or `.json.gz`.
        metric: metrics that checks shall judge beside the usual ones, whose values are then kept.
        include: folders with metrics of your own.

    Raises StoreError where a RUN cannot serve; the message names it and says why. Raises SuiteError for an unknown
    metric.
    """
    from rbench.tables import Results
    from rbench.verdicts import baseline

    if not out.name.endswith((".json", ".json.gz")):
        raise StoreError(f"{out}: a baseline is a .json or .json.gz file")
    metrics = Metrics(Registry(include))
    kept = _metrics(metric, metrics)[0] if metric else ()
    read = [Results.of(Store(Path(run)), metrics) for run in runs]
    made = baseline.baseline_of(read, [one for one in kept if not one.gate])
    baseline.write(made, out)
    return made


def baseline_notes(made: Baseline) -> list[str]:
    """Say of which cells of a baseline no check will decide: too few texts, or flags."""
    from rbench.verdicts.gate import thin

    return thin(made, Metrics())


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
    include: Sequence[Path] = (),
) -> Checked:
    """Check a RUN against a baseline file.

    Args:
        metric: which rows are judged: empty: `aua`, `clean` and `asr`. Others need a baseline that keeps their values.
            With `any_attack` among them all attacks on a victim count together, in place of each.
        tolerance: in points (0..100): what gets worse by so much passes. One number for all metrics, or by metric, as a
            mapping or as `clean=2,aua=2,asr=5`; a metric without one has 2.
        alpha: how often a check without any true change may fail, above 0 and below 0.5.
        about_these_weights: whether weights that are worse fail, even if another training might not be.
        allow_undecided: whether the check passes although a row cannot be judged.
        encoders: the encoders whose cells are checked; empty: all.
        include: folders with metrics of your own.

    Raises SuiteError where there is no such metric. Raises StoreError where a value is out of range, the file or the
    RUN cannot be read, or they differ in more than the victims.
    """
    from rbench.tables import Results
    from rbench.verdicts import gate
    from rbench.verdicts.baseline import read
    from rbench.verdicts.gate_rows import judged

    if not 0 < alpha < 0.5:
        raise StoreError(f"alpha {alpha}: a significance level of a check lies between 0 and 0.5")
    known = Metrics(Registry(include))
    chosen, together = _metrics([metric] if isinstance(metric, str) else metric, known)
    limits = _tolerances(tolerance, tuple(dict.fromkeys((*judged(known), *chosen))))
    rules = gate.Rules(chosen, together, limits, alpha, about_these_weights, allow_undecided)
    found = read(Path(baseline))
    return gate.check(Results.of(Store(Path(run)), known), found, rules, encoders)


def _metrics(names: Sequence[str], known: Metrics) -> tuple[tuple[Metric, ...], bool]:
    """Return the metrics that are asked for, in their order, and whether all attacks count together.

    Raises SuiteError where there is no such metric, and StoreError where a check cannot judge it.
    """
    from rbench.verdicts.gate_rows import ANY_ATTACK, judged

    usual = judged(known)
    asked = [known[name] for name in dict.fromkeys(names) if name != ANY_ATTACK]
    for one in asked:
        _check_judged(one, together=ANY_ATTACK in names)
    chosen = (*(one for one in usual if one in asked), *(one for one in asked if one not in usual))
    return chosen or usual, ANY_ATTACK in names


def _check_judged(metric: Metric, *, together: bool) -> None:
    """Raise StoreError where a check cannot judge a metric."""
    why = ""
    if not metric.share:
        why = "a check judges shares of texts, text by text, and it is a mean"
    elif metric.about.best is None:
        why = "neither of its ends is good"
    elif metric.of == "all attacks" or (together and not metric.gate):
        why = "the baseline has its values for each attack alone"
    if why:
        raise StoreError(f"{metric.name} cannot be checked: {why}")


def _tolerances(given: float | str | Mapping[str, float], metrics: Sequence[Metric]) -> dict[str, float]:
    """Read what `check` takes as `tolerance`. Raises StoreError for anything else."""
    names = tuple(metric.name for metric in metrics)
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
        parts = dict.fromkeys(names, given)
    read: dict[str, float] = {}
    for name, value in parts.items():
        if name not in names:
            raise StoreError(f"tolerance {given!r}: {name!r} is not one of {', '.join(names)}; {form}")
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


def conditions(texts: Sequence[str], include: Sequence[Path] = ()) -> tuple[Condition, ...]:
    """Parse conditions such as `asr > 60`. Raises SuiteError for a wrong one."""
    from rbench.verdicts.fail_if import parse

    if not texts:
        return ()
    metrics = Metrics(Registry(include))
    return tuple(parse(text, metrics) for text in texts)


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
        if (why := missing(one.metric.name, ground)) is not None:
            raise SuiteError(f"--fail-if {str(one)!r}: {why}")


def met(run: Path | str, wanted: Sequence[Condition], include: Sequence[Path] = ()) -> Conditions:
    """Return the cells of a RUN that meet one of some conditions with their whole interval, and those that cannot be
    judged."""
    from rbench.tables import Results
    from rbench.verdicts.fail_if import judge

    return judge(Results.of(Store(Path(run)), Metrics(Registry(include))), wanted)


def _write(path: Path, text: str) -> None:
    make_folder_of(path)
    path.write_text(text, encoding="utf-8")

"""Verbs that take a metric take the numbers of a user's measure, unit by unit, through the cells of its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from rbench import api
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.gate import reports as check_reports
from rbench.gate.check import CheckResult
from rbench.gate.fail_if import ConditionResults
from rbench.metrics import MetricCatalogue
from rbench.report.figures import dose, front
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from tests import reference
from tests.gate import gated
from tests.tables.conftest import make_suite

MEASURE = '''\
"""Queries of successes: how often an attack asked before it succeeded."""

import numpy as np

from rbench.measures import Mean, Measure, Row


class Effort(Measure):
    """Queries of successes."""

    columns = (Mean("taken", "mean over the successes", best="highest", title="Queries of successes"),)

    def of_attack(self, options, outcomes):
        fell = np.array([one.status == "succeeded" for one in outcomes])
        return Row({"taken": np.where(fell, [one.num_queries for one in outcomes], np.nan)})
'''
QUICK = '''\
"""Quick falls: the share of the attacked texts that fell within 5 queries."""

from rbench.measures import Measure, Row, Share


class Quick(Measure):
    """Quick falls."""

    columns = (Share("quick", "fell within 5 queries / attacked", best="lowest", title="Quick falls"),)

    def of_attack(self, options, outcomes):
        there = [one for one in outcomes if one.status in ("succeeded", "failed")]
        quick = [one.status == "succeeded" and one.num_queries <= 5 for one in there]
        return Row({"quick": quick}, units=[one.example_id for one in there])
'''
ENCODERS = ("minilm", "bert_b")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "measures").mkdir(parents=True)
    (folder / "measures" / "effort.py").write_text(MEASURE)
    (folder / "measures" / "quick.py").write_text(QUICK)
    return folder


@pytest.fixture
def run(make_run: Callable[..., RunStore]) -> RunStore:
    return make_run(make_suite(seeds=(0, 1, 2), tables=({"metric": "effort"},)), sealed=True)


def taken(run: RunStore, encoder: str, task: str, attack: str) -> list[dict[str, int]]:
    """The queries of each text on which an attack succeeded, seed by seed, from the outcomes themselves."""
    plan = run.plan()
    assert plan is not None
    jobs = [job for job in plan.attacks if (job.parts[0], job.parts[1], job.parts[3]) == (encoder, task, attack)]
    return [{o.example_id: o.num_queries for o in run.outcomes(job) if o.status == "succeeded"} for job in jobs]


def repeats(run: RunStore, encoder: str, task: str, strategy: str, attack: str) -> float:
    """How many seeds attacked a text, on average over all texts."""
    plan = run.plan()
    assert plan is not None
    jobs = [job for job in plan.attacks if job.parts == (encoder, task, strategy, attack)]
    drawn = [{one.example_id for one in run.outcomes(job)} for job in jobs]
    return sum(map(len, drawn)) / len(set().union(*drawn))


def shared(run: RunStore, task: str, attack: str) -> list[tuple[int, int]]:
    """The queries of both encoders on each text that fell with both, once for each seed."""
    sides = [taken(run, encoder, task, attack) for encoder in ENCODERS]
    return [(a[i], b[i]) for a, b in zip(*sides, strict=True) for i in a.keys() & b.keys()]


def test_compare_pairs_two_encoders_text_by_text(run: RunStore, mine: Path) -> None:
    found = api.compare(run.root, between=ENCODERS, metric="taken", include=[mine])
    assert len(found.cells) > 1
    for cell in found.cells:
        pairs, d = shared(run, cell.name.task, cell.name.attack), cell.difference
        assert cell.paired and d.n == len(pairs) > 5 and d.only_one is None
        assert d.value == pytest.approx(sum(b - a for a, b in pairs) / len(pairs))
        assert d.low is not None and d.high is not None and d.low < d.value < d.high
        for encoder, value in zip(ENCODERS, cell.unpaired, strict=True):
            seeds = taken(run, encoder, cell.name.task, cell.name.attack)
            assert value == pytest.approx(fmean(n for own in seeds for n in own.values()))
    (one,) = api.claims(run.root, claim(mine, "mr", "pwws"), [mine])
    (cell,) = [cell for cell in found.cells if cell.name[1:] == ("mr", "clean", "pwws")]
    d = one.judged[0].difference
    assert d is not None and (d.value, d.p) == (pytest.approx(-cell.difference.value), pytest.approx(cell.difference.p))
    shown = api.comparison_table(found)
    assert "Queries of successes: bert_b against minilm" in shown and "Only minilm" not in shown
    with pytest.raises(SuiteError):
        api.compare(run.root, between=ENCODERS, metric="takn", include=[mine])
    with pytest.raises(SuiteError):
        api.compare(run.root, between=ENCODERS, metric="taken")


def test_a_condition_is_judged_on_the_interval_of_each_cell(run: RunStore, mine: Path) -> None:
    def met(text: str) -> ConditionResults:
        return api.met(run.root, api.conditions([text], [mine]), [mine])

    cells = {f"{encoder}/mr/clean/pwws": taken(run, encoder, "mr", "pwws") for encoder in ENCODERS}
    found = {one.cell: one for one in met("taken > 0").met}
    for name, seeds in cells.items():
        pooled = DescrStatsW([n for own in seeds for n in own.values()])
        n = pooled.nobs / repeats(run, *name.split("/"))  # texts that several seeds attack count once
        half = stats.t.ppf(0.975, n - 1) * np.sqrt(pooled.var * pooled.nobs / (pooled.nobs - 1) / n)
        low, high = pooled.mean - half, pooled.mean + half
        assert (found[name].low, found[name].high) == (pytest.approx(low), pytest.approx(high))
        assert found[name].value == pytest.approx(pooled.mean)
        assert name in {one.cell for one in met(f"taken > {low - 0.01}").met}
        assert name not in {one.cell for one in met(f"taken > {low + 0.01}").met}
    with pytest.raises(SuiteError):
        api.conditions(["taken > 1"])


def test_a_check_judges_a_share_against_a_baseline(mine: Path, tmp_path: Path) -> None:
    before, after = gated.run(tmp_path / "a", gated.HALF), gated.run(tmp_path / "b", gated.WORSE, weights="b")
    out, plain = tmp_path / "b.json", tmp_path / "plain.json"
    api.write_baseline([before], out, metric=["quick"], include=[mine])
    api.write_baseline([before], plain)

    def check(run: Path, file: Path = out, **how: Any) -> CheckResult:
        return api.check(run, file, about_these_weights=True, **how)

    found = check(after, metric=["quick"], include=[mine])
    (row,) = found.rows
    assert (found.verdict, row.verdict, row.before, row.after) == ("failed", "failed", 0.5, 0.8)
    assert row.judged is not None and (row.judged.n, row.judged.rise) == (100, pytest.approx(0.3))
    assert row.judged.p == pytest.approx(2**-30), "of 30 texts that changed all fell"
    assert str(row.key) == gated.CELL and "Quick falls" in check_reports.as_text(found)
    both = check(after, metric=["asr", "quick"], include=[mine])
    assert [one.judged and one.judged.p for one in both.rows] == [pytest.approx(2**-30)] * 2
    assert check(before, metric=["quick"], include=[mine]).verdict == "passed"
    assert check(after).rows == check(after, plain).rows, "it is judged only where it is asked for"
    with pytest.raises(StoreError):
        check(after, plain, metric=["quick"], include=[mine])
    with pytest.raises(SuiteError):
        check(after, metric=["quick"])
    with pytest.raises(StoreError):
        api.write_baseline([before], out, metric=["taken"], include=[mine])


def marks(axes: Axes) -> dict[str, tuple[float, float]]:
    return {str(one.get_label()): tuple(float(of[0]) for of in one[0].get_data()) for one in axes.containers}


@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_either_axis_of_the_front_takes_it(run: RunStore, mine: Path, swapped: bool) -> None:
    across, up = ("aua", "taken") if swapped else ("taken", "aua")
    options = front.Options(robustness=across, quality=up)
    results = Results.of(run, MetricCatalogue(Registry([mine])))
    shares = {(c["encoder"], c["task"], c["attack"]): 100 * c["value"] for c in build(results, "aua").cells}
    drawn = {
        " ".join(axes.get_title().split()): marks(axes) for axes in front.FrontFigure().draw(options, results).axes
    }
    assert drawn.keys() == {f"{a}, {t}" for a in ("pwws", "bertattack[max_words=10]") for t in ("mr", "mini_nli")}
    for title, points in drawn.items():
        attack, task = title.split(", ")
        for encoder in ENCODERS:
            value = fmean(n for own in taken(run, encoder, task, attack) for n in own.values())
            point = (value, shares[encoder, task, attack])
            assert points[encoder] == pytest.approx(point[::-1] if swapped else point)
    with pytest.raises(SuiteError):
        front.FrontFigure().draw(options, Results.of(run))


@pytest.mark.nightly
def test_the_figure_of_doses_takes_it(mine: Path) -> None:
    store = RunStore(reference.run("dose-response-part1-doses"))
    results = Results.of(store, MetricCatalogue(Registry([mine])))
    (axes,) = dose.DoseFigure().draw(dose.Options(x="beta", metric="taken", attack="pwws"), results).axes
    plan = results.plan
    wanted = {}
    for job in plan.attacks:
        if job.parts[3] == "pwws":
            own = [o.num_queries for o in store.outcomes(job) if o.status == "succeeded"]
            wanted.setdefault(plan.draw(job.parts[0]).encoder, []).append(fmean(own))
    lines = (one for one in axes.containers if isinstance(one, ErrorbarContainer))
    drawn = [float(y) for one in lines for y in one[0].get_ydata()]
    drawn += [float(line.get_ydata()[0]) for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert sorted(drawn) == pytest.approx(sorted(map(fmean, wanted.values()))) and len(drawn) > 2
    assert axes.get_ylabel() == "Queries of successes"


def claim(folder: Path, task: str, attack: str) -> Path:
    where = f"where: {{task: {task}, attack: {attack}}}, about: weights"
    (file := folder / "claims.yaml").write_text(
        f"claims:\n  - {{id: one, metric: taken, lower: minilm, than: bert_b, {where}}}\n"
    )
    return file


def test_a_claim_compares_two_encoders_text_by_text(run: RunStore, mine: Path) -> None:
    (judged,) = api.claims(run.root, claim(mine, "mr", "pwws"), [mine])
    (found,) = judged.judged
    pairs = shared(run, "mr", "pwws")
    assert found.difference is not None and not found.found.unpaired and found.difference.n == len(pairs) > 5
    assert found.difference.value == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))
    assert "Queries of successes" in api.table(run.root, metric="effort", include=[mine])
    with pytest.raises(SuiteError):
        api.claims(run.root, mine / "claims.yaml")

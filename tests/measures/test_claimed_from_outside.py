"""Verbs that take a metric take the numbers of a user's measure, unit by unit, through the cells of its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from statsmodels.stats.weightstats import DescrStatsW

from rbench import api
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.gate import reports as check_reports
from rbench.gate.check import Checked
from rbench.gate.fail_if import Conditions
from rbench.metrics import Metrics
from rbench.report.figures import dose, front
from rbench.store.runs import Store
from rbench.tables import Results, build
from tests import reference
from tests.gate import gated
from tests.tables.conftest import make_suite

MEASURE = '''\
"""Queries of successes: how often an attack asked before it succeeded."""

from rbench.score import Sample, scored
from rbench.schema import Strict
from rbench.tables import Table
from rbench.tables.aggregate import grid
from rbench.tables.cells import Grid, Measured, Reading, mean_of
from rbench.tables.table import Meaning

ABOUT = Meaning("Queries of successes", "mean over the successes", "highest", percent=False)
METRICS = {"taken": ABOUT}


class Options(Strict):
    """It has none."""


def cells(results):
    def values(run, name):
        done = results.store.outcomes(run.job)
        return {one.example_id: float(one.num_queries) for one in done if one.status == "succeeded"}

    def score(run, name):
        return scored(name, Sample.of(values(run, name).values()))

    read, found = Reading(ABOUT, score, mean_of, values), {}
    for key, cell in grid(results).cells.items():
        names = {"finetune": cell.finetune, "attack": cell.attack}
        found[key] = Measured(cell.encoder, cell.task, cell.runs, results, read=read, **names)
    return Grid(results, found)


def table(options, results):
    rows = tuple((cell.attack, cell.encoder, cell.task, cell.number("taken")) for cell in cells(results).cells.values())
    header = ("Attack", "Encoder", "Task", "Queries")
    return Table("effort", header, rows, (), (), about=ABOUT)
'''
QUICK = '''\
"""Quick falls: the share of the attacked texts that fell within 5 queries."""

from rbench.score import Share, scored
from rbench.schema import Strict
from rbench.tables.aggregate import grid
from rbench.tables.cells import Grid, Measured, Reading, mean_of
from rbench.tables.table import Meaning

ABOUT = Meaning("Quick falls", "fell within 5 queries / attacked", "lowest")
METRICS = {"quick": ABOUT}


class Options(Strict):
    """It has none."""


def cells(results):
    def values(run, name):
        there = [one for one in results.store.outcomes(run.job) if one.status in ("succeeded", "failed")]
        return {one.example_id: float(one.status == "succeeded" and one.num_queries <= 5) for one in there}

    def score(run, name):
        own = values(run, name).values()
        return scored(name, Share(int(sum(own)), len(own)))

    read, found = Reading(ABOUT, score, mean_of, values, shares=True), {}
    for key, cell in grid(results).cells.items():
        names = {"finetune": cell.finetune, "attack": cell.attack}
        found[key] = Measured(cell.encoder, cell.task, cell.runs, results, read=read, **names)
    return Grid(results, found, spoken=lambda cell: [(cell.task, "within 5")])


def table(options, results):
    raise NotImplementedError
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
def run(make_run: Callable[..., Store]) -> Store:
    return make_run(make_suite(seeds=(0, 1, 2), tables=({"metric": "effort"},)), sealed=True)


def taken(run: Store, encoder: str, task: str, attack: str) -> list[dict[str, int]]:
    """The queries of each text on which an attack succeeded, seed by seed, from the outcomes themselves."""
    plan = run.plan()
    assert plan is not None
    jobs = [job for job in plan.attacks if (job.parts[0], job.parts[1], job.parts[3]) == (encoder, task, attack)]
    return [{o.example_id: o.num_queries for o in run.outcomes(job) if o.status == "succeeded"} for job in jobs]


def shared(run: Store, task: str, attack: str) -> list[tuple[int, int]]:
    """The queries of both encoders on each text that fell with both, once for each seed."""
    sides = [taken(run, encoder, task, attack) for encoder in ENCODERS]
    return [(a[i], b[i]) for a, b in zip(*sides, strict=True) for i in a.keys() & b.keys()]


def test_compare_pairs_two_encoders_text_by_text(run: Store, mine: Path) -> None:
    found = api.compare(run.root, between=ENCODERS, metric="taken", include=[mine])
    assert len(found.cells) > 1
    for cell in found.cells:
        pairs, d = shared(run, cell.name.task, cell.name.attack), cell.difference
        assert cell.paired and d.n == len(pairs) > 5 and d.only_one is None
        assert d.value == pytest.approx(sum(b - a for a, b in pairs) / len(pairs))
        assert d.low is not None and d.high is not None and d.low < d.value < d.high
        for encoder, value in zip(ENCODERS, cell.unpaired, strict=True):
            seeds = taken(run, encoder, cell.name.task, cell.name.attack)
            assert value == pytest.approx(fmean(fmean(own.values()) for own in seeds))
    (one,) = api.claims(run.root, claim(mine, "mr", "pwws"), [mine])
    (cell,) = [cell for cell in found.cells if cell.name[1:] == ("mr", "clean", "pwws")]
    d = one.judged[0].difference
    assert d is not None and (d.value, d.p) == (pytest.approx(-cell.difference.value), pytest.approx(cell.difference.p))
    shown = api.comparison_table(found)
    assert "Queries of successes: bert_b against minilm" in shown and "Only minilm" not in shown
    with pytest.raises(SuiteError, match='unknown metric "takn"; did you mean taken'):
        api.compare(run.root, between=ENCODERS, metric="takn", include=[mine])
    with pytest.raises(SuiteError, match='unknown metric "taken"'):
        api.compare(run.root, between=ENCODERS, metric="taken")


def test_a_condition_is_judged_on_the_interval_of_each_cell(run: Store, mine: Path) -> None:
    def met(text: str) -> Conditions:
        return api.met(run.root, api.conditions([text], [mine]), [mine])

    cells = {f"{e}/{t}/clean/{a}": taken(run, e, t, a) for e in ENCODERS for t in ("mr", "mini_nli") for a in ("pwws",)}
    found = {one.cell: one for one in met("taken > 0").met}
    for name, seeds in cells.items():
        means = [DescrStatsW(list(own.values())) for own in seeds]
        low, high = (fmean(ends) for ends in zip(*(one.tconfint_mean() for one in means), strict=True))
        assert (found[name].low, found[name].high) == (pytest.approx(low), pytest.approx(high))
        assert found[name].value == pytest.approx(fmean(one.mean for one in means))
        assert name in {one.cell for one in met(f"taken > {low - 0.01}").met}
        assert name not in {one.cell for one in met(f"taken > {low + 0.01}").met}
    with pytest.raises(SuiteError, match='unknown metric "taken"'):
        api.conditions(["taken > 1"])


def test_a_check_judges_a_share_against_a_baseline(mine: Path, tmp_path: Path) -> None:
    before, after = gated.run(tmp_path / "a", gated.HALF), gated.run(tmp_path / "b", gated.WORSE, weights="b")
    out, plain = tmp_path / "b.json", tmp_path / "plain.json"
    api.write_baseline([before], out, metric=["quick"], include=[mine])
    api.write_baseline([before], plain)

    def check(run: Path, file: Path = out, **how: Any) -> Checked:
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
    with pytest.raises(StoreError, match="the baseline keeps no values of quick; make it again: rbench baseline RUN"):
        check(after, plain, metric=["quick"], include=[mine])
    with pytest.raises(SuiteError, match='unknown metric "quick"'):
        check(after, metric=["quick"])
    with pytest.raises(StoreError, match="has values that are not 0 or 1 of taken, and a check compares shares"):
        api.write_baseline([before], out, metric=["taken"], include=[mine])


def marks(axes: Axes) -> dict[str, tuple[float, float]]:
    return {str(one.get_label()): tuple(float(of[0]) for of in one[0].get_data()) for one in axes.containers}


@pytest.mark.parametrize("swapped", [False, True])
def test_either_axis_of_the_front_takes_it(run: Store, mine: Path, swapped: bool) -> None:
    across, up = ("aua", "taken") if swapped else ("taken", "aua")
    options = front.Options(robustness=across, quality=up)
    results = Results.of(run, Metrics(Registry([mine])))
    shares = {(c["encoder"], c["task"], c["attack"]): 100 * c["value"] for c in build(results, "aua").cells}
    drawn = {" ".join(axes.get_title().split()): marks(axes) for axes in front.draw(options, results).axes}
    assert drawn.keys() == {f"{a}, {t}" for a in ("pwws", "bertattack[max_words=10]") for t in ("mr", "mini_nli")}
    for title, points in drawn.items():
        attack, task = title.split(", ")
        for encoder in ENCODERS:
            value = fmean(fmean(own.values()) for own in taken(run, encoder, task, attack))
            point = (value, shares[encoder, task, attack])
            assert points[encoder] == pytest.approx(point[::-1] if swapped else point)
    with pytest.raises(SuiteError, match='unknown metric "taken"'):
        front.draw(options, Results.of(run))


def test_the_figure_of_doses_takes_it(mine: Path) -> None:
    store = Store(reference.run("dose-response-part1-doses"))
    results = Results.of(store, Metrics(Registry([mine])))
    (axes,) = dose.draw(dose.Options(x="beta", metric="taken", attack="pwws"), results).axes
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


def test_a_claim_compares_two_encoders_text_by_text(run: Store, mine: Path) -> None:
    (judged,) = api.claims(run.root, claim(mine, "mr", "pwws"), [mine])
    (found,) = judged.judged
    pairs = shared(run, "mr", "pwws")
    assert found.difference is not None and not found.found.unpaired and found.difference.n == len(pairs) > 5
    assert found.difference.value == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))
    assert "Queries of successes" in api.table(run.root, metric="effort", include=[mine])
    with pytest.raises(SuiteError, match='unknown metric of a claim "taken"'):
        api.claims(run.root, mine / "claims.yaml")

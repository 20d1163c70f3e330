"""A number of one label, such as `noise.typos@0.1`, in every verb that takes a metric."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from statsmodels.stats.weightstats import DescrStatsW
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import StoreError, SuiteError
from rbench.measures._noise import NoiseRows
from rbench.store.runs import RunStore

VICTIMS = """
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from rbench import mini

ROWS = [row for row in mini.rows("mini-sentiment", "train")][:800]


def learned(**read):
    made = make_pipeline(CountVectorizer(**read), LogisticRegression(C=100, max_iter=500))
    made.fit([row["text"] for row in ROWS], [row["label"] for row in ROWS])
    return lambda texts: made.predict_proba(list(texts)).tolist()


words = learned(ngram_range=(1, 3))
letters = learned(analyzer="char_wb", ngram_range=(2, 4))
"""
SUITE = """
name: s
victims: [{function: noisy:words, version: '1', name: words}, {function: noisy:letters, version: '1', name: letters}]
tasks: [mini-sentiment]
resources: mini
evaluate: [{noise: {kinds: [typos, upper], degrees: [0.1, 0.5], draws: 2, num_examples: 200}}]
claims:
  - {id: task, metric: noise, higher: letters, than: words, where: {task: typos@0.5}, about: weights}
  - {id: label, metric: noise.typos@0.5, higher: letters, than: words, where: {task: mini-sentiment}, about: weights}
  - {id: degrees, metric: noise, lower: {task: typos@0.5}, than: {task: typos@0.1}, for_each: encoder, about: weights}
"""
LABEL, BETWEEN = "typos@0.5", ("words", "letters")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("labels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBENCH_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        (folder / "noisy.py").write_text(VICTIMS)
        (folder / "suite.yaml").write_text(SUITE)
        importlib.invalidate_caches()
        assert not api.run("suite.yaml", api.Options(out=folder / "RUN")).failed
        yield folder / "RUN"


def met(run: Path, text: str) -> Any:
    return api.met(run, api.conditions([text]))


def test_a_condition_on_a_label_judges_its_cells_alone(run: Path) -> None:
    everywhere = {one.cell: one for one in met(run, "noise > 0").met}
    own = {one.cell: one for one in met(run, f"noise.{LABEL} > 0").met}
    assert [*own] == [f"{one}/mini-sentiment/as-is" for one in BETWEEN] and len(everywhere) == 2 * 7
    store = RunStore(run)
    plan = store.plan()
    assert plan is not None
    for job in (job for job in plan.jobs if job.what == "noise"):
        one = own[f"{job.parts[0]}/mini-sentiment/as-is"]
        values = NoiseRows(tuple(store.rows(job))).values(LABEL, "noise")
        assert values is not None and one.value == pytest.approx(values.mean()) and one.n == 200
        same = everywhere[f"{job.parts[0]}/{LABEL}/as-is"]
        assert (one.value, one.low, one.high) == (same.value, same.low, same.high)
    assert str(met(run, f"noise.{LABEL} < 100%").met[0]).startswith(f"noise.{LABEL} < 100: words/mini-sentiment/as-is")
    assert not met(run, f"Noise.{LABEL} > 99").met


def test_the_command_line_ends_with_3_and_refuses_a_label_that_a_suite_has_not(run: Path) -> None:
    def rbench(condition: str) -> Any:
        words = ["run", "suite.yaml", "--out", str(run), "--fail-if", condition]
        return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, words)

    assert rbench(f"noise.{LABEL} < 99").exit_code == 3
    refused = rbench("noise.typos@0.3 < 80")
    assert refused.exit_code == 2 and "Traceback" not in refused.stderr
    assert "noise has no label typos@0.3; its labels are none, typos, typos@0.1, typos@0.5, upper," in refused.stderr


def test_claims_and_compare_mean_the_same_cells_by_label_as_by_task(run: Path) -> None:
    said = {one.claim.id: one.judged[0] for one in api.claims(run)}
    assert said["task"].difference is not None and said["task"].difference == said["label"].difference
    (compared,) = api.compare(run, between=BETWEEN, metric=f"noise.{LABEL}").cells
    by_task = api.compare(run, between=BETWEEN, metric="noise").cells
    assert compared.difference == next(one.difference for one in by_task if one.name.task == LABEL)
    assert compared.difference.value == pytest.approx(said["label"].difference.value)
    table = api.comparison_table(api.compare(run, between=BETWEEN, metric=f"noise_drop.{LABEL}"))
    assert "Score lost to noise, typos@0.5: letters against words" in table


def test_labels_of_a_victim_are_compared_text_by_text(run: Path) -> None:
    (said,) = [one for one in api.claims(run) if one.claim.id == "degrees"]
    store = RunStore(run)
    plan = store.plan()
    assert plan is not None and len(said.judged) == 2
    for judged, job in zip(said.judged, (job for job in plan.jobs if job.what == "noise"), strict=True):
        stored, d = NoiseRows(tuple(store.rows(job))), judged.difference
        low, high = (stored.values(label, "noise") for label in ("typos@0.1", "typos@0.5"))
        assert low is not None and high is not None and d is not None and d.n == 200
        assert d.value == pytest.approx((high - low).mean())
        assert (d.low, d.high) == pytest.approx(DescrStatsW(high - low).tconfint_mean())


def test_a_check_judges_the_label_whose_texts_are_right_or_wrong(run: Path, tmp_path: Path) -> None:
    metric, file = f"noise_worst.{LABEL}", tmp_path / "baseline.json"
    api.write_baseline([run], file, metric=[metric])
    found = api.check(run, file, metric=[metric])
    assert found.verdict == "passed"
    assert [str(row.key) for row in found.rows] == [f"{one}/mini-sentiment/as-is" for one in BETWEEN]
    with pytest.raises(StoreError):
        api.write_baseline([run], file, metric=[f"noise.{LABEL}"])


def test_an_unknown_label_is_told_those_that_exist(run: Path) -> None:
    for asked in (
        lambda: met(run, "noise.typos@0.3 < 80"),
        lambda: api.compare(run, between=BETWEEN, metric="noise.typos@0.3"),
        lambda: api.write_baseline([run], run / "b.json", metric=["noise.typos@0.3"]),
    ):
        with pytest.raises(StoreError) as caught:
            asked()
        assert "typos@0.1, typos@0.5" in str(caught.value)
    with pytest.raises(SuiteError):
        api.conditions(["nois.typos < 80"])

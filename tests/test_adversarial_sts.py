"""Tests a suite that attacks an STS task and a task with classes, from the file to records, tables and the frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.api import RunResult
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, FinetuneJob, Health, Record
from rbench.score import StsDeviations
from rbench.store.runs import RunStore
from rbench.store.verify import verify

SUITE = """\
encoders: [mini-bert-packaged]
tasks: [mini-sentiment, mini-sts]
attacks: [pwws]
num_examples: {mini-sts: 12, default: 2}
seeds: [0]
resources: mini
training: {max_train: 32, max_validation: 60, epochs: 1}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sts")


@pytest.fixture(scope="module")
def ran(place: Path) -> RunResult:
    (place / "suite.yaml").write_text(SUITE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBENCH_CACHE", str(place / "cache"))
        return api.run(place / "suite.yaml", Options(device="cpu", backend="torch", out=place / "run"))


def record(place: Path, kind: type[Any], task: str) -> Record:
    store = RunStore(place / "run")
    plan = store.plan()
    assert plan is not None
    (job,) = [job for job in plan.jobs if isinstance(job.spec, kind) and job.parts[1] == task]
    found = store.record(job)
    assert found is not None
    return found


def test_each_task_has_the_victim_that_serves_it(ran: RunResult, place: Path) -> None:
    assert not ran.failed
    scorer, classifier = (record(place, FinetuneJob, task) for task in ("mini-sts", "mini-sentiment"))
    assert (scorer.job.parts[2], classifier.job.parts[2]) == ("cosine", "clean")
    (spearman,) = [score for score in scorer.scores if score.name == "validation_spearman"]
    assert spearman.value is not None and spearman.value > 0.2 and spearman.n == 60


def test_a_scorer_has_no_majority_to_be_compared_with(ran: RunResult, place: Path) -> None:
    assert record(place, FinetuneJob, "mini-sts").health == Health()
    assert record(place, FinetuneJob, "mini-sentiment").health != Health()


def test_the_record_holds_errors_and_correlations_of_its_outcomes(ran: RunResult, place: Path) -> None:
    made = record(place, AttackJob, "mini-sts")
    outcomes = RunStore(place / "run").outcomes(made.job)
    assert len(outcomes) == 12 and all(outcome.gold is not None for outcome in outcomes)
    assert StsDeviations.of_record(made).scores() == StsDeviations.of(outcomes).scores()
    scores = {score.name: score.value or 0 for score in made.scores}
    assert scores["error_after"] > scores["error_before"] and scores["asr"] > 0
    assert not any(
        score.name in ("spearman_before", "error_after") for score in record(place, AttackJob, "mini-sentiment").scores
    )
    for outcome in outcomes:
        if outcome.status == "skipped":
            assert abs((outcome.original_score or 0) - (outcome.gold or 0)) >= 1
            continue
        before, after = (abs((s or 0) - (outcome.gold or 0)) for s in (outcome.original_score, outcome.perturbed_score))
        assert (after - before >= 1 - 1e-6) == (outcome.status == "succeeded")


def test_its_tables_are_written_and_the_run_is_sound(ran: RunResult, place: Path) -> None:
    written = {file.name for file in (place / "run/tables").iterdir()}
    assert {"asr.md", "advsts.md", "advsts.tex", "advsts.csv", "advsts.json"} <= written
    text = api.table(place / "run", metric="advsts", names=True)
    assert "| pwws" in text and "mini-sts" in text and "mini-sentiment" not in text.splitlines()[4]
    assert "No health recorded" not in text and "not done" not in text
    columns = api.table(place / "run", names=True).splitlines()[2]
    assert [name.strip() for name in columns.split("|")[1:-1]][2:4] == ["mini-sentiment", "oracle-valid"]
    assert "mini-sts" in columns and columns.count("oracle-valid") == 1
    assert not verify(place / "run").damaged
    frame = api.load_results(place / "run")
    assert frame[frame["task"] == "mini-sts"]["gold"].notna().all()
    assert frame[frame["task"] == "mini-sentiment"]["gold"].isna().all()

"""Tests encoders with `data: in-domain`, which are trained once per task, in a suite and by `rbench train`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api, mini
from rbench.api.suites import prepare_suite
from rbench.api.training import train
from rbench.errors import PlanError
from rbench.plan.prepare import Options
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache

SMALL = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}"
TOY = f"architecture: {SMALL}\npooling: mean\ntrain: {{objective: mlm, data: in-domain, steps: 2, batch_size: 16}}\n"
SUITE = """\
encoders: [own]
tasks: [mini-sentiment, mini-nli]
resources: mini
training: {max_train: 8, max_validation: 4, epochs: 1}
"""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    (tmp_path / "mine" / "encoders" / "own.yaml").write_text(TOY, encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return Options(include=(tmp_path / "mine",), device="cpu")


def test_a_suite_trains_one_encoder_a_task(options: Options) -> None:
    result = api.run("suite.yaml", options)
    assert not result.failed and result.complete == 4
    store = RunStore(result.run)
    trained = {job.parts: job for job in prepare_suite("suite.yaml", options).plan.jobs if job.stage == "pretrain"}
    assert set(trained) == {("own", "mini-sentiment"), ("own", "mini-nli")}
    for (_, task), job in trained.items():
        record = store.record(job)
        assert record is not None
        columns = 1 if task == "mini-sentiment" else 2
        assert record.counts["n"] == columns * len(mini.rows(task, "train"))
        card = (WeightCache(default_cache()).folder(job.key) / "README.md").read_text(encoding="utf-8")
        assert task in card and "in-domain" not in card
    weights = {store.record(job).provenance.weights_hash for job in trained.values()}  # type: ignore[union-attr]
    assert len(weights) == 2


def test_one_is_trained_by_itself_where_its_task_is_named(options: Options) -> None:
    trained = train("own", data="mini-sts", options=options)
    assert trained.name == "own-mini-sts" and "data: mini-sts" in trained.entry
    assert trained.record.counts["n"] == 2 * len(mini.rows("mini-sts", "train"))
    with pytest.raises(PlanError):
        train("own", options=options)


def test_it_cannot_be_scored_without_a_task(options: Options) -> None:
    Path("scored.yaml").write_text("encoders: [own]\nevaluate: [mini-sts]\n", encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        prepare_suite("scored.yaml", options)
    assert "{own: {data: CORPUS}}" in str(caught.value)
    # With a corpus named in the suite there is nothing in-domain about it.
    Path("scored.yaml").write_text("encoders: [own: {data: mini-nli}]\nevaluate: [mini-sts]\n", encoding="utf-8")
    assert [job.name for job in prepare_suite("scored.yaml", options).plan.jobs] == [
        "pretrain/own[data=mini-nli]/seed0",
        "measure/own[data=mini-nli]/mini-sts/seed0",
    ]

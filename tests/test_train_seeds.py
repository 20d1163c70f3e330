"""A run of a tiny suite with two training seeds, from its trainings to its tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from rbench import api
from rbench.cli import console as show
from rbench.plan.prepare import Options
from rbench.schema import PretrainJob
from rbench.store.runs import RunStore
from rbench.store.verify import verify

SMALL = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}"
OWN = f"architecture: {SMALL}\npooling: mean\ntrain: {{objective: mlm, data: mini-topic, steps: 2, batch_size: 16}}\n"
SUITE = """\
encoders: [own, own-first]
tasks: [mini-sentiment]
attacks: [pwws]
evaluate: [mini-sts]
resources: mini
train_seeds: [0, 1]
num_examples: 4
training: {max_train: 32, max_validation: 16, epochs: 1}
"""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    (tmp_path / "mine" / "encoders" / "own.yaml").write_text(OWN, encoding="utf-8")
    (tmp_path / "mine" / "encoders" / "own-first.yaml").write_text("base: own\npooling: cls\n", encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return Options(include=(tmp_path / "mine",), device="cpu", backend="torch")


def test_what_stands_on_a_training_has_its_seed(options: Options) -> None:
    chosen = api.plan("suite.yaml", dataclasses.replace(options, only=("own-first[seed=1]",)))
    assert [job.name for job in chosen.jobs] == [
        "pretrain/own[seed=1]/seed1",
        "measure/own-first[seed=1]/mini-sts/seed0",
        "finetune/own-first[seed=1]/mini-sentiment/clean/seed0",
        "measure/own-first[seed=1]/mini-sentiment/clean/test_accuracy/seed0",
        "attack/own-first[seed=1]/mini-sentiment/clean/pwws/seed0",
    ]


def test_a_run_with_two_training_seeds(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    options = dataclasses.replace(options, overrides=("tasks=[]", "attacks=[]"))  # scored by STS alone: nothing is slow
    # First without the axis: what it makes is not made again.
    plain = api.run("suite.yaml", dataclasses.replace(options, overrides=(*options.overrides, "train_seeds=[]")))
    assert not plain.failed and plain.complete == 3
    show.plan(planned := api.plan("suite.yaml", options))
    shown = capsys.readouterr().out.replace(" ", "")
    assert "pretrain/own0,10,11/2" in shown and "6jobs,3done;todo:1pretrain,2measure" in shown
    assert {job.name.split("/")[1] for job in planned.jobs if job.key not in planned.done} == {
        "own[seed=1]",
        "own-first[seed=1]",
    }
    result = api.run("suite.yaml", options)
    assert not result.failed and result.complete == 6 and result.run == plain.run
    verified = verify(result.run)
    assert not verified.findings and verified.counts["verified"] == 6

    store = RunStore(result.run)
    plan = store.plan()
    assert plan is not None
    records = {job.name: store.record(job) for job in plan.jobs}
    weights = {
        name: record.provenance.weights_hash
        for name, record in records.items()
        if record is not None and isinstance(record.job.spec, PretrainJob)
    }
    assert list(weights) == ["pretrain/own/seed0", "pretrain/own[seed=1]/seed1"] and len(set(weights.values())) == 2
    of_own = {weights["pretrain/own/seed0"], weights["pretrain/own[seed=1]/seed1"]}
    pooled = (records[f"measure/{label}/mini-sts/seed0"] for label in ("own-first", "own-first[seed=1]"))
    assert {record.provenance.weights_hash for record in pooled if record is not None} == of_own

    scores = [records[f"measure/{label}/mini-sts/seed0"] for label in ("own", "own[seed=1]")]
    spearman = [record.scores[0].value or 0.0 for record in scores if record is not None]
    cells = json.loads(api.table(result.run, metric="sts", fmt="json"))["cells"]
    assert [cell["encoder"] for cell in cells] == ["own", "own-first"]
    assert cells[0]["value"] == pytest.approx(sum(spearman) / 2)
    assert cells[0]["train_sd"] == pytest.approx(abs(spearman[0] - spearman[1]) / 2**0.5)


def test_a_suite_trains_two_encoders_three_times_on_one_base() -> None:
    """The one bundled suite with the axis."""
    plan = api.plan("mini-encoders", Options(profile="three-trainings")).plan
    trained = [(job.parts[0], job.seed) for job in plan.jobs if isinstance(job.spec, PretrainJob)]
    draws = [("simcse-mini", 0), ("simcse-mini[seed=1]", 1), ("simcse-mini[seed=2]", 2)]
    draws += [(name.replace("simcse", "robustsentembed"), seed) for name, seed in draws]
    assert sorted(trained) == sorted([("mini-bert", 0), *draws])
    assert len([job for job in plan.jobs if job.stage == "attack"]) == 2 * 3 * 2 * 2

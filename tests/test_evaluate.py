"""Tests suites with `evaluate`, and training with step selection or further models, from the file to the record."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from rbench import api, mini
from rbench.api.suites import prepare_suite
from rbench.config import load
from rbench.config.registry import Registry
from rbench.errors import ResourceError, SuiteError
from rbench.plan.prepare import Options
from rbench.schema import Job, Plan, PretrainJob
from rbench.score.packed import unpack_numbers
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from tests import tiny

SMALL = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}"
FILES = {
    "encoders/toy.yaml": (
        f"architecture: {SMALL}\npooling: mean\n"
        "train: {objective: mlm, data: mini-topic, steps: 4, batch_size: 16, learning_rate: 1.0e-2}\n"
    ),
    "encoders/toy-cse.yaml": (
        "base: toy\npooling: mean\n"
        "train: {objective: simcse, options: {dropout: 0.1}, data: mini-corpus, steps: 6, batch_size: 16,\n"
        "  learning_rate: 1.0e-2, select_by: mini-sts, select_every: 2}\n"
    ),
    "encoders/toy-rse.yaml": (
        "base: org/plain\n"
        "train: {objective: robustsentembed, options: {generator: GENERATOR}, data: mini-corpus, steps: 1}\n"
    ),
    "encoders/plain.yaml": "base: org/plain\n",
    "tasks/pairs.yaml": "kind: sts\ncolumns: [sentence1, sentence2]\n",
}
EVALUATE = (
    "encoders: [toy, toy-cse]\nevaluate: [mini-sts, mini-sts: {split: validation}]\n"
    "claims: [{id: trained, metric: sts, lower: toy, than: toy-cse, for_each: [task]}]\n"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name, text in FILES.items():
        write(tmp_path / "mine" / name, text)
    write(tmp_path / "scored.yaml", EVALUATE)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def pairs(folder: Path, n: int, split: str, twist: str = "") -> None:
    rows = [{"sentence1": f"a {i} {split}", "sentence2": f"b {i} {twist}", "score": i % 6} for i in range(n)]
    write(folder / "pairs" / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def options(place: Path, **more: Any) -> Options:
    return Options(include=(place / "mine",), device="cpu", **more)


def job_of(plan: Plan, name: str) -> Job:
    (job,) = [job for job in plan.jobs if job.name == name]
    return job


# --------------------------------------------------------------------------------------------------------- whole runs


def test_a_suite_that_only_evaluates_runs_resumes_and_prints_its_table(place: Path) -> None:
    planned = api.plan("scored.yaml", options(place))
    assert [job.name for job in planned.jobs] == [
        "pretrain/toy/seed0",
        "measure/toy/mini-sts/seed0",
        "measure/toy/mini-sts[split=validation]/seed0",
        "pretrain/toy-cse/seed0",
        "measure/toy-cse/mini-sts/seed0",
        "measure/toy-cse/mini-sts[split=validation]/seed0",
    ]
    sizes = [planned.estimates[job.key].examples for job in planned.jobs[1:3]]
    assert sizes == [len(mini.rows("mini-sts", split)) for split in ("test", "validation")]
    result = api.run("scored.yaml", options(place))
    assert not result.failed and result.complete == 6
    (table,) = result.tables
    assert "toy-cse" in table and "Semantic textual similarity" in table
    assert (result.run / "tables" / "sts.tex").is_file()
    _check_scores(RunStore(result.run), planned.plan)
    _check_claim(result.run, planned.plan)
    records = {file: file.stat().st_mtime_ns for file in result.run.rglob("record.json")}
    job = job_of(planned.plan, "measure/toy/mini-sts/seed0")
    (lost,) = (RunStore(result.run).folder(job)).glob("record.json")
    lost.unlink()
    again = api.run("scored.yaml", options(place))
    assert again.tables == result.tables
    changed = {f for f in result.run.rglob("record.json") if records[f] != f.stat().st_mtime_ns}
    assert changed == {lost}


def _check_scores(store: RunStore, plan: Plan) -> None:
    """Scores of the record against sentence-transformers' vectors and scipy."""
    from sentence_transformers import SentenceTransformer

    job = job_of(plan, "measure/toy-cse/mini-sts[split=validation]/seed0")
    rows = mini.rows("mini-sts", "validation")
    trained = job_of(plan, "pretrain/toy-cse/seed0")
    model = SentenceTransformer(str(WeightCache(default_cache()).folder(trained.key)), device="cpu")
    first, second = (
        model.encode([str(row[column]) for row in rows], normalize_embeddings=True).astype(np.float64)
        for column in ("sentence1", "sentence2")
    )
    cosines, gold = (first * second).sum(axis=1), [row["score"] for row in rows]
    record = store.record(job)
    assert record is not None and record.status == "complete"
    spearman, pearson = record.scores
    assert (spearman.name, pearson.name, spearman.n) == ("spearman", "pearson", len(rows))
    # Two cosines that differ in the last bits may have the other order here, so ranks are those of the stored ones.
    (row,) = store.rows(job)
    stored = unpack_numbers(row.names["cosines"], len(rows)).astype(float)
    assert stored == pytest.approx(cosines, abs=1e-5)
    assert spearman.value == pytest.approx(spearmanr(stored, gold).statistic, abs=1e-5)
    assert pearson.value == pytest.approx(pearsonr(cosines, gold).statistic, abs=1e-5)
    assert record.provenance.weights_hash and record.provenance.dataset_fingerprint
    # The same split selected the step: its score stands in the record of the training.
    selected = store.record(trained)
    assert selected is not None
    scores = {score.name: score for score in selected.scores}
    assert scores["mini-sts_validation_spearman"].value == pytest.approx(spearman.value, abs=1e-5)
    assert scores["mini-sts_validation_spearman"].n == len(rows)
    assert scores["selected_step"].value in (2, 4, 6)


def _check_claim(run: Path, plan: Plan) -> None:
    """The claim is judged on the same pairs of both encoders: its interval is that of a paired bootstrap."""
    store, series = RunStore(run), []
    for encoder in ("toy", "toy-cse"):
        (row,) = store.rows(job_of(plan, f"measure/{encoder}/mini-sts/seed0"))
        n = int(row.numbers["n"] or 0)
        series.append([unpack_numbers(row.names[name], n).astype(float) for name in ("cosines", "gold")])
    (one, gold), (other, same) = series
    assert gold.tolist() == same.tolist()
    assert gold == pytest.approx([row["score"] for row in mini.rows("mini-sts", "test")])
    drawn = np.random.default_rng(0).integers(0, len(gold), (300, len(gold)))
    found = [spearmanr(one[i], gold[i]).statistic - spearmanr(other[i], gold[i]).statistic for i in drawn]
    (claim,) = api.claims(run)
    first, second = claim.judged
    assert not first.found.unpaired and not second.found.unpaired
    d = first.difference
    assert d is not None and d.value is not None and d.low is not None and d.high is not None and d.n == len(gold)
    scores = [store.record(job_of(plan, f"measure/{e}/mini-sts/seed0")) for e in ("toy", "toy-cse")]
    assert d.value == pytest.approx(float(np.subtract(*(r.scores[0].value for r in scores if r))), abs=1e-5)
    assert d.high - d.low == pytest.approx(2 * 1.96 * np.std(found), rel=0.25)
    assert not any("unpaired" in note for note in claim.notes)


def test_evaluations_stand_beside_attacks(place: Path) -> None:
    text = (
        "encoders: [toy]\ntasks: mini-sentiment\nattacks: pwws\nnum_examples: 5\nresources: mini\nevaluate: mini-sts\n"
    )
    write(place / "both.yaml", text)
    plan = api.plan("both.yaml", options(place)).plan
    assert [job.stage for job in plan.jobs] == ["pretrain", "measure", "finetune", "measure", "attack"]
    pretrain, evaluate, finetune, *_ = plan.jobs
    assert evaluate.needs == finetune.needs == {"encoder": pretrain.key}, "neither needs the other"
    assert [table.metric for table in plan.suite.tables] == ["asr", "sts"]


# ---------------------------------------------------------------------------------------------------------- job keys


def test_the_key_has_what_decides_the_score_and_nothing_more(place: Path) -> None:
    tiny.write_bert(place / "models" / "plain")
    for split in ("train", "validation", "test"):
        pairs(place / "data", 9, split)
    more = {"data": (place / "data",), "models": (place / "models",)}
    write(place / "s.yaml", "encoders: plain\nevaluate: [pairs, pairs: {split: validation}]\n")

    def keys() -> tuple[str, str]:
        plan = prepare_suite("s.yaml", options(place, **more)).plan
        names = ("measure/plain/pairs/seed0", "measure/plain/pairs[split=validation]/seed0")
        return job_of(plan, names[0]).key, job_of(plan, names[1]).key

    test, validation = keys()
    assert test != validation
    pairs(place / "data", 9, "train", "changed")
    write(place / "mine/tasks/pairs.yaml", "title: new\n" + FILES["tasks/pairs.yaml"])
    write(
        place / "s.yaml", "title: new\nseeds: [3, 4]\nencoders: plain\nevaluate: [pairs: {split: validation}, pairs]\n"
    )
    assert keys() == (test, validation)
    pairs(place / "data", 9, "test", "changed")
    after = keys()
    assert after[0] != test and after[1] == validation
    tiny.write_bert(place / "models" / "plain", seed=1)
    assert keys()[1] != validation
    other = keys()
    write(place / "mine/encoders/plain.yaml", "base: org/plain\npooling: mean\n")
    assert not set(other) & set(keys())


def test_the_key_of_training_has_the_data_that_selects(place: Path) -> None:
    for split in ("train", "validation", "test"):
        pairs(place / "data", 9, split)
    write(place / "s.yaml", "encoders: toy-cse\nevaluate: mini-sts\n")
    spec = FILES["encoders/toy-cse.yaml"].replace("mini-sts", "pairs")
    write(place / "mine/encoders/toy-cse.yaml", spec)

    def key() -> str:
        plan = prepare_suite("s.yaml", options(place, data=(place / "data",))).plan
        return job_of(plan, "pretrain/toy-cse/seed0").key

    first = key()
    pairs(place / "data", 9, "test", "changed")
    assert key() == first
    pairs(place / "data", 9, "validation", "changed")
    assert key() != first
    # What is not used is not in the key: without a selection it is no matter how often it would be made.
    unselected = spec.replace(", select_by: pairs, select_every: 2", "")
    write(place / "mine/encoders/toy-cse.yaml", unselected)
    plain = key()
    write(
        place / "mine/encoders/toy-cse.yaml", unselected.replace("steps: 6", "steps: 6, select_every: 3, patience: 1")
    )
    assert key() == plain != first


def test_the_pairs_of_all_tasks_that_select_are_in_the_key(place: Path) -> None:
    for name in ("one", "two"):
        write(
            place / f"mine/tasks/{name}.yaml", f"{FILES['tasks/pairs.yaml']}local: {{splits: {{test: [s/{name}]}}}}\n"
        )
    spec = FILES["encoders/toy-cse.yaml"].replace("select_by: mini-sts", "select_by: [one, two], select_split: test")
    write(place / "mine/encoders/toy-cse.yaml", spec)
    write(place / "s.yaml", "encoders: toy-cse\nevaluate: mini-sts\n")
    rows = [json.dumps(row) + "\n" for row in mini.rows("mini-sts", "validation")]
    keys = set()
    for one, two in ((50, 90), (60, 90), (50, 100)):
        write(place / "data/s/one.jsonl", "".join(rows[:one]))
        write(place / "data/s/two.jsonl", "".join(rows[40:two]))
        plan = prepare_suite("s.yaml", options(place, data=(place / "data",))).plan
        keys.add(job_of(plan, "pretrain/toy-cse/seed0").key)
    assert len(keys) == 3


@pytest.mark.nightly
def test_each_task_may_be_scored_on_a_split_of_its_own_to_select_steps(place: Path) -> None:
    rows = [json.dumps(row) + "\n" for row in mini.rows("mini-sts", "validation")]
    for name, split in (("one", "test"), ("two", "validation")):
        write(
            place / f"mine/tasks/{name}.yaml",
            f"{FILES['tasks/pairs.yaml']}local: {{splits: {{{split}: [s/{name}]}}}}\n",
        )
    spec = FILES["encoders/toy-cse.yaml"].replace(
        "select_by: mini-sts", "select_by: [one, two], select_split: {one: test, two: validation}"
    )
    write(place / "mine/encoders/toy-cse.yaml", spec)
    write(place / "s.yaml", "encoders: toy-cse\nevaluate: mini-sts\n")
    write(place / "data/s/one.jsonl", "".join(rows[:50]))
    write(place / "data/s/two.jsonl", "".join(rows[40:110]))
    result = api.run("s.yaml", options(place, data=(place / "data",)))
    assert not result.failed
    plan = RunStore(result.run).plan()
    assert plan is not None
    record = RunStore(result.run).record(job_of(plan, "pretrain/toy-cse/seed0"))
    assert record is not None
    (score,) = [score for score in record.scores if score.name == "mean_test_and_validation_spearman"]
    assert score.n == 50 + 70
    assert "one, two (test and validation splits): toy-cse" in api.table(result.run, metric="sts", notes="full")


def test_a_split_of_a_task_that_selects_nothing_is_an_error(place: Path) -> None:
    spec = FILES["encoders/toy-cse.yaml"].replace("select_by: mini-sts", "select_by: mini-sts, select_split: {x: test}")
    write(place / "mine/encoders/toy-cse.yaml", spec)
    write(place / "s.yaml", "encoders: toy-cse\nevaluate: mini-sts\n")
    with pytest.raises(SuiteError):
        api.run("s.yaml", options(place))


def test_the_key_of_training_has_the_further_models(place: Path) -> None:
    for name in ("org/plain", "lm"):
        tiny.write_bert(place / "models" / name)
    write(place / "s.yaml", "encoders: toy-rse\nevaluate: mini-sts\n")

    def pretrain(generator: str) -> Job:
        write(place / "mine/encoders/toy-rse.yaml", FILES["encoders/toy-rse.yaml"].replace("GENERATOR", generator))
        plan = prepare_suite("s.yaml", options(place, models=(place / "models",))).plan
        return job_of(plan, "pretrain/toy-rse/seed0")

    job = pretrain("lm")
    assert isinstance(job.spec, PretrainJob) and set(job.spec.model_fingerprints) == {"generator"}
    tiny.write_bert(place / "models" / "lm", seed=1)
    assert pretrain("lm").key != job.key
    paths = {pretrain(str(place / "models" / name)).key for name in ("lm", "../models/lm")}
    assert len(paths) == 1, "a path is in no key"
    named = pretrain("plain")  # an encoder of the registry that no job makes
    assert isinstance(named.spec, PretrainJob)
    assert named.spec.model_fingerprints == {"generator": named.spec.base_fingerprint}
    trained = pretrain("toy")
    assert isinstance(trained.spec, PretrainJob) and trained.spec.model_fingerprints == {}
    plan = prepare_suite("s.yaml", options(place, models=(place / "models",))).plan
    needs = {"options.generator": job_of(plan, "pretrain/toy/seed0").key}
    assert trained.needs == needs, "the base is a folder, the generator is trained"


def test_a_generator_that_a_job_trains_is_trained_and_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rbench.train import loop

    write(place / "mine/encoders/toy-rse.yaml", FILES["encoders/toy-rse.yaml"].replace("GENERATOR", "toy"))
    tiny.write_bert(place / "models" / "org/plain")
    write(place / "s.yaml", "encoders: toy-rse\nevaluate: mini-sts\n")
    seen: dict[str, Any] = {}

    def pretrain(spec: Any, base: Any, texts: Any, out: Any, **more: Any) -> dict[str, float]:
        seen[spec.name] = (base, more["locate"])
        return real(spec, base, texts, out, **more) if spec.name == "toy" else {"loss": 1.0}

    real = loop.pretrain
    monkeypatch.setattr(loop, "pretrain", pretrain)
    result = api.run("s.yaml", options(place, models=(place / "models",), only=("pretrain",)))
    assert not result.failed
    plan = RunStore(result.run).plan()
    assert plan is not None
    made = WeightCache(default_cache()).folder(job_of(plan, "pretrain/toy/seed0").key)
    base, locate = seen["toy-rse"]
    assert base == str(place / "models" / "org/plain") and locate("toy") == made


# ---------------------------------------------------------------------------------------------------- what is refused


def test_everything_missing_is_said_at_once_and_before_any_work(place: Path) -> None:
    write(place / "mine/encoders/toy-rse.yaml", FILES["encoders/toy-rse.yaml"].replace("GENERATOR", "org/lm"))
    spec = FILES["encoders/toy-cse.yaml"].replace("mini-sts", "pairs")
    write(place / "mine/encoders/toy-cse.yaml", spec)
    write(place / "s.yaml", "encoders: [toy-rse, toy-cse]\nevaluate: [stsb]\n")
    with pytest.raises(ResourceError) as caught:
        api.run("s.yaml", options(place))
    assert "2 data sets and 2 models are missing" in str(caught.value)
    message = str(caught.value.__cause__)  # each with its remedy, as doctor says it
    generator = "toy-rse: train.options.generator: encoder `org/lm`"
    for missing in ("task `stsb`", "task `pairs`", "(It is the base of toy-rse.)", generator):
        assert missing in message
    assert not Path("results").exists()


def test_a_split_that_is_not_there_or_too_small_is_refused(place: Path) -> None:
    spec = FILES["tasks/pairs.yaml"] + "local: {splits: {test: [pairs/test]}}\n"
    write(place / "mine/tasks/pairs.yaml", spec)
    pairs(place / "data", 3, "test")
    write(place / "mine/encoders/toy-cse.yaml", FILES["encoders/toy-cse.yaml"].replace("mini-sts", "pairs"))
    write(place / "s.yaml", "encoders: [toy-cse]\nevaluate: [pairs, pairs: {split: train}]\n")
    with pytest.raises(ResourceError) as caught:
        api.plan("s.yaml", options(place, data=(place / "data",)))
    assert str(caught.value).splitlines() == [
        "evaluate: the test split of pairs has 3 pairs; 4 are needed",
        "evaluate: task pairs has no train split here; it has test",
        "encoder toy-cse: select_by: task pairs has no validation split here; it has test",
    ]


# -------------------------------------------------------------------------------------------------------------- guide


def test_the_suite_of_the_guide_loads_with_the_encoder_of_the_guide(place: Path) -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guide-add-an-encoder.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", guide, re.DOTALL))
    write(place / "mine/encoders/e5-base.yaml", blocks["DIR/encoders/e5-base.yaml"])
    write(place / "sts.yaml", blocks["sts.yaml"])
    suite = load("sts.yaml", registry=Registry([place / "mine"])).suite
    assert [evaluation.label for evaluation in suite.evaluations] == ["sickr", "stsb[split=validation]"]
    assert [table.metric for table in suite.tables] == ["sts"]

"""Settings by task: of in-domain encoders (`train.by_task`) and of fine-tuning strategies (the option `by_task`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from rbench import api
from rbench.api.suites import prepare_suite
from rbench.config import load
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.plan.lineage import as_trained
from rbench.plan.prepare import Options
from rbench.schema import Job, PretrainJob
from rbench.store.runs import RunStore
from rbench.train import objectives
from tests.refusals import nearest, unknown

SMALL = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}"
TOY = f"""\
architecture: {SMALL}
pooling: mean
train:
  objective: simcse
  data: in-domain
  steps: 2
  batch_size: 16
  by_task:
    mini-topic: {{batch_size: 8, max_length: 64, temperature: 0.3}}
"""
ADVERSARIAL = "{adversarial: {epochs: 1, candidates: 3, by_task: {mini-topic: {max_words: 15, batch_size: 4}}}}"
SUITE = f"""\
encoders: [own]
tasks: [mini-sentiment, mini-topic]
finetune: [clean, {ADVERSARIAL}]
attacks: [pwws]
num_examples: 2
resources: {{set: mini, masked_lm: mini-bert-packaged}}
training: {{max_train: 16, max_validation: 16, epochs: 1}}
"""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    (tmp_path / "mine" / "encoders" / "own.yaml").write_text(TOY, encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return Options(include=(tmp_path / "mine",), device="cpu")


def jobs(options: Options, text: str = SUITE) -> dict[str, Job]:
    Path("suite.yaml").write_text(text, encoding="utf-8")
    return {job.name: job for job in prepare_suite("suite.yaml", options).plan.jobs}


def test_an_in_domain_encoder_is_trained_with_the_settings_of_each_task(options: Options) -> None:
    planned = jobs(options)
    found = {}
    for task in ("mini-sentiment", "mini-topic"):
        spec = planned[f"pretrain/own/{task}/seed0"].spec
        assert isinstance(spec, PretrainJob) and spec.encoder.train is not None
        found[task] = spec.encoder.train
    assert (found["mini-sentiment"].batch_size, found["mini-sentiment"].max_length) == (16, 32)
    assert (found["mini-topic"].batch_size, found["mini-topic"].max_length) == (8, 64)
    assert found["mini-topic"].options["temperature"] == 0.3 and "temperature" not in found["mini-sentiment"].options
    assert not any(train.by_task for train in found.values())


def test_keys_have_the_settings_of_their_own_task_alone(options: Options) -> None:
    before = jobs(options)
    (own,) = options.include
    path = own / "encoders" / "own.yaml"
    path.write_text(TOY.replace("temperature: 0.3", "temperature: 0.2"), encoding="utf-8")
    after = jobs(options, SUITE.replace("max_words: 15", "max_words: 12"))
    changed = {before[name].parts[1] for name in before.keys() & after.keys() if before[name].key != after[name].key}
    assert changed == {"mini-topic"}
    plain = TOY.partition("  by_task")[0]
    path.write_text(plain, encoding="utf-8")
    name = "pretrain/own/mini-sentiment/seed0"
    assert jobs(options)[name].key == before[name].key


def test_what_a_suite_says_holds_for_every_task(options: Options) -> None:
    planned = jobs(options, SUITE.replace("[own]", "[own: {batch_size: 12}]"))
    for task, length in (("mini-sentiment", 32), ("mini-topic", 64)):
        spec = planned[f"pretrain/own[batch_size=12]/{task}/seed0"].spec
        assert isinstance(spec, PretrainJob) and spec.encoder.train is not None
        assert (spec.encoder.train.batch_size, spec.encoder.train.max_length) == (12, length)


def tunings(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.stage == "finetune" and job.parts[2] != "clean"]


def test_a_strategy_has_one_label_and_the_settings_of_each_task(options: Options) -> None:
    tuned = tunings(jobs(options).values())
    (label,) = {job.parts[2] for job in tuned}
    assert label.startswith("adversarial[by_task=")
    said = {job.parts[1]: job.tuning for job in tuned}
    assert all(spec is not None for spec in said.values())
    options_of = {task: spec.strategy.options for task, spec in said.items() if spec is not None}
    assert "max_words" not in options_of["mini-sentiment"] and options_of["mini-topic"]["max_words"] == 15
    assert {task: spec.training.batch_size for task, spec in said.items() if spec is not None} == {
        "mini-sentiment": 32,
        "mini-topic": 4,
    }


@pytest.mark.nightly
def test_it_runs_and_a_strategy_has_one_row_for_all_tasks(options: Options) -> None:
    result = api.run("suite.yaml", options)
    assert not result.failed and not result.skipped
    plan = RunStore(result.run).plan()
    assert plan is not None
    (label,) = {job.parts[2] for job in tunings(plan.jobs)}
    assert label in api.table(result.run, fmt="csv")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("mini-topic: {max_words: 15", "topic: {max_words: 15", nearest("mini-topic")),
        ("max_words: 15", "max_wrds: 15", nearest("max_words")),
        ("max_words: 15", "max_words: 0", "max_words"),
        ("{max_words: 15, batch_size: 4}", "15", "by_task"),
    ],
)
def test_a_wrong_setting_of_a_strategy_is_an_error_with_its_place(
    options: Options, old: str, new: str, named: str
) -> None:
    with pytest.raises(SuiteError) as error:
        jobs(options, SUITE.replace(old, new))
    assert "suite.yaml:3:" in str(error.value) and named in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("temperature: 0.3", "temperatur: 0.3", unknown("setting by task", "temperatur", "temperature")),
        ("temperature: 0.3", "data: mini-nli", 'unknown setting by task "data"'),
        ("temperature: 0.3", "temperature: -2", "temperature"),
        ("batch_size: 8", "batch_size: none", "batch_size"),
    ],
)
def test_a_wrong_setting_of_an_encoder_is_an_error(options: Options, old: str, new: str, message: str) -> None:
    (own,) = options.include
    (own / "encoders" / "own.yaml").write_text(TOY.replace(old, new), encoding="utf-8")
    with pytest.raises(SuiteError) as error:
        jobs(options)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["adcl-bert-base", "btcl-bert-base"])
@pytest.mark.parametrize(
    ("task", "batch", "length", "words"),
    [("ag_news", 1024, 128, 10), ("dbpedia", 1024, 128, 10), ("yelp", 448, 256, 10), ("imdb", 192, 512, 15)],
)
def test_adcl_and_btcl_are_trained_as_printed_on_each_task(
    name: str, task: str, batch: int, length: int, words: int
) -> None:
    loaded = load("adcl-table1", registry=Registry())
    train = as_trained(loaded.encoders[name], loaded.encoders, task).train
    assert train is not None and (train.batch_size, train.max_length) == (batch, length)
    options = objectives.find(train.objective).Options(**train.options)
    assert options.problem(train) is None and options.queue == 32768
    if name == "adcl-bert-base":
        assert options.max_words == words
    adversarial = loaded.suite.finetune[1].on(task).options
    assert adversarial == {"epochs": 3, **({"max_words": 15} if task == "imdb" else {})}


def test_out_of_domain_has_the_settings_of_the_corpus() -> None:
    loaded = load("adcl-table2", registry=Registry())
    train = as_trained(loaded.encoders["adcl-bert-base[data=dbpedia]"], loaded.encoders, "imdb").train
    assert train is not None and (train.data, train.batch_size, train.max_length) == ("dbpedia", 1024, 128)

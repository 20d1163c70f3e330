"""Classifiers that exist from suite to table: opened, scored, attacked, compared, checked against a baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rbench import api
from rbench.api.results import run_prepared
from rbench.api.suites import prepare_suite
from rbench.cli import app
from rbench.errors import ResourceError
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, VictimJob
from rbench.store.runs import RunStore
from rbench.system.progress import SilentProgress
from tests import tiny
from tests.victims.made import rewrite, write_classifier

SUITE = """
name: ci
victims: [./shipped, {function: theirs:classify, version: '1', name: asked}]
tasks: [mini-sentiment]
attacks: [pwws]
evaluate: [contrast, transfer]
num_examples: 12
resources: mini
training: {max_validation: 40}
"""
FUNCTION = """
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModelForSequenceClassification.from_pretrained(FOLDER).eval()
GENTLE = 1.0


def classify(texts):
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    with torch.inference_mode():
        return (GENTLE * model(**inputs).logits).softmax(-1)[:, [1, 0]]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ci")
    write_classifier(folder / "shipped")
    (folder / "theirs.py").write_text(FUNCTION.replace("FOLDER", repr(str(folder / "shipped"))))
    (folder / "ci.yaml").write_text(SUITE)
    return folder


@pytest.fixture(autouse=True)
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    yield


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        result = api.run("ci.yaml", Options(out=place / "RUN", backend="torch"))
    assert not result.failed and not result.skipped, [record.error for record in result.failed]
    return result.run


def rbench(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [*words])


def test_a_function_around_the_weights_has_the_outcomes_of_the_model(run: Path) -> None:
    store = RunStore(run)
    plan = store.plan()
    assert plan is not None
    attacks = {job.parts[0]: job for job in plan.jobs if isinstance(job.spec, AttackJob)}
    model, asked = (
        [
            one.model_dump(exclude={"seconds", "truncated"})
            for one in sorted(store.outcomes(attacks[name]), key=lambda o: o.example_id)
        ]
        for name in ("shipped", "asked")
    )
    assert len(model) == 12 and model == asked
    assert {one["status"] for one in model} & {"succeeded"}


def test_jobs_open_score_and_judge_without_fine_tuning(run: Path) -> None:
    store = RunStore(run)
    plan = store.plan()
    assert plan is not None
    assert [job.name.removesuffix("/seed0") for job in plan.jobs] == [
        "open/shipped/mini-sentiment/as-is",
        "measure/shipped/mini-sentiment/as-is/contrast_mini_sentiment",
        "measure/shipped/mini-sentiment/as-is/test_accuracy",
        "attack/shipped/mini-sentiment/as-is/pwws",
        "open/asked/mini-sentiment/as-is",
        "measure/asked/mini-sentiment/as-is/contrast_mini_sentiment",
        "attack/asked/mini-sentiment/as-is/pwws",
        "measure/transfer/mini-sentiment/pwws",
    ]
    records = {job.name: store.record(job) for job in plan.jobs}
    assert all(record is not None and record.status == "complete" for record in records.values())
    opened = {job.parts[0]: store.record(job) for job in plan.jobs if isinstance(job.spec, VictimJob)}
    (shipped,), (asked,) = opened["shipped"].scores, opened["asked"].scores  # type: ignore[union-attr]
    assert (shipped.name, shipped.n, shipped.value) == ("validation_accuracy", 40, asked.value)
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob):
            victim = opened[job.parts[0]]
            assert victim is not None and records[job.name] is not None
            assert records[job.name].provenance.weights_hash == victim.provenance.weights_hash  # type: ignore[union-attr]
    table = rbench("table", str(run), "--metric", "transfer")
    assert table.exit_code == 0 and "asked" in table.stdout, table.output


def test_nothing_of_the_place_or_the_secrets_is_stored(run: Path, place: Path) -> None:
    stored = (run / "plan.json").read_text()
    assert str(place) not in stored and '"model":"shipped"' in stored.replace(": ", ":")


def test_the_same_command_has_nothing_to_do_and_other_weights_do(run: Path, place: Path) -> None:
    keys = {job.name: job.key for job in prepare_suite("ci.yaml", Options()).plan.jobs}
    plan = RunStore(run).plan()
    assert plan is not None and keys == {job.name: job.key for job in plan.jobs}
    copy = write_classifier(place / "elsewhere" / "shipped")
    again = prepare_suite("ci.yaml", Options(overrides=(f"victims=[{copy}]", "evaluate=[]"))).plan.jobs
    assert {job.key for job in again} < {*keys.values()}, "the place of a model is in no key"
    rewrite(copy, problem_type="single_label_classification")
    other = prepare_suite("ci.yaml", Options(overrides=(f"victims=[{copy}]", "evaluate=[]"))).plan.jobs
    assert not {job.key for job in other} & {*keys.values()}


def test_compare_merge_verify_strip_and_the_gate_take_it(run: Path, place: Path) -> None:
    for words in (
        ["compare", str(run), "--between", "shipped", "asked"],
        ["baseline", str(run), "--out", "base.json"],
        ["check", str(run), "--baseline", "base.json", "--about-these-weights"],
        ["table", str(run), "--metric", "contrast"],
        ["table", str(run), "--layout", "full"],
        ["verify", str(run)],
        ["pack", str(run), "--no-texts", "--out", "bare"],
        ["figure", str(run), "--kind", "queries", "--out", "q.png"],
    ):
        result = rbench(*words)
        # Twelve texts of a classifier with random weights: no check can judge it.
        assert result.exit_code == (4 if words[0] == "check" else 0), (words, result.output)
        if words[0] in ("compare", "table"):
            assert "shipped" in result.output and "asked" in result.output


def test_a_set_made_against_a_classifier_is_scored_and_merged_with_its_run(run: Path, place: Path) -> None:
    for words in (
        ["attack", "--run", str(run), "--encoder", "shipped", "--attack", "pwws", "--out", "set"],
        ["run", "ci.yaml", "--out", "onset", "--set", "evaluate=[{adversarial: ./set}]", "--set", "attacks=[]"],
        ["pack", str(run), "onset", "--out", "merged"],
    ):
        result = rbench(*words)
        assert result.exit_code == 0, (words, result.output)
    store = RunStore(run)
    plan = store.plan()
    assert plan is not None
    (attack,) = (job for job in plan.jobs if isinstance(job.spec, AttackJob) and job.parts[0] == "shipped")
    statuses = [one.status for one in store.outcomes(attack)]
    before = sum(one != "skipped" for one in statuses) / len(statuses)
    on_set = statuses.count("failed") / len(statuses)
    merged = RunStore(place / "merged")
    plan = merged.plan()
    assert plan is not None and len(plan.jobs) == 10
    found = {}
    for job in plan.jobs:
        record = merged.record(job)
        assert record is not None and record.status == "complete"
        if job.what == "adversarial":
            found[job.parts[0]] = {one.name: one.value for one in record.scores}
    assert [*found] == ["shipped", "asked"]
    for scores in found.values():
        assert scores["clean"] == pytest.approx(before)
        assert scores["adversarial"] == pytest.approx(on_set)


def test_a_victim_near_chance_is_announced_before_it_is_attacked(place: Path) -> None:
    said = rbench("run", "ci.yaml", "--out", "announced", "--set", "victims=[./shipped]", "--set", "evaluate=[]")
    opened, attacked = said.output.index("is flagged `near chance`"), said.output.index("attack/shipped/mini-sentiment")
    assert opened < attacked


def test_a_function_that_changed_behind_its_version_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe's texts are none of the embedded world's, so a change on its words alone changes no key."""
    monkeypatch.chdir(place)
    (place / "drifting.py").write_text(
        "from pathlib import Path\n\n\ndef classify(texts):\n    flip = Path('flip').exists()\n"
        "    good = [(' the ' in f' {text} ') != (flip and 'film' in text) for text in texts]\n"
        "    return [[0.1, 0.9] if one else [0.9, 0.1] for one in good]\n"
    )
    suite = SUITE.replace("./shipped, {function: theirs:classify", "{function: drifting:classify")
    (place / "drift.yaml").write_text(suite.replace("evaluate: [contrast, transfer]\n", ""))
    assert rbench("run", "drift.yaml", "--out", "drift").exit_code == 0
    again = rbench("run", "drift.yaml", "--out", "drift")
    assert again.exit_code == 0 and "gave other labels" not in again.stderr
    (place / "flip").touch()
    again = rbench("run", "drift.yaml", "--out", "drift")
    assert "victim asked gave other labels to" in again.stderr and "write another `version`" in again.stderr


def test_a_model_that_changed_since_planning_is_not_attacked(place: Path) -> None:
    folder = write_classifier(place / "moving")
    options = Options(overrides=(f"victims=[{folder}]", "evaluate=[]"), out=place / "moved")
    prepared = prepare_suite("ci.yaml", options)
    rewrite(folder, problem_type="single_label_classification")
    result = run_prepared(prepared, options, SilentProgress())
    assert str(folder) in (error := str(result.failed[0].error)) and "fingerprint" in error


def test_a_classifier_as_an_encoders_base_is_refused_unless_the_head_is_dropped(place: Path) -> None:
    (place / "own" / "encoders").mkdir(parents=True)
    file = place / "own" / "encoders" / "below.yaml"
    file.write_text(f"base: {place / 'shipped'}\npooling: mean\n")
    suite = ("encoders=[below]", "victims=[]", "evaluate=[]")
    options = Options(overrides=suite, include=(place / "own",))
    with pytest.raises(ResourceError):
        prepare_suite("ci.yaml", options)
    file.write_text(f"base: {place / 'shipped'}\npooling: mean\nhead: drop\n")
    dropped = prepare_suite("ci.yaml", options).plan.jobs[0]
    bare = tiny.write_bert(place / "bare-bert")
    file.write_text(f"base: {bare}\npooling: mean\n")
    plain = prepare_suite("ci.yaml", options).plan.jobs[0]
    file.write_text(f"base: {bare}\npooling: mean\nhead: drop\n")
    assert prepare_suite("ci.yaml", options).plan.jobs[0].key == plain.key != dropped.key, "`head` is in no key"


def test_rbench_attack_takes_models_functions_and_files(place: Path) -> None:
    (place / "mine.yaml").write_text("model: ./shipped\n")
    rest = ("-t", "mini-sentiment", "-a", "pwws", "-n", "1", "--backend", "torch")
    said = rbench("attack", "-c", "./shipped", "-c", "theirs:classify", "-c", "mine.yaml", *rest)
    assert said.exit_code == 0, said.output
    shown = [line for line in said.stdout.splitlines() if line.startswith("[")]
    assert [line.split()[0] for line in shown] == ["[shipped", "[classify", "[mine"]
    assert len({line.split("]", 1)[1] for line in shown}) == 1
    renamed = write_classifier(place / "renamed", ("LABEL_0", "LABEL_1"))
    refused = rbench("attack", "-c", str(renamed), *rest)
    assert refused.exit_code == 2 and "--label-map LABEL_0=?,LABEL_1=?`" in refused.stderr
    told = rbench("attack", "-c", str(renamed), "--label-map", "LABEL_0=positive,LABEL_1=negative", *rest)
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0].split("]", 1)[1] == shown[0].split("]", 1)[1], "only the names differ"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--classifier"),
        (("-e", "mini-bert", "-c", "./shipped"), "--encoder"),
        (("-e", "mini-bert", "--label-map", "a=b"), "--label-map"),
        (("-c", "./shipped", "--label-map", "a"), "THEIRS=OURS"),
        (("-c", "./nowhere"), "nowhere"),
        (("-c", "./predict.py:f"), "predict:f,"),
        (("-c", "mine.yaml", "--label-map", "a=b"), "mine.yaml"),
    ],
)
def test_bad_options_of_attack_are_refused(words: tuple[str, ...], message: str) -> None:
    said = rbench("attack", *words, "-t", "mini-sentiment", "-a", "pwws")
    assert said.exit_code == 2 and message in said.stderr, said.output


def test_doctor_says_which_classifiers_are_there_and_fit_the_task(place: Path) -> None:
    write_classifier(place / "unnamed", ("LABEL_0", "LABEL_1"))
    victims = "victims=[./shipped, ./unnamed, ./gone, {function: theirs:classify, version: '1', name: asked}]"
    found = {
        check.name: check
        for check in api.doctor(Options(overrides=(victims,)), "ci.yaml")
        if check.kind == "classifier"
    }
    assert {name: check.ok for name, check in found.items()} == {
        "shipped": True,
        "unnamed": False,
        "gone": False,
        "asked": True,
    }
    assert found["shipped"].where == str(place / "shipped")
    assert "LABEL_0" in found["unnamed"].remedy and "no folder" in found["gone"].remedy
